//! Schedules and their ticks.

mod daylight;
mod expression;
#[cfg(target_os = "linux")]
mod faked_clock;
mod oracle;
mod support;
mod ticks;
#[cfg(unix)]
mod zones;

use std::time::SystemTime;

use jiff::Timestamp;
use tourbillon_cron::{Cron, Schedule};

fn cron(expression: &str, zone: &str) -> Cron {
    Cron::parse(expression, zone).unwrap_or_else(|error| panic!("{expression} in {zone}: {error}"))
}

/// A time in UTC, as `2026-03-29T01:00`, `2026-03-29T01:00:30` or `2026-03-29`.
fn utc(text: &str) -> SystemTime {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00"));
    let seconds = if time.len() == 5 { ":00" } else { "" };
    let time: Timestamp = format!("{date}T{time}{seconds}Z").parse().expect("a time");
    time.into()
}

fn shown(time: SystemTime) -> String {
    let text = Timestamp::try_from(time).expect("within range").to_string();
    let text = text.trim_end_matches('Z');
    text.strip_suffix(":00").unwrap_or(text).to_owned()
}

/// The occurrences later than `from` and before `to`, in UTC.
fn between(schedule: &impl Schedule, from: &str, to: &str) -> Vec<String> {
    let to = utc(to);
    schedule.occurrences(utc(from)).take_while(|at| *at < to).map(shown).collect()
}
