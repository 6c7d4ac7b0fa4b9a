//! The program: its command line, and the modes that it selects.

mod due;
mod files;
mod job;
mod jobs;
mod list;
mod log;
mod output;
mod process;
mod run;
mod running;
#[cfg(test)]
mod tests;
mod user;
mod writer;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_signal::{Signal, Signals};
use futures::StreamExt;
use jiff::Timestamp;
use tourbillon::Timer;
use tourbillon_cron::{Missed, ZoneData};
use tourbillon_crontab::Format;

use self::files::{Entry, Files, Load};
use self::log::Log;
use self::run::Runner;
use self::writer::Writer;

const USAGE: &str = "usage: tourbillon-crontab [--next N | --dry-run] [--zone NAME] [--from TIME] \
                     [--catch-up] [--system | --user] FILE...
       tourbillon-crontab --version";

/// Time to write the last lines of the log, if somebody reads it.
const LAST_LINES: Duration = Duration::from_secs(1);

enum Mode {
    Run,
    Next(usize),
    DryRun,
}

pub(crate) fn main() -> ExitCode {
    match start() {
        Ok(code) => code,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn start() -> Result<ExitCode, String> {
    let (mut mode, mut from, mut catches_up) = (Mode::Run, SystemTime::now(), false);
    let (mut format, mut zone, mut named) = (None, None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--next" => {
                let count = value()?;
                let bad = |_| format!("--next: `{count}` is no number");
                mode = Mode::Next(count.parse().map_err(bad)?);
            }
            "--dry-run" => mode = Mode::DryRun,
            "--catch-up" => catches_up = true,
            "--system" => format = Some(Format::System),
            "--user" => format = Some(Format::User),
            "--zone" => zone = Some(value()?),
            "--from" => {
                let time: Timestamp =
                    value()?.parse().map_err(|error| format!("--from: {error}"))?;
                from = time.into();
            }
            "--version" => {
                let version = env!("CARGO_PKG_VERSION");
                println!("tourbillon-crontab {version}, time zones {}", ZoneData::current());
                return Ok(ExitCode::SUCCESS);
            }
            _ if argument.starts_with('-') => return Err(USAGE.to_owned()),
            _ => named.push((argument, format)),
        }
    }
    if named.is_empty() {
        return Err(USAGE.to_owned());
    }
    let mut files = Files::new(zone)?;
    for (path, format) in named {
        files.add(path.as_ref(), format)?;
    }
    match mode {
        Mode::Run => run(files, if catches_up { Missed::Coalesce } else { Missed::Skip }),
        Mode::Next(count) => print(files, |jobs| list::next(jobs, from, count)),
        Mode::DryRun => print(files, |jobs| list::dry_run(jobs, from)),
    }
}

/// Prints a list of the jobs, unless a line is wrong.
fn print(
    mut files: Files,
    list: impl FnOnce(&[Arc<Entry>]) -> io::Result<()>,
) -> Result<ExitCode, String> {
    let Load { jobs, faults, never } = files.load();
    for fault in faults.iter().chain(&never) {
        eprintln!("{fault}");
    }
    if !faults.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    match list(&jobs) {
        // A reader that has gone, such as `head`, has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn run(mut files: Files, policy: Missed) -> Result<ExitCode, String> {
    let signals = Signals::new([Signal::Hup, Signal::Int, Signal::Quit, Signal::Term])
        .map_err(|error| format!("cannot watch for signals: {error}"))?;
    let signals = signals.filter_map(|signal| std::future::ready(signal.ok()));
    files.owner = Some(rustix::process::geteuid().as_raw());
    let timer = Timer::global();
    let writer = Writer::new(io::stdout())
        .map_err(|error| format!("no thread can be started for the log: {error}"))?;
    let sink = writer.clone();
    let log = Log::new(&timer, move |line| sink.push(line));
    smol::block_on(async {
        Runner::new(files, policy, &timer, log).run(signals).await;
    });
    writer.finish(LAST_LINES);
    Ok(ExitCode::SUCCESS)
}
