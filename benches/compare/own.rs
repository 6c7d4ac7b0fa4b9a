//! Timers and clocks of one's own.

use std::hint::black_box;
use std::pin::Pin;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use std::{iter, thread};

use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

use crate::common::turns::armed;
use crate::common::wakers::{Count, poll};
use crate::common::work::{FAR, timed};

/// Nanoseconds for each arm and cancel on two threads whose numbers are as far apart as there are
/// shards, so that both call the same shard home at first.
pub(crate) fn of_one_shard(times: usize) -> Vec<f64> {
    let timer = Timer::global();
    let shards = timer.stats().shards;
    arm_cancel(&timer, shards + 1, shards, times)
}

/// Nanoseconds for each arm and cancel on so many threads, with a timer of one's own.
pub(crate) fn contended(threads: usize, times: usize) -> Vec<f64> {
    let timer = Timer::builder().build().expect("the options are valid");
    arm_cancel(&timer, threads, 1, times)
}

/// Nanoseconds for each arm and cancel, from the first start to the last end. Of the threads, which
/// get their numbers in order, the first works and each `step`th from there.
fn arm_cancel(timer: &Timer, threads: usize, step: usize, times: usize) -> Vec<f64> {
    let far = Instant::now() + FAR;
    // Stays the earliest, so that the driver stays parked.
    let _first = armed(timer, iter::once(far - FAR / 2));
    let workers = threads.div_ceil(step);
    let work = |times: usize| {
        let waker = Count::new().waker();
        let start = Instant::now();
        for _ in 0..times {
            let mut sleep = timer.sleep_until(black_box(far));
            assert!(poll(Pin::new(&mut sleep), &waker).is_pending());
        }
        (start, Instant::now())
    };
    let (has_number, begin) = (&Barrier::new(2), &Barrier::new(threads));
    let spans: Vec<_> = thread::scope(|scope| {
        let started = |nth: usize| {
            let thread = scope.spawn(move || {
                work(1);
                has_number.wait();
                begin.wait();
                (nth % step == 0).then(|| work(times / workers))
            });
            has_number.wait();
            thread
        };
        let threads: Vec<_> = (0..threads).map(started).collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("it ends")).collect()
    });
    assert_eq!(spans.len(), workers);
    let start = spans.iter().map(|(start, _)| *start).min().expect("some work");
    let end = spans.iter().map(|(_, end)| *end).max().expect("some work");
    vec![(end - start).as_nanos() as f64 / times as f64]
}

/// Microseconds for each of `count` timers, while a virtual clock moves from deadline to deadline.
/// Two threads have armed them; the timers of the second are all later than the first's.
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
