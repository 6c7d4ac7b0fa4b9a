//! What timers take, and what they give back.

use std::pin::pin;
use std::thread;
use std::time::{Duration, Instant};

use crate::allocations;
use crate::common::peers::Peer;
use crate::common::slots::Slots;
use crate::common::wakers::{Count, poll};
use crate::process::resident;

const FAR: Duration = Duration::from_secs(1_000);

/// Size of the future.
pub(crate) fn size<P: Peer>() -> Vec<f64> {
    vec![size_of::<P::Sleep>() as f64]
}

/// Bytes per armed timer with the future: allocated, resident; and what of each is left when all
/// are dropped.
pub(crate) fn burst<P: Peer>() -> Vec<f64> {
    const TIMERS: usize = 1_000_000;
    let _entered = P::enter();
    let waker = Count::new().waker();
    // Whatever is there once for all timers.
    assert!(poll(pin!(P::sleep(FAR)), &waker).is_pending());
    settle();
    allocations::count();
    let resident_before = resident();
    let mut sleeps = Slots::with_capacity(TIMERS);
    let start = Instant::now() + FAR;
    for n in 0..TIMERS {
        let deadline = start + Duration::from_micros(n as u64);
        assert!(poll(sleeps.push(P::sleep_until(deadline)), &waker).is_pending());
    }
    settle();
    let each = |bytes: f64| bytes / TIMERS as f64;
    let resident_since = || each(resident() as f64 - resident_before as f64);
    let allocated = || each(allocations::bytes() as f64);
    let mut figures = vec![allocated(), resident_since()];
    drop(sleeps);
    settle();
    figures.extend([allocated(), resident_since()]);
    figures
}

/// Lets helper threads catch up.
fn settle() {
    thread::sleep(Duration::from_millis(300));
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
