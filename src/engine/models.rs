//! Loom models of the engine: every interleaving of a few operations, up to a number of
//! preemptions.
//!
//! The bound of each is two, or what `LOOM_MAX_PREEMPTIONS` says, or none (`ci/loom.sh`); of those
//! with two drivers, one less. The clock of a model is moved by the model; a driver thread sleeps
//! on it (`parker.rs`), so a deadline slept through is a deadlock, which loom reports. So is
//! a driver that does not end: an execution is over only when all its threads are. Wakers are
//! counted references of loom's, so a waker leaked, dropped twice or used after its drop is
//! reported too, as is any unordered access to the cell it lies in. These are the oracles of every
//! model; each names those that it relies on, or has besides.
//!
//! Which model has which two operations meet. What a sleep does, and what drives it:
//!
//! | | a turn fires | the driver parks | it starts | the last handle goes, it ends | a turn by hand | a virtual clock moves |
//! |---|---|---|---|---|---|---|
//! | arm | `slot_reuse_wakes_the_new_tenant_only`, `a_batch_is_woken_while_its_entries_are_reused`, `a_turn_in_parts_races_drop_and_arm` | `insert_races_park`, `insert_races_park_beside_a_far_shard` | `first_inserts_start_the_driver`, `first_inserts_of_two_shards_start_the_driver` | `arm_races_close`, `arm_races_close_on_two_shards`, `rearm_after_cancel_races_close`, `rearm_after_cancel_races_close_on_two_shards`, `rearm_after_cancel_beside_a_close` | `turn_races_remote_insert`, `turn_races_an_earlier_remote_insert`, `turn_races_an_earlier_remote_insert_on_two_shards` | `advance_races_arm`, `advance_races_arm_on_two_shards`, `advances_race_arm`, `jump_races_arm_and_turn` |
//! | poll again | `new_waker_races_fire`, `second_poll_races_fire` | the same | a second poll of `first_inserts_start_the_driver` | (1) | (2) | `advance_races_new_waker` |
//! | reset to later | `fire_races_reset_to_later`, `the_driver_heeds_a_later_deadline` | (3) | (1) | (1) | (2) | `advance_races_reset_to_later` |
//! | reset to earlier | `fire_races_reset_to_earlier` | `reset_to_earlier_races_park`, `reset_to_earlier_races_park_beside_a_far_shard` | (1) | `reset_to_earlier_races_close` | `turn_races_a_remote_reset_to_earlier` | `advance_races_reset` |
//! | drop | `fire_races_drop`, `a_turn_in_parts_races_drop_and_arm` | (3), except for the last | (3) | `last_cancel_races_close` | (2) | `advance_races_drop` |
//!
//! 1. An entry is queued all the while, so the driver runs and does not end; what closing and
//!    starting touch, this does not. That it is so for a reset, `reset_to_earlier_races_close` has.
//! 2. A turn by hand fires by the same code as the driver's thread, and differs from it only in
//!    what it waits for. These never end its wait.
//! 3. Wakes nobody, and the driver waits for nothing that it changes.
//!
//! Sleeps among themselves meet in a shard's lock and in the alarm:
//!
//! - arm and arm: `inserts_race_park_on_one_shard`, `inserts_race_park_on_two_shards`,
//!   `inserts_that_meet_go_next_door`, and where they start the driver;
//! - arm and drop: `insert_relies_on_one_that_is_cancelled`;
//! - a reset to earlier does to shard and alarm what an arm does; a reset to later, and a poll
//!   again, touch no other sleep's and nothing that is shared.
//!
//! Drives among themselves: starts meet in `first_inserts_start_the_driver`; a start and an end in
//! `rearm_after_cancel_races_close`; moves of a clock in `advances_add_up` and `advances_race_arm`;
//! a jump and a turn in `jump_races_arm_and_turn`. Turns do not: a driver thread is one, and a
//! [`Driver`] is borrowed for it.
//!
//! Two timers share wakers and threads, and nothing of the engine:
//! `a_waker_is_shared_by_two_timers`, `the_end_of_one_timer_races_arm_on_another`. The process-wide
//! timer is a static, which a model cannot have; its engine is as any other, and is never closed.
//! Nor can a model fork: a child has one thread, and leaves the engines it inherited alone
//! (`fork.rs`). A waker that comes back into the engine: `waker_arms_another_timer`.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use super::harness::{Rig, Signal, at, block_on, poll};
use super::{Drive, Engine};
use crate::clock::{Clock, VirtualTime};
use crate::driver::Driver;
use crate::handle::EngineRef;
use crate::sleep::Sleep;
use crate::sync::{StdArc, set_thread_index};
use crate::timer::Timer;
use crate::{Builder, VirtualClock};

