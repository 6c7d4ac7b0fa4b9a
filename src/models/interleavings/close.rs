//! The last handle goes, and the driver ends with the last armed sleep.
//!
//! What a driver that ends knows is found out at two shards, and two threads have something to tell
//! it. So these go to one preemption more than the others, where that takes seconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use loom::thread;

use super::{check, check_with, clock, sleeper};
use crate::clock::{Clock, VirtualTime};
use crate::engine::{DrivenBy, Engine};
use crate::models::harness::{Harness, Signal, at, block_on, poll};
use crate::sync::{Arc, StdArc, set_thread_index};
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

/// `closed` is ordered by the first shard's lock, and this one arms in the other. Oracle: as above.
#[test]
fn arm_races_close_on_two_shards() {
    check_with(1, || arm_and_close(2, 1));
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
        Timer::of(Arc::new(Engine::new(clock, 1, DrivenBy::Hand(hook))))
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
