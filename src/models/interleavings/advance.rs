//! A virtual clock that moves, and what other threads do meanwhile.

use std::task::Poll;
use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::models::harness::{Signal, at, block_on, callback, poll, poll_with};
use crate::sleep::Sleep;
use crate::sync::set_thread_index;
use crate::timer::Builder;
use crate::timer::Timer;
use crate::virtual_time::VirtualClock;

pub(super) fn virtual_timer(shards: usize) -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let timer = Builder::default().virtual_clock(&clock).shards(shards).build().unwrap();
    (timer, clock)
}

/// An armed sleep on a virtual clock, and the signal it was polled with.
fn armed_on(timer: &Timer, nanos: u64) -> (Sleep, Arc<Signal>) {
    let (mut sleep, signal) = (timer.sleep(Duration::from_nanos(nanos)), Signal::new());
    assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
    (sleep, signal)
}

/// To the deadline exactly, or past it. Oracle: deadlock, since nobody moves the clock again.
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

/// Two arm in one shard, and the second relies on the first. Oracle: deadlock, since nobody moves
/// the clock again.
#[test]
fn advance_races_two_arms() {
    check(|| {
        let (timer, clock) = virtual_timer(1);
        let sleepers = [5, 7].map(|nanos| {
            let sleep = timer.sleep(Duration::from_nanos(nanos));
            thread::spawn(move || block_on(sleep, &Signal::new()))
        });
        clock.advance(Duration::from_nanos(10));
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

/// A fired sleep is armed again by a thread whose home is another shard than its entry's. Oracle:
/// deadlock, since nobody moves the clock once more.
#[test]
fn advance_races_rearm_from_another_shard() {
    check(|| {
        let (timer, clock) = virtual_timer(2);
        set_thread_index(1);
        let (mut sleep, signal) = armed_on(&timer, 5);
        clock.advance(Duration::from_nanos(5));
        sleep.reset_to(at(8));
        let sleeper = thread::spawn(move || block_on(sleep, &signal));
        clock.advance(Duration::from_nanos(5));
        sleeper.join().unwrap();
    });
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

/// To earlier: no poll is needed then. Oracle: deadlock, since nobody moves the clock again.
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

/// Two threads leave it to a third to move the clock, and wait for it. Oracle: deadlock, the time.
#[test]
fn three_advances_add_up() {
    check(|| {
        let (timer, clock) = virtual_timer(1);
        let (_sleep, _) = armed_on(&timer, 7);
        let others = [(); 2].map(|()| {
            let clock = clock.clone();
            thread::spawn(move || clock.advance(Duration::from_nanos(5)))
        });
        let fired = clock.advance(Duration::from_nanos(5));
        let theirs = others.map(|other| other.join().unwrap());
        assert_eq!((fired + theirs[0] + theirs[1], clock.time().now()), (1, at(15)));
    });
}

/// Two threads move a clock each, and a waker of each moves the other's. Oracle: deadlock; the time
/// of both.
#[test]
fn wakers_of_two_clocks_advance_each_other() {
    check(|| {
        let timers = [virtual_timer(1), virtual_timer(1)];
        let clocks = timers.each_ref().map(|(_, clock)| clock.clone());
        let _sleeps = [0, 1].map(|own| {
            let other = clocks[1 - own].clone();
            let waker = callback(move || _ = other.advance(Duration::from_nanos(3)));
            let mut sleep = timers[own].0.sleep(Duration::from_nanos(5));
            assert_eq!(poll_with(&mut sleep, &waker), Poll::Pending);
            sleep
        });
        let other = {
            let clock = clocks[1].clone();
            thread::spawn(move || clock.advance(Duration::from_nanos(5)))
        };
        clocks[0].advance(Duration::from_nanos(5));
        other.join().unwrap();
        for clock in clocks {
            assert_eq!((clock.time().now(), clock.pending()), (at(8), 0));
        }
    });
}

/// To the next deadline, while another thread advances past it, and a third past that. Oracle:
/// deadlock; the time, which nobody's goal takes anything from.
#[test]
fn advance_to_next_races_advances() {
    check(|| {
        let (timer, clock) = virtual_timer(1);
        let (_sleep, signal) = armed_on(&timer, 3);
        let others = [(); 2].map(|()| {
            let clock = clock.clone();
            thread::spawn(move || clock.advance(Duration::from_nanos(5)))
        });
        let next = clock.advance_to_next();
        assert!(clock.time().now() >= at(3), "returned too soon");
        others.into_iter().for_each(|other| _ = other.join().unwrap());
        // The two may have begun where that one ended.
        let now = clock.time().now();
        assert!(now == at(10) || (next.is_some() && now == at(13)), "{now:?}");
        assert_eq!(signal.wakes(), 1);
    });
}

/// One thread jumps while another moves the clock. Oracle: the time, which does not go back.
#[test]
fn jump_races_advance() {
    check(|| {
        let (_timer, clock) = virtual_timer(1);
        let jumper = thread::spawn({
            let clock = clock.clone();
            move || {
                clock.jump(Duration::from_nanos(10));
                assert!(clock.time().now() >= at(10), "went back");
            }
        });
        clock.advance(Duration::from_nanos(5));
        jumper.join().unwrap();
        assert_eq!(clock.time().now(), at(15));
    });
}

/// Oracle: the wall time, which neither of the two loses anything of.
#[test]
fn suspends_add_up() {
    check(|| {
        let clock = VirtualClock::new();
        let before = clock.wall_now();
        let other = thread::spawn({
            let clock = clock.clone();
            move || clock.suspend(Duration::from_secs(1))
        });
        clock.suspend(Duration::from_secs(2));
        other.join().unwrap();
        assert_eq!(clock.wall_now(), before + Duration::from_secs(3));
    });
}
