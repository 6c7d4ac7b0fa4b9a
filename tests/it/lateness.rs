//! The lateness histogram.

use std::time::Duration;

use tourbillon::stats::Histogram;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};

use crate::support::*;

/// A timer on a virtual clock that keeps a histogram, and the clock.
fn observed(shards: usize) -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).shards(shards).lateness_histogram(true);
    (builder.build().expect("the options are valid"), clock)
}

fn lateness(timer: &Timer) -> Histogram {
    timer.lateness().expect("it was asked for")
}

fn arm(timer: &Timer, delay: Duration) -> Sleep {
    polled(timer.sleep(delay))
}

fn buckets(timer: &Timer) -> Vec<(u64, u64)> {
    lateness(timer).buckets().map(|(end, count)| (end.as_nanos() as u64, count)).collect()
}

#[test]
fn it_holds_how_late_each_was() {
    let (timer, clock) = observed(1);
    let sleeps = [93, 96, 97, 99, 99, 100].map(|nanos| arm(&timer, Duration::from_nanos(nanos)));
    clock.jump(Duration::from_nanos(100));
    assert_eq!(clock.advance(Duration::ZERO), sleeps.len());
    assert_eq!(buckets(&timer), [(0, 1), (1, 2), (3, 1), (4, 1), (7, 1)]);

    // Coarser as it grows, but for the maximum: 2^20 ns and 2^20 + 2^17 ns are neighbours.
    let later = [(1 << 20) + (1 << 17), (1 << 20) + 5, 1 << 20];
    let _later = later.map(|nanos| arm(&timer, SECOND - Duration::from_nanos(nanos)));
    clock.jump(SECOND);
    clock.advance(Duration::ZERO);
    assert_eq!(buckets(&timer)[5..], [((9 << 17) - 1, 2), ((10 << 17) - 1, 1)]);

    let lateness = lateness(&timer);
    assert_eq!((lateness.count(), timer.stats().fired), (9, 9));
    assert_eq!(lateness.max(), Duration::from_nanos(9 << 17));
    assert_eq!(lateness.max(), timer.stats().lateness_max);
    let percentiles = [0.0, 100.0 / 3.0, 50.0, 80.0, 100.0];
    let nanos = percentiles.map(|percent| lateness.percentile(percent).as_nanos());
    assert_eq!(nanos, [0, 1, 4, (9 << 17) - 1, 9 << 17]);
    assert!(format!("{lateness:?}").starts_with("Histogram { count: 9, p50: "), "{lateness:?}");
}

#[test]
fn timers_fired_on_time_are_not_late() {
    let (timer, clock) = observed(1);
    let sleeps: Vec<_> = (0..1_000).map(|n| arm(&timer, ms(1 + n))).collect();
    clock.advance(SECOND);
    assert_eq!(buckets(&timer), [(0, sleeps.len() as u64)]);
    assert_eq!((lateness(&timer).percentile(100.0), lateness(&timer).max()), Default::default());
}

#[test]
fn what_a_poll_finds_past_and_what_is_cancelled_is_not_counted() {
    let (timer, clock) = observed(1);
    let (mut polled, cancelled) = (arm(&timer, SECOND), arm(&timer, SECOND));
    clock.jump(SECOND * 2);
    assert!(poll(&mut polled).is_ready());
    drop(cancelled);
    clock.advance(Duration::ZERO);
    assert_eq!((timer.stats().fired, lateness(&timer).count()), (1, 0));
}

#[test]
fn a_snapshot_stays_as_it_is_and_the_next_has_more() {
    let (timer, clock) = observed(1);
    let before = lateness(&timer);
    clock.block_on(timer.sleep(SECOND));
    assert_eq!((before.count(), lateness(&timer).count()), (0, 1));
    assert_ne!(before, lateness(&timer));
}

#[test]
fn shards_are_added_up() {
    let (timer, clock) = observed(4);
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let timer = timer.clone();
            std::thread::spawn(move || arm(&timer, SECOND - Duration::from_nanos(n)))
        })
        .collect();
    let sleeps: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    clock.jump(SECOND);
    assert_eq!(clock.advance(Duration::ZERO), sleeps.len());
    assert!(timer.stats().shards_used > 1);
    assert_eq!(buckets(&timer), [(0, 1), (1, 1), (2, 1), (3, 1)]);
}

#[test]
fn without_being_asked_for_there_is_none() {
    let (timer, clock) = virtual_timer();
    clock.block_on(timer.sleep(SECOND));
    assert_eq!(timer.lateness(), None);
    assert_eq!(Timer::builder().build().expect("the options are valid").lateness(), None);
}