/// Explores a model, to the bound that the environment says, and says how many executions it took.
fn check(model: impl Fn() + Send + Sync + 'static) {
    check_short_of(0, model);
}

/// The same, to so many preemptions less.
fn check_short_of(less: usize, model: impl Fn() + Send + Sync + 'static) {
    let executions = std::sync::Arc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    if std::env::var_os("TOURBILLON_UNBOUNDED").is_none() {
        let bound = builder.preemption_bound.unwrap_or(2);
        builder.preemption_bound = Some(bound.saturating_sub(less));
    }
    let counted = std::sync::Arc::clone(&executions);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed); // ORDERING: outside the model
        model();
    });
    println!("{executions:?} executions");
}

/// Sleeps in another thread, in the shard `index`; it must end, and not before its deadline.
fn sleeper(rig: &Rig, index: usize, nanos: u64) -> thread::JoinHandle<()> {
    let (sleep, time) = (rig.sleep(nanos), Arc::clone(&rig.time));
    thread::spawn(move || {
        set_thread_index(index);
        block_on(sleep, &Signal::new());
        assert!(time.now() >= at(nanos), "early");
    })
}

/// Moves the clock in another thread, to each of these times in turn.
fn clock<const N: usize>(rig: &Rig, times: [u64; N]) -> thread::JoinHandle<()> {
    let hands = rig.hands();
    thread::spawn(move || times.into_iter().for_each(|nanos| hands.advance(nanos)))
}

/// The driver parks for a far timer, or is about to. Oracle: deadlock; never early.
#[test]
fn insert_races_park() {
    check(|| {
        let rig = Rig::new(1);
        let far = rig.far_timer();
        let near = sleeper(&rig, 0, 5);
        rig.advance(5);
        near.join().unwrap();
        drop(far);
    });
}

/// Arms in two threads, each in its own shard, then lets the time come. Nothing else moves the
/// clock, so this races the inserts with the driver only.
fn two_inserts(rig: &Rig, shards: [usize; 2], deadlines: [u64; 2]) {
    let [mut mine, mut theirs] = deadlines.map(|nanos| rig.sleep(nanos));
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
    rig.advance(5);
    signal.wait();
    their_signal.wait();
    assert_eq!(poll(&mut mine, &signal), Poll::Ready(()));
    assert_eq!(poll(&mut theirs, &their_signal), Poll::Ready(()));
    assert_eq!((signal.wakes(), their_signal.wakes()), (1, 1));
    let tally = &rig.timer.engine().tally;
    // ORDERING: outside the model. One park is ended by the clock, and one by each unpark.
    let wakeups = tally.wakeups.load(Ordering::SeqCst);
    assert!(wakeups <= tally.unparks.load(Ordering::SeqCst) + 1, "woken in vain");
}

/// The first insert of all starts the driver; a later deadline in the same shard leaves that to
/// it. Oracle: deadlock; woken exactly once; the driver no more often than it was called.
#[test]
fn first_inserts_start_the_driver() {
    check(|| two_inserts(&Rig::new(1), [0, 0], [3, 5]));
}

/// The same with a shard each. Oracle: as above.
#[test]
fn first_inserts_of_two_shards_start_the_driver() {
    check(|| two_inserts(&Rig::new(2), [0, 1], [3, 5]));
}

