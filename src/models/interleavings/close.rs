//! The last handle goes, and the driver ends with the last armed sleep; or a handle asks it to end.
//!
//! A driver that ends gathers its knowledge at two shards, and two threads have something to
//! tell it. So these go to one preemption more than the others, where that takes seconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use loom::thread;

use super::{check, check_with, clock, sleeper};
use crate::clock::{Clock, VirtualTime};
use crate::driver;
use crate::engine::{DrivenBy, Engine};
use crate::models::harness::{Harness, Signal, at, block_on, poll, quietly};
use crate::sync::{Arc, StdArc, refuse_threads, set_thread_index};
use crate::timer::Timer;

/// The driver ends with the last armed sleep of a timer without handles. Oracle: deadlock.
#[test]
fn last_cancel_races_close() {
    check_with(1, || {
        let harness = Harness::new(2);
        let far = harness.far_timer();
        let dropper = thread::spawn(move || drop(far));
        drop(harness);
        dropper.join().unwrap();
    });
}

/// A sleep that outlives the handles is armed, in the shard `index`.
fn arm_and_close(shards: usize, index: usize) {
    let harness = Harness::new(shards);
    let mover = harness.clock_mover();
    let near = sleeper(&harness, index, 5);
    drop(harness);
    mover.advance(5);
    near.join().unwrap();
}

/// Oracle: deadlock, both of the sleep and of a driver that does not end.
#[test]
fn arm_races_close() {
    check_with(1, || arm_and_close(1, 0));
}

/// The driver counts the first shard before the other, in which this one arms. Oracle: as above.
#[test]
fn arm_races_close_on_two_shards() {
    check_with(1, || arm_and_close(2, 1));
}

/// A thread that cannot start the driver arms a timer as the driver ends, and another thread a
/// later one, for which it need not notify the driver. Oracle: deadlock, if the later one is armed
/// and there is no driver.
#[test]
fn an_insert_beside_one_that_cannot_start_the_driver_races_its_end() {
    check(|| {
        let harness = Harness::new(1);
        let (far, mover) = (harness.far_timer(), harness.clock_mover());
        let mut refused = harness.sleep(3);
        let near = sleeper(&harness, 0, 5);
        drop(harness);
        drop(far);
        refuse_threads(true);
        let _ = quietly(|| poll(&mut refused, &Signal::new()));
        drop(refused);
        mover.advance(5);
        near.join().unwrap();
    });
}

/// A sleep that was polled while it had no deadline does not keep the driver, which its reset may
/// still see. Oracle: deadlock.
#[test]
fn a_reset_from_never_races_close() {
    check(|| {
        let harness = Harness::new(1);
        let (far, mover) = (harness.far_timer(), harness.clock_mover());
        let (mut sleep, signal) = (harness.timer.never(), Signal::new());
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        drop(harness);
        drop(far);
        sleep.reset_to(at(5));
        mover.advance(5);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
    });
}

/// The driver ends while a deadline that was cancelled is still its shard's earliest.
fn rearm_after_cancel(shards: usize, index: usize) {
    let harness = Harness::new(shards);
    set_thread_index(index);
    let (first, _) = harness.armed(3);
    let second = harness.sleep(5);
    let clock = clock(&harness, [5]);
    drop(harness);
    drop(first);
    block_on(second, &Signal::new());
    clock.join().unwrap();
}

/// Oracle: deadlock.
#[test]
fn rearm_after_cancel_races_close() {
    check(|| rearm_after_cancel(1, 0));
}

/// Oracle: deadlock.
#[test]
fn rearm_after_cancel_races_close_on_two_shards() {
    check(|| rearm_after_cancel(2, 1));
}

/// The same while the last handle goes: the driver may learn of that between two shards, where it
/// may be held up.
fn rearm_beside_a_close(is_held_up: bool) {
    let harness = Harness::new(2);
    let mover = harness.clock_mover();
    let (first, _) = harness.armed(3);
    let (mut second, signal) = (harness.sleep(5), Signal::new());
    drop(first);
    let held = is_held_up.then(|| mover.hold(1));
    let closer = thread::spawn(move || drop(harness));
    if is_held_up {
        thread::yield_now();
    }
    assert_eq!(poll(&mut second, &signal), Poll::Pending);
    drop(held);
    mover.advance(5);
    signal.wait();
    drop(second);
    closer.join().unwrap();
}

/// Oracle: deadlock.
#[test]
fn rearm_after_cancel_beside_a_close() {
    check(|| rearm_beside_a_close(false));
}

/// Oracle: deadlock.
#[test]
fn rearm_after_cancel_and_a_close_in_the_middle_of_a_scan() {
    check(|| rearm_beside_a_close(true));
}

