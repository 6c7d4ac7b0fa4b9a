//! Several threads, in a process of their own: helper threads that other peers leave behind would
//! take the processors that these are to have.

use crate::common::peers::Peer;
use crate::common::work::{self, Work};
use crate::statistics::median;

pub(crate) fn contended<P: Peer>(threads: usize, times: usize) -> Vec<f64> {
    each(work::contended::<P>(threads as u64), times)
}

pub(crate) fn handed_over<P: Peer>(times: usize) -> Vec<f64> {
    each(work::handed_over::<P>(), times)
}

/// Nanoseconds.
fn each(mut work: Work, times: usize) -> Vec<f64> {
    const ROUNDS: usize = 3;
    let rounds = (0..ROUNDS).map(|_| work(times as u64).as_nanos() as f64 / times as f64);
    median(rounds.collect()).into_iter().collect()
}