/// Two threads that call the same shard home, so that one may have to go next door. Oracle: the
/// wheel's assertions, as an entry names its shard; deadlock; woken exactly once.
#[test]
fn inserts_that_meet_go_next_door() {
    check(|| two_inserts(&Rig::new(2), [0, 0], [5, 3]));
}

/// Oracle: deadlock; woken exactly once; the driver no more often than it was called.
#[test]
fn inserts_race_park_on_one_shard() {
    check(|| {
        let rig = Rig::new(1);
        let far = rig.far_timer();
        two_inserts(&rig, [0, 0], [5, 3]);
        drop(far);
    });
}

/// An insert that leaves it to an earlier one to tell the driver, and that one is cancelled at
/// once. Oracle: deadlock.
#[test]
fn insert_relies_on_one_that_is_cancelled() {
    check(|| {
        let rig = Rig::new(1);
        let far = rig.far_timer();
        let mut brief = rig.sleep(3);
        let canceller = thread::spawn(move || {
            assert_eq!(poll(&mut brief, &Signal::new()), Poll::Pending);
        });
        let (_near, signal) = rig.armed(5);
        canceller.join().unwrap();
        rig.advance(5);
        signal.wait();
        drop(far);
    });
}

/// tokio#6682. Oracle: deadlock; woken exactly once; the driver no more often than it was called.
#[test]
fn inserts_race_park_on_two_shards() {
    check(|| {
        let rig = Rig::new(2);
        let far = rig.far_timer();
        two_inserts(&rig, [0, 1], [5, 3]);
        drop(far);
    });
}

/// The driver parks for the shard that comes first, not for the one it looked at last. Oracle:
/// deadlock.
#[test]
fn insert_races_park_beside_a_far_shard() {
    check(|| {
        let rig = Rig::new(2);
        set_thread_index(1);
        let far = rig.far_timer();
        let near = sleeper(&rig, 0, 5);
        rig.advance(5);
        near.join().unwrap();
        drop(far);
    });
}

/// The sleep is dropped here or on another thread while the driver fires it. Oracle: loom's
/// checks of the waker's cell and references, the wheel's assertions; woken at most once.
#[test]
fn fire_races_drop() {
    check(|| {
        let rig = Rig::new(1);
        let (sleep, signal) = rig.armed(5);
        let dropper = thread::spawn(move || drop(sleep));
        rig.advance(5);
        dropper.join().unwrap();
        let stats = rig.timer.stats();
        assert_eq!((stats.fired + stats.cancelled, stats.pending), (1, 0));
        assert!(signal.wakes() <= 1);
    });
}

/// Oracle: deadlock, and never early for the deadline in force.
#[test]
fn fire_races_reset_to_later() {
    check(|| {
        let rig = Rig::new(1);
        let (mut sleep, signal) = rig.armed(5);
        let clock = clock(&rig, [5, 10]);
        sleep.reset_to(at(10));
        block_on(&mut sleep, &signal);
        assert!(rig.time.now() >= at(10), "early");
        clock.join().unwrap();
    });
}

/// A deadline moved later before the old one came is not fired for. Oracle: woken once, and not
/// before.
#[test]
fn the_driver_heeds_a_later_deadline() {
    check(|| {
        let rig = Rig::new(1);
        let (mut sleep, signal) = rig.armed(5);
        sleep.reset_to(at(10));
        // Armed behind it, so what fires this one has looked at that one before.
        let (_other, other_signal) = rig.armed(5);
        rig.advance(5);
        other_signal.wait();
        assert_eq!(signal.wakes(), 0);
        rig.advance(10);
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
        let rig = Rig::new(1);
        let (mut sleep, signal) = rig.armed(5);
        let clock = clock(&rig, [5, 10]);
        sleep.reset_to(at(20));
        sleep.reset_to(at(10));
        block_on(&mut sleep, &signal);
        assert!(rig.time.now() >= at(10), "early");
        clock.join().unwrap();
    });
}

/// The driver has a deadline to park for; this moves it forward.
fn reset_to_earlier(rig: &Rig) {
    let (mut sleep, signal) = rig.armed(1_000);
    sleep.reset_to(at(5));
    let clock = clock(rig, [5]);
    block_on(&mut sleep, &signal);
    clock.join().unwrap();
}

