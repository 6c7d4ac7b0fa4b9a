//! A cron that sleeps until the next job is due.
//!
//! ```text
//! cargo run --release --features cron --example crontab -- FILE...
//! cargo run --release --features cron --example crontab -- --next 20 FILE...
//! cargo run --release --features cron --example crontab -- --dry-run FILE...
//! ```
//!
//! The first runs the jobs, the second lists what would run when, and the third goes through a year
//! in virtual time. Files are read as Debian's cron does, `/etc/crontab` and those in `/etc/cron.d`
//! with a column for the user; of a directory, those files whose names cron would take. Other
//! options:
//!
//! - `--zone NAME`: the time zone of lines without a `CRON_TZ`; the system's if not given;
//! - `--from TIME`: where `--next` and `--dry-run` begin, such as `2026-03-28T12:00Z`;
//! - `--system`, `--user`: the format of the files that follow, whatever their names are;
//! - `--catch-up`: what was missed in suspend runs once when the machine is back, as with anacron.
//!
//! Nothing ticks: each job is a stream, a due one wakes the one task that waits for all of them,
//! and between two jobs the process sleeps. How often it woke is told at the end, and by
//! `--dry-run`. Files are looked at again when it wakes, and on SIGHUP.

#[cfg(unix)]
mod due;
#[cfg(unix)]
mod files;
#[cfg(unix)]
mod list;
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
    use std::process::ExitCode;
    use std::time::SystemTime;

    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    use crate::files::{Files, Load};
    use crate::table::Format;
    use crate::{list, run};

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
        let mut format = None;
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
                _ => files.add(argument.as_ref(), format)?,
            }
        }
        if files.is_empty() {
            return Err(USAGE.to_owned());
        }
        let Load { jobs, faults } = files.load();
        for fault in &faults {
            eprintln!("{fault}");
        }
        if !faults.is_empty() && !matches!(mode, Mode::Run) {
            return Ok(ExitCode::FAILURE);
        }
        match mode {
            Mode::Next(count) => list::next(&jobs, from, count),
            Mode::DryRun => list::dry_run(&jobs, from),
            Mode::Run => run::run(files, &jobs, catches_up)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The system's zone by its name.
    fn system_zone() -> String {
        let zone = TimeZone::system();
        zone.iana_name().unwrap_or("UTC").to_owned()
    }
}
