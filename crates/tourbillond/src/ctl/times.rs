//! Bounds of a schedule by flags, and the commands that pause, backfill and preview it.

use clap::{Args, Subcommand};
use serde_json::json;

use super::{Context, Done, Failure, show};
use crate::model::{AfterWhen, AtWhen, Bounds, CronWhen, EveryWhen, Excluded, When, Window};

/// Anchor and bounds of a schedule.
#[derive(Args, Debug)]
pub(super) struct Limits {
    /// Time that the periods of `--every` are counted from, RFC 3339: any time at 17 minutes past
    /// an hour, for each hour at :17.
    #[arg(long, value_name = "TIME", requires = "every", conflicts_with = "cron")]
    pub(super) anchor: Option<String>,
    /// Earliest time of an occurrence, RFC 3339. Repeating schedules only.
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// Latest time of an occurrence, RFC 3339. Repeating schedules only.
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// Window to exclude, as `FROM..UNTIL`; with `=run-at-end`, the schedule runs once at its end.
    /// Can be repeated.
    #[arg(long, value_name = "WINDOW", value_parser = window)]
    exclude: Vec<Window>,
}

/// Reads a window of the command line.
pub(super) fn window(text: &str) -> Result<Window, String> {
    let wrong = || "expected `FROM..UNTIL` or `FROM..UNTIL=run-at-end`".to_owned();
    let (window, then) = match text.split_once('=') {
        None => (text, Excluded::Skip),
        Some((window, "skip")) => (window, Excluded::Skip),
        Some((window, "run-at-end")) => (window, Excluded::RunAtEnd),
        Some(_) => return Err(wrong()),
    };
    let (from, until) = window.split_once("..").ok_or_else(wrong)?;
    Ok(Window { from: from.to_owned(), until: until.to_owned(), then })
}

impl Limits {
    pub(super) fn bounds(&self) -> Bounds {
        let Self { start, end, exclude, .. } = self;
        Bounds { start: start.clone(), end: end.clone(), excluded: exclude.clone() }
    }
}

/// Reads the times of a schedule by its flags.
pub(super) fn when(
    cron: Option<&str>,
    zone: &str,
    every: Option<&str>,
    at: Option<&str>,
    after: Option<&str>,
    limits: &Limits,
) -> Result<When, Failure> {
    let own = str::to_owned;
    let bounds = limits.bounds();
    if cron.or(every).is_none() && bounds != Bounds::default() {
        let why = "`--start`, `--end` and `--exclude` go with `--cron` or `--every`";
        return Err(Failure::Usage(why.to_owned()));
    }
    match (cron, every, at, after) {
        (Some(cron), ..) => Ok(When::Cron(CronWhen { cron: own(cron), zone: own(zone), bounds })),
        (_, Some(every), ..) => {
            let anchor = limits.anchor.clone();
            Ok(When::Every(EveryWhen { every: own(every), anchor, bounds }))
        }
        (_, _, Some(at), _) => Ok(When::At(AtWhen { at: own(at) })),
        (_, _, _, Some(after)) => Ok(When::After(AfterWhen { after: own(after) })),
        _ => Err(Failure::Usage(
            "no time is given: use `--cron`, `--every`, `--at` or `--after`".to_owned(),
        )),
    }
}

/// Commands about the times of a schedule.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Pause a schedule until a time; `enable` ends the pause.
    Pause {
        /// Key of the schedule.
        key: String,
        /// End of the pause, RFC 3339.
        #[arg(long, value_name = "TIME")]
        until: String,
    },
    /// Create the runs of a range in the past that are missing, oldest first.
    Backfill {
        /// Key of the schedule.
        key: String,
        /// Start of the range, RFC 3339.
        #[arg(long, value_name = "TIME")]
        since: String,
        /// End of the range, RFC 3339; an occurrence at that time is not in it.
        #[arg(long, value_name = "TIME")]
        until: String,
        /// Maximum number of runs to create.
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Show the next times of a schedule, or of an expression.
    Preview {
        /// Key of the schedule.
        #[arg(
            conflicts_with_all = ["cron", "every", "anchor", "start", "end", "exclude"],
            required_unless_present_any = ["cron", "every"],
        )]
        key: Option<String>,
        /// Preview a crontab(5) expression.
        #[arg(long, conflicts_with = "every")]
        cron: Option<String>,
        /// Time zone of the expression.
        #[arg(long, conflicts_with = "every", default_value = "UTC")]
        zone: String,
        /// Preview a period, such as `90s`.
        #[arg(long)]
        every: Option<String>,
        #[command(flatten)]
        limits: Limits,
        /// Number of occurrences.
        #[arg(long, default_value_t = 10)]
        count: u32,
    },
}

impl Command {
    pub(super) async fn carry_out(&self, context: &Context<'_>) -> Done {
        match self {
            Self::Pause { key, until } => {
                let url = context.url(["schedules", key, "pause"]);
                let body = json!({ "until": until });
                context.send("POST", url, Some(&body), show::switched).await
            }
            Self::Backfill { key, since, until, limit } => {
                let url = context.url(["schedules", key, "backfill"]);
                let range = json!({ "since": since, "until": until, "limit": limit });
                context.send("POST", url, Some(&range), show::fields).await
            }
            Self::Preview { key: Some(key), count, .. } => {
                let mut url = context.url(["schedules", key, "preview"]);
                url.query_pairs_mut().append_pair("count", &count.to_string());
                context.get(url, show::preview).await
            }
            Self::Preview { cron, zone, every, limits, count, .. } => {
                let when = when(cron.as_deref(), zone, every.as_deref(), None, None, limits)?;
                let body = json!({ "when": when, "count": count });
                let url = context.remote.url(["v1", "preview"], &[]);
                context.send("POST", url, Some(&body), show::preview).await
            }
        }
    }
}
