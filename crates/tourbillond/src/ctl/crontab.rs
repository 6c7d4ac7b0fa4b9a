//! A crontab(5) as schedules. It is read by the parser of `tourbillon-crontab`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::ValueEnum;
use sha2::{Digest as _, Sha256};
use tourbillon_cron::{Cron, system_zone};
use tourbillon_crontab::{Format, Job};

use super::Failure;
use super::apply::Wanted;
use crate::model::{Bounds, Callback, CronWhen, Definition, MissedPolicy, When};

/// Owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Whose {
    /// A user's own.
    User,
    /// The system's, with users before the commands.
    System,
}

/// The system's zone by name.
///
/// # Errors
///
/// If it has none.
pub(super) fn local_zone() -> Result<String, Failure> {
    system_zone().map_err(|error| Failure::Usage(format!("{error}: use `--zone NAME`")))
}

/// Names a line by its time, zone, user, command and input: the first word of the command, without
/// folders, so that people know it again, and a hash of all.
fn name(parts: &[&str; 5]) -> String {
    const WORD: usize = 24;
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let command = parts[3].split_whitespace().next().unwrap_or_default();
    let word = command.rsplit('/').next().unwrap_or_default();
    let is_good = |sign: &char| sign.is_ascii_alphanumeric() || "-_.".contains(*sign);
    let word: String = word.chars().filter(is_good).take(WORD).collect();
    let word = if word.is_empty() { "line" } else { &word };
    format!("{word}-{}", hex::encode(&hash.finalize()[..6]))
}

/// Reads a crontab. Each line becomes a schedule that calls `to` with the command as body, followed
/// by the command's input. Its key is `prefix` and a [`name`] made from the line. Missed times are
/// skipped. `SHELL`, `PATH` and `MAILTO` mean nothing to a callback and are ignored.
///
/// # Errors
///
/// With every unusable line: `@reboot`, times that never come, and lines that rely on other
/// variables.
pub(super) fn read(
    text: &[u8],
    whose: Whose,
    zone: &str,
    prefix: &str,
    to: &str,
) -> Result<Wanted, String> {
    let format = match whose {
        Whose::User => Format::User,
        Whose::System => Format::System,
    };
    let table = tourbillon_crontab::parse(text, format, zone)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let mut schedules = BTreeMap::new();
    let mut faults: String = table.never.iter().map(|fault| format!("{fault}\n")).collect();
    for job in &table.jobs {
        let cron = match importable(job) {
            Ok(cron) => cron,
            Err(why) => {
                let _ = writeln!(faults, "{}: {why}", job.line);
                continue;
            }
        };
        let user = job.user.as_deref().unwrap_or_default();
        let input = job.input.as_deref().unwrap_or_default();
        // However many spaces are between its fields, an expression is the same.
        let fields = cron.expression().split_whitespace();
        let (cron, zone) = (fields.collect::<Vec<_>>().join(" "), cron.zone().to_owned());
        let name = name(&[&cron, &zone, user, &job.command, input]);
        let mut key = format!("{prefix}{name}");
        // Lines that say the same are not distinguished, but counted.
        for count in 2.. {
            if !schedules.contains_key(&key) {
                break;
            }
            key = format!("{prefix}{name}-{count}");
        }
        let callback = callback(job, &key, to);
        let when = When::Cron(CronWhen { cron, zone, bounds: Bounds::default() });
        // As cron does.
        let missed = Some(MissedPolicy::Skip);
        let definition = Definition { missed, ..Definition::new(when, callback) };
        schedules.insert(key, definition);
    }
    if faults.is_empty() { Ok(Wanted { schedules }) } else { Err(faults) }
}

/// Returns the times of a line, or the reason why it cannot be imported.
fn importable(job: &Job) -> Result<&Cron, String> {
    let cron = job.when.as_ref();
    let cron = cron.ok_or("`@reboot` cannot be imported, because it names no time")?;
    let names = job.variables.iter().map(|(name, _)| &**name);
    let mut lost = names.filter(|name| !matches!(*name, "CRON_TZ" | "SHELL" | "PATH" | "MAILTO"));
    match lost.next().map(super::show::visible) {
        Some(name) => {
            Err(format!("the variable `{name}` cannot be imported, because a callback has none"))
        }
        None => Ok(cron),
    }
}

/// Returns the callback of a line: a request to `to` with the command, and its input.
fn callback(job: &Job, key: &str, to: &str) -> Callback {
    let (line, user) = (job.line.to_string(), job.user.as_deref().unwrap_or_default());
    let input = job.input.as_ref().map(|input| format!("\n{input}")).unwrap_or_default();
    let body = format!("{}{input}", job.command);
    let text = "text/plain; charset=utf-8".to_owned();
    Callback {
        headers: BTreeMap::from([("Content-Type".to_owned(), text.into())]),
        // A command's braces are no names of a template.
        body: body.replace("{{", "{{{{"),
        ..Callback::new(to.replace("{key}", key).replace("{line}", &line).replace("{user}", user))
    }
}
