//! A runtime's reactor in the place of the driver thread.

use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::thread::JoinHandle;

use super::{check, sleeper};
use crate::driver::Reactor;
use crate::engine::{Plan, SharedEngine};
use crate::models::harness::{ClockMover, Harness, at};
use crate::sync::{Arc, Mutex, StdArc, lock};

/// What a reactor knows of the timerfd.
#[derive(Default)]
struct State {
    has_reported: bool,
    has_ended: bool,
    waker: Option<Waker>,
    /// True once it is no longer polled.
    is_left: bool,
}

/// A runtime, which the model's own thread runs.
struct Runtime {
    engine: SharedEngine,
    state: StdArc<Mutex<State>>,
}

/// Has the state say that the reactor is left.
struct Watched(StdArc<Mutex<State>>);

impl Drop for Watched {
    fn drop(&mut self) {
        let waker = {
            let mut state = lock(&self.0);
            state.is_left = true;
            state.waker.take()
        };
        drop(waker);
    }
}

impl Watched {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.0);
        if state.has_ended {
            return Poll::Ready(Err(io::Error::other("the runtime ends")));
        }
        if std::mem::take(&mut state.has_reported) {
            return Poll::Ready(Ok(()));
        }
        let old = state.waker.replace(cx.waker().clone());
        drop(state);
        drop(old);
        Poll::Pending
    }
}

impl Runtime {
    /// Drives a timer in the place of its thread, if it has one.
    fn drive(harness: &Harness) -> Self {
        let engine = Arc::clone(harness.timer.shared_engine());
        let state = StdArc::new(Mutex::new(State::default()));
        let timer_fd = Reactor::timer_fd(&engine).unwrap();
        let watched = Watched(StdArc::clone(&state));
        let watch = Box::new(move |cx: &mut Context<'_>| watched.poll(cx));
        let reactor = Reactor::seat(&engine, watch).unwrap();
        timer_fd.set(|| Some(Duration::ZERO));
        reactor.turn();
        Self { engine, state }
    }

    fn ring(&self) {
        Reactor::timer_fd(&self.engine).unwrap().set(|| Some(Duration::ZERO));
    }

    /// Waits for the timerfd, and wakes the registered waker.
    fn serve(&self) {
        let timer_fd = Reactor::timer_fd(&self.engine).unwrap();
        timer_fd.descriptor(self.engine.clock()).unwrap().wait();
        self.wake(|state| state.has_reported = true);
    }

    fn wake(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn waits_for(&self, nanos: u64) -> bool {
        self.engine.alarm().plan() == Some(Plan::ParkUntil(at(nanos)))
    }

    fn is_left(&self) -> bool {
        lock(&self.state).is_left
    }

    /// Runs until it waits for the time 5, has that come, and runs until it is left.
    fn run(&self, harness: Harness) {
        while !self.waits_for(5) {
            self.serve();
        }
        harness.time.move_to(at(5));
        drop(harness);
        self.ring();
        while !self.is_left() {
            self.serve();
        }
    }
}

/// Oracle: deadlock; and loom's count of the engine's references, which the waker has too.
#[test]
fn an_insert_races_a_turn_in_the_reactor() {
    check(|| {
        let harness = Harness::new(1);
        let runtime = Runtime::drive(&harness);
        runtime.serve();
        let far = harness.far_timer();
        let near = sleeper(&harness, 0, 5);
        runtime.serve();
        drop(far);
        runtime.run(harness);
        near.join().unwrap();
    });
}

/// Oracle: deadlock, both of the sleep and of the thread.
#[test]
fn an_insert_races_a_reactor_that_takes_the_threads_place() {
    check(|| {
        let harness = Harness::new(1);
        let far = harness.far_timer();
        let near = sleeper(&harness, 0, 5);
        let runtime = Runtime::drive(&harness);
        drop(far);
        runtime.run(harness);
        near.join().unwrap();
    });
}

/// A runtime that has served, and a thread that sleeps until the time 5.
fn insert_into_a_served_one() -> (Harness, ClockMover, Runtime, JoinHandle<()>) {
    let harness = Harness::new(1);
    let mover = harness.clock_mover();
    let runtime = Runtime::drive(&harness);
    runtime.serve();
    let near = sleeper(&harness, 0, 5);
    (harness, mover, runtime, near)
}

/// The thread continues with what is armed. Oracle: deadlock.
#[test]
fn an_insert_races_the_end_of_the_runtime() {
    check(|| {
        let (harness, mover, runtime, near) = insert_into_a_served_one();
        runtime.wake(|state| state.has_ended = true);
        assert!(runtime.is_left());
        drop(harness);
        mover.advance(5);
        near.join().unwrap();
    });
}

/// A sleep that outlives the handles is armed as the reactor is left. Oracle: deadlock.
#[test]
fn an_insert_races_a_reactor_that_is_left() {
    check(|| {
        let (harness, mover, runtime, near) = insert_into_a_served_one();
        drop(harness);
        while !runtime.is_left() {
            if runtime.waits_for(5) {
                mover.advance(5);
                runtime.ring();
            }
            runtime.serve();
        }
        mover.advance(5);
        near.join().unwrap();
    });
}
