//! Lateness, rates, and the growth of the tables.

use std::thread;
use std::time::{Duration, Instant};

use super::{Run, fill, now};
use crate::Result;
use crate::children::Process;
use crate::database::Snapshot;

/// Time that nodes take to start.
const START: Duration = Duration::from_secs(2);

/// The pace at which timers can be inserted, for sure.
const INSERTS: f64 = 10_000.0;

/// Time from one insert to the next of a sustained load.
const STEP: Duration = Duration::from_millis(100);

/// Time within which timers of a sustained load are due after their insert.
const AHEAD: Duration = Duration::from_secs(1);

/// All inserted first; due one after the other.
pub(super) fn spread(run: &Run) -> Result<String> {
    let (count, span) = (run.options.timers, run.options.span);
    let nodes = run.start_nodes()?;
    let mut store = run.address.open()?;
    let from = now() + START + Duration::from_secs_f64(count as f64 / INSERTS);
    run.fill(&mut *store, from, span)?;
    run.checkpoint()?;
    if now() > from {
        return Err("the inserts took too long".into());
    }
    let before = run.costs()?;
    thread::sleep((from + span).since(now()));
    run.wait_until_done(&mut *store)?;
    let after = run.costs()?;
    let measured = run.end_nodes(nodes)?;
    let quantiles = measured.quantiles(count)?;
    let own = measured.own_costs();
    let hitches = measured.hitches();
    let costs = run.between(&before, &after, count)?;
    Ok(format!("{quantiles}, {hitches}, {own}{costs}"))
}

/// All inserted first, and due when the nodes start.
pub(super) fn drain(run: &Run) -> Result<String> {
    let count = run.options.timers;
    let mut store = run.address.open()?;
    let due = now() + START + Duration::from_secs_f64(count as f64 / INSERTS);
    run.fill(&mut *store, due, Duration::ZERO)?;
    run.checkpoint()?;
    thread::sleep(due.since(now()));
    let before = run.costs()?;
    let nodes = run.start_nodes()?;
    run.wait_until_done(&mut *store)?;
    let after = run.costs()?;
    let mut measured = run.end_nodes(nodes)?;
    measured.quantiles(count)?;
    // From the first start to the last: without a node's start-up time.
    let first = measured.starts[0].0;
    let last = measured.starts[count - 1].0;
    // Nor does a pause begin before the first start.
    measured.starts.iter_mut().for_each(|(_, due)| *due = first);
    let seconds = (last - first).max(1) as f64 / 1e6;
    let hitches = measured.hitches();
    let own = measured.own_costs();
    let rate = count as f64 / seconds;
    let costs = run.between(&before, &after, count)?;
    Ok(format!("{rate:.0} a second, {hitches}, {own}{costs}"))
}

/// Inserted all the while, each due within the second after.
pub(super) fn sustained(run: &Run) -> Result<String> {
    let nodes = run.start_nodes()?;
    thread::sleep(START);
    insert_and_fire(run, nodes, None)
}

/// Measures as [`sustained`], beside a transaction that began before and that ends after the last
/// timer is due.
pub(super) fn held(run: &Run) -> Result<String> {
    let nodes = run.start_nodes()?;
    thread::sleep(START);
    let snapshot = run.address.snapshot()?;
    insert_and_fire(run, nodes, Some(snapshot))
}

fn insert_and_fire(run: &Run, nodes: Vec<Process>, held: Option<Snapshot>) -> Result<String> {
    let (count, span) = (run.options.timers, run.options.span);
    let mut store = run.address.open()?;
    let before = run.address.sizes()?;
    let steps = (span.as_secs_f64() / STEP.as_secs_f64()).ceil().max(1.0) as usize;
    let began = Instant::now();
    for step in 0..steps {
        let size = count * (step + 1) / steps - count * step / steps;
        fill(&mut *store, size, (now() + STEP, AHEAD), false)?;
        let next = STEP * u32::try_from(step + 1)?;
        thread::sleep(next.saturating_sub(began.elapsed()));
    }
    let took = began.elapsed();
    let mut after = None;
    if let Some(snapshot) = held {
        thread::sleep(AHEAD + START);
        after = Some(run.address.sizes()?);
        drop(snapshot);
        // A list of timers walks over rows kept by the snapshot, and is given up after a while.
        run.address.vacuum()?;
    }
    run.wait_until_done(&mut *store)?;
    let after = after.map_or_else(|| run.address.sizes(), Ok)?;
    let measured = run.end_nodes(nodes)?;
    let (quantiles, hitches) = (measured.quantiles(count)?, measured.hitches());
    let rate = count as f64 / took.as_secs_f64();
    let growth = after.since(&before, count);
    Ok(format!("{quantiles}, {hitches} at {rate:.0} a second; {growth}"))
}
