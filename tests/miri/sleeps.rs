//! Sleeps, intervals and timeouts on a virtual clock.

use std::sync::Arc;
use std::task::Waker;

use tourbillon::MissedTickBehavior;

use crate::support::*;

#[test]
fn a_sleep_is_armed_fired_completed_and_polled_again() {
    let (timer, clock) = virtual_timer();
    let counter = Counter::new();
    let waker = Waker::from(Arc::clone(&counter));
    let mut sleep = timer.sleep(SECOND);
    for _ in 0..20 {
        assert!(poll_with(&mut sleep, &waker).is_pending());
    }
    assert_eq!(clock.advance(SECOND), 1);
    assert_eq!(counter.wakes(), 1);
    assert!(format!("{sleep:?}").contains("fired"));
    assert!(poll_with(&mut sleep, &waker).is_ready());
    assert!(poll_with(&mut sleep, &waker).is_ready());
}

#[test]
fn sleeps_are_dropped_in_every_state() {
    let (timer, clock) = virtual_timer();
    let unarmed = timer.sleep(SECOND);
    let [mut armed, mut fired, mut completed] = [3, 1, 1].map(|secs| timer.sleep(secs * SECOND));
    assert!(poll(&mut armed).is_pending());
    assert!(poll(&mut fired).is_pending());
    assert!(poll(&mut completed).is_pending());
    assert_eq!(clock.advance(SECOND), 2);
    assert!(poll(&mut completed).is_ready());
    drop((unarmed, armed, fired, completed));
    assert_eq!(timer.stats().pending, 0);
}

#[test]
fn a_sleep_is_reset_in_every_state_and_both_ways() {
    let (timer, clock) = virtual_timer();
    let mut sleep = timer.sleep(2 * SECOND);
    sleep.reset_after(3 * SECOND);
    assert!(poll(&mut sleep).is_pending());
    sleep.reset_after(5 * SECOND);
    sleep.reset_after(SECOND);
    assert_eq!(clock.advance(SECOND), 1);
    sleep.reset_after(SECOND); // It has fired and was not polled.
    assert!(poll(&mut sleep).is_pending());
    assert_eq!(clock.advance(SECOND), 1);
    assert!(poll(&mut sleep).is_ready());
    sleep.reset_after(SECOND);
    assert!(poll(&mut sleep).is_pending());
}

#[test]
fn a_waker_is_replaced_while_queued_and_after_the_fire() {
    let (timer, clock) = virtual_timer();
    let counters = [Counter::new(), Counter::new(), Counter::new()];
    let wakers = counters.each_ref().map(|counter| Waker::from(Arc::clone(counter)));
    let mut sleep = timer.sleep(SECOND);
    assert!(poll_with(&mut sleep, &wakers[0]).is_pending());
    assert!(poll_with(&mut sleep, &wakers[1]).is_pending());
    assert_eq!(clock.advance(SECOND), 1);
    sleep.reset_after(SECOND);
    assert!(poll_with(&mut sleep, &wakers[2]).is_pending());
    assert_eq!(clock.advance(SECOND), 1);
    assert_eq!(counters.each_ref().map(|counter| counter.wakes()), [0, 1, 1]);
}

/// More chunks of entries are allocated than are kept, and the others are freed.
#[test]
fn chunks_are_freed_as_sleeps_complete_and_as_they_are_dropped() {
    const CROWD: usize = 100;
    let (timer, clock) = virtual_timer();
    let crowd = || (0..CROWD).map(|_| timer.sleep(SECOND)).collect::<Vec<_>>();
    let mut dropped = crowd();
    assert!(dropped.iter_mut().all(|sleep| poll(sleep).is_pending()));
    drop(dropped);
    let mut completed = crowd();
    assert!(completed.iter_mut().all(|sleep| poll(sleep).is_pending()));
    assert_eq!(clock.advance(SECOND), CROWD);
    assert!(completed.iter_mut().all(|sleep| poll(sleep).is_ready()));
}

#[test]
fn deadlines_of_every_level_fire_in_order() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let mut sleeps: Vec<_> = (0..58)
        .step_by(3)
        .map(|bits| timer.sleep(std::time::Duration::from_nanos((1 << bits) + 1)))
        .collect();
    for sleep in &mut sleeps {
        assert!(poll(sleep).is_pending());
    }
    for (index, bits) in (0..58).step_by(3).enumerate() {
        let next = clock.advance_to_next().expect("one is pending");
        assert_eq!((next - start).as_nanos(), (1u128 << bits) + 1);
        assert!(poll(&mut sleeps[index]).is_ready());
    }
}

#[test]
fn intervals_tick_and_catch_up() {
    let (timer, clock) = virtual_timer();
    for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip]
    {
        let mut interval = timer.interval(SECOND);
        interval.set_missed_tick_behavior(behavior);
        clock.block_on(async {
            interval.tick().await;
            interval.tick().await;
        });
        clock.advance(3 * SECOND);
        clock.block_on(interval.tick());
        interval.reset();
        clock.block_on(interval.tick());
    }
}

#[test]
fn a_timeout_elapses_or_gives_what_its_future_gave() {
    let (timer, clock) = virtual_timer();
    assert_eq!(clock.block_on(timer.timeout(SECOND, async { 42 })), Ok(42));
    assert!(clock.block_on(timer.timeout(SECOND, timer.never())).is_err());
    assert!(clock.block_on(timer.timeout(2 * SECOND, timer.sleep(SECOND))).is_ok());
}

#[test]
fn a_wall_sleep_follows_its_virtual_wall() {
    let (timer, clock) = virtual_timer();
    let mut sleep = timer.sleep_until_wall(clock.wall_now() + 3600 * SECOND);
    assert!(poll(&mut sleep).is_pending());
    clock.set_wall(clock.wall_now() + 3599 * SECOND);
    assert!(poll(&mut sleep).is_pending());
    clock.suspend(SECOND);
    assert!(poll(&mut sleep).is_ready());
    let mut cancelled = timer.sleep_until_wall(clock.wall_now() + SECOND);
    assert!(poll(&mut cancelled).is_pending());
}
