//! Several threads, in a process of their own: helper threads that other peers leave behind would
//! take the processors that these are to have.

use crate::common::peers::Peer;
use crate::common::work::{self, Work};
use crate::statistics::median;

pub(crate) fn contended<P: Peer>(threads: u64) -> Vec<f64> {
    each(work::contended::<P>(threads))
}

pub(crate) fn handed_over<P: Peer>() -> Vec<f64> {
    each(work::handed_over::<P>())
}

/// Nanoseconds.
fn each(mut work: Work) -> Vec<f64> {
    const ROUNDS: usize = 7;
    const TIMES: u64 = 500_000;
    let rounds = (0..ROUNDS).map(|_| work(TIMES).as_nanos() as f64 / TIMES as f64);
    median(rounds.collect()).into_iter().collect()
}
