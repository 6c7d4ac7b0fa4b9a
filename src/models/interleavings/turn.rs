//! A loop of the user's own that turns the wheels, and what other threads do meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::clock::{Clock, VirtualTime};
use crate::driver::{Budget, Driver};
use crate::engine::Engine;
use crate::models::harness::{Signal, at, block_on, poll};
use crate::sleep::Sleep;
use crate::sync::{StdArc, set_thread_index, times_given_way};
use crate::timer::Builder;
use crate::timer::{Timer, by_hand};
use crate::virtual_time::VirtualClock;

/// A timer turned by a loop of the user's own.
struct Loop {
    driver: Driver,
    time: Arc<VirtualTime>,
    called: Arc<Signal>,
}

impl Loop {
    fn new(shards: usize) -> Self {
        let called = Signal::new();
        let hook = Arc::clone(&called);
        let (timer_fd, driven_by) = by_hand(move || hook.raise());
        let time = Arc::new(VirtualTime::new());
        let clock = Clock::Model(Arc::clone(&time));
        let timer = Timer::of(Engine::new(clock, shards, driven_by).shared());
        Self { driver: Driver::new(timer, timer_fd), time, called }
    }

    fn sleep(&self, nanos: u64) -> Sleep {
        Sleep::new(self.driver.timer().engine_ref(), at(nanos))
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

/// The loop has a timer to wait for, and a remote thread arms an earlier one, in the shard `index`.
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

/// The loop waits for the timerfd alone, and asks for it after it has turned once. Oracle:
/// deadlock.
#[test]
fn a_turn_that_sets_the_timerfd_races_remote_insert() {
    check(|| {
        let mut by_hand = Loop::new(1);
        let mut far = by_hand.sleep(1_000);
        assert_eq!(poll(&mut far, &Signal::new()), Poll::Pending);
        let near = by_hand.sleep(5);
        let remote = thread::spawn(move || block_on(near, &Signal::new()));
        by_hand.driver.turn();
        let timer = by_hand.driver.timer().clone();
        let clock = timer.engine().clock();
        let timer_fd = by_hand.driver.timer_fd().clone();
        let descriptor = timer_fd.descriptor(clock).unwrap();
        loop {
            descriptor.wait();
            if by_hand.driver.turn().next == Some(clock.instant(at(5))) {
                break;
            }
        }
        by_hand.time.move_to(at(5));
        by_hand.driver.turn();
        remote.join().unwrap();
    });
}

/// The loop cuts its turns short, and has more to do than a single turn does. Oracle: deadlock.
#[test]
fn turns_cut_short_race_remote_insert() {
    check(|| {
        let mut by_hand = Loop::new(2);
        let mut due = [1, 2].map(|nanos| (by_hand.sleep(nanos), Signal::new()));
        for (sleep, signal) in &mut due {
            assert_eq!(poll(sleep, signal), Poll::Pending);
        }
        by_hand.time.move_to(at(2));
        let near = by_hand.sleep(5);
        let remote = thread::spawn(move || {
            set_thread_index(1);
            block_on(near, &Signal::new());
        });
        let next = by_hand.driver.timer().engine().clock().instant(at(5));
        let mut fired = 0;
        loop {
            let turn = by_hand.driver.turn_within(Budget::Timers(1));
            fired += turn.fired;
            if turn.next == Some(next) {
                break;
            }
            if !turn.more {
                by_hand.called.wait();
            }
        }
        assert_eq!(fired, 2);
        by_hand.time.move_to(at(5));
        by_hand.driver.turn();
        remote.join().unwrap();
    });
}

/// Every turn is cut short but the last, and the second begins in the shard that was not reached.
/// Oracle: deadlock; each fires once.
#[test]
fn turns_cut_short_begin_with_another_shard() {
    check(|| {
        let mut by_hand = Loop::new(2);
        let due = [(0, 1), (0, 1), (1, 2), (1, 2)].map(|(index, nanos)| {
            set_thread_index(index);
            let (mut sleep, signal) = (by_hand.sleep(nanos), Signal::new());
            assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
            (sleep, signal)
        });
        by_hand.time.move_to(at(2));
        let near = by_hand.sleep(5);
        let remote = thread::spawn(move || block_on(near, &Signal::new()));
        let mut woken = Vec::new();
        let next = by_hand.driver.timer().engine().clock().instant(at(5));
        loop {
            let turn = by_hand.driver.turn_within(Budget::Timers(1));
            let is_new = |n: &usize| due[*n].1.wakes() == 1 && !woken.contains(n);
            woken.extend((0..4).find(is_new));
            if turn.next == Some(next) {
                break;
            }
            if !turn.more {
                by_hand.called.wait();
            }
        }
        assert_eq!(woken, [0, 2, 1, 3], "in turn");
        by_hand.time.move_to(at(5));
        by_hand.driver.turn();
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
        let (timer, mut driver) =
            Builder::default().virtual_clock(&clock).build_manual(hook).unwrap();
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

/// The loop has turned, and does not come back in time. Oracle: the first poll after the deadline
/// finds it past.
#[test]
fn a_loop_that_does_not_turn_is_not_trusted() {
    check(|| {
        let mut by_hand = Loop::new(1);
        let (mut sleep, signal) = (by_hand.sleep(5), Signal::new());
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        assert_eq!(by_hand.driver.turn().fired, 0);
        by_hand.time.move_to(at(5));
        assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
    });
}

/// The hook arms and drops a timer of the same shard. Oracle: deadlock, if it is called under the
/// lock that it wants.
#[test]
fn a_hook_arms_another_timer() {
    check(|| {
        let handle = StdArc::new(std::sync::Mutex::new(None::<Timer>));
        let hook = {
            let handle = StdArc::clone(&handle);
            move || {
                let timer = handle.lock().unwrap().take().expect("called once");
                let mut armed = timer.sleep(Duration::from_nanos(3));
                assert_eq!(poll(&mut armed, &Signal::new()), Poll::Pending);
            }
        };
        let clock = VirtualClock::new();
        let (timer, mut driver) =
            Builder::default().virtual_clock(&clock).build_manual(hook).unwrap();
        driver.turn();
        *handle.lock().unwrap() = Some(timer.clone());
        let (mut sleep, signal) = (timer.sleep(Duration::from_nanos(5)), Signal::new());
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        assert!(handle.lock().unwrap().is_none(), "it was called");
    });
}

/// The last handle goes, and another thread drops the last armed sleep; whichever calls the hook,
/// it arms a timer of the same shard. Oracle: deadlock, if it is called under the lock.
#[test]
fn last_cancel_calls_the_hook_beside_a_close() {
    check(|| {
        let sleep = StdArc::new(std::sync::Mutex::new(None::<Sleep>));
        let hook = {
            let sleep = StdArc::clone(&sleep);
            move || {
                let taken = sleep.lock().unwrap().take();
                taken.into_iter().for_each(|mut sleep| _ = poll(&mut sleep, &Signal::new()));
            }
        };
        let clock = VirtualClock::new();
        let (timer, mut driver) =
            Builder::default().virtual_clock(&clock).build_manual(hook).unwrap();
        let mut last = timer.sleep(Duration::from_nanos(5));
        assert_eq!(poll(&mut last, &Signal::new()), Poll::Pending);
        driver.turn();
        *sleep.lock().unwrap() = Some(timer.sleep(Duration::from_nanos(3)));
        let dropper = thread::spawn(move || drop(last));
        drop((timer, driver));
        dropper.join().unwrap();
    });
}

/// More is due than a batch takes. Oracle: who waits for the shard's lock is given way.
#[test]
fn a_turn_in_parts_gives_way() {
    check(|| {
        let mut by_hand = Loop::new(1);
        let due = [(); 3].map(|()| (by_hand.sleep(5), Signal::new()));
        let _armed = due.map(|(mut sleep, signal)| {
            assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
            sleep
        });
        by_hand.time.move_to(at(5));
        let before = times_given_way();
        assert_eq!(by_hand.driver.turn().fired, 3);
        assert_eq!(times_given_way(), before + 1);
    });
}

/// A clock is advanced beside a loop that turns, so both fire the timers that are due, and beside a
/// thread that arms. Oracle: each is woken exactly once; deadlock.
#[test]
fn advance_races_turn() {
    check(|| {
        let clock = VirtualClock::new();
        let (timer, mut driver) =
            Builder::default().virtual_clock(&clock).build_manual(|| {}).unwrap();
        let signals = [5, 7].map(|nanos| {
            let (mut sleep, signal) = (timer.sleep(Duration::from_nanos(nanos)), Signal::new());
            assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
            (sleep, signal)
        });
        let sleep = timer.sleep(Duration::from_nanos(6));
        let advancer = thread::spawn({
            let clock = clock.clone();
            move || clock.advance(Duration::from_nanos(7))
        });
        let sleeper = thread::spawn(move || block_on(sleep, &Signal::new()));
        let mut fired = driver.turn().fired;
        fired += advancer.join().unwrap();
        sleeper.join().unwrap();
        assert!(fired == 2 || fired == 3, "{fired} fired");
        for (mut sleep, signal) in signals {
            assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
            assert_eq!(signal.wakes(), 1);
        }
    });
}
