//! Loom models of the engine: every interleaving of a few operations, up to a number of
//! preemptions.
//!
//! The bound is two unless `LOOM_MAX_PREEMPTIONS` says otherwise. The clock of a model is moved by
//! the model; a driver thread sleeps on it (`driver/parker.rs`), so a deadline slept through is a
//! deadlock, which loom reports. So is a driver that does not end: an execution is over only when
//! all its threads are. Wakers are counted references of loom's, so a waker leaked, dropped twice
//! or used after its drop is reported too, as is any unordered access to the cell it lies in.
//!
//! Which pairs of operations meet where:
//!
//! | | turn | plan and park | last handle goes |
//! |---|---|---|---|
//! | arm | `slot_reuse_wakes_the_new_tenant_only` | `insert_races_park`, `inserts_race_park_on_two_shards`, `insert_races_park_beside_a_far_shard` | `arm_races_close`, `rearm_after_cancel_races_close` |
//! | poll again | `new_waker_races_fire`, `second_poll_races_fire` | the same | takes no part: touches no state that closing does |
//! | reset to later | `fire_races_reset_to_later`, `the_driver_heeds_a_later_deadline` | takes no lock and wakes nobody | as poll again |
//! | reset to earlier | `fire_races_reset_to_earlier` | `reset_to_earlier_races_park` | as arm |
//! | drop | `fire_races_drop` | never unparks, except for the last | `last_cancel_races_close` |
//!
//! By hand: `turn_races_remote_insert`. On a virtual clock: `advance_races_arm`,
//! `advance_races_reset`. A waker that comes back into the engine: `waker_arms_another_timer`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use super::rig::{Rig, Signal, at, block_on, poll};
use super::{Drive, Engine};
use crate::clock::{Clock, VirtualTime};
use crate::handle::EngineRef;
use crate::manual::Driver;
use crate::sleep::Sleep;
use crate::sync::{StdArc, set_thread_index};
use crate::timer::Timer;
use crate::{Builder, VirtualClock};

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(model);
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

/// Oracle: deadlock.
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
}

/// The first insert of all starts the driver; a later deadline in the same shard leaves that to
/// it. Oracle: deadlock; woken exactly once.
#[test]
fn first_inserts_start_the_driver() {
    check(|| two_inserts(&Rig::new(1), [0, 0], [3, 5]));
}

/// tokio#6682. Oracle: deadlock; woken exactly once.
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
        let signal = Signal::new();
        let mut sleep = rig.sleep(5);
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
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
        let mut sleep = rig.sleep(5);
        let signal = Signal::new();
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        let hands = rig.hands();
        let clock = thread::spawn(move || {
            hands.advance(5);
            hands.advance(10);
        });
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
        let mut sleep = rig.sleep(5);
        let signal = Signal::new();
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        sleep.reset_to(at(10));
        // Armed behind it, so what fires this one has looked at that one before.
        let (mut other, other_signal) = (rig.sleep(5), Signal::new());
        assert_eq!(poll(&mut other, &other_signal), Poll::Pending);
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
        let mut sleep = rig.sleep(5);
        let signal = Signal::new();
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        let hands = rig.hands();
        let clock = thread::spawn(move || {
            hands.advance(5);
            hands.advance(10);
        });
        sleep.reset_to(at(20));
        sleep.reset_to(at(10));
        block_on(&mut sleep, &signal);
        assert!(rig.time.now() >= at(10), "early");
        clock.join().unwrap();
    });
}

/// Oracle: deadlock.
#[test]
fn reset_to_earlier_races_park() {
    check(|| {
        let rig = Rig::new(1);
        let mut sleep = rig.sleep(1_000);
        let signal = Signal::new();
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        sleep.reset_to(at(5));
        let hands = rig.hands();
        let clock = thread::spawn(move || hands.advance(5));
        block_on(&mut sleep, &signal);
        clock.join().unwrap();
    });
}

/// The waker of the last poll is woken, the one before at most once. Oracle: deadlock, counts.
#[test]
fn new_waker_races_fire() {
    check(|| {
        let rig = Rig::new(1);
        let mut sleep = rig.sleep(5);
        let (first, second) = (Signal::new(), Signal::new());
        assert_eq!(poll(&mut sleep, &first), Poll::Pending);
        let hands = rig.hands();
        let clock = thread::spawn(move || hands.advance(5));
        block_on(&mut sleep, &second);
        clock.join().unwrap();
        assert!(first.wakes() + second.wakes() <= 1);
    });
}

