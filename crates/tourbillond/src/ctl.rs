//! The API from a terminal: `tourbillonctl`.

mod alerts;
mod apply;
mod cli;
mod complete;
mod crontab;
mod lines;
mod local;
mod remote;
mod show;
#[cfg(test)]
mod tests;
mod times;

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{CommandFactory as _, Parser as _};
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tourbillon_durable::Time;

use apply::Wanted;
use cli::{Cli, Command, Consent, Foreign, Import, when};
use remote::Remote;

use crate::manual::Manual;

/// Result of a command.
type Done = Result<ExitCode, Failure>;

/// Error of a command.
#[derive(Debug)]
enum Failure {
    /// The command cannot be understood; nothing was asked.
    Usage(String),
    /// The service answered with this status, and why.
    Answered(u16, String),
    /// The service was not reached, or gave an answer of another kind.
    Refused(String),
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Refused(error.to_string())
    }
}

/// Something is to be done that was not.
const DIFFERS: u8 = 3;

/// Something could not be exported.
const INCOMPLETE: u8 = 4;

/// Runs the command of the process's arguments.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(code) => code,
        Err(Failure::Usage(why)) => {
            eprintln!("tourbillonctl: {why}");
            ExitCode::from(2)
        }
        Err(Failure::Answered(_, why) | Failure::Refused(why)) => {
            eprintln!("tourbillonctl: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Done {
    if let Command::Manual(manual) = &cli.command {
        let text = String::from_utf8(manual.of(Cli::command())?)?;
        return print(&match manual {
            Manual::Completions { shell } => complete::with_keys(&Cli::command(), *shell, &text),
            Manual::Man { .. } => text,
        });
    }
    let remote =
        Remote::new(&cli.common.url, cli.common.token.as_deref(), cli.common.ca.as_deref())?;
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
    let zone = TimeZone::system();
    let out = |answer: &Value, shown: fn(&Value) -> String| {
        print(&if cli.common.json { pretty(answer) } else { shown(&local::times(answer, &zone)) })
    };
    match &cli.command {
        Command::Apps => out(&remote.get(remote.url(["v1", "apps"], &[])).await?, show::apps),
        Command::List { search, prefix, state, label, page } => {
            let asked = [
                ("search", search.as_deref()),
                ("prefix", prefix.as_deref()),
                ("state", state.as_deref()),
                ("label", label.as_deref()),
                ("last_runs", Some("1")),
            ];
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
        Command::RunNow { key } => {
            out(&remote.send("POST", schedule(key, &["run-now"]), None).await?, show::fields)
        }
        Command::Preview { key: Some(key), count, .. } => {
            let path = ["v1", "apps", app, "schedules", key, "preview"];
            let url = remote.url(path, &[("count", Some(&count.to_string()))]);
            out(&remote.get(url).await?, show::preview)
        }
        Command::Preview { cron, zone, every, limits, count, .. } => {
            let when = when(cron.as_deref(), zone, every.as_deref(), None, None, limits)?;
            let body = json!({ "when": when, "count": count });
            let url = remote.url(["v1", "preview"], &[]);
            out(&remote.send("POST", url, Some(&body)).await?, show::preview)
        }
        Command::Test { request } => {
            let body = serde_json::to_value(request.callback()?)?;
            let url = remote.url(["v1", "apps", app, "test"], &[]);
            let ended = remote.send("POST", url, Some(&body)).await?;
            out(&ended, show::attempt)?;
            Ok(if ended["error"].is_null() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Times(command) => command.carry_out(remote, schedule, out).await,
        Command::Runs { key, search, state, since, until, page } => {
            let asked = [
                ("key", key.as_deref()),
                ("search", search.as_deref()),
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
            make_so(remote, app, wanted, if *prune { Some("") } else { None }, consent).await
        }
        Command::Export { prefix } => export(remote, app, prefix.as_deref()).await,
        Command::Import(Import { from: None, file, consent }) => {
            let file = file.as_deref().unwrap_or(Path::new("-"));
            let wanted = lines::parse(&read(file)?)
                .map_err(|why| Failure::Usage(format!("{}: {why}", file.display())))?;
            make_so(remote, app, wanted, None, consent).await
        }
        Command::Import(Import {
            from: Some(Foreign::Crontab { file, to, format, zone, prefix, consent }),
            ..
        }) => {
            let zone = zone.clone().map_or_else(crontab::local_zone, Ok)?;
            let wanted = crontab::read(&read(file)?, *format, &zone, prefix, to)
                .map_err(|faults| Failure::Usage(format!("{}:\n{faults}", file.display())))?;
            make_so(remote, app, wanted, Some(prefix), consent).await
        }
        Command::Manual(_) => Ok(ExitCode::SUCCESS),
    }
}

/// Writes the schedules of an app as lines.
async fn export(remote: &Remote, app: &str, prefix: Option<&str>) -> Done {
    let path = ["v1", "apps", app, "schedules"];
    let listed = remote.list(&path, &[("prefix", prefix)], usize::MAX).await?;
    let mut export = lines::Export::default();
    for item in listed.as_array().into_iter().flatten() {
        // A list leaves bodies out.
        match item["key"].as_str().filter(|_| item["callback"]["body_bytes"].is_number()) {
            Some(key) => {
                // A schedule deleted since then is left out.
                let url = remote.url(path.into_iter().chain([key]), &[]);
                remote.find(url).await?.map_or(Ok(()), |item| export.add(&item))?;
            }
            None => export.add(item)?,
        }
    }
    export.end();
    print(&export.text)?;
    eprint!("{}", export.notes());
    let is_whole = export.missing.is_empty();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}

/// Returns the schedules of an app whose keys begin with `prefix`, and all wanted ones, with their
/// bodies. No list has finished one-shots, so wanted ones are asked for.
async fn found(
    remote: &Remote,
    path: [&str; 4],
    prefix: Option<&str>,
    wanted: &Wanted,
) -> Result<Value, Failure> {
    let mut missing: BTreeSet<_> = wanted.once().collect();
    let mut there = Vec::new();
    let mut listed = remote.list(&path, &[("prefix", prefix)], usize::MAX).await?;
    for item in listed.as_array_mut().map(std::mem::take).unwrap_or_default() {
        let key = item["key"].as_str().unwrap_or_default();
        missing.remove(key);
        if wanted.schedules.contains_key(key) && item["callback"]["body_bytes"].is_number() {
            there.extend(remote.find(remote.url(path.into_iter().chain([key]), &[])).await?);
        } else {
            there.push(item);
        }
    }
    for key in missing {
        there.extend(remote.find(remote.url(path.into_iter().chain([key]), &[])).await?);
    }
    Ok(there.into())
}

/// Shows the changes, asks for consent, and makes them. Unwanted schedules whose keys begin with
/// `prune` are deleted. A schedule that the service refuses does not hold up others.
async fn make_so(
    remote: &Remote,
    app: &str,
    mut wanted: Wanted,
    prune: Option<&str>,
    consent: &Consent,
) -> Done {
    let prefix = prune.filter(|prefix| !prefix.is_empty() && wanted.all_begin(prefix));
    let path = ["v1", "apps", app, "schedules"];
    let there = found(remote, path, prefix, &wanted).await?;
    let now = Time::from(SystemTime::now());
    for note in apply::settle(&mut wanted, &there, (!consent.past).then_some(now))? {
        eprintln!("{note}");
    }
    let unknown = lines::unknown(&wanted, &there)?;
    if !unknown.is_empty() {
        return Err(Failure::Usage(format!(
            "these values are masked, and the service does not have them; write them into the \
             file, or name a header secret:\n  {}",
            unknown.join("\n  ")
        )));
    }
    let mut steps = Vec::new();
    for step in apply::plan(&wanted, &there, prune)? {
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
        return Err(Failure::Refused("not confirmed: nothing was changed".to_owned()));
    }
    let mut refused = 0;
    for step in &steps {
        match step.carry_out(remote, path).await {
            Ok(()) => {}
            // Of this schedule, and not of the token or the service.
            Err(Failure::Answered(status @ 400..500, why)) if !matches!(status, 401 | 403) => {
                eprintln!("not done: {}: {why}", show::visible(step.key()));
                refused += 1;
            }
            Err(failure) => return Err(failure),
        }
    }
    print(&format!("{} done\n", steps.len() - refused))?;
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn agreed() -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "standard input is not a terminal, so nobody can confirm: use `--yes`".to_owned(),
        ));
    }
    print("Apply these changes? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
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
