//! Operations of a sleep, beside a driver thread that fires it.

use std::task::Poll;
use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use super::{check, check_with, clock};
use crate::models::harness::{Harness, Signal, at, block_on, callback, poll, poll_with};
use crate::sleep::Sleep;
use crate::sync::naps;
use crate::timer::Tolerance;

/// The sleep is dropped here or on another thread while the driver fires it. Oracle: loom's
/// checks of the waker's cell and references, the wheel's assertions; woken at most once.
#[test]
fn fire_races_drop() {
    check(|| {
        let harness = Harness::new(1);
        let (sleep, signal) = harness.armed(5);
        let dropper = thread::spawn(move || drop(sleep));
        harness.advance(5);
        dropper.join().unwrap();
        let stats = harness.timer.stats();
        assert_eq!((stats.fired + stats.cancelled, stats.pending), (1, 0));
        assert!(signal.wakes() <= 1);
    });
}

/// Oracle: it is woken exactly if the cancel says that it was too late; deadlock.
#[test]
fn fire_races_cancel() {
    check(|| {
        let harness = Harness::new(1);
        let (mut sleep, signal) = harness.armed(5);
        let clock = clock(&harness, [5]);
        let in_time = sleep.cancel();
        if !in_time {
            signal.wait();
        }
        clock.join().unwrap();
        assert_eq!(signal.wakes(), usize::from(!in_time));
        let stats = harness.timer.stats();
        assert_eq!((stats.cancelled, stats.pending), (u64::from(in_time), 0));
    });
}

/// Oracle: deadlock, and never early for the deadline in force.
#[test]
fn fire_races_reset_to_later() {
    check(|| {
        let harness = Harness::new(1);
        let (mut sleep, signal) = harness.armed(5);
        let clock = clock(&harness, [5, 10]);
        sleep.reset_to(at(10));
        block_on(&mut sleep, &signal);
        assert!(harness.time.now() >= at(10), "early");
        clock.join().unwrap();
    });
}

/// The driver wakes for another timer while the window is open. Oracle: deadlock, and never early
/// for the deadline in force.
#[test]
fn an_open_window_races_reset_to_later() {
    check(|| {
        let harness = Harness::new(1);
        let mut sleep = harness.sleep(5).with_tolerance(Duration::from_nanos(8_000));
        let signal = Signal::new();
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        let (_other, _) = harness.armed(7_000);
        let clock = clock(&harness, [7_000]);
        sleep.reset_to(at(8_000));
        clock.join().unwrap();
        harness.advance(16_000);
        block_on(&mut sleep, &signal);
        assert!(harness.time.now() >= at(8_000), "early");
    });
}

/// The tolerance is a share of a delay that is shorter by now: the window ends later, and is
/// narrower. Oracle: not woken for another timer before the deadline.
#[test]
fn a_smaller_share_opens_no_window_before_the_deadline() {
    check(|| {
        let delay = Tolerance::percent_of_delay(100, Duration::MAX);
        let harness = Harness::with_tolerance(delay);
        let mut sleep = harness.timer.sleep(Duration::from_nanos(20_000));
        let signal = Signal::new();
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        // It was due by 40,000, and is by 46,000. A window as wide as before is open at 27,500.
        harness.time.move_to(at(10_000));
        sleep.reset_to(at(28_000));
        let mut other = harness.sleep(27_500).with_tolerance(Duration::ZERO);
        let other_signal = Signal::new();
        assert_eq!(poll(&mut other, &other_signal), Poll::Pending);
        harness.advance(27_500);
        other_signal.wait();
        assert_eq!(signal.wakes(), 0);
        harness.advance(46_000);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
    });
}

/// A deadline moved later before the old one came is not fired for. Oracle: woken once, and not
/// before.
#[test]
fn the_driver_heeds_a_later_deadline() {
    check(|| {
        let harness = Harness::new(1);
        let (mut sleep, signal) = harness.armed(5);
        sleep.reset_to(at(10));
        // Armed behind it, so what fires this one has looked at that one before.
        let (_other, other_signal) = harness.armed(5);
        harness.advance(5);
        other_signal.wait();
        assert_eq!(signal.wakes(), 0);
        harness.advance(10);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
        assert_eq!(signal.wakes(), 1);
    });
}

