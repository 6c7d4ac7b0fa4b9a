//! Cost of arms and cancels by several threads at a time.

mod common;

use common::{compare, prove_that_sleeps_fire};
use criterion::Criterion;

fn main() {
    prove_that_sleeps_fire();
    let mut criterion = Criterion::default().configure_from_args();
    for threads in [1, 2, 4, 8, 16] {
        compare!(criterion, format!("arm and cancel on {threads} threads"), contended(threads));
    }
    compare!(criterion, "armed on one thread, dropped on another", handed_over());
    criterion.final_summary();
}
