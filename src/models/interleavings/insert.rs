//! An insert, or a reset to earlier, and a driver that is about to park, or is not there yet.

use std::cell::Cell;
use std::task::Poll;
use std::time::Duration;

use loom::thread;

use super::{check, clock, sleeper};
use crate::models::harness::{Harness, Signal, at, block_on, poll};
use crate::sync::{set_thread_index, thread_index};
use crate::timer::Tolerance;

/// The driver parks for a far timer, or is about to. Oracle: deadlock; never early.
#[test]
fn insert_races_park() {
    check(|| {
        let harness = Harness::new(1);
        let far = harness.far_timer();
        let near = sleeper(&harness, 0, 5);
        harness.advance(5);
        near.join().unwrap();
        drop(far);
    });
}

/// Arms in two threads, each in its own shard, then lets the time come. Nothing else moves the
/// clock, so this races the inserts with the driver only.
fn two_inserts(harness: &Harness, shards: [usize; 2], deadlines: [u64; 2]) {
    let [mut mine, mut theirs] = deadlines.map(|nanos| harness.sleep(nanos));
    let signal = Signal::new();
    let inserter = thread::spawn(move || {
        set_thread_index(shards[1]);
        let signal = Signal::new();
        assert_eq!(poll(&mut theirs, &signal), Poll::Pending);
        (theirs, signal)
    });
    set_thread_index(shards[0]);
    assert_eq!(poll(&mut mine, &signal), Poll::Pending);
    let (mut theirs, their_signal) = inserter.join().unwrap();
    harness.advance(5);
    signal.wait();
    their_signal.wait();
    assert_eq!(poll(&mut mine, &signal), Poll::Ready(()));
    assert_eq!(poll(&mut theirs, &their_signal), Poll::Ready(()));
    assert_eq!((signal.wakes(), their_signal.wakes()), (1, 1));
    // One park is ended by the clock, and one by each unpark.
    let stats = harness.timer.stats();
    assert!(stats.driver_wakeups <= stats.unparks + 1, "woken needlessly");
}

/// The first insert of all starts the driver; a later deadline in the same shard leaves that to
/// it. Oracle: deadlock; woken exactly once; the driver no more often than it was called.
#[test]
fn first_inserts_start_the_driver() {
    check(|| two_inserts(&Harness::new(1), [0, 0], [3, 5]));
}

/// The same with a shard each. Oracle: as above.
#[test]
fn first_inserts_of_two_shards_start_the_driver() {
    check(|| two_inserts(&Harness::new(2), [0, 1], [3, 5]));
}

/// Its home shard is taken. Oracle: the wheel's assertions, as an entry names its shard; deadlock.
#[test]
fn an_insert_that_finds_its_shard_taken_goes_to_the_neighbour() {
    check(|| {
        let harness = Harness::new(2);
        let far = harness.far_timer();
        let held = harness.hold(0);
        let [mut fires, mut cancelled] = [harness.sleep(5), harness.sleep(3)];
        let inserter = thread::spawn(move || {
            let signal = Signal::new();
            assert_eq!(poll(&mut cancelled, &Signal::new()), Poll::Pending);
            assert_eq!(poll(&mut fires, &signal), Poll::Pending);
            (fires, cancelled, signal)
        });
        let (mut fires, cancelled, signal) = inserter.join().unwrap();
        drop(held);
        assert_eq!(harness.timer.stats().shards_used, 2);
        drop(cancelled);
        harness.advance(5);
        signal.wait();
        assert_eq!(poll(&mut fires, &signal), Poll::Ready(()));
        drop(far);
    });
}

/// Either shard, or both, may be taken or not as the lock is tried for. Oracle: as above.
#[test]
fn inserts_that_meet_go_to_the_neighbour() {
    for both in [false, true] {
        check(move || {
            let harness = Harness::new(2);
            let near = sleeper(&harness, 0, 5);
            let held = (harness.hold(0), both.then(|| harness.hold(1)));
            thread::yield_now();
            drop(held);
            harness.advance(5);
            near.join().unwrap();
        });
    }
}

/// Finding its home taken, a thread moves if the driver is parked by then. Oracle: deadlock; the
/// wheel's assertions, of the entries armed in both homes; that both are seen.
#[test]
fn an_insert_after_a_move_races_park() {
    thread_local!(static HOMES: Cell<u8> = const { Cell::new(0) });
    check(|| {
        let harness = Harness::new(2);
        let far = harness.far_timer();
        let held = harness.hold(0);
        let (mut beside, first) = harness.armed(3);
        drop(held);
        HOMES.set(HOMES.get() | 1 << thread_index());
        let (mut at_home, second) = harness.armed(5);
        harness.advance(5);
        first.wait();
        second.wait();
        assert_eq!(poll(&mut beside, &first), Poll::Ready(()));
        assert_eq!(poll(&mut at_home, &second), Poll::Ready(()));
        drop(far);
    });
    assert_eq!(HOMES.get(), 0b11);
}

/// Oracle: deadlock; woken exactly once; the driver no more often than it was called.
#[test]
fn inserts_race_park_on_one_shard() {
    check(|| {
        let harness = Harness::new(1);
        let far = harness.far_timer();
        two_inserts(&harness, [0, 0], [5, 3]);
        drop(far);
    });
}

