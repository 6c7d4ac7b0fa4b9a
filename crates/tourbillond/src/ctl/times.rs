//! Bounds of a schedule by flags, and the commands that pause and backfill it.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use url::Url;

use super::remote::Remote;
use super::{Done, show};
use crate::model::{Bounds, Excluded, Window};

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
}

impl Command {
    /// Carries it out. `schedule` makes the URL of a key's resource, and `out` shows an answer.
    pub(super) async fn carry_out(
        &self,
        remote: &Remote,
        schedule: impl Fn(&str, &[&str]) -> Url,
        out: impl Fn(&Value, fn(&Value) -> String) -> Done,
    ) -> Done {
        let (url, body) = match self {
            Self::Pause { key, until } => (schedule(key, &["pause"]), json!({ "until": until })),
            Self::Backfill { key, since, until, limit } => {
                let range = json!({ "since": since, "until": until, "limit": limit });
                (schedule(key, &["backfill"]), range)
            }
        };
        let answer = remote.send("POST", url, Some(&body)).await?;
        match self {
            Self::Pause { .. } => out(&answer, show::switched),
            Self::Backfill { .. } => out(&answer, show::fields),
        }
    }
}
