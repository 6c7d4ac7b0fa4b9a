//! Occurrences of many schedules.

use std::thread;
use std::time::{Duration, Instant};

use pollster::block_on;
use tourbillon_durable::store::calls::UpcomingQuery;
use tourbillon_durable::store::{RecordQuery, TimerQuery};
use tourbillon_durable::{Client, Outcome, Schedule, Store, Time};

use super::{KIND, Run, now, timer};
use crate::Result;

/// Callers that make schedules at the same time, by one client.
const CALLERS: usize = 64;

/// Time after the last schedule was made in which nobody measures yet.
const START: Duration = Duration::from_secs(5);

/// All made first; their occurrences are due one after the other, or all at once.
pub(super) fn schedules(run: &Run) -> Result<String> {
    let (count, span, period) = (run.options.timers, run.options.span, run.options.period);
    let periods = u32::try_from(span.as_secs() / period.as_secs())?;
    if period * periods != span {
        return Err(format!("{span:?} is not a multiple of {period:?}").into());
    }
    let nodes = run.start_nodes()?;
    let mut store = run.address.open()?;
    let made = if run.options.once { 0.0 } else { make(run)? };
    // At the beginning of a second, like the schedules.
    let from = Time::from_micros((now() + START).as_micros() / 1_000_000 * 1_000_000);
    let to = from + span;
    if run.options.once {
        make_once(run, &mut *store, from, periods)?;
    }
    let before = run.costs_at(from)?;
    let after = run.costs_at(to)?;
    wait_until_done(&mut *store, to)?;
    let skipped = skipped(&mut *store, from, to)?;
    let mut measured = run.end_nodes(nodes)?;
    let within = from.as_micros()..to.as_micros();
    measured.starts.retain(|(_, due)| within.contains(due));
    let occurrences = count * periods as usize;
    let (quantiles, hitches) = (measured.quantiles(occurrences - skipped)?, measured.hitches());
    let costs = run.between(&before, &after, occurrences)?;
    Ok(format!("{quantiles}, {skipped} skipped, {made:.0} made a second, {hitches}{costs}"))
}

/// Time of a schedule's first occurrence in each period.
fn anchor(run: &Run, number: usize) -> Duration {
    match run.options.is_aligned {
        true => Duration::ZERO,
        false => super::step(run.options.period, number, run.options.timers),
    }
}

/// Makes all schedules. Returns how many a second.
fn make(run: &Run) -> Result<f64> {
    let client = Client::new(run.address.open()?)?;
    let began = Instant::now();
    let make = |first: usize| -> std::result::Result<(), String> {
        for number in (first..run.options.timers).step_by(CALLERS) {
            let anchor = Time::from_micros(0) + anchor(run, number);
            let schedule = Schedule::every_from(run.options.period, anchor);
            let every = client.every(&format!("bench-{number}"), schedule).kind(KIND);
            block_on(every.upsert()).map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let make = &make;
        let callers: Vec<_> = (0..CALLERS).map(|first| scope.spawn(move || make(first))).collect();
        callers.into_iter().try_for_each(|caller| caller.join().expect("a caller panicked"))
    })?;
    Ok(run.options.timers as f64 / began.elapsed().as_secs_f64())
}

/// Makes one-shots that are due when occurrences of the schedules would be.
fn make_once(run: &Run, store: &mut dyn Store, from: Time, periods: u32) -> Result<()> {
    for period in 0..periods {
        let due = |number| from + run.options.period * period + anchor(run, number);
        let timers: Vec<_> =
            (0..run.options.timers).map(|number| timer(KIND, due(number))).collect();
        for part in timers.chunks(super::BATCH) {
            store.insert(part)?;
        }
    }
    Ok(())
}

/// Waits until no occurrence before `end` is left, neither to be made nor to be done.
fn wait_until_done(store: &mut dyn Store, end: Time) -> Result<()> {
    let is_to_be_made = |store: &mut dyn Store| -> Result<bool> {
        let next = store.upcoming(&UpcomingQuery::new(Duration::ZERO, 1))?.schedules.pop();
        Ok(next.and_then(|(row, _)| row.next).is_some_and(|next| next < end))
    };
    while is_to_be_made(store)? {
        thread::sleep(Duration::from_millis(100));
    }
    // A timer made late is due when it is made.
    let (first, made) = (TimerQuery::new().limit(1), now());
    while store.timers(&first)?.first().is_some_and(|timer| timer.new.due <= made) {
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Returns how many occurrences between two times were recorded as skipped.
fn skipped(store: &mut dyn Store, from: Time, to: Time) -> Result<usize> {
    let mut query = RecordQuery::new().outcome(Outcome::Skipped);
    let mut count = 0;
    loop {
        let page = store.records(&query)?;
        let Some(last) = page.last() else { return Ok(count) };
        let within = |at: Time| from <= at && at < to;
        count += page.iter().filter(|record| within(record.scheduled_for)).count();
        query = query.after(last.recorded, last.timer);
    }
}
