//! Cost of moving the deadline of an armed timer.

mod common;

use common::work::Towards::{Earlier, Later};
use common::{compare, prove_that_sleeps_fire};
use criterion::Criterion;

fn main() {
    prove_that_sleeps_fire();
    let mut criterion = Criterion::default().configure_from_args();
    for pending in [10_000, 1_000_000] {
        let among = format!("among {pending}");
        compare!(criterion, format!("reset to later, {among}"), reset(Later, pending));
        compare!(criterion, format!("reset to earlier, {among}"), reset(Earlier, pending));
        compare!(criterion, format!("reset a random one to later, {among}"), reset_random(pending));
    }
    criterion.final_summary();
}
