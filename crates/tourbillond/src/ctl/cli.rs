//! The command line of `tourbillonctl`.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

use super::{Failure, alerts, crontab, read, runs, times};
use crate::manual::Manual;
use crate::model::{Callback, Definition, Header, MissedPolicy, OverlapPolicy, RetryPolicy};

/// Manage the schedules and runs of a `tourbillond`.
#[derive(Debug, Parser)]
#[command(name = "tourbillonctl", version, after_long_help = MORE)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) command: Command,
}

pub(super) const MORE: &str = "\
Examples:
  tourbillonctl put nightly --cron '0 2 * * *' --zone Europe/Berlin --to https://example.com/backup
  tourbillonctl put reminder-42 --after 30m --to https://example.com/remind --body '{\"order\": 42}'
  tourbillonctl preview --cron '30 2 * * *' --zone Europe/Berlin --count 3
  tourbillonctl test --to https://example.com/backup
  tourbillonctl runs --state dead
  tourbillonctl apply -f schedules.toml --dry-run
  tourbillonctl --url http://old:8321 export | tourbillonctl --url http://new:8321 import --yes -
  tourbillonctl import crontab /etc/crontab --format system --to 'https://example.com/run/{key}'

A file for `apply`, as TOML or as JSON:
  [schedules.nightly]
  when = { cron = \"0 2 * * *\", zone = \"Europe/Berlin\" }
  callback = { url = \"https://example.com/backup\" }

Exit codes:
  0  success
  1  the service refused the request, or could not be reached; or a callback that was tested failed
  2  the command line or a file is wrong; nothing was sent
  3  `apply --dry-run` or `import --dry-run` found a difference
  4  `export` wrote the lines, and some value of them is missing";

/// Options of every command.
#[derive(Args, Debug)]
pub(super) struct Common {
    /// URL of the service.
    #[arg(long, global = true, env = "TOURBILLON_URL", default_value = "http://127.0.0.1:8321")]
    pub(super) url: String,
    /// API token.
    #[arg(long, global = true, env = "TOURBILLON_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
    /// PEM file of further authorities that the service's certificate may be of.
    #[arg(long, global = true, value_name = "FILE", env = "TOURBILLON_CA")]
    pub(super) ca: Option<PathBuf>,
    /// App to operate on.
    #[arg(long, global = true, env = "TOURBILLON_APP", default_value = "default")]
    pub(super) app: String,
    /// Print the answer of the service, as JSON.
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the apps that the token may read.
    Apps,
    /// List schedules by key.
    #[command(visible_alias = "schedules")]
    List {
        /// Only keys that contain this text, in small or large letters.
        #[arg(long)]
        search: Option<String>,
        /// Only keys with this prefix.
        #[arg(long)]
        prefix: Option<String>,
        /// Only schedules in this state.
        #[arg(long)]
        state: Option<String>,
        /// Only schedules with this label: `NAME:VALUE`, or `NAME` with any value.
        #[arg(long)]
        label: Option<String>,
        #[command(flatten)]
        page: runs::Page,
    },
    /// Show a schedule.
    Get {
        /// Key of the schedule.
        key: String,
    },
    /// Create a schedule; an existing one must have the same definition.
    Create {
        /// Key of the schedule; the service generates one if it is missing.
        key: Option<String>,
        #[command(flatten)]
        define: Define,
    },
    /// Create or replace a schedule.
    Put {
        /// Key of the schedule.
        key: String,
        #[command(flatten)]
        define: Define,
    },
    /// Delete schedules: once the command succeeds, no callback of them starts.
    Delete(Keys),
    /// Enable schedules.
    Enable(Keys),
    /// Disable schedules, so that no callback of them starts until they are enabled.
    Disable(Keys),
    /// Call back now, beside the times of the schedule.
    RunNow {
        /// Key of the schedule.
        key: String,
    },
    /// Send a callback once, now, and show how it ended; nothing is kept of it.
    ///
    /// The command fails if the callback does.
    Test {
        #[command(flatten)]
        request: Request,
    },
    #[command(flatten)]
    Times(times::Command),
    #[command(flatten)]
    Runs(runs::Command),
    /// Show counts of runs and schedules, recent failures, and the nodes.
    Overview,
    /// Apply a file of schedules: show the difference, ask for confirmation, and change them.
    Apply {
        /// File to apply, TOML or JSON; `-` reads JSON from standard input.
        #[arg(short, long)]
        file: PathBuf,
        /// Delete schedules that are not in the file, too.
        #[arg(long)]
        prune: bool,
        #[command(flatten)]
        consent: Consent,
    },
    /// Write the schedules of the app, and its one-shots that are not over, as JSON lines.
    ///
    /// A line has the key and the definition of a schedule. Lines have neither the values of
    /// headers that the service masks, nor header secrets: these are exported by their names. The
    /// command reports missing values on standard error. The last line counts the others, so that
    /// an import detects an incomplete export. The export reads key by key, so it may miss a change
    /// made meanwhile.
    Export {
        /// Only keys with this prefix.
        #[arg(long)]
        prefix: Option<String>,
    },
    /// Import schedules: the lines of an export, or the schedules of another scheduler.
    Import(Import),
    #[command(flatten)]
    Manual(Manual),
}

/// Some schedules.
#[derive(Args, Debug)]
pub(super) struct Keys {
    /// Keys of the schedules.
    #[arg(required = true)]
    pub(super) keys: Vec<String>,
}

/// An import: of lines, or from another scheduler.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Import {
    #[command(subcommand)]
    pub(super) from: Option<Foreign>,
    /// Lines of `export`; `-` reads standard input.
    #[arg(required = true)]
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) consent: Consent,
}