/// Later, then earlier again, but not as early as the wheel has it. Oracle: deadlock, since the
/// clock never gets to the latest of the deadlines.
#[test]
fn fire_races_reset_to_earlier() {
    check(|| {
        let harness = Harness::new(1);
        let (mut sleep, signal) = harness.armed(5);
        let clock = clock(&harness, [5, 10]);
        sleep.reset_to(at(20));
        sleep.reset_to(at(10));
        block_on(&mut sleep, &signal);
        assert!(harness.time.now() >= at(10), "early");
        clock.join().unwrap();
    });
}

/// The waker of the last poll is woken, the one before at most once. Oracle: deadlock, counts.
#[test]
fn new_waker_races_fire() {
    check(|| {
        let harness = Harness::new(1);
        let ((sleep, first), second) = (harness.armed(5), Signal::new());
        let clock = clock(&harness, [5]);
        block_on(sleep, &second);
        clock.join().unwrap();
        assert!(first.wakes() + second.wakes() <= 1);
    });
}

/// Oracle: deadlock; woken at most once.
#[test]
fn second_poll_races_fire() {
    check(|| {
        let harness = Harness::new(1);
        let (mut sleep, signal) = harness.armed(5);
        let clock = clock(&harness, [5]);
        block_on(&mut sleep, &signal);
        clock.join().unwrap();
        assert!(signal.wakes() <= 1);
    });
}

/// An entry given back while its wake-up is under way is armed again at once. Oracle: the new
/// tenant's waker is not woken for the old deadline, and is for the new.
#[test]
fn slot_reuse_wakes_the_new_tenant_only() {
    check(|| {
        let harness = Harness::new(1);
        let (first, old) = harness.armed(5);
        let clock = clock(&harness, [5]);
        drop(first);
        let (mut second, new) = harness.armed(10);
        clock.join().unwrap();
        assert_eq!(new.wakes(), 0);
        harness.advance(10);
        block_on(&mut second, &new);
        assert!(old.wakes() <= 1);
    });
}

/// Both are taken in one batch; their entries are given back and armed again between the first
/// wake-up and the second. Oracle: each waker is woken exactly once, and the new one for its own
/// deadline only; deadlock.
#[test]
fn a_batch_is_woken_while_its_entries_are_reused() {
    check(|| {
        let harness = Harness::new(1);
        let [first, second] = [harness.armed(5), harness.armed(5)];
        let clock = clock(&harness, [5]);
        first.1.wait();
        drop((first.0, second.0));
        let [third, fourth] = [harness.armed(10), harness.armed(10)];
        clock.join().unwrap();
        assert_eq!(third.1.wakes() + fourth.1.wakes(), 0);
        harness.advance(10);
        third.1.wait();
        fourth.1.wait();
        for (_, signal) in [&(third.0, first.1), &(fourth.0, second.1)] {
            assert_eq!(signal.wakes(), 1);
        }
        assert_eq!(third.1.wakes() + fourth.1.wakes(), 2);
    });
}

/// More is due than a batch takes, so the lock is released in the middle of a slot: there a timer
/// of that slot goes and another comes, armed without a look at the clock. Oracle: deadlock; the
/// others are woken exactly once.
#[test]
fn a_turn_in_parts_races_drop_and_arm() {
    check(|| {
        let harness = Harness::new(1);
        let [first, second, (gone, _), last] = [(); 4].map(|()| harness.armed(5));
        let clock = clock(&harness, [5]);
        drop(gone);
        let comes = Signal::new();
        let called = Arc::clone(&comes);
        let deadline = harness.timer.engine().clock().instant(at(5));
        let _callback = harness.timer.sleep_until(deadline).call(move || called.raise());
        comes.wait();
        clock.join().unwrap();
        for (mut sleep, signal) in [first, second, last] {
            signal.wait();
            assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
            assert_eq!(signal.wakes(), 1);
        }
    });
}

/// More is due than the driver's thread does in one pass, whether or not the last handle is gone.
/// Oracle: deadlock, if it parks or ends all the same; each is woken exactly once.
#[test]
fn a_pass_cut_short_is_followed_by_another() {
    for is_closed in [false, true] {
        check(move || {
            let harness = Harness::new(1);
            let crowd = [(); 5].map(|()| harness.armed(5));
            let clock = clock(&harness, [5]);
            let kept = (!is_closed).then_some(harness);
            for (mut sleep, signal) in crowd {
                signal.wait();
                assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
                assert_eq!(signal.wakes(), 1);
            }
            clock.join().unwrap();
            drop(kept);
        });
    }
}