/// Oracle: deadlock.
#[test]
fn reset_to_earlier_races_park() {
    check(|| reset_to_earlier(&Rig::new(1)));
}

/// Oracle: deadlock.
#[test]
fn reset_to_earlier_races_park_beside_a_far_shard() {
    check(|| {
        let rig = Rig::new(2);
        set_thread_index(1);
        let far = rig.far_timer();
        set_thread_index(0);
        reset_to_earlier(&rig);
        drop(far);
    });
}

/// The waker of the last poll is woken, the one before at most once. Oracle: deadlock, counts.
#[test]
fn new_waker_races_fire() {
    check(|| {
        let rig = Rig::new(1);
        let ((sleep, first), second) = (rig.armed(5), Signal::new());
        let clock = clock(&rig, [5]);
        block_on(sleep, &second);
        clock.join().unwrap();
        assert!(first.wakes() + second.wakes() <= 1);
    });
}

/// Oracle: deadlock; woken at most once.
#[test]
fn second_poll_races_fire() {
    check(|| {
        let rig = Rig::new(1);
        let (mut sleep, signal) = rig.armed(5);
        let clock = clock(&rig, [5]);
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
        let rig = Rig::new(1);
        let (first, old) = rig.armed(5);
        let clock = clock(&rig, [5]);
        drop(first);
        let (mut second, new) = rig.armed(10);
        clock.join().unwrap();
        assert_eq!(new.wakes(), 0);
        rig.advance(10);
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
        let rig = Rig::new(1);
        let [first, second] = [rig.armed(5), rig.armed(5)];
        let clock = clock(&rig, [5]);
        first.1.wait();
        drop((first.0, second.0));
        let [third, fourth] = [rig.armed(10), rig.armed(10)];
        clock.join().unwrap();
        assert_eq!(third.1.wakes() + fourth.1.wakes(), 0);
        rig.advance(10);
        third.1.wait();
        fourth.1.wait();
        for (_, signal) in [&(third.0, first.1), &(fourth.0, second.1)] {
            assert_eq!(signal.wakes(), 1);
        }
        assert_eq!(third.1.wakes() + fourth.1.wakes(), 2);
    });
}

/// More is due than a batch takes, so the lock is released in the middle of a slot: there a timer
/// of that slot goes and another comes. Oracle: deadlock; the others are woken exactly once.
#[test]
fn a_turn_in_parts_races_drop_and_arm() {
    check(|| {
        let rig = Rig::new(1);
        let [(first, woken), (second, woken_too), (third, _)] =
            [rig.armed(5), rig.armed(5), rig.armed(5)];
        let clock = clock(&rig, [5]);
        drop(third);
        block_on(rig.sleep(5), &Signal::new());
        clock.join().unwrap();
        for (mut sleep, signal) in [(first, woken), (second, woken_too)] {
            signal.wait();
            assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
            assert_eq!(signal.wakes(), 1);
        }
    });
}

/// Oracle: deadlock, if the waker runs under the lock that it wants.
#[test]
fn waker_arms_another_timer() {
    check(|| {
        let rig = Rig::new(1);
        let signal = Signal::new();
        let waker = {
            let engine = Arc::clone(rig.timer.engine());
            let signal = std::sync::Mutex::new(Some(Arc::clone(&signal)));
            std::sync::Arc::new(Callback(Box::new(move || {
                let mut armed = Sleep::new(EngineRef::of(&engine), at(50));
                let _ = poll(&mut armed, &Signal::new());
                drop(armed);
                if let Some(signal) = signal.lock().unwrap().take() {
                    signal.raise();
                }
            })))
        };
        let mut sleep = rig.sleep(5);
        let waker = Waker::from(waker);
        assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        rig.advance(5);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
    });
}

struct Callback(Box<dyn Fn() + Send + Sync>);

impl std::task::Wake for Callback {
    fn wake(self: std::sync::Arc<Self>) {
        (self.0)();
    }
}