#[derive(Debug, Subcommand)]
pub(super) enum Foreign {
    /// Import a crontab(5): each line becomes a schedule that calls back with the command as body.
    ///
    /// If a line is invalid, the command says so and imports nothing. The key of a line is the
    /// first word of its command and a hash of its time, zone, user, command and input. So a second
    /// import leaves unchanged lines alone, wherever they stand now, creates new ones, and removes
    /// deleted ones. Equal lines are counted: `-2`, `-3`.
    Crontab {
        /// Crontab to import.
        file: PathBuf,
        /// URL to call, in which `{key}`, `{line}` (its number) and `{user}` are replaced.
        #[arg(long)]
        to: String,
        /// Format: `user` as `crontab -e` has it, or `system` with users before the commands.
        #[arg(long, default_value = "user")]
        format: crontab::Whose,
        /// Time zone of lines without CRON_TZ above them; the system's if it is missing.
        #[arg(long)]
        zone: Option<String>,
        /// Prefix of the keys.
        #[arg(long, default_value = "crontab-")]
        prefix: String,
        #[command(flatten)]
        consent: Consent,
    },
}

/// Consent to a change.
#[derive(Args, Debug)]
pub(super) struct Consent {
    /// Show the difference, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Create one-shots whose time has passed, too. They are due at once.
    #[arg(long)]
    pub(super) past: bool,
}

/// The request of a callback, by flags.
#[derive(Args, Debug)]
pub(super) struct Request {
    /// URL to call.
    #[arg(long)]
    pub(super) to: Option<String>,
    /// HTTP method.
    #[arg(long, default_value = "POST")]
    pub(super) method: String,
    /// Header to send, as `Name: value`. Can be repeated.
    #[arg(long = "header", value_parser = header)]
    pub(super) headers: Vec<(String, String)>,
    /// Header whose value is a secret of the service's configuration, as `Name: SECRET`. Can be
    /// repeated.
    #[arg(long = "secret-header", value_parser = header)]
    pub(super) secret_headers: Vec<(String, String)>,
    /// Body to send; `@FILE` reads it from a file.
    #[arg(long, default_value = "")]
    pub(super) body: String,
    /// Time limit of one attempt.
    #[arg(long)]
    pub(super) timeout: Option<String>,
    /// Statuses that mean success, such as `200,404`, in place of all of 2xx.
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub(super) success: Vec<u16>,
    /// Time in which the receiver completes an attempt by a call, after its answer of 202.
    #[arg(long, value_name = "SPAN")]
    pub(super) complete_within: Option<String>,
}

