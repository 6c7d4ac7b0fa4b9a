//! The worst that an inserter can do to a parked driver: every timer is earlier than the last.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use crate::common::peers::Peer;
use crate::common::slots::Slots;
use crate::common::wakers::{Count, poll};
use crate::process::wakeups_of_others;

/// Unparks of the driver per timer, and its wake-ups.
pub(crate) fn descending<P: Peer>() -> Vec<f64> {
    const TIMERS: u32 = 2_000;
    const PACE: Duration = Duration::from_micros(50);
    const FIRST: Duration = Duration::from_secs(5);
    let _entered = P::enter();
    let waker = Count::new().waker();
    pollster::block_on(P::sleep(Duration::from_millis(50)));
    let mut sleeps = Slots::with_capacity(TIMERS as usize);
    let unparks = || P::counters().map_or(f64::NAN, |counters| counters.unparks as f64);
    let (unparks_before, wakeups_before) = (unparks(), wakeups_of_others());
    let start = Instant::now();
    for n in 1..=TIMERS {
        while start.elapsed() < PACE * n {
            spin_loop();
        }
        // The last ones are still well ahead of the present.
        let deadline = start + FIRST - FIRST / TIMERS * (n * 24 / 25);
        assert!(poll(sleeps.push(P::sleep_until(deadline)), &waker).is_pending());
    }
    let wakeups = (wakeups_of_others() - wakeups_before) as f64;
    let each = |sum: f64| sum / f64::from(TIMERS);
    vec![each(unparks() - unparks_before), each(wakeups)]
}
