//! Occurrences of many schedules.

use std::thread;
use std::time::Duration;

use pollster::block_on;
use tourbillon_durable::store::TimerQuery;
use tourbillon_durable::{Client, Schedule, Shards, Time};

use super::{KIND, Run, now};
use crate::Result;
use crate::database::Address;

/// Time from one occurrence of a schedule to the next.
const PERIOD: Duration = Duration::from_secs(10);

/// Clients that make schedules at the same time.
const CLIENTS: usize = 8;

/// Time after the last schedule was made in which nobody measures yet.
const START: Duration = Duration::from_secs(5);

/// All made first; their occurrences are due one after the other.
pub(super) fn schedules(run: &Run) -> Result<String> {
    let (count, span) = (run.options.timers, run.options.span);
    let periods = u32::try_from(span.as_secs() / PERIOD.as_secs())?;
    if PERIOD * periods != span {
        return Err(format!("{span:?} is not a multiple of {PERIOD:?}").into());
    }
    let nodes = run.start_nodes()?;
    let makers: Vec<_> = (0..CLIENTS)
        .map(|first| {
            let address = run.address.clone();
            let make = move || make(&address, first, count).map_err(|error| error.to_string());
            thread::spawn(make)
        })
        .collect();
    for maker in makers {
        maker.join().expect("a client panicked")?;
    }
    let from = now() + START;
    let to = from + span;
    let before = run.costs_at(from)?;
    let after = run.costs_at(to)?;
    wait_until_done(run, to)?;
    let mut measured = run.end_nodes(nodes)?;
    let within = from.as_micros()..to.as_micros();
    measured.starts.retain(|(_, due)| within.contains(due));
    let occurrences = count * periods as usize;
    let (quantiles, hitches) = (measured.quantiles(occurrences)?, measured.hitches());
    let costs = run.between(&before, &after, occurrences)?;
    Ok(format!("{quantiles}, {hitches}{costs}"))
}

/// Makes every so many-th schedule from the first on, whose occurrences are spread over the period.
fn make(address: &Address, first: usize, count: usize) -> Result<()> {
    let client = Client::new(address.open()?)?;
    for number in (first..count).step_by(CLIENTS) {
        let anchor = Time::from_micros(0) + super::step(PERIOD, number, count);
        let schedule = Schedule::every_from(PERIOD, anchor);
        block_on(client.every(&format!("bench-{number}"), schedule).kind(KIND).upsert())?;
    }
    Ok(())
}

/// Waits until no occurrence before `end` is left, neither to be made nor to be done.
fn wait_until_done(run: &Run, end: Time) -> Result<()> {
    let mut store = run.address.open()?;
    let mut is_to_be_made = || -> Result<bool> {
        let next = store.upcoming(Duration::ZERO, Shards::ALL, None, 1)?.schedules.pop();
        Ok(next.and_then(|(row, _)| row.next).is_some_and(|next| next < end))
    };
    while is_to_be_made()? {
        thread::sleep(Duration::from_millis(100));
    }
    // A timer made late is due when it is made.
    let (first, made) = (TimerQuery::new().limit(1), now());
    while store.timers(&first)?.first().is_some_and(|timer| timer.new.due <= made) {
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
