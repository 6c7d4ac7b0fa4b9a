//! List of the next runs.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures::StreamExt;
use jiff::tz::TimeZone;
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;
use tourbillon_cron::{Schedule, Ticks};

use super::due::Due;
use super::files::Entry;
use tourbillon_crontab::visible;

use super::log::{shown, zone_of};

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Prints the first `count` runs after `from`, of all jobs together.
pub(crate) fn next(jobs: &[Arc<Entry>], from: SystemTime, count: usize) -> io::Result<()> {
    let mut waiting = Vec::new();
    for entry in jobs {
        match &entry.job.when {
            Some(cron) => {
                let mut runs = cron.occurrences(from);
                waiting.push((runs.next(), runs, cron, entry));
            }
            None => line("at the start", entry)?,
        }
    }
    for _ in 0..count {
        let first = waiting.iter_mut().filter(|job| job.0.is_some()).min_by_key(|job| job.0);
        let Some((at, runs, cron, entry)) = first else { break };
        if let Some(at) = at {
            line(&shown(*at, &zone_of(cron.zone()).map_err(io::Error::other)?), entry)?;
        }
        *at = runs.next();
    }
    Ok(())
}

fn line(at: &str, entry: &Entry) -> io::Result<()> {
    let user = entry.job.user.as_deref().unwrap_or("-");
    let text = format!("{user:<8} {:<24} {}", entry.place(), entry.job.command);
    writeln!(io::stdout(), "{at:<29} {}", visible(text.as_bytes()))
}

/// Goes through a year in which running a job takes no time, and prints how often each ran.
pub(crate) fn dry_run(jobs: &[Arc<Entry>], from: SystemTime) -> io::Result<()> {
    let clock = VirtualClock::new();
    clock.set_wall(from);
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    let mut due = Due::new(jobs, |cron| Ticks::with_timer(cron, &timer));

    let start = Instant::now();
    let end = from + YEAR;
    let mut runs = BTreeMap::<String, u64>::new();
    let mut times = 0_u64;
    let mut polls = 0_u64;
    let mut year = pin!(async {
        let mut last = None;
        while let Some((entry, tick)) = due.next().await {
            let at = tick.scheduled();
            if at >= end {
                break;
            }
            assert_eq!((tick.woke(), tick.missed()), (at, 0), "virtual time has no delays");
            *runs.entry(entry.place()).or_default() += 1;
            times += u64::from(last.replace(at) != Some(at));
        }
    });
    clock.block_on(poll_fn(|cx| {
        polls += 1;
        year.as_mut().poll(cx)
    }));

    for entry in jobs {
        match &entry.job.when {
            Some(_) => {
                let runs = runs.get(&entry.place()).copied().unwrap_or(0);
                line(&format!("{runs:>6} runs"), entry)?;
            }
            None => line("     1 run, at the start", entry)?,
        }
    }
    // The first poll was no wake-up, and the last was for a run after the year.
    writeln!(
        io::stdout(),
        "a year from {}: {} runs at {times} times, {} wake-ups, in {:.1?}",
        shown(from, &TimeZone::UTC),
        runs.values().sum::<u64>(),
        polls.saturating_sub(2),
        start.elapsed()
    )
}