/// Oracle: deadlock; woken at most once.
#[test]
fn second_poll_races_fire() {
    check(|| {
        let rig = Rig::new(1);
        let mut sleep = rig.sleep(5);
        let signal = Signal::new();
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        let hands = rig.hands();
        let clock = thread::spawn(move || hands.advance(5));
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
        let (old, new) = (Signal::new(), Signal::new());
        let mut first = rig.sleep(5);
        assert_eq!(poll(&mut first, &old), Poll::Pending);
        let hands = rig.hands();
        let clock = thread::spawn(move || hands.advance(5));
        drop(first);
        let mut second = rig.sleep(10);
        assert_eq!(poll(&mut second, &new), Poll::Pending);
        clock.join().unwrap();
        assert_eq!(new.wakes(), 0);
        rig.advance(10);
        block_on(&mut second, &new);
        assert!(old.wakes() <= 1);
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

/// Oracle: deadlock, both of the sleep and of a driver that does not end.
#[test]
fn arm_races_close() {
    check(|| {
        let rig = Rig::new(1);
        let hands = rig.hands();
        let near = sleeper(&rig, 0, 5);
        drop(rig);
        hands.advance(5);
        near.join().unwrap();
    });
}

/// The driver ends while a deadline that was cancelled is still its shard's earliest. Oracle:
/// deadlock.
#[test]
fn rearm_after_cancel_races_close() {
    check(|| {
        let rig = Rig::new(1);
        let hands = rig.hands();
        let (mut first, second) = (rig.sleep(3), rig.sleep(5));
        assert_eq!(poll(&mut first, &Signal::new()), Poll::Pending);
        drop(rig);
        drop(first);
        let clock = thread::spawn(move || hands.advance(5));
        block_on(second, &Signal::new());
        clock.join().unwrap();
    });
}

/// A loop of the user's own: turn, wait for the hook or the deadline, turn. Oracle: deadlock.
#[test]
fn turn_races_remote_insert() {
    check(|| {
        let called = Signal::new();
        let hook = {
            let called = Arc::clone(&called);
            StdArc::new(move || called.raise())
        };
        let time = Arc::new(VirtualTime::new());
        let clock = Clock::Model(Arc::clone(&time));
        let timer = Timer::of(Arc::new(Engine::new(clock, 1, Drive::Hand(hook))));
        let sleep = Sleep::new(EngineRef::of(timer.engine()), at(5));
        let remote = thread::spawn(move || block_on(sleep, &Signal::new()));
        let mut driver = Driver::new(timer);
        while driver.turn().fired == 0 {
            match driver.turn().next {
                Some(_) => time.move_to(at(5)),
                None => called.wait(),
            }
        }
        remote.join().unwrap();
    });
}

fn virtual_timer() -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let timer = Builder::new().virtual_clock(&clock).build().unwrap();
    (timer, clock)
}

/// Oracle: deadlock, as nobody moves the clock a second time.
#[test]
fn advance_races_arm() {
    check(|| {
        let (timer, clock) = virtual_timer();
        let sleep = timer.sleep(Duration::from_nanos(5));
        let sleeper = thread::spawn(move || block_on(sleep, &Signal::new()));
        clock.advance(Duration::from_nanos(10));
        sleeper.join().unwrap();
    });
}

/// Oracle: deadlock, as nobody moves the clock a second time.
#[test]
fn advance_races_reset() {
    check(|| {
        let (timer, clock) = virtual_timer();
        let signal = Signal::new();
        let mut sleep = timer.sleep(Duration::from_nanos(100));
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        let sleeper = thread::spawn(move || {
            sleep.reset_to(at(5));
            block_on(sleep, &signal);
        });
        clock.advance(Duration::from_nanos(10));
        sleeper.join().unwrap();
    });
}

/// Oracle: loom's checks; pending ends at none.
#[test]
fn advance_races_drop() {
    check(|| {
        let (timer, clock) = virtual_timer();
        let signal = Signal::new();
        let mut sleep = timer.sleep(Duration::from_nanos(5));
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
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
        let (timer, clock) = virtual_timer();
        let mut sleep = timer.sleep(Duration::from_nanos(7));
        let signal = Signal::new();
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        let other = {
            let clock = clock.clone();
            thread::spawn(move || clock.advance(Duration::from_nanos(5)))
        };
        let fired = clock.advance(Duration::from_nanos(5)) + other.join().unwrap();
        assert_eq!((fired, clock.time().now()), (1, at(10)));
    });
}