/// A driver that may end does not while a timer is armed, whichever shard is empty, and is notified
/// when that comes first. Oracle: deadlock, both of the sleep and of a driver that does not end.
#[test]
fn reset_to_earlier_races_close() {
    check(|| {
        let harness = Harness::new(2);
        let mover = harness.clock_mover();
        let (mut sleep, signal) = harness.armed(1_000);
        let closer = thread::spawn(move || drop(harness));
        sleep.reset_to(at(5));
        mover.advance(5);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
        drop(sleep);
        closer.join().unwrap();
    });
}

/// One timer's last handle and last armed sleep go while another's first sleep is armed. Oracle:
/// deadlock, both of the sleep and of either driver. Bound: one less, as above.
#[test]
fn the_end_of_one_timer_races_arm_on_another() {
    check_with(-1, || {
        let [one, other] = [Harness::new(1), Harness::new(1)];
        let far = one.far_timer();
        let closer = thread::spawn(move || drop(one));
        let (mut near, signal) = other.armed(5);
        drop(far);
        other.advance(5);
        signal.wait();
        assert_eq!(poll(&mut near, &signal), Poll::Ready(()));
        closer.join().unwrap();
    });
}

/// A handle asks the driver to end while a sleep is armed, in the shard `index`. Oracle: deadlock,
/// of the sleep, of the asking thread, and of the driver at the end.
fn end_beside_an_arm(shards: usize, index: usize) {
    let harness = Harness::new(shards);
    drop(harness.far_timer());
    let near = sleeper(&harness, index, 5);
    let ended = driver::end(harness.timer.engine());
    assert!(matches!(ended, Ok(()) | Err(1)), "{ended:?}");
    harness.advance(5);
    near.join().unwrap();
}

#[test]
fn an_end_that_is_asked_for_races_arm() {
    check(|| end_beside_an_arm(1, 0));
}

#[test]
fn an_end_that_is_asked_for_races_arm_on_two_shards() {
    check(|| end_beside_an_arm(2, 1));
}

/// The driver may be on its way to park, or parked, for the dropped sleep. Oracle: deadlock.
#[test]
fn an_end_that_is_asked_for_races_the_last_cancel() {
    check(|| {
        let harness = Harness::new(2);
        let far = harness.far_timer();
        let dropper = thread::spawn(move || drop(far));
        let ended = driver::end(harness.timer.engine());
        assert!(matches!(ended, Ok(()) | Err(1)), "{ended:?}");
        dropper.join().unwrap();
        assert_eq!(driver::end(harness.timer.engine()), Ok(()));
    });
}

/// A driver that refuses to end fires the timer that it refused for, and ends when it is asked
/// again. Oracle: deadlock.
#[test]
fn a_driver_does_not_end_while_a_sleep_is_armed() {
    check(|| {
        let harness = Harness::new(1);
        let (mut sleep, signal) = harness.armed(5);
        assert_eq!(driver::end(harness.timer.engine()), Err(1));
        harness.advance(5);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
        assert_eq!(driver::end(harness.timer.engine()), Ok(()));
    });
}

/// Both find the driver gone. Oracle: deadlock.
#[test]
fn two_ends_that_are_asked_for_meet() {
    check(|| {
        let harness = Harness::new(1);
        drop(harness.far_timer());
        let engine = Arc::clone(harness.timer.shared_engine());
        let other = thread::spawn(move || assert_eq!(driver::end(&engine), Ok(())));
        assert_eq!(driver::end(harness.timer.engine()), Ok(()));
        other.join().unwrap();
    });
}

/// Mark that an engine holds, to show when the engine is gone.
#[derive(Clone, Default)]
struct Gone(StdArc<AtomicBool>);

impl Gone {
    fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed) // ORDERING: outside the model
    }

    /// A timer that is turned by hand, and whose engine's end this shows.
    fn timer(&self) -> Timer {
        struct Shown(Gone);

        impl Drop for Shown {
            fn drop(&mut self) {
                let was_gone = self.0.0.swap(true, Ordering::Relaxed); // ORDERING: as above
                assert!(!was_gone, "twice");
            }
        }

        let shown = Shown(self.clone());
        let hook = StdArc::new(move || _ = &shown);
        let clock = Clock::Model(Arc::new(VirtualTime::new()));
        Timer::of(Engine::new(clock, 1, DrivenBy::Hand(hook)).shared())
    }
}

/// The last handle and the last sleeps, each in a thread, go at the same time. Oracle: the engine
/// is gone once, and after all of them.
#[test]
fn the_last_sleep_races_the_last_handle() {
    check_with(1, || {
        let gone = Gone::default();
        let timer = gone.timer();
        let sleeps = [timer.never(), timer.never()];
        let droppers = sleeps.map(|sleep| {
            let gone = gone.clone();
            thread::spawn(move || {
                assert!(!gone.is_so(), "a sleep is there");
                drop(sleep);
            })
        });
        drop(timer);
        droppers.into_iter().for_each(|dropper| dropper.join().unwrap());
        assert!(gone.is_so(), "nothing holds it");
    });
}
