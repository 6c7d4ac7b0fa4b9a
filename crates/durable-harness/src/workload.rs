//! The workload that nodes and clients agree on: kinds, and their handlers' conduct.

use std::time::Duration;

use tourbillon_durable::{Retry, TimerId};

use crate::log::How;

/// A kind of handler.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Attempts that a node has at a time, waiting ones included.
    pub(crate) prefetch: usize,
    /// Number of them that run.
    pub(crate) threads: u32,
}

/// Ends at once, most of the time.
pub(crate) const QUICK: &str = "quick";
/// Takes its time.
pub(crate) const SLOW: &str = "slow";
/// Fails often.
pub(crate) const FLAKY: &str = "flaky";

/// More wait in a node than run, so that some start long after they were claimed.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: QUICK, prefetch: 64, threads: 4 },
    Kind { name: SLOW, prefetch: 32, threads: 8 },
    Kind { name: FLAKY, prefetch: 32, threads: 4 },
];

/// The policy for all that fails: over within seconds.
pub(crate) const RETRY: Retry =
    Retry::new(4, Duration::from_millis(50), Duration::from_millis(500));

/// Returns the handler's conduct in an attempt of `kind`: its duration and its end. The same
/// wherever it runs.
pub(crate) fn conduct(kind: &str, timer: TimerId, attempt: u32) -> (Duration, How) {
    let seed = timer.bits() as u64 ^ (timer.bits() >> 64) as u64 ^ u64::from(attempt) << 32;
    let mut random = fastrand::Rng::with_seed(seed);
    match kind {
        SLOW => (Duration::from_millis(random.u64(100..1_500)), How::Ok),
        FLAKY => {
            let how = match random.u32(..100) {
                0..40 => How::Failed,
                40..55 => How::Back,
                55..60 => How::GaveUp,
                _ => How::Ok,
            };
            (Duration::from_millis(random.u64(..10)), how)
        }
        _ => (Duration::ZERO, How::Ok),
    }
}
