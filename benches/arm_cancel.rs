//! Cost of a timer that never fires.

mod common;

use common::{compare, prove_that_sleeps_fire};
use criterion::Criterion;

fn main() {
    prove_that_sleeps_fire();
    let mut criterion = Criterion::default().configure_from_args();
    for pending in [0, 10_000, 1_000_000] {
        let name = format!("arm and cancel, {pending} others pending");
        compare!(criterion, name, arm_cancel(pending));
        let name = format!("arm and cancel with the clock read, {pending} others pending");
        compare!(criterion, name, arm_cancel_after(pending));
    }
    compare!(criterion, "create and drop unpolled", create_drop());
    compare!(criterion, "poll again while armed", poll_again());
    compare!(criterion, "poll of a past deadline", past_deadline());
    compare!(criterion, "drop of a fired sleep", drop_fired());
    compare!(criterion, "timeout around a ready future", timeout_ready());
    compare!(criterion, "timeout_at around a ready future", timeout_at_ready());
    compare!(criterion, "timeout around one pending once", timeout_pending_once());
    criterion.final_summary();
}
