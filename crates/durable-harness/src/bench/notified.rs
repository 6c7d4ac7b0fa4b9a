//! Inserts of a process without a node, due at once.

use std::thread;
use std::time::Duration;

use pollster::block_on;
use tourbillon_durable::Client;

use super::{KIND, Run, now};
use crate::Result;

/// Time that nodes take to start.
const START: Duration = Duration::from_secs(3);

/// One after the other, with pauses of any length.
pub(super) fn notified(run: &Run) -> Result<String> {
    let (count, span) = (run.options.timers, run.options.span);
    let nodes = run.start_nodes()?;
    thread::sleep(START);
    let client = Client::new(run.address.open()?)?;
    let mut random = fastrand::Rng::with_seed(1);
    let pause = span.as_secs_f64() / count.max(1) as f64;
    for _ in 0..count {
        thread::sleep(Duration::from_secs_f64(random.f64() * 2.0 * pause));
        block_on(client.once(KIND, now()).create())?;
    }
    run.wait_until_done(&mut *run.address.open()?)?;
    Ok(run.end_nodes(nodes)?.quantiles(count)?.to_string())
}
