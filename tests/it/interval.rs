//! `Interval`.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures::Stream;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Interval, MissedTickBehavior};

use crate::support::*;

fn tick(interval: &mut Interval) -> Poll<Instant> {
    interval.poll_tick(&mut Context::from_waker(Waker::noop()))
}

/// Polls all ticks that are ready; in milliseconds since `start`.
fn ready_ticks(interval: &mut Interval, start: Instant) -> Vec<u128> {
    std::iter::from_fn(|| match tick(interval) {
        Poll::Ready(at) => Some((at - start).as_millis()),
        Poll::Pending => None,
    })
    .collect()
}

fn every_ten_ms(behavior: MissedTickBehavior) -> (Interval, VirtualClock, Instant) {
    let (timer, clock) = virtual_timer();
    let mut interval = timer.interval(ms(10));
    interval.set_missed_tick_behavior(behavior);
    let start = clock.now();
    assert_eq!(tick(&mut interval), Poll::Ready(start), "the first tick is at once");
    (interval, clock, start)
}

#[test]
fn ticks_come_at_multiples_of_the_period_without_drift() {
    for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip]
    {
        let (mut interval, clock, start) = every_ten_ms(behavior);
        for n in 1..=100 {
            assert!(tick(&mut interval).is_pending());
            // Late by a different amount each time, but by less than a period.
            let late = ms(n % 7);
            clock.advance(start + ms(10) * n as u32 + late - clock.now());
            assert_eq!(tick(&mut interval), Poll::Ready(start + ms(10) * n as u32));
        }
    }
}

#[test]
fn burst_delivers_every_missed_tick() {
    let (mut interval, clock, start) = every_ten_ms(MissedTickBehavior::Burst);
    clock.advance(ms(35));
    assert_eq!(ready_ticks(&mut interval, start), [10, 20, 30]);
    clock.advance(ms(5));
    assert_eq!(ready_ticks(&mut interval, start), [40]);
}

#[test]
fn delay_counts_the_period_from_the_late_tick() {
    let (mut interval, clock, start) = every_ten_ms(MissedTickBehavior::Delay);
    clock.advance(ms(35));
    assert_eq!(ready_ticks(&mut interval, start), [10]);
    clock.advance(ms(9));
    assert_eq!(ready_ticks(&mut interval, start), [0u128; 0]);
    clock.advance(ms(1));
    assert_eq!(ready_ticks(&mut interval, start), [45]);
}

#[test]
fn skip_goes_on_with_the_next_tick_of_the_grid() {
    let (mut interval, clock, start) = every_ten_ms(MissedTickBehavior::Skip);
    clock.advance(ms(35));
    assert_eq!(ready_ticks(&mut interval, start), [10]);
    clock.advance(ms(5));
    assert_eq!(ready_ticks(&mut interval, start), [40]);
    // Exactly on a tick of the grid: that one is missed, the next is in the future.
    clock.advance(ms(20));
    assert_eq!(ready_ticks(&mut interval, start), [50]);
    clock.advance(ms(10));
    assert_eq!(ready_ticks(&mut interval, start), [70]);
}

#[test]
fn a_dropped_tick_future_loses_no_tick() {
    let (timer, clock) = virtual_timer();
    let start = clock.now() + ms(10);
    let mut interval = timer.interval_at(start, ms(10));
    for _ in 0..3 {
        let _tick = polled(Box::pin(interval.tick()));
    }
    clock.advance(ms(10));
    drop(interval.tick());
    assert_eq!(clock.block_on(interval.tick()), start);
}

#[test]
fn the_reset_family_schedules_the_next_tick() {
    let (timer, clock) = virtual_timer();
    let mut interval = timer.interval(ms(10));
    interval.reset();
    assert_eq!(interval.next_tick(), clock.now() + ms(10));
    interval.reset_after(ms(3));
    assert_eq!(interval.next_tick(), clock.now() + ms(3));
    interval.reset_at(clock.now() + ms(5));
    assert_eq!(interval.next_tick(), clock.now() + ms(5));
    interval.reset_immediately();
    assert_eq!(tick(&mut interval), Poll::Ready(clock.now()));
    assert_eq!(interval.next_tick(), clock.now() + ms(10));
    assert_eq!(interval.period(), ms(10));
}

#[test]
fn it_is_a_stream_without_an_end() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let mut interval = timer.interval(ms(10));
    assert_eq!(interval.size_hint(), (usize::MAX, None));
    for n in 0..5 {
        let next = futures::StreamExt::next(&mut interval);
        assert_eq!(clock.block_on(next), Some(start + ms(10) * n));
    }
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut interval).poll_next(&mut cx).is_pending());
}

