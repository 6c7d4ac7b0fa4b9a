//! Work of nodes while nothing is due.

use std::thread;
use std::time::Duration;

use super::{Run, fill, now};
use crate::Result;

/// When nobody measures yet.
const START: Duration = Duration::from_secs(3);

/// Nobody waits for these.
const FAR: Duration = Duration::from_secs(86_400);

pub(super) fn idle(run: &Run) -> Result<String> {
    let mut store = run.address.open()?;
    fill(&mut *store, run.options.timers, (now() + FAR, FAR), false)?;
    let began = std::time::Instant::now();
    let nodes = run.start_nodes()?;
    thread::sleep(START + run.options.span);
    let seconds = began.elapsed().as_secs_f64() * f64::from(run.options.nodes);
    let measured = run.end_nodes(nodes)?;
    let share = measured.processor.as_secs_f64() / seconds * 100.0;
    Ok(format!("{:.1} a second, {share:.2} % of a core", measured.calls as f64 / seconds))
}
