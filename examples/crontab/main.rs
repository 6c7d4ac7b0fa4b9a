//! A cron that sleeps until the next job is due.
//!
//! ```text
//! cargo run --release --features cron --example crontab -- FILE...
//! cargo run --release --features cron --example crontab -- --next 20 FILE...
//! cargo run --release --features cron --example crontab -- --dry-run FILE...
//! ```
//!
//! The first runs the jobs, the second lists what would run when, and the third goes through a year
//! in virtual time. Other options:
//!
//! - `--zone NAME`: the time zone of lines without a `CRON_TZ`; the system's if not given;
//! - `--from TIME`: where `--next` and `--dry-run` begin, such as `2026-03-28T12:00Z`;
//! - `--system`, `--user`: the format of the files that follow, whatever their names are;
//! - `--catch-up`: what was missed in suspend runs once when the machine is back, as with anacron.
//!
//! Nothing ticks: each job is a stream, and a due one wakes the one task that waits for all of
//! them. Between two jobs no task wakes; one thread compares the clocks every 30 seconds. The end,
//! and `--dry-run`, report how often the task woke. Files are looked at again when it wakes for a
//! job, and on SIGHUP.
//!
//! # As Debian's cron
//!
//! - The format of files. `/etc/crontab` and those in `/etc/cron.d` have a column for the user, a
//!   user's own have none. Of a directory, those files are taken whose names cron would take. A
//!   file with a fault is not used at all.
//! - Jobs run as their users, with `SHELL`, `PATH`, `HOME` and `LOGNAME` as cron sets them.
//! - Files from which jobs are to be run are refused if anyone but root and the user who runs this
//!   owns them or may write to them, if they are not regular files, or if they have a second hard
//!   link.
//! - A clock that is set back by more than three hours was wrong before, and what comes next is by
//!   the new time.
//!
//! # Unlike Debian's cron
//!
//! - Lines may have a `CRON_TZ` above them, and `L`, `W` and `#` in their fields.
//! - When daylight saving begins or ends, the rules of `tourbillon::cron` hold. In the night that
//!   has no such hour, cron runs `0,30 2 * * *` twice.
//! - Every symbolic link is refused, not only those of other owners than root. A user's file need
//!   not have the mode 0600. A file of more than a mebibyte is refused. (`--next` and `--dry-run`
//!   run nothing; they read any regular file. `/dev/stdin` is always read, once.)
//! - A line that is not UTF-8, and no comment, is a fault. A last line without an end is none.
//! - There is no mail. Output goes to the log line by line, escaped: of each line the first 4 KiB,
//!   and of each job the first mebibyte. `MAILTO` is a variable like any other.
//! - A job whose home cannot be entered runs in `/`, and the log says so. With cron it runs too,
//!   in cron's own directory.
//! - A job has the group that its user has in `/etc/passwd`, and none of those in `/etc/group`.
//!   Other users than the one who runs this are not known if they are not in `/etc/passwd`. There
//!   is no PAM, so there are no limits of it, and `/etc/environment` is not read.
//! - A file that is new or has changed is not seen within a minute, but when the next job is due
//!   or SIGHUP comes. On the other hand, a change of its mode or owner alone is seen as well.
//! - What was missed, as the clock was set forward or the machine was suspended, does not run
//!   later, unless it is within a minute; with `--catch-up` it runs once. cron makes up for all of
//!   the last five minutes, and for fixed times in the last three hours.
//! - After the clock was set back by up to three hours, nothing runs until it has come to its old
//!   time again. With cron, jobs with a `*` for the minute or the hour run meanwhile.
//! - `@reboot` is each start of this program.

#[cfg(unix)]
mod due;
#[cfg(unix)]
mod files;
#[cfg(unix)]
mod job;
#[cfg(unix)]
mod list;
#[cfg(unix)]
mod log;
#[cfg(unix)]
mod output;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod table;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    cli::main()
}

#[cfg(not(unix))]
fn main() {
    eprintln!("crontab files are for Unix");
}

#[cfg(unix)]
mod cli {
    use std::io::{self, Write as _};
    use std::process::ExitCode;
    use std::time::SystemTime;

    use async_signal::{Signal, Signals};
    use futures::StreamExt;
    use jiff::Timestamp;
    use jiff::tz::TimeZone;
    use tourbillon::Timer;
    use tourbillon::cron::Missed;

    use super::files::{Files, Load};
    use super::list;
    use super::log::Log;
    use super::run::Runner;
    use super::table::Format;

    const USAGE: &str = "usage: crontab [--next N | --dry-run] [--zone NAME] [--from TIME] \
                         [--catch-up] [--system | --user] FILE...";

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
        let mut files = Files::new(system_zone());
        let (mut mode, mut from, mut catches_up) = (Mode::Run, SystemTime::now(), false);
        let (mut format, mut named) = (None, 0);
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
                "--zone" => files.zone = value()?,
                "--from" => {
                    let time: Timestamp =
                        value()?.parse().map_err(|error| format!("--from: {error}"))?;
                    from = time.into();
                }
                _ if argument.starts_with('-') => return Err(USAGE.to_owned()),
                _ => {
                    files.add(argument.as_ref(), format)?;
                    named += 1;
                }
            }
        }
        if named == 0 {
            return Err(USAGE.to_owned());
        }
        if matches!(mode, Mode::Run) {
            return run(files, if catches_up { Missed::Coalesce } else { Missed::Skip });
        }
        let Load { jobs, faults } = files.load();
        for fault in &faults {
            eprintln!("{fault}");
        }
        if !faults.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        let printed = match mode {
            Mode::Next(count) => list::next(&jobs, from, count),
            _ => list::dry_run(&jobs, from),
        };
        match printed {
            // A reader that has gone, as `head` does, has seen enough.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
            _ => Ok(ExitCode::SUCCESS),
        }
    }

    fn run(mut files: Files, policy: Missed) -> Result<ExitCode, String> {
        let signals = Signals::new([Signal::Hup, Signal::Int, Signal::Term])
            .map_err(|error| format!("cannot watch for signals: {error}"))?;
        let signals = signals.filter_map(|signal| std::future::ready(signal.ok()));
        files.owner = Some(rustix::process::geteuid().as_raw());
        let timer = Timer::global();
        let log = Log::new(&files.zone, &timer, |line| {
            // Jobs run on when nobody reads the log any more.
            let _ = writeln!(io::stdout(), "{line}");
        });
        smol::block_on(async {
            Runner::new(files, policy, &timer, log).run(signals).await;
        });
        Ok(ExitCode::SUCCESS)
    }

    /// The system's zone by its name.
    fn system_zone() -> String {
        let zone = TimeZone::system();
        zone.iana_name().unwrap_or("UTC").to_owned()
    }
}