/// A definition by flags, or as a document.
#[derive(Args, Debug)]
pub(super) struct Define {
    /// File with the definition as JSON; `-` reads standard input. Instead of the flags below.
    #[arg(short, long, conflicts_with_all = ["cron", "every", "at", "after", "to"])]
    pub(super) file: Option<PathBuf>,
    /// Repeat by a crontab(5) expression.
    #[arg(long, conflicts_with_all = ["every", "at", "after"])]
    pub(super) cron: Option<String>,
    /// Time zone of the expression.
    #[arg(long, conflicts_with_all = ["every", "at", "after"], default_value = "UTC")]
    pub(super) zone: String,
    /// Repeat after a period, such as `90s`.
    #[arg(long, conflicts_with_all = ["at", "after"])]
    pub(super) every: Option<String>,
    /// Call back once, at a time of RFC 3339.
    #[arg(long, conflicts_with = "after")]
    pub(super) at: Option<String>,
    /// Call back once, after a delay such as `30m`.
    #[arg(long)]
    pub(super) after: Option<String>,
    #[command(flatten)]
    pub(super) limits: times::Limits,
    #[command(flatten)]
    pub(super) request: Request,
    /// Label of the schedule, as `NAME:VALUE`, or `NAME` alone. Can be repeated.
    #[arg(long = "label", value_parser = label)]
    pub(super) labels: Vec<(String, String)>,
    /// Number of attempts, with the default pauses.
    #[arg(long)]
    pub(super) attempts: Option<u32>,
    /// Policy for missed times: `skip`, `coalesce`, or `catch-up=N`.
    #[arg(long, value_parser = missed)]
    pub(super) missed: Option<MissedPolicy>,
    /// Policy for times that overlap: `allow`, `skip`, or `queue=N`.
    #[arg(long, value_parser = overlap)]
    pub(super) overlap: Option<OverlapPolicy>,
    /// Maximum random delay of a run.
    #[arg(long)]
    pub(super) jitter: Option<String>,
    /// Lane of the runs: of all runs in one lane, one runs at a time, in the order of their times.
    #[arg(long)]
    pub(super) lane: Option<String>,
    #[command(flatten)]
    pub(super) alerts: alerts::Alerts,
    /// Create the schedule disabled.
    #[arg(long)]
    pub(super) disabled: bool,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected `Name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn label(text: &str) -> Result<(String, String), Infallible> {
    let (name, value) = text.split_once(':').unwrap_or((text, ""));
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn missed(text: &str) -> Result<MissedPolicy, String> {
    match text.split_once('=') {
        None if text == "skip" => Ok(MissedPolicy::Skip),
        None if text == "coalesce" => Ok(MissedPolicy::Coalesce),
        Some(("catch-up", count)) => count.parse().map(MissedPolicy::CatchUp).map_err(word),
        _ => Err("expected `skip`, `coalesce` or `catch-up=N`".to_owned()),
    }
}

fn overlap(text: &str) -> Result<OverlapPolicy, String> {
    match text.split_once('=') {
        None if text == "allow" => Ok(OverlapPolicy::Allow),
        None if text == "skip" => Ok(OverlapPolicy::Skip),
        Some(("queue", count)) => count.parse().map(OverlapPolicy::Queue).map_err(word),
        _ => Err("expected `allow`, `skip` or `queue=N`".to_owned()),
    }
}

fn word(error: impl fmt::Display) -> String {
    error.to_string()
}

impl Request {
    /// Returns the callback that the flags describe.
    pub(super) fn callback(&self) -> Result<Callback, Failure> {
        let url = self.to.clone();
        let url =
            url.ok_or_else(|| Failure::Usage("no URL is given: use `--to URL`".to_owned()))?;
        let body = match self.body.strip_prefix('@') {
            Some(file) => String::from_utf8(read(Path::new(file))?)?,
            None => self.body.clone(),
        };
        let values = self.headers.iter().map(|(name, value)| (name.clone(), value.clone().into()));
        let secrets = self.secret_headers.iter().cloned();
        let secrets = secrets.map(|(name, secret)| (name, Header::Secret { secret }));
        Ok(Callback {
            method: self.method.clone(),
            headers: values.chain(secrets).collect(),
            body,
            timeout: self.timeout.clone(),
            success: self.success.clone(),
            complete_within: self.complete_within.clone(),
            ..Callback::new(url)
        })
    }
}

impl Define {
    pub(super) fn definition(&self) -> Result<Definition, Failure> {
        if let Some(file) = &self.file {
            let text = read(file)?;
            return serde_json::from_slice(&text)
                .map_err(|error| Failure::Usage(format!("{}: {error}", file.display())));
        }
        let [cron, every, at, after] =
            [&self.cron, &self.every, &self.at, &self.after].map(Option::as_deref);
        let when = times::when(cron, &self.zone, every, at, after, &self.limits)?;
        let callback = self.request.callback()?;
        let retry =
            self.attempts.map(|attempts| RetryPolicy { attempts, ..RetryPolicy::default() });
        Ok(Definition {
            labels: self.labels.iter().cloned().collect(),
            missed: self.missed,
            overlap: self.overlap,
            jitter: self.jitter.clone(),
            lane: self.lane.clone(),
            notify: self.alerts.notify(),
            success_within: self.alerts.success_within.clone(),
            disable_after: self.alerts.disable_after,
            retry,
            enabled: !self.disabled,
            ..Definition::new(when, callback)
        })
    }
}