/// The driver ends with the last armed sleep of a timer without handles. Oracle: deadlock.
#[test]
fn last_cancel_races_close() {
    check(|| {
        let rig = Rig::new(2);
        let far = rig.far_timer();
        let dropper = thread::spawn(move || drop(far));
        drop(rig);
        dropper.join().unwrap();
    });
}

/// A sleep that outlives the handles is armed, in the shard `index`.
fn arm_and_close(shards: usize, index: usize) {
    let rig = Rig::new(shards);
    let hands = rig.hands();
    let near = sleeper(&rig, index, 5);
    drop(rig);
    hands.advance(5);
    near.join().unwrap();
}

/// Oracle: deadlock, both of the sleep and of a driver that does not end.
#[test]
fn arm_races_close() {
    check(|| arm_and_close(1, 0));
}

/// `closed` is ordered by the first shard's lock, and this one arms in the other. Oracle: as above.
#[test]
fn arm_races_close_on_two_shards() {
    check(|| arm_and_close(2, 1));
}

/// The driver ends while a deadline that was cancelled is still its shard's earliest.
fn rearm_after_cancel(shards: usize, index: usize) {
    let rig = Rig::new(shards);
    set_thread_index(index);
    let (first, _) = rig.armed(3);
    let second = rig.sleep(5);
    let clock = clock(&rig, [5]);
    drop(rig);
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

/// The same while the last handle goes: the driver may learn of that between two shards. Oracle:
/// deadlock.
#[test]
fn rearm_after_cancel_beside_a_close() {
    check(|| {
        let rig = Rig::new(2);
        let hands = rig.hands();
        let (first, _) = rig.armed(3);
        let (mut second, signal) = (rig.sleep(5), Signal::new());
        drop(first);
        let closer = thread::spawn(move || drop(rig));
        assert_eq!(poll(&mut second, &signal), Poll::Pending);
        hands.advance(5);
        signal.wait();
        drop(second);
        closer.join().unwrap();
    });
}

/// A driver that may end does not while a timer is armed, whichever shard is empty, and is told
/// when that comes first. Oracle: deadlock, both of the sleep and of a driver that does not end.
#[test]
fn reset_to_earlier_races_close() {
    check(|| {
        let rig = Rig::new(2);
        let hands = rig.hands();
        let (mut sleep, signal) = rig.armed(1_000);
        let closer = thread::spawn(move || drop(rig));
        sleep.reset_to(at(5));
        hands.advance(5);
        signal.wait();
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
        drop(sleep);
        closer.join().unwrap();
    });
}

/// Two timers, two drivers, one task. Oracle: deadlock; woken exactly once by each. Bound: one
/// less, as the two have nothing in common but the task.
#[test]
fn a_waker_is_shared_by_two_timers() {
    check_short_of(1, || {
        let [one, other] = [Rig::new(1), Rig::new(1)];
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

/// One timer's last handle and last armed sleep go while another's first sleep is armed. Oracle:
/// deadlock, both of the sleep and of either driver. Bound: one less, as above.
#[test]
fn the_end_of_one_timer_races_arm_on_another() {
    check_short_of(1, || {
        let [one, other] = [Rig::new(1), Rig::new(1)];
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

/// A timer turned by a loop of the user's own.
struct Loop {
    driver: Driver,
    time: Arc<VirtualTime>,
    called: Arc<Signal>,
}

impl Loop {
    fn new(shards: usize) -> Self {
        let called = Signal::new();
        let hook = {
            let called = Arc::clone(&called);
            StdArc::new(move || called.raise())
        };
        let time = Arc::new(VirtualTime::new());
        let clock = Clock::Model(Arc::clone(&time));
        let timer = Timer::of(Arc::new(Engine::new(clock, shards, Drive::Hand(hook))));
        Self { driver: Driver::new(timer), time, called }
    }

    fn sleep(&self, nanos: u64) -> Sleep {
        Sleep::new(EngineRef::of(self.driver.timer().engine()), at(nanos))
    }

    /// Turns, and waits for the hook, until a turn says that something is due at 5, as another
    /// thread will have it; then lets that time come, and turns once more. Nothing is fired then if
    /// that thread has found it past by itself.
    fn run(mut self) {
        let due = self.driver.timer().engine().clock().instant(at(5));
        while self.driver.turn().next != Some(due) {
            self.called.wait();
        }
        self.time.move_to(at(5));
        self.driver.turn();
    }
}

/// Oracle: deadlock.
#[test]
fn turn_races_remote_insert() {
    check(|| {
        let by_hand = Loop::new(1);
        let sleep = by_hand.sleep(5);
        let remote = thread::spawn(move || block_on(sleep, &Signal::new()));
        by_hand.run();
        remote.join().unwrap();
    });
}

/// The loop has a timer to wait for, and a remote thread arms one that is earlier, in the shard
/// `index`.
fn turn_and_an_earlier_insert(shards: usize, index: usize) {
    let by_hand = Loop::new(shards);
    let mut far = by_hand.sleep(1_000);
    assert_eq!(poll(&mut far, &Signal::new()), Poll::Pending);
    let near = by_hand.sleep(5);
    let remote = thread::spawn(move || {
        set_thread_index(index);
        block_on(near, &Signal::new());
    });
    by_hand.run();
    remote.join().unwrap();
}

/// Oracle: deadlock.
#[test]
fn turn_races_an_earlier_remote_insert() {
    check(|| turn_and_an_earlier_insert(1, 0));
}

/// Oracle: deadlock.
#[test]
fn turn_races_an_earlier_remote_insert_on_two_shards() {
    check(|| turn_and_an_earlier_insert(2, 0));
    check(|| turn_and_an_earlier_insert(2, 1));
}

/// Oracle: deadlock.
#[test]
fn turn_races_a_remote_reset_to_earlier() {
    check(|| {
        let by_hand = Loop::new(1);
        let (mut sleep, signal) = (by_hand.sleep(1_000), Signal::new());
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        let remote = thread::spawn(move || {
            sleep.reset_to(at(5));
            block_on(sleep, &signal);
        });
        by_hand.run();
        remote.join().unwrap();
    });
}

/// Nothing but the hook ends the loop's waits, and the clock jumps. Oracle: deadlock.
#[test]
fn jump_races_arm_and_turn() {
    check(|| {
        let (clock, called) = (VirtualClock::new(), Signal::new());
        let hook = {
            let called = Arc::clone(&called);
            move || called.raise()
        };
        let (timer, mut driver) = Builder::new().virtual_clock(&clock).build_manual(hook).unwrap();
        let sleep = timer.sleep(Duration::from_nanos(5));
        let over = StdArc::new(AtomicBool::new(false));
        let sleeper = thread::spawn({
            let (over, called) = (StdArc::clone(&over), Arc::clone(&called));
            move || {
                block_on(sleep, &Signal::new());
                over.store(true, Ordering::SeqCst); // ORDERING: outside the model
                called.raise();
            }
        });
        let jumper = thread::spawn(move || clock.jump(Duration::from_nanos(10)));
        // ORDERING: outside the model
        while !over.load(Ordering::SeqCst) {
            driver.turn();
            called.wait();
        }
        sleeper.join().unwrap();
        jumper.join().unwrap();
    });
}

fn virtual_timer(shards: usize) -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let timer = Builder::new().virtual_clock(&clock).shards(shards).build().unwrap();
    (timer, clock)
}

/// A sleep on a virtual clock that is armed, and what it was polled with.
fn armed_on(timer: &Timer, nanos: u64) -> (Sleep, Arc<Signal>) {
    let (mut sleep, signal) = (timer.sleep(Duration::from_nanos(nanos)), Signal::new());
    assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
    (sleep, signal)
}

/// To the deadline exactly, or past it. Oracle: deadlock, as nobody moves the clock a second time.
#[test]
fn advance_races_arm() {
    for goal in [5, 10] {
        check(move || {
            let (timer, clock) = virtual_timer(1);
            let sleep = timer.sleep(Duration::from_nanos(5));
            let sleeper = thread::spawn(move || block_on(sleep, &Signal::new()));
            clock.advance(Duration::from_nanos(goal));
            sleeper.join().unwrap();
        });
    }
}

/// The clock stops at the deadline of another timer on its way, in the same shard or in the one
/// scanned later. Oracle: deadlock; the other is woken exactly once.
#[test]
fn advance_races_arm_on_two_shards() {
    for index in [0, 1] {
        check(move || {
            let (timer, clock) = virtual_timer(2);
            set_thread_index(index);
            let (_armed, signal) = armed_on(&timer, 3);
            let sleep = timer.sleep(Duration::from_nanos(5));
            let sleeper = thread::spawn(move || block_on(sleep, &Signal::new()));
            clock.advance(Duration::from_nanos(10));
            sleeper.join().unwrap();
            assert_eq!(signal.wakes(), 1);
        });
    }
}

/// A thread that advances may leave it to another to do so. Oracle: deadlock; the time.
#[test]
fn advances_race_arm() {
    check(|| {
        let (timer, clock) = virtual_timer(1);
        let sleep = timer.sleep(Duration::from_nanos(7));
        let sleeper = thread::spawn(move || block_on(sleep, &Signal::new()));
        let other = {
            let clock = clock.clone();
            thread::spawn(move || clock.advance(Duration::from_nanos(5)))
        };
        clock.advance(Duration::from_nanos(5));
        assert!(clock.time().now() >= at(5), "returned too soon");
        other.join().unwrap();
        sleeper.join().unwrap();
        assert_eq!(clock.time().now(), at(10));
    });
}

/// To earlier: no poll is needed then. Oracle: deadlock, as nobody moves the clock a second time.
#[test]
fn advance_races_reset() {
    check(|| {
        let (timer, clock) = virtual_timer(1);
        let (mut sleep, signal) = armed_on(&timer, 100);
        let sleeper = thread::spawn(move || {
            sleep.reset_to(at(5));
            signal.wait();
            assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
        });
        clock.advance(Duration::from_nanos(10));
        sleeper.join().unwrap();
    });
}

/// It may have fired for the old deadline. Oracle: never early; deadlock, as above.
#[test]
fn advance_races_reset_to_later() {
    check(|| {
        let (timer, clock) = virtual_timer(1);
        let (mut sleep, signal) = armed_on(&timer, 5);
        let time = clock.time();
        let sleeper = thread::spawn(move || {
            sleep.reset_to(at(8));
            block_on(sleep, &signal);
            assert!(time.now() >= at(8), "early");
        });
        clock.advance(Duration::from_nanos(10));
        sleeper.join().unwrap();
    });
}

/// The waker of the last poll is woken. Oracle: deadlock; woken once in all.
#[test]
fn advance_races_new_waker() {
    check(|| {
        let (timer, clock) = virtual_timer(1);
        let ((sleep, first), second) = (armed_on(&timer, 5), Signal::new());
        let sleeper = {
            let second = Arc::clone(&second);
            thread::spawn(move || block_on(sleep, &second))
        };
        clock.advance(Duration::from_nanos(10));
        sleeper.join().unwrap();
        assert!(first.wakes() + second.wakes() <= 1);
    });
}

/// Oracle: loom's checks; pending ends at none.
#[test]
fn advance_races_drop() {
    check(|| {
        let (timer, clock) = virtual_timer(1);
        let (sleep, signal) = armed_on(&timer, 5);
        let dropper = thread::spawn(move || drop(sleep));
        clock.advance(Duration::from_nanos(10));
        dropper.join().unwrap();
        assert_eq!(clock.pending(), 0);
        assert!(signal.wakes() <= 1);
    });
}

/// Two threads move the clock: it ends where the sum of both is. Oracle: deadlock, the time.
#[test]
fn advances_add_up() {
    check(|| {
        let (timer, clock) = virtual_timer(1);
        let (_sleep, _) = armed_on(&timer, 7);
        let other = {
            let clock = clock.clone();
            thread::spawn(move || clock.advance(Duration::from_nanos(5)))
        };
        let fired = clock.advance(Duration::from_nanos(5)) + other.join().unwrap();
        assert_eq!((fired, clock.time().now()), (1, at(10)));
    });
}
