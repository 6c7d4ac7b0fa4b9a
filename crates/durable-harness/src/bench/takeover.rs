//! The fate of a killed node's timers.

use std::thread;
use std::time::Duration;

use super::{HANGS, Run, fill, now, timer};
use crate::Result;

/// Time for nodes to start, and to claim due timers.
const START: Duration = Duration::from_secs(3);

/// Timers that become due a second, after the kill.
const PACE: u32 = 100;

/// Time from the kill until the first of them is due: the killed node has claimed none of them.
const AHEAD: Duration = Duration::from_millis(500);

/// A node is killed that runs its share of the timers; another's due after that.
pub(super) fn takeover(run: &Run) -> Result<String> {
    if run.options.nodes < 2 {
        return Err("a node that is killed takes another to take over".into());
    }
    let mut nodes = run.start_nodes()?;
    let mut store = run.address.open()?;
    thread::sleep(START);
    let due = now();
    let hanging: Vec<_> = (0..run.options.timers).map(|_| timer(HANGS, due)).collect();
    store.insert(&hanging)?;
    let pace = usize::try_from(run.options.span.as_secs())? * PACE as usize;
    fill(&mut *store, pace, (due + START + AHEAD, run.options.span), false)?;
    thread::sleep(START);
    let killed = now();
    // Dropped, it is killed.
    drop(nodes.remove(0));
    thread::sleep(run.options.lease + START + AHEAD + run.options.span);
    for node in &mut nodes {
        if node.has_ended()? {
            return Err("a node ended by itself".into());
        }
    }
    // A node that ends hands over its attempts, too.
    let ending = now();
    let measured = run.end_nodes(nodes)?;
    let again: Vec<_> = measured.again.iter().filter(|at| **at < ending).collect();
    let last = again.iter().max().ok_or("the killed node had nothing")?;
    let orphans = again.len();
    let late = measured.starts.iter().map(|(at, due)| at - due).max().unwrap_or(0) as f64 / 1e6;
    let took = last.since(killed).as_secs_f64();
    let lease = run.options.lease.as_secs();
    Ok(format!("{orphans} of them within {took:.1} s (lease {lease}), pending {late:.2} s"))
}
