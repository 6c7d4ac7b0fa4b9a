//! The API from a terminal: `tourbillonctl`.

mod apply;
mod crontab;
mod remote;
mod show;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use serde_json::{Value, json};

use crate::model::{
    AfterWhen, AtWhen, Callback, CronWhen, Definition, EveryWhen, Header, MissedPolicy,
    OverlapPolicy, RetryPolicy, When,
};
use apply::Wanted;
use remote::Remote;

/// Asks a `tourbillond` for schedules, runs and what it is about.
#[derive(Debug, Parser)]
#[command(name = "tourbillonctl", version, after_long_help = MORE)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

const MORE: &str = "\
Examples:
  tourbillonctl put nightly --cron '0 2 * * *' --zone Europe/Berlin --to https://example.com/backup
  tourbillonctl put reminder-42 --after 30m --to https://example.com/remind --body '{\"order\": 42}'
  tourbillonctl preview --cron '30 2 * * *' --zone Europe/Berlin --count 3
  tourbillonctl runs --state dead
  tourbillonctl apply -f schedules.toml --dry-run
  tourbillonctl import crontab /etc/crontab --format system --to 'https://example.com/run/{key}'

A file for `apply`, as TOML or as JSON:
  [schedules.nightly]
  when = { cron = \"0 2 * * *\", zone = \"Europe/Berlin\" }
  callback = { url = \"https://example.com/backup\" }

Exit codes:
  0  done
  1  the service refused, or was not reached
  2  the command was not understood
  3  `apply --dry-run` or `import --dry-run` found something to do";

/// Options of every command.
#[derive(Args, Debug)]
struct Common {
    /// URL of the service.
    #[arg(long, global = true, env = "TOURBILLON_URL", default_value = "http://127.0.0.1:8321")]
    url: String,
    /// API token.
    #[arg(long, global = true, env = "TOURBILLON_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// App to operate on.
    #[arg(long, global = true, env = "TOURBILLON_APP", default_value = "default")]
    app: String,
    /// Prints what the service answered, as JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the apps.
    Apps,
    /// Lists schedules.
    List {
        /// Only keys with this prefix.
        #[arg(long)]
        prefix: Option<String>,
        /// Only schedules in this state.
        #[arg(long)]
        state: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Shows a schedule.
    Get {
        /// Key of the schedule.
        key: String,
    },
    /// Makes a schedule; one that is there has to be as wanted.
    Create {
        /// Its key; drawn if it is missing.
        key: Option<String>,
        #[command(flatten)]
        define: Define,
    },
    /// Makes or replaces a schedule.
    Put {
        /// Key of the schedule.
        key: String,
        #[command(flatten)]
        define: Define,
    },
    /// Removes schedules: once it is done, no callback of them starts.
    Delete {
        /// Keys of the schedules.
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Enable schedules.
    Enable {
        /// Keys of the schedules.
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Disable schedules: once the command succeeds, no callback starts.
    Disable {
        /// Keys of the schedules.
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Calls back now, beside the times of the schedule.
    Fire {
        /// Key of the schedule.
        key: String,
    },
    /// Shows the next times, of a schedule or of flags.
    Preview {
        /// Key of the schedule.
        #[arg(
            conflicts_with_all = ["cron", "every"],
            required_unless_present_any = ["cron", "every"],
        )]
        key: Option<String>,
        /// Preview a crontab(5) expression.
        #[arg(long, conflicts_with = "every")]
        cron: Option<String>,
        /// The zone of the expression.
        #[arg(long, conflicts_with = "every", default_value = "UTC")]
        zone: String,
        /// Preview a period, such as `90s`.
        #[arg(long)]
        every: Option<String>,
        /// Number of occurrences.
        #[arg(long, default_value_t = 10)]
        count: u32,
    },
    /// Lists runs, newest first.
    Runs {
        /// Only runs of this schedule.
        #[arg(long)]
        key: Option<String>,
        /// In this state: pending, running, succeeded, dead, skipped or cancelled.
        #[arg(long)]
        state: Option<String>,
        /// Only runs from this time on.
        #[arg(long)]
        since: Option<String>,
        /// Before this time.
        #[arg(long)]
        until: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Shows a run with its attempts.
    Run {
        /// Id of the run.
        id: String,
    },
    /// Runs a dead letter again.
    Retry {
        /// Id of the run.
        id: String,
    },
    /// Shows what is due, overdue, running and failing, and the nodes.
    Overview,
    /// Makes the schedules what a file says: shows the difference, asks, and carries it out.
    Apply {
        /// The file, TOML or JSON; `-` for standard input, as JSON.
        #[arg(short, long)]
        file: PathBuf,
        /// Removes what is not in the file, too.
        #[arg(long)]
        prune: bool,
        #[command(flatten)]
        consent: Consent,
    },
    /// Takes schedules over from elsewhere.
    #[command(subcommand)]
    Import(Import),
    /// Prints completions for a shell.
    Completions {
        /// Shell to complete in.
        shell: Shell,
    },
}

#[derive(Debug, Subcommand)]
enum Import {
    /// Import a crontab(5): each line becomes a schedule that calls back with the command as body.
    ///
    /// If a line is wrong, the command says so and imports nothing. The key of a line is the first
    /// word of its command and a hash of its time, zone, user, command and input. So a second
    /// import leaves what it finds again, wherever the line stands now, makes what is new, and
    /// removes what is gone. Lines that say the same are counted: `-2`, `-3`.
    Crontab {
        /// The file.
        file: PathBuf,
        /// URL to call, in which `{key}`, `{line}` (its number) and `{user}` are replaced.
        #[arg(long)]
        to: String,
        /// `user` as `crontab -e` has it, or `system` with users before the commands.
        #[arg(long, default_value = "user")]
        format: crontab::Whose,
        /// The zone of lines without CRON_TZ above them; the system's if it is missing.
        #[arg(long)]
        zone: Option<String>,
        /// Prefix of the keys.
        #[arg(long, default_value = "crontab-")]
        prefix: String,
        #[command(flatten)]
        consent: Consent,
    },
}

/// Part of a list.
#[derive(Args, Debug)]
struct Page {
    /// Most items.
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

/// Consent to a change.
#[derive(Args, Debug)]
struct Consent {
    /// Shows the difference and does nothing.
    #[arg(long)]
    dry_run: bool,
    /// Does not ask.
    #[arg(long, short)]
    yes: bool,
}

/// A definition by flags, or as a document.
#[derive(Args, Debug)]
struct Define {
    /// The definition as JSON, in a file; `-` for standard input. Instead of the flags below.
    #[arg(short, long, conflicts_with_all = ["cron", "every", "at", "after", "to"])]
    file: Option<PathBuf>,
    /// Repeat by a crontab(5) expression.
    #[arg(long, conflicts_with_all = ["every", "at", "after"])]
    cron: Option<String>,
    /// The zone of the expression.
    #[arg(long, conflicts_with_all = ["every", "at", "after"], default_value = "UTC")]
    zone: String,
    /// Again and again after a span, such as `90s`.
    #[arg(long, conflicts_with_all = ["at", "after"])]
    every: Option<String>,
    /// Once, at a time of RFC 3339.
    #[arg(long, conflicts_with = "after")]
    at: Option<String>,
    /// Once, after a span.
    #[arg(long)]
    after: Option<String>,
    /// The URL that is called.
    #[arg(long)]
    to: Option<String>,
    /// HTTP method.
    #[arg(long, default_value = "POST")]
    method: String,
    /// A header, as `Name: value`. May be given again.
    #[arg(long = "header", value_parser = header)]
    headers: Vec<(String, String)>,
    /// A header whose value is a secret of the service's configuration, as `Name: SECRET`. May be
    /// given again.
    #[arg(long = "secret-header", value_parser = header)]
    secret_headers: Vec<(String, String)>,
    /// The body; `@FILE` for a file's.
    #[arg(long, default_value = "")]
    body: String,
    /// Time limit of one attempt.
    #[arg(long)]
    timeout: Option<String>,
    /// Number of attempts, with the default pauses.
    #[arg(long)]
    attempts: Option<u32>,
    /// Policy for missed times: `skip`, `coalesce`, or `catch-up=N`.
    #[arg(long, value_parser = missed)]
    missed: Option<MissedPolicy>,
    /// Policy for times that overlap: `allow`, `skip`, or `queue=N`.
    #[arg(long, value_parser = overlap)]
    overlap: Option<OverlapPolicy>,
    /// Maximum random delay of a run.
    #[arg(long)]
    jitter: Option<String>,
    /// Makes it so that it does not happen before it is enabled.
    #[arg(long)]
    disabled: bool,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is `Name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn missed(text: &str) -> Result<MissedPolicy, String> {
    match text.split_once('=') {
        None if text == "skip" => Ok(MissedPolicy::Skip),
        None if text == "coalesce" => Ok(MissedPolicy::Coalesce),
        Some(("catch-up", count)) => count.parse().map(MissedPolicy::CatchUp).map_err(word),
        _ => Err("it is `skip`, `coalesce` or `catch-up=N`".to_owned()),
    }
}

fn overlap(text: &str) -> Result<OverlapPolicy, String> {
    match text.split_once('=') {
        None if text == "allow" => Ok(OverlapPolicy::Allow),
        None if text == "skip" => Ok(OverlapPolicy::Skip),
        Some(("queue", count)) => count.parse().map(OverlapPolicy::Queue).map_err(word),
        _ => Err("it is `allow`, `skip` or `queue=N`".to_owned()),
    }
}

fn word(error: impl fmt::Display) -> String {
    error.to_string()
}

/// Result of a command.
type Done = Result<ExitCode, Failure>;

/// Error of a command.
#[derive(Debug)]
enum Failure {
    /// The command cannot be understood; nothing was asked.
    Usage(String),
    /// The service refused it, or was not reached.
    Refused(String),
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Refused(error.to_string())
    }
}

/// Something is to be done that was not.
const DIFFERS: u8 = 3;

/// Runs the command of the process's arguments.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(code) => code,
        Err(Failure::Usage(why)) => {
            eprintln!("tourbillonctl: {why}");
            ExitCode::from(2)
        }
        Err(Failure::Refused(why)) => {
            eprintln!("tourbillonctl: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Done {
    if let Command::Completions { shell } = cli.command {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "tourbillonctl", &mut text);
        return print(&String::from_utf8_lossy(&text));
    }
    let remote = Remote::new(&cli.common.url, cli.common.token.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(carry_out(cli, &remote))
}

async fn carry_out(cli: &Cli, remote: &Remote) -> Done {
    let app = &*cli.common.app;
    let schedule = |key: &str, verb: &[&str]| {
        let path = ["v1", "apps", app, "schedules", key];
        remote.url(path.iter().chain(verb).copied(), &[])
    };
    let runs = |id: &str, verb: &[&str]| {
        let path = ["v1", "apps", app, "runs", id];
        remote.url(path.iter().chain(verb).copied(), &[])
    };
    let out = |answer: &Value, shown: fn(&Value) -> String| {
        print(&if cli.common.json { pretty(answer) } else { shown(answer) })
    };
    match &cli.command {
        Command::Apps => out(&remote.get(remote.url(["v1", "apps"], &[])).await?, show::apps),
        Command::List { prefix, state, page } => {
            let asked = [("prefix", prefix.as_deref()), ("state", state.as_deref())];
            let items = remote.list(&["v1", "apps", app, "schedules"], &asked, page.limit).await?;
            out(&items, show::schedules)
        }
        Command::Get { key } => out(&remote.get(schedule(key, &[])).await?, show::schedule),
        Command::Create { key, define } => {
            let mut body = serde_json::to_value(define.definition()?)?;
            if let Some(key) = key {
                body["key"] = json!(key);
            }
            let url = remote.url(["v1", "apps", app, "schedules"], &[]);
            out(&remote.send("POST", url, Some(&body)).await?, show::schedule)
        }
        Command::Put { key, define } => {
            let body = serde_json::to_value(define.definition()?)?;
            out(&remote.send("PUT", schedule(key, &[]), Some(&body)).await?, show::schedule)
        }
        Command::Delete { keys } => {
            for key in keys {
                out(&remote.send("DELETE", schedule(key, &[]), None).await?, show::switched)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Enable { keys } => {
            for key in keys {
                let url = schedule(key, &["enable"]);
                out(&remote.send("POST", url, None).await?, show::switched)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Disable { keys } => {
            for key in keys {
                let url = schedule(key, &["disable"]);
                out(&remote.send("POST", url, None).await?, show::switched)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Fire { key } => {
            out(&remote.send("POST", schedule(key, &["fire"]), None).await?, show::fields)
        }
        Command::Preview { key: Some(key), count, .. } => {
            let path = ["v1", "apps", app, "schedules", key, "preview"];
            let url = remote.url(path, &[("count", Some(&count.to_string()))]);
            out(&remote.get(url).await?, show::preview)
        }
        Command::Preview { cron, zone, every, count, .. } => {
            let when = when(cron.as_deref(), zone, every.as_deref(), None, None)?;
            let body = json!({ "when": when, "count": count });
            let url = remote.url(["v1", "preview"], &[]);
            out(&remote.send("POST", url, Some(&body)).await?, show::preview)
        }
        Command::Runs { key, state, since, until, page } => {
            let asked = [
                ("key", key.as_deref()),
                ("state", state.as_deref()),
                ("since", since.as_deref()),
                ("until", until.as_deref()),
            ];
            let items = remote.list(&["v1", "apps", app, "runs"], &asked, page.limit).await?;
            out(&items, show::runs)
        }
        Command::Run { id } => out(&remote.get(runs(id, &[])).await?, show::run),
        Command::Retry { id } => {
            out(&remote.send("POST", runs(id, &["retry"]), None).await?, show::fields)
        }
        Command::Overview => {
            // An admin's token sees all apps; another's only its own.
            let url = remote.url(["v1", "overview"], &[("app", Some(app))]);
            out(&remote.get(url).await?, show::overview)
        }
        Command::Apply { file, prune, consent } => {
            let wanted = Wanted::parse(&read(file)?, is_toml(file)).map_err(Failure::Usage)?;
            make_so(remote, app, &wanted, if *prune { Some("") } else { None }, consent).await
        }
        Command::Import(Import::Crontab { file, to, format, zone, prefix, consent }) => {
            let zone = zone.clone().unwrap_or_else(crontab::local_zone);
            let wanted = crontab::read(&read(file)?, *format, &zone, prefix, to)
                .map_err(|faults| Failure::Usage(format!("{}:\n{faults}", file.display())))?;
            make_so(remote, app, &wanted, Some(prefix), consent).await
        }
        Command::Completions { .. } => Ok(ExitCode::SUCCESS),
    }
}

/// Shows what has to be done, asks whether to do it, and does it. What begins with `prune` and is
/// not wanted goes.
async fn make_so(
    remote: &Remote,
    app: &str,
    wanted: &Wanted,
    prune: Option<&str>,
    consent: &Consent,
) -> Done {
    let asked = [("prefix", prune.filter(|prefix| !prefix.is_empty() && wanted.all_begin(prefix)))];
    let path = ["v1", "apps", app, "schedules"];
    let mut there = remote.list(&path, &asked, usize::MAX).await?;
    for item in there.as_array_mut().into_iter().flatten() {
        // A list leaves bodies out.
        let key = item["key"].as_str().filter(|key| wanted.schedules.contains_key(*key));
        if let Some(key) = key.filter(|_| item["callback"]["body_bytes"].is_number()) {
            *item = remote.get(remote.url(path.into_iter().chain([key]), &[])).await?;
        }
    }
    let mut steps = Vec::new();
    for step in apply::plan(wanted, &there, prune)? {
        if !step.is_done(remote, remote.url(path, &[])).await? {
            steps.push(step);
        }
    }
    print(&apply::shown(&steps))?;
    if steps.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if consent.dry_run {
        return Ok(ExitCode::from(DIFFERS));
    }
    if !consent.yes && !agreed()? {
        return Err(Failure::Refused("nothing was done".to_owned()));
    }
    for step in &steps {
        let url = remote.url(path.into_iter().chain([step.key()]), &[]);
        step.carry_out(remote, url).await?;
    }
    print(&format!("{} done\n", steps.len()))
}

fn agreed() -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage("nobody is there to ask: `--yes` does it".to_owned()));
    }
    print("Do it? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

impl Define {
    fn definition(&self) -> Result<Definition, Failure> {
        if let Some(file) = &self.file {
            let text = read(file)?;
            return serde_json::from_slice(&text)
                .map_err(|error| Failure::Usage(format!("{}: {error}", file.display())));
        }
        let [cron, every, at, after] =
            [&self.cron, &self.every, &self.at, &self.after].map(Option::as_deref);
        let when = when(cron, &self.zone, every, at, after)?;
        let url = self.to.clone();
        let url = url.ok_or_else(|| Failure::Usage("`--to` has what is called".to_owned()))?;
        let body = match self.body.strip_prefix('@') {
            Some(file) => String::from_utf8(read(Path::new(file))?)?,
            None => self.body.clone(),
        };
        let values = self.headers.iter().map(|(name, value)| (name.clone(), value.clone().into()));
        let secrets = self.secret_headers.iter().cloned();
        let secrets = secrets.map(|(name, secret)| (name, Header::Secret { secret }));
        let headers: BTreeMap<_, _> = values.chain(secrets).collect();
        let retry =
            self.attempts.map(|attempts| RetryPolicy { attempts, ..RetryPolicy::default() });
        let method = self.method.clone();
        let timeout = self.timeout.clone();
        let callback = Callback { method, url, headers, body, body_bytes: None, timeout };
        Ok(Definition {
            when,
            callback,
            missed: self.missed,
            on_time_within: None,
            overlap: self.overlap,
            jitter: self.jitter.clone(),
            retry,
            enabled: !self.disabled,
        })
    }
}

fn when(
    cron: Option<&str>,
    zone: &str,
    every: Option<&str>,
    at: Option<&str>,
    after: Option<&str>,
) -> Result<When, Failure> {
    let own = str::to_owned;
    match (cron, every, at, after) {
        (Some(cron), ..) => Ok(When::Cron(CronWhen { cron: own(cron), zone: own(zone) })),
        (_, Some(every), ..) => Ok(When::Every(EveryWhen { every: own(every) })),
        (_, _, Some(at), _) => Ok(When::At(AtWhen { at: own(at) })),
        (_, _, _, Some(after)) => Ok(When::After(AfterWhen { after: own(after) })),
        _ => Err(Failure::Usage("when? `--cron`, `--every`, `--at` or `--after`".to_owned())),
    }
}

fn is_toml(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "toml")
}

/// A file's bytes, or standard input's.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    std::fs::read(file).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Writes to standard output, whose reader may have gone.
fn print(text: &str) -> Done {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
