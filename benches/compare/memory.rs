//! Memory that a timer takes.

use std::pin::pin;

use crate::allocations;
use crate::common::peers::Peer;
use crate::common::wakers::{Count, poll};
use crate::common::work::FAR;
use crate::process::settle;

/// Size of the future.
pub(crate) fn size<P: Peer>() -> Vec<f64> {
    vec![size_of::<P::Sleep>() as f64]
}

/// Allocations, and unparks of the driver, per timer that is armed and cancelled while an earlier
/// one is pending.
pub(crate) fn per_cancelled<P: Peer>() -> Vec<f64> {
    const TIMERS: u32 = 100_000;
    let _entered = P::enter();
    let waker = Count::new().waker();
    let mut earlier = pin!(P::sleep(FAR));
    assert!(poll(earlier.as_mut(), &waker).is_pending());
    let arm_and_cancel = |times| {
        for _ in 0..times {
            assert!(poll(pin!(P::sleep(FAR * 2)), &waker).is_pending());
        }
    };
    arm_and_cancel(1_000);
    settle();
    allocations::count();
    let unparks = || P::counters().map_or(f64::NAN, |counters| counters.unparks as f64);
    let before = unparks();
    arm_and_cancel(TIMERS);
    let (calls, unparks) = (allocations::calls() as f64, unparks() - before);
    vec![calls / f64::from(TIMERS), unparks / f64::from(TIMERS)]
}
