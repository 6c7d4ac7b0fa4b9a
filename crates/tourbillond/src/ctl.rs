//! The API from a terminal: `tourbillonctl`.

mod alerts;
mod apply;
mod cli;
mod complete;
mod crontab;
mod lines;
mod local;
mod remote;
mod runs;
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
use url::Url;

use apply::{Step, Wanted};
use cli::{Cli, Command, Consent, Foreign, Import, Keys};
use remote::Remote;
use runs::Page;

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
        let text = manual.of(Cli::command()).map_err(Failure::Refused)?;
        let text = String::from_utf8(text)?;
        return print(&match manual {
            Manual::Completions { shell } => complete::with_keys(&Cli::command(), *shell, &text),
            Manual::Man { .. } => text,
        });
    }
    let remote =
        Remote::new(&cli.common.url, cli.common.token.as_deref(), cli.common.ca.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let context = Context { remote: &remote, app: &cli.common.app, is_json: cli.common.json };
    runtime.block_on(context.carry_out(&cli.command))
}

/// App that a command is about, and the format of answers.
struct Context<'a> {
    remote: &'a Remote,
    app: &'a str,
    is_json: bool,
}

impl Context<'_> {
    /// Segments of the app's schedules.
    fn schedules(&self) -> [&str; 4] {
        ["v1", "apps", self.app, "schedules"]
    }

    /// The address of a resource of the app.
    fn url<'a>(&'a self, path: impl IntoIterator<Item = &'a str>) -> Url {
        self.remote.url(["v1", "apps", self.app].into_iter().chain(path), &[])
    }

    /// Prints an answer.
    fn out(&self, answer: &Value, shown: fn(&Value) -> String) -> Done {
        let text = || shown(&local::times(answer, &TimeZone::system()));
        print(&if self.is_json { pretty(answer) } else { text() })
    }

    async fn get(&self, url: Url, shown: fn(&Value) -> String) -> Done {
        self.out(&self.remote.get(url).await?, shown)
    }

    async fn send(
        &self,
        method: &str,
        url: Url,
        body: Option<&Value>,
        shown: fn(&Value) -> String,
    ) -> Done {
        self.out(&self.remote.send(method, url, body).await?, shown)
    }

    /// Sends a request for each of these schedules.
    async fn each(&self, method: &str, keys: &[String], verb: Option<&str>) -> Done {
        for key in keys {
            let url = self.url(["schedules", key].into_iter().chain(verb));
            self.send(method, url, None, show::switched).await?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn list(
        &self,
        of: &str,
        query: &[(&str, Option<&str>)],
        page: &Page,
        shown: fn(&Value) -> String,
    ) -> Done {
        let items = self.remote.list(&["v1", "apps", self.app, of], query, page.limit).await?;
        self.out(&items, shown)
    }

    async fn carry_out(&self, command: &Command) -> Done {
        match command {
            Command::Apps => self.get(self.remote.url(["v1", "apps"], &[]), show::apps).await,
            Command::List { search, prefix, state, label, page } => {
                let query = [
                    ("search", search.as_deref()),
                    ("prefix", prefix.as_deref()),
                    ("state", state.as_deref()),
                    ("label", label.as_deref()),
                    ("last_runs", Some("1")),
                ];
                self.list("schedules", &query, page, show::schedules).await
            }
            Command::Get { key } => self.get(self.url(["schedules", key]), show::fields).await,
            Command::Create { key, define } => {
                let mut body = serde_json::to_value(define.definition()?)?;
                if let Some(key) = key {
                    body["key"] = json!(key);
                }
                self.send("POST", self.url(["schedules"]), Some(&body), show::fields).await
            }
            Command::Put { key, define } => {
                let body = serde_json::to_value(define.definition()?)?;
                self.send("PUT", self.url(["schedules", key]), Some(&body), show::fields).await
            }
            Command::Delete(Keys { keys }) => self.each("DELETE", keys, None).await,
            Command::Enable(Keys { keys }) => self.each("POST", keys, Some("enable")).await,
            Command::Disable(Keys { keys }) => self.each("POST", keys, Some("disable")).await,
            Command::RunNow { key } => {
                self.send("POST", self.url(["schedules", key, "run-now"]), None, show::fields).await
            }
            Command::Test { request } => self.test(request).await,
            Command::Times(command) => command.carry_out(self).await,
            Command::Runs(command) => command.carry_out(self).await,
            Command::Overview => {
                // An admin's token sees all apps; another's only its own.
                let url = self.remote.url(["v1", "overview"], &[("app", Some(self.app))]);
                self.get(url, show::overview).await
            }
            Command::Apply { file, prune, consent } => {
                let wanted = Wanted::parse(&read(file)?, is_toml(file)).map_err(Failure::Usage)?;
                self.make_so(wanted, if *prune { Some("") } else { None }, consent).await
            }
            Command::Export { prefix } => self.export(prefix.as_deref()).await,
            Command::Import(import) => self.import(import).await,
            Command::Manual(_) => Ok(ExitCode::SUCCESS),
        }
    }

    /// Tests a callback. It fails if the callback does.
    async fn test(&self, request: &cli::Request) -> Done {
        let body = serde_json::to_value(request.callback()?)?;
        let ended = self.remote.send("POST", self.url(["test"]), Some(&body)).await?;
        self.out(&ended, show::attempt)?;
        Ok(if ended["error"].is_null() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Imports lines, or the schedules of another scheduler.
    async fn import(&self, Import { from, file, consent }: &Import) -> Done {
        let Some(Foreign::Crontab { file, to, format, zone, prefix, consent }) = from else {
            let file = file.as_deref().unwrap_or(Path::new("-"));
            let wanted = lines::parse(&read(file)?)
                .map_err(|why| Failure::Usage(format!("{}: {why}", file.display())))?;
            return self.make_so(wanted, None, consent).await;
        };
        let zone = zone.clone().map_or_else(crontab::local_zone, Ok)?;
        let wanted = crontab::read(&read(file)?, *format, &zone, prefix, to)
            .map_err(|faults| Failure::Usage(format!("{}:\n{faults}", file.display())))?;
        self.make_so(wanted, Some(prefix), consent).await
    }

    /// Writes the schedules of the app as lines.
    async fn export(&self, prefix: Option<&str>) -> Done {
        let query = [("prefix", prefix)];
        let listed = self.remote.list(&self.schedules(), &query, usize::MAX).await?;
        let mut export = lines::Export::default();
        for item in listed.as_array().into_iter().flatten() {
            // A list leaves bodies out.
            match item["key"].as_str().filter(|_| item["callback"]["body_bytes"].is_number()) {
                Some(key) => {
                    // A schedule deleted since then is left out.
                    let found = self.remote.find(self.url(["schedules", key])).await?;
                    found.map_or(Ok(()), |item| export.add(&item))?;
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

    /// Returns the schedules of the app whose keys begin with `prefix`, and all wanted ones, with
    /// their bodies. No list has finished one-shots, so wanted ones are asked for.
    async fn found(&self, prefix: Option<&str>, wanted: &Wanted) -> Result<Value, Failure> {
        let mut missing: BTreeSet<_> = wanted.once().collect();
        let mut there = Vec::new();
        let query = [("prefix", prefix)];
        let mut listed = self.remote.list(&self.schedules(), &query, usize::MAX).await?;
        for item in listed.as_array_mut().map(std::mem::take).unwrap_or_default() {
            let key = item["key"].as_str().unwrap_or_default();
            missing.remove(key);
            if wanted.schedules.contains_key(key) && item["callback"]["body_bytes"].is_number() {
                there.extend(self.remote.find(self.url(["schedules", key])).await?);
            } else {
                there.push(item);
            }
        }
        for key in missing {
            there.extend(self.remote.find(self.url(["schedules", key])).await?);
        }
        Ok(there.into())
    }

    /// Shows the changes, asks for consent, and makes them. Unwanted schedules whose keys begin
    /// with `prune` are deleted.
    async fn make_so(&self, mut wanted: Wanted, prune: Option<&str>, consent: &Consent) -> Done {
        let prefix = prune.filter(|prefix| !prefix.is_empty() && wanted.all_begin(prefix));
        let there = self.found(prefix, &wanted).await?;
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
            if !step.is_done(self.remote, self.url(["schedules"])).await? {
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
        self.change(&steps).await
    }

    /// Makes changes. A schedule that the service refuses does not hold up others.
    async fn change(&self, steps: &[Step]) -> Done {
        let mut refused = 0;
        for step in steps {
            match step.carry_out(self.remote, self.schedules()).await {
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
