//! Clones of one cron expression, each with a stream that waits for its next time.

use std::task::{Context, Waker};

use tourbillon_cron::{Cron, Schedule as _, Ticks};

use crate::bursts::Memory;
use crate::common::peers::Tourbillon;
use crate::common::work::timed;

/// Bytes for each clone with its stream: allocated, resident.
pub(crate) fn memory(count: usize) -> Vec<f64> {
    let cron = expression();
    let memory = Memory::before::<Tourbillon>();
    let _streams = armed(&cron, count);
    memory.since().map(|bytes| bytes / count as f64).to_vec()
}

/// Nanoseconds to clone the expression, make a stream of the clone, and poll that once.
pub(crate) fn arming(count: usize) -> Vec<f64> {
    let cron = expression();
    let mut streams = Vec::new();
    let taken = timed(|| streams = armed(&cron, count));
    vec![taken.as_nanos() as f64 / count as f64]
}

fn expression() -> Cron {
    let cron = Cron::parse("0 9 * * MON-FRI", "Europe/Berlin").expect("it is valid");
    // Whatever is there once for all clones.
    drop(armed(&cron, 1));
    cron
}

fn armed(cron: &Cron, count: usize) -> Vec<Ticks<Cron>> {
    let context = &mut Context::from_waker(Waker::noop());
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = cron.clone().ticks();
        assert!(stream.poll_tick(context).is_pending());
        streams.push(stream);
    }
    streams
}
