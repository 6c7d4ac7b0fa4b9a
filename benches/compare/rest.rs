//! Cost of timers while nothing happens.

use std::pin::pin;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::peers::Peer;
use crate::common::slots::Slots;
use crate::common::wakers::{Count, poll};
use crate::common::work::Random;
use crate::process::{processor_time, wakeups_of_others};

pub(crate) fn nothing_pending<P: Peer>(span: Duration) -> Vec<f64> {
    let _entered = P::enter();
    warm_up::<P>();
    rest(span)
}

const TIMERS: u64 = 10_000;

pub(crate) fn far_timers<P: Peer>(span: Duration) -> Vec<f64> {
    let _entered = P::enter();
    warm_up::<P>();
    let waker = Count::new().waker();
    let start = Instant::now() + Duration::from_secs(1_000);
    let mut sleeps = Slots::with_capacity(TIMERS as usize);
    for n in 0..TIMERS {
        let deadline = start + Duration::from_millis(n);
        assert!(poll(sleeps.push(P::sleep_until(deadline)), &waker).is_pending());
    }
    thread::sleep(Duration::from_millis(100));
    rest(span)
}

/// Measures idle limits that began at random times, so that one after the other is due.
pub(crate) fn limits<P: Peer>(limit: Duration, span: Duration) -> Vec<f64> {
    let _entered = P::enter();
    warm_up::<P>();
    let waker = Count::new().waker();
    let mut random = Random::new();
    let mut sleeps = Slots::with_capacity(TIMERS as usize);
    let start = Instant::now() + Duration::from_millis(100);
    for _ in 0..TIMERS {
        let deadline = start + random.within(limit);
        assert!(poll(sleeps.push(P::sleep_until(deadline)), &waker).is_pending());
    }
    thread::sleep(start.saturating_duration_since(Instant::now()));
    rest(span)
}

/// Measures one timer, from when it is armed until it has fired.
pub(crate) fn one_timer<P: Peer>(delay: Duration) -> Vec<f64> {
    let _entered = P::enter();
    warm_up::<P>();
    let woken = Count::new();
    let waker = woken.waker();
    let mut sleep = pin!(P::sleep(delay));
    assert!(poll(sleep.as_mut(), &waker).is_pending());
    // That the driver learns of it is not counted.
    thread::sleep(Duration::from_millis(100));
    let figures = rest(delay);
    assert_eq!(woken.get(), 1, "{}: it has fired", P::NAME);
    figures
}

/// Makes the driver run and come to rest.
fn warm_up<P: Peer>() {
    pollster::block_on(P::sleep(Duration::from_millis(20)));
    thread::sleep(Duration::from_millis(200));
}

/// Wake-ups of the driver, and microseconds of processor time.
fn rest(span: Duration) -> Vec<f64> {
    let (wakeups, time) = (wakeups_of_others(), processor_time());
    thread::sleep(span);
    let time = processor_time() - time;
    vec![(wakeups_of_others() - wakeups) as f64, time.as_secs_f64() * 1e6]
}