#[test]
fn a_period_of_ages_ticks_once() {
    for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip]
    {
        let (timer, clock) = virtual_timer();
        let mut interval = timer.interval(Duration::MAX);
        interval.set_missed_tick_behavior(behavior);
        assert!(tick(&mut interval).is_ready());
        clock.advance(Duration::MAX);
        assert!(tick(&mut interval).is_pending());
        interval.reset_after(Duration::MAX);
        assert!(tick(&mut interval).is_pending());
    }
}

#[test]
fn a_period_of_a_nanosecond_skips_to_the_present() {
    let (timer, clock) = virtual_timer();
    let mut interval = timer.interval(Duration::from_nanos(1));
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    assert!(tick(&mut interval).is_ready());
    clock.advance(SECOND);
    assert!(tick(&mut interval).is_ready());
    assert!(tick(&mut interval).is_pending());
}

#[test]
#[should_panic(expected = "the period of an interval must not be zero")]
fn a_zero_period_panics() {
    drop(tourbillon::interval(Duration::ZERO));
}

#[test]
fn a_new_period_counts_from_the_next_tick() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let mut interval = timer.interval_at(start + ms(10), ms(10));
    interval.set_period(ms(3));
    assert_eq!((interval.period(), interval.next_tick()), (ms(3), start + ms(10)));
    for at in [10, 13, 16] {
        assert_eq!(clock.block_on(interval.tick()), start + ms(at));
    }
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    interval.set_period(Duration::MAX);
    assert_eq!(clock.block_on(interval.tick()), start + ms(19));
    assert_eq!(tick(&mut interval), Poll::Pending);
    interval.set_period(ms(1));
    interval.reset();
    assert_eq!(clock.block_on(interval.tick()), start + ms(20));
}

#[test]
#[should_panic(expected = "the period of an interval must not be zero")]
fn a_new_period_of_zero_panics() {
    virtual_timer().0.interval(SECOND).set_period(Duration::ZERO);
}

#[test]
fn jitter_makes_each_tick_later_by_up_to_its_span_and_the_schedule_does_not_drift() {
    const TICKS: u32 = 200;
    let delays = |seed| {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        let mut interval = timer.interval_at(start, ms(10)).with_jitter(ms(4), seed);
        let mut delays = Vec::new();
        for n in 0..TICKS {
            assert_eq!(interval.next_tick(), start + n * ms(10));
            assert_eq!(clock.block_on(interval.tick()), start + n * ms(10));
            delays.push(clock.now() - (start + n * ms(10)));
        }
        delays
    };
    let (one, other) = (delays(1), delays(2));
    assert_eq!(one, delays(1), "the seed decides");
    for delays in [&one, &other] {
        assert!(delays.iter().all(|delay| *delay <= ms(4)));
        assert!(delays.iter().any(|delay| *delay < ms(1)));
        assert!(delays.iter().any(|delay| *delay > ms(3)));
    }
    let equal = one.iter().zip(&other).filter(|(one, other)| one == other).count();
    assert_eq!(equal, 0, "neighbouring seeds are far apart");
}

#[test]
fn resets_and_the_rule_for_missed_ticks_go_by_the_schedule_beside_jitter() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let mut interval = timer.interval(ms(10)).with_jitter(ms(4), 7).with_tolerance(ms(1));
    assert_eq!(interval.tolerance(), ms(1));
    interval.set_tolerance(Duration::ZERO);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    clock.advance(ms(35));
    assert_eq!(ready_ticks(&mut interval, start), [0]);
    assert_eq!(interval.next_tick(), start + ms(40));
    interval.reset_at(start + ms(100));
    assert_eq!(interval.next_tick(), start + ms(100));
    assert_eq!(clock.block_on(interval.tick()), start + ms(100));
    interval.reset_at(start + Duration::MAX / 4);
    assert_eq!(interval.next_tick(), timer.never().deadline());
}

#[test]
fn an_intervals_function_is_told_its_tick_without_the_jitter() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let (tell, told) = std::sync::mpsc::channel();
    let interval = timer.interval_at(start + ms(10), ms(10)).with_jitter(ms(4), 7);
    let callback = interval.call(move |call| tell.send(call.tick).unwrap());
    clock.advance(ms(34));
    assert!(told.try_iter().eq([10, 20, 30].map(|at| start + ms(at))));
    assert_eq!(callback.next_call(), Some(start + ms(40)));
    callback.reset(start + ms(60));
    clock.advance(ms(30));
    assert!(told.try_iter().eq([start + ms(60)]));
}
