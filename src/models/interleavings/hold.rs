//! A virtual clock that moves by itself, and what keeps it from that.

use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::advance::virtual_timer;
use super::check;
use crate::models::harness::{Signal, at, block_on};

/// Opened once, by another thread.
#[derive(Default)]
struct Gate(Mutex<(bool, Option<Waker>)>);

impl Gate {
    fn open(&self) {
        let mut gate = self.0.lock().unwrap();
        gate.0 = true;
        let waker = gate.1.take();
        drop(gate);
        waker.into_iter().for_each(Waker::wake);
    }

    async fn pass(&self) {
        poll_fn(|cx| {
            let mut gate = self.0.lock().unwrap();
            gate.1 = Some(cx.waker().clone());
            if gate.0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// One thread waits for the clock, and another holds it for as long as it works. Oracle: the time
/// of the work's end; deadlock, if the end of the hold tells nobody.
#[test]
fn a_hold_ends_beside_a_thread_that_waits() {
    check(|| {
        let (timer, clock) = virtual_timer(1);
        let hold = clock.hold();
        let time = clock.time();
        let worker = thread::spawn(move || {
            assert_eq!(time.now(), at(0), "moved while it is held");
            drop(hold);
        });
        clock.block_on(timer.sleep(Duration::from_nanos(5)));
        assert_eq!(clock.time().now(), at(5));
        worker.join().unwrap();
    });
}

/// Both wait for a timer of their own. Oracle: deadlock; the time.
#[test]
fn a_hold_ends_beside_two_threads_that_wait() {
    check(|| {
        let (timer, clock) = virtual_timer(1);
        let hold = clock.hold();
        let (other, later) = (clock.clone(), timer.sleep(Duration::from_nanos(7)));
        let other = thread::spawn(move || other.block_on(later));
        let dropper = thread::spawn(move || drop(hold));
        clock.block_on(timer.sleep(Duration::from_nanos(5)));
        dropper.join().unwrap();
        other.join().unwrap();
        assert_eq!(clock.time().now(), at(7));
    });
}

/// Both wait for the work of another thread. That thread holds the clock until a waiter has gone.
/// Oracle: deadlock, if a wake-up reaches the other one alone.
#[test]
fn a_wake_up_reaches_the_one_of_two_threads_that_it_is_for() {
    check(|| {
        let (_timer, clock) = virtual_timer(1);
        let hold = clock.hold();
        let gates = [(); 2].map(|()| Arc::new(Gate::default()));
        let waiters = gates.clone().map(|gate| {
            let clock = clock.clone();
            thread::spawn(move || clock.block_on(gate.pass()))
        });
        for (gate, waiter) in gates.iter().zip(waiters) {
            gate.open();
            waiter.join().unwrap();
        }
        drop(hold);
    });
}

/// There is no timer to move the clock to. Oracle: deadlock; loom's limit, if it does not wait.
#[test]
fn a_clock_without_timers_waits_for_a_wake_up() {
    check(|| {
        let (_timer, clock) = virtual_timer(1);
        let gate = Arc::new(Gate::default());
        let opener = Arc::clone(&gate);
        let opener = thread::spawn(move || opener.open());
        clock.block_on(gate.pass());
        opener.join().unwrap();
        assert_eq!(clock.time().now(), at(0));
    });
}

/// A tracked task sleeps on a thread of its own, beside another that waits for a later time.
/// Oracle: the time that the task sees, its own; deadlock.
#[test]
fn a_tracked_task_runs_before_the_clock_moves_on() {
    check(|| {
        let (timer, clock) = virtual_timer(1);
        let (sleep, time) = (timer.sleep(Duration::from_nanos(5)), clock.time());
        let task = clock.track(async move {
            sleep.await;
            assert_eq!(time.now(), at(5), "too late");
        });
        let runner = thread::spawn(move || block_on(task, &Signal::new()));
        clock.block_on(timer.sleep(Duration::from_nanos(10)));
        runner.join().unwrap();
        assert_eq!(clock.time().now(), at(10));
    });
}
