//! Timers, drivers and clocks of one's own.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

use crate::allocations;
use crate::common::turns::{armed, driven_by_hand};
use crate::common::work::{FAR, Work, timed};
use crate::statistics::median;

/// Bytes allocated for one, and the nanoseconds to make it when all that were made are kept.
pub(crate) fn making<T>(make: impl Fn() -> T) -> Vec<f64> {
    const TIMES: usize = 1_000;
    let mut made = Vec::with_capacity(TIMES);
    let taken = timed(|| made.extend((0..TIMES).map(|_| make())));
    allocations::count();
    let _one = make();
    vec![allocations::bytes() as f64, taken.as_nanos() as f64 / TIMES as f64]
}

/// A timer whose thread has not started.
pub(crate) fn timer() -> Vec<f64> {
    making(|| Timer::builder().build().expect("the options are valid"))
}

/// A turn while nothing is pending.
pub(crate) fn empty_turn(shards: usize) -> Work {
    let (_, mut driver) = driven_by_hand(shards);
    Box::new(move |times| {
        timed(|| {
            for _ in 0..times {
                assert_eq!(black_box(driver.turn()).fired, 0);
            }
        })
    })
}

/// Microseconds that an answer takes: the median of what `ask` takes for it.
pub(crate) fn asking(mut ask: impl FnMut() -> Duration) -> Vec<f64> {
    const TIMES: usize = 51;
    median((0..TIMES).map(|_| ask().as_secs_f64() * 1e6).collect()).into_iter().collect()
}

/// Microseconds for each of `count` timers, as a virtual clock moves from deadline to deadline. Two
/// threads have armed them; those of the second are all later than those of the first.
pub(crate) fn virtual_clock(shards: usize, count: usize) -> Vec<f64> {
    const THREADS: u32 = 2;
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).shards(shards);
    let timer = &builder.build().expect("the options are valid");
    let start = clock.now();
    let arm = |thread| {
        let deadline = move |n| start + FAR * thread + Duration::from_micros(n);
        move || armed(timer, (1..=count as u64 / u64::from(THREADS)).map(deadline))
    };
    let sleeps: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(arm(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    });
    let taken = timed(|| while clock.advance_to_next().is_some() {});
    assert_eq!(timer.stats().fired as usize, sleeps.len());
    vec![taken.as_secs_f64() * 1e6 / sleeps.len() as f64]
}