/// A slot of three blocks is emptied in parts, and loses the one in the middle meanwhile. Oracle:
/// the wheel's assertions; deadlock; the others are woken exactly once.
#[test]
fn a_turn_in_parts_races_the_end_of_a_block() {
    check(|| {
        let harness = Harness::new(1);
        // Blocks of two.
        let [first, second, third, fourth, last] = [(); 5].map(|()| harness.armed(5));
        let clock = clock(&harness, [5]);
        drop((third, fourth));
        clock.join().unwrap();
        for (mut sleep, signal) in [first, second, last] {
            signal.wait();
            assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
            assert_eq!(signal.wakes(), 1);
        }
        assert_eq!(harness.timer.stats().pending, 0);
    });
}

/// A slot is emptied, with little due in it and more to be filed again than a turn may, so the
/// lock is released in the middle: there a timer of that slot goes and another comes. Oracle: the
/// others are woken exactly once, and not before their time; deadlock.
#[test]
fn a_turn_that_files_again_in_parts_races_drop_and_arm() {
    check(|| {
        let harness = Harness::new(1);
        // All in one slot of the second level, until the first of them is due.
        let [due, gone, stays, last] = [64, 66, 67, 68].map(|nanos| harness.armed(nanos));
        let clock = clock(&harness, [64]);
        drop(gone);
        let comes = harness.armed(65);
        due.1.wait();
        clock.join().unwrap();
        for (_, signal) in [&comes, &stays, &last] {
            assert_eq!(signal.wakes(), 0, "early");
        }
        harness.advance(68);
        for (mut sleep, signal) in [comes, stays, last] {
            signal.wait();
            assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
            assert_eq!(signal.wakes(), 1);
        }
    });
}

/// All other timers of a wheel go, and the memory of most with them, while one is polled, without
/// the lock. Oracle: the store's assertions; deadlock.
#[test]
fn chunks_are_freed_beside_a_sleep_that_is_polled() {
    check(|| {
        let harness = Harness::new(1);
        let (mut sleep, signal) = harness.armed(5);
        // Chunks of four.
        let others: Vec<_> = (0..12).map(|_| harness.armed(1_000).0).collect();
        let poller = thread::spawn(move || {
            let pending = poll(&mut sleep, &signal).is_pending();
            (sleep, signal, pending)
        });
        drop(others);
        let more = [harness.armed(2_000), harness.armed(2_000)];
        let (mut sleep, signal, pending) = poller.join().unwrap();
        assert!(pending, "early");
        harness.advance(5);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
        drop(more);
    });
}

/// Passes follow on each other. Oracle: the driver naps between them, and fires all the same.
#[test]
fn a_driver_whose_passes_crowd_naps() {
    check(|| {
        let harness = Harness::new(1);
        let before = naps();
        for nanos in 1..=4 {
            let (mut sleep, signal) = harness.armed(nanos);
            harness.advance(nanos);
            signal.wait();
            assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
        }
        assert!(naps() > before, "no nap");
    });
}

/// Oracle: deadlock, if the waker runs under the lock that it wants.
#[test]
fn waker_arms_another_timer() {
    check(|| {
        let harness = Harness::new(1);
        let signal = Signal::new();
        let waker = {
            let engine = harness.timer.engine_ref();
            let signal = std::sync::Mutex::new(Some(Arc::clone(&signal)));
            callback(move || {
                let mut armed = Sleep::new(engine.clone(), at(50));
                let _ = poll(&mut armed, &Signal::new());
                drop(armed);
                if let Some(signal) = signal.lock().unwrap().take() {
                    signal.raise();
                }
            })
        };
        let mut sleep = harness.sleep(5);
        assert_eq!(poll_with(&mut sleep, &waker), Poll::Pending);
        drop(waker);
        harness.advance(5);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
    });
}

/// Two timers, two drivers, one task. Oracle: deadlock; woken exactly once by each. Bound: one
/// less, because the two have nothing in common but the task.
#[test]
fn a_waker_is_shared_by_two_timers() {
    check_with(-1, || {
        let [one, other] = [Harness::new(1), Harness::new(1)];
        let signal = Signal::new();
        let mut sleeps = [one.sleep(3), other.sleep(5)];
        for sleep in &mut sleeps {
            assert_eq!(poll(sleep, &signal), Poll::Pending);
        }
        one.advance(3);
        other.advance(5);
        signal.wait_for(2);
        for sleep in &mut sleeps {
            assert_eq!(poll(sleep, &signal), Poll::Ready(()));
        }
        assert_eq!(signal.wakes(), 2);
    });
}