/// An insert that leaves it to an earlier one to tell the driver, and that one is cancelled at
/// once. Oracle: deadlock.
#[test]
fn insert_relies_on_one_that_is_cancelled() {
    check(|| {
        let harness = Harness::new(1);
        let far = harness.far_timer();
        let mut brief = harness.sleep(3);
        let canceller = thread::spawn(move || {
            assert_eq!(poll(&mut brief, &Signal::new()), Poll::Pending);
        });
        let (_near, signal) = harness.armed(5);
        canceller.join().unwrap();
        harness.advance(5);
        signal.wait();
        drop(far);
    });
}

/// tokio#6682. Oracle: deadlock; woken exactly once; the driver no more often than it was called.
#[test]
fn inserts_race_park_on_two_shards() {
    check(|| {
        let harness = Harness::new(2);
        let far = harness.far_timer();
        two_inserts(&harness, [0, 1], [5, 3]);
        drop(far);
    });
}

/// The driver parks for the shard that comes first, not for the one it looked at last. Oracle:
/// deadlock.
#[test]
fn insert_races_park_beside_a_far_shard() {
    check(|| {
        let harness = Harness::new(2);
        set_thread_index(1);
        let far = harness.far_timer();
        let near = sleeper(&harness, 0, 5);
        harness.advance(5);
        near.join().unwrap();
        drop(far);
    });
}

/// The driver does not lock the shard, in which there has been nothing yet. Oracle: deadlock.
#[test]
fn an_insert_into_an_idle_shard_races_park() {
    check(|| {
        let harness = Harness::new(2);
        let far = harness.far_timer();
        let near = sleeper(&harness, 1, 5);
        harness.advance(5);
        near.join().unwrap();
        drop(far);
    });
}

/// The driver fires the last of a shard, and need not lock it from then on. Oracle: deadlock.
#[test]
fn an_insert_races_the_last_fire_of_its_shard() {
    check(|| {
        let harness = Harness::new(2);
        let far = harness.far_timer();
        set_thread_index(1);
        let (_fires, signal) = harness.armed(3);
        let near = sleeper(&harness, 1, 5);
        harness.advance(3);
        signal.wait();
        harness.advance(5);
        near.join().unwrap();
        drop(far);
    });
}

/// A cancel leaves its shard empty, but for a deadline that lets a later insert notify nobody. The
/// driver still has to lock it. Oracle: deadlock.
#[test]
fn an_insert_relies_on_a_shard_left_by_a_cancel() {
    check(|| {
        let harness = Harness::new(2);
        let far = harness.far_timer();
        set_thread_index(1);
        drop(harness.armed(3));
        let (_near, signal) = harness.armed(5);
        harness.advance(5);
        signal.wait();
        drop(far);
    });
}

/// A sleep that has fired is armed again by a thread whose home is another shard than its entry's.
/// Oracle: deadlock.
#[test]
fn a_rearm_from_another_shard_races_park() {
    check(|| {
        let harness = Harness::new(2);
        let far = harness.far_timer();
        set_thread_index(1);
        let (mut sleep, signal) = harness.armed(5);
        harness.advance(5);
        signal.wait();
        sleep.reset_to(at(10));
        let sleeper = thread::spawn(move || block_on(sleep, &signal));
        harness.advance(10);
        sleeper.join().unwrap();
        drop(far);
    });
}

/// It was polled while it had no deadline, in another shard, so the reset is an insert there.
/// Oracle: deadlock.
#[test]
fn a_reset_from_never_races_park() {
    check(|| {
        let harness = Harness::new(2);
        let far = harness.far_timer();
        set_thread_index(1);
        let (mut sleep, signal) = (harness.timer.never(), Signal::new());
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        set_thread_index(0);
        sleep.reset_to(at(5));
        let clock = clock(&harness, [5]);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
        clock.join().unwrap();
        drop(far);
    });
}

/// The driver has a deadline to park for; this moves it forward.
fn reset_to_earlier(harness: &Harness) {
    let (mut sleep, signal) = harness.armed(1_000);
    sleep.reset_to(at(5));
    let clock = clock(harness, [5]);
    block_on(&mut sleep, &signal);
    clock.join().unwrap();
}

/// Oracle: deadlock.
#[test]
fn reset_to_earlier_races_park() {
    check(|| reset_to_earlier(&Harness::new(1)));
}

/// The deadline stays, and what the driver has is later than when it is due now. Oracle: deadlock.
#[test]
fn less_tolerance_races_park() {
    check(|| {
        let harness = Harness::new(1);
        let mut sleep = harness.sleep(5).with_tolerance(Duration::from_nanos(1_000));
        let signal = Signal::new();
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        sleep.set_tolerance(Duration::ZERO);
        let clock = clock(&harness, [5]);
        block_on(&mut sleep, &signal);
        clock.join().unwrap();
    });
}

/// The tolerance is a share of a delay that is shorter by now. The deadline is later than before,
/// and the sleep is due earlier. Oracle: deadlock, since the clock stops where it is due.
#[test]
fn a_smaller_share_races_park() {
    check(|| {
        let delay = Tolerance::percent_of_delay(100, Duration::MAX);
        let harness = Harness::with_tolerance(delay);
        let mut sleep = harness.timer.sleep(Duration::from_nanos(10));
        let signal = Signal::new();
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        // It was due by 20, and is due by 13.
        harness.advance(9);
        sleep.reset_to(at(11));
        let clock = clock(&harness, [13]);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
        clock.join().unwrap();
    });
}

/// Oracle: deadlock.
#[test]
fn reset_to_earlier_races_park_beside_a_far_shard() {
    check(|| {
        let harness = Harness::new(2);
        set_thread_index(1);
        let far = harness.far_timer();
        set_thread_index(0);
        reset_to_earlier(&harness);
        drop(far);
    });
}
