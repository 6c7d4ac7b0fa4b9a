//! State that a sleep carries from one poll to the next, while a driver thread fires it, parks or
//! is stuck.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use loom::sync::Arc;

use super::{check, clock};
use crate::models::harness::{Harness, Signal, at, block_on, callback, poll, poll_with, quietly};
use crate::sleep::Sleep;
use crate::sync::{StdArc, refuse_threads};

/// It is not in the wheel, though its waker is the same and a driver is parked for another, earlier
/// timer. Oracle: deadlock.
#[test]
fn a_fired_sleep_is_armed_again_beside_a_parked_driver() {
    check(|| {
        let harness = Harness::new(1);
        let (mut sleep, signal) = harness.armed(5);
        let (_other, other_signal) = harness.armed(7);
        harness.advance(5);
        signal.wait();
        sleep.reset_to(at(10));
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        harness.advance(10);
        other_signal.wait();
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
    });
}

/// Moved far off and back after it fired, and armed again. Oracle: deadlock, since the clock never
/// gets to the furthest of its deadlines.
#[test]
fn a_sleep_armed_again_goes_by_its_last_deadline() {
    check(|| {
        let harness = Harness::new(1);
        let (mut sleep, signal) = harness.armed(5);
        harness.advance(5);
        signal.wait();
        sleep.reset_to(at(1_000));
        sleep.reset_to(at(10));
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        harness.advance(10);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
        assert_eq!(signal.wakes(), 2);
    });
}

/// The driver sleeps through the deadline. Oracle: a poll finds it past, after so many as may trust
/// the driver.
#[test]
fn a_driver_that_oversleeps_is_not_trusted_for_ever() {
    check(|| {
        let harness = Harness::new(1);
        let (mut sleep, signal) = harness.armed(5);
        // Without a word to the driver.
        harness.time.move_to(at(5));
        let polls = (1..=16).find(|_| poll(&mut sleep, &signal).is_ready());
        assert!(polls.is_some(), "fifteen polls may trust it");
    });
}

/// A first poll trusts the driver that is parked for another timer, while the deadlines of both
/// pass. Oracle: deadlock. Some execution has such a poll, and some has a poll that reads the
/// clock, by a single preemption: the driver parks while this thread waits.
#[test]
fn a_first_poll_that_reads_no_clock_races_its_deadline() {
    let (trusting, reading) = (StdArc::new(AtomicUsize::new(0)), StdArc::new(AtomicUsize::new(0)));
    let counts = (StdArc::clone(&trusting), StdArc::clone(&reading));
    check(move || {
        let harness = Harness::new(1);
        let (_other, other_signal) = harness.armed(5);
        let (_first, first_signal) = harness.armed(3);
        harness.advance(3);
        first_signal.wait();
        let delay = at(200_000).since(harness.time.now());
        let mut sleep = Sleep::after(harness.timer.engine_ref(), delay);
        let clock = clock(&harness, [200_000]);
        let signal = Signal::new();
        let has_passed = harness.time.now() >= at(200_000);
        let polled = poll(&mut sleep, &signal);
        if has_passed {
            let count = if polled.is_pending() { &counts.0 } else { &counts.1 };
            count.fetch_add(1, Ordering::Relaxed); // ORDERING: outside the model
        }
        if polled.is_pending() {
            signal.wait();
            block_on(sleep, &signal);
        }
        other_signal.wait();
        clock.join().unwrap();
    });
    // ORDERING: outside the model
    let counts = [&trusting, &reading].map(|count| count.load(Ordering::Relaxed));
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
}

/// The driver is parked until the end of a tolerance. Oracle: the first poll after the deadline
/// finds that past.
#[test]
fn a_driver_that_is_parked_for_a_tolerance_is_not_trusted() {
    check(|| {
        let harness = Harness::new(1);
        let mut sleep = harness.sleep(5).with_tolerance(Duration::from_nanos(1_000));
        let signal = Signal::new();
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        // The driver has scanned, if not parked, by the end of another timer.
        let (_other, other_signal) = harness.armed(3);
        harness.advance(3);
        other_signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        harness.time.move_to(at(5));
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
    });
}

/// It fired, was moved later, and the driver sleeps through that. Oracle: the next poll finds it
/// past.
#[test]
fn a_fired_sleep_goes_by_the_clock() {
    check(|| {
        let harness = Harness::new(1);
        let (mut sleep, signal) = harness.armed(5);
        harness.advance(5);
        signal.wait();
        sleep.reset_to(at(7));
        harness.time.move_to(at(9));
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
    });
}

/// A driver that is not parked may be in a waker for ever. Oracle: the first poll after the
/// deadline finds it past.
#[test]
fn a_driver_that_is_stuck_in_a_waker_is_not_trusted() {
    check(|| {
        let harness = Harness::new(1);
        let (entered, release) = (Signal::new(), Signal::new());
        let waker = {
            let (entered, release) = (Arc::clone(&entered), Arc::clone(&release));
            callback(move || {
                entered.raise();
                release.wait();
            })
        };
        let mut blocker = harness.sleep(3);
        assert_eq!(poll_with(&mut blocker, &waker), Poll::Pending);
        drop(waker);
        let (mut sleep, signal) = harness.armed(9);
        harness.advance(3);
        entered.wait();
        // The driver is awake, as far as the alarm says.
        let earlier = harness.armed(5);
        harness.time.move_to(at(9));
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
        release.raise();
        drop(earlier);
    });
}

/// The driver has ended, and its thread cannot be started when the sleep is armed again: that poll
/// panics, with the sleep queued. Oracle: the next one tries again; deadlock.
#[test]
fn a_driver_that_could_not_be_started_is_tried_for_again() {
    check(|| {
        let harness = Harness::new(1);
        let mover = harness.clock_mover();
        let (mut sleep, signal) = harness.armed(5);
        drop(harness);
        mover.advance(5);
        signal.wait();
        sleep.reset_to(at(10));
        refuse_threads(true);
        for _ in 0..2 {
            // Panics where there is no driver, and is pending where one has yet to end.
            assert_ne!(quietly(|| poll(&mut sleep, &signal)), Some(Poll::Ready(())));
        }
        refuse_threads(false);
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        mover.advance(10);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
    });
}

/// There is no driver, and a sleep that was polled while it had no deadline needs none. Its reset
/// cannot start one. Oracle: the task is woken, its poll panics, and the next one tries again;
/// deadlock.
#[test]
fn a_reset_from_never_that_cannot_start_the_driver_wakes_its_task() {
    check(|| {
        let harness = Harness::new(1);
        let (mut sleep, signal) = (harness.timer.never(), Signal::new());
        refuse_threads(true);
        for _ in 0..2 {
            assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        }
        sleep.reset_to(at(5));
        signal.wait();
        assert_eq!(quietly(|| poll(&mut sleep, &signal)), None);
        refuse_threads(false);
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        harness.advance(5);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
    });
}
