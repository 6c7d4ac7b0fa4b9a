//! A driver that is a task ends, or is dropped by its runtime, and another takes its place.

use std::future::{Future, Pending, pending};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use loom::thread;

use super::check;
use crate::clock::{Clock, VirtualTime};
use crate::driver::{DriverTask, Runtime, starting};
use crate::engine::{DrivenBy, Engine, TaskDriver};
use crate::models::harness::{Signal, at, poll, waker};
use crate::sleep::Sleep;
use crate::sync::{Arc, Mutex, StdArc, lock};
use crate::time::Instant;
use crate::timer::Timer;

type Task = Pin<Box<DriverTask<Tasks>>>;

/// A runtime whose tasks the model polls.
#[derive(Clone)]
struct Tasks(StdArc<Mutex<Vec<Task>>>);

impl Runtime for Tasks {
    type Wait = Pending<()>;

    fn now(&self) -> Instant {
        unreachable!("the engine has a clock of the model's")
    }

    fn wait_until(&self, _: Instant) -> Pending<()> {
        pending()
    }

    fn spawn(&self, task: DriverTask<Self>) -> io::Result<()> {
        lock(&self.0).push(Box::pin(task));
        Ok(())
    }
}

/// State of a model: a timer whose driver is parked for a far sleep.
struct Parked {
    timer: Timer,
    time: Arc<VirtualTime>,
    tasks: Tasks,
    far: Option<Sleep>,
}

impl Parked {
    fn new() -> Self {
        let time = Arc::new(VirtualTime::new());
        let tasks = Tasks(StdArc::new(Mutex::new(Vec::new())));
        let task = TaskDriver::new(starting(StdArc::new(tasks.clone())));
        let engine = Engine::new(Clock::Model(Arc::clone(&time)), 1, DrivenBy::Task(task));
        let timer = Timer::of(engine.shared());
        let mut far = Sleep::new(timer.engine_ref(), at(1_000));
        assert_eq!(poll(&mut far, &Signal::new()), Poll::Pending);
        Self { timer, time, tasks, far: Some(far) }
    }

    fn started(&self) -> Vec<Task> {
        std::mem::take(&mut *lock(&self.tasks.0))
    }

    /// Takes the tasks, and polls each. Returns the tasks that have not ended.
    fn polled(&self, signal: &Arc<Signal>) -> Vec<Task> {
        polled(self.started(), signal)
    }

    fn armed(&self, nanos: u64) -> (Sleep, Arc<Signal>) {
        let (mut sleep, signal) = (Sleep::new(self.timer.engine_ref(), at(nanos)), Signal::new());
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        (sleep, signal)
    }
}

fn polled(mut tasks: Vec<Task>, signal: &Arc<Signal>) -> Vec<Task> {
    let waker = waker(signal);
    tasks.retain_mut(|task| task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    tasks
}

/// The sleep is woken by the task that ends, or has another started. Oracle: it is woken.
#[test]
fn arm_races_the_end_of_a_task() {
    check(|| {
        let parked = Parked::new();
        let first = parked.polled(&Signal::new());
        let ender = thread::spawn(move || drop(first));
        let (_near, signal) = parked.armed(5);
        ender.join().unwrap();
        parked.time.move_to(at(5));
        let _second = parked.polled(&Signal::new());
        assert!(signal.wakes() > 0, "nobody wakes it");
    });
}

/// Another task is started and parked while the first is ending. Oracle: it is notified.
#[test]
fn a_task_races_the_end_of_the_one_before() {
    check(|| {
        let parked = Parked::new();
        // Started, and not polled yet: an insert finds no driver.
        let first = parked.started();
        let ender = thread::spawn(move || drop(first));
        let (_near, _) = parked.armed(50);
        let notified = Signal::new();
        let second = parked.polled(&notified);
        ender.join().unwrap();
        let third = parked.polled(&notified);
        let before = notified.wakes();
        let (_nearer, signal) = parked.armed(5);
        // A task that was started holds the engine, and that the list.
        lock(&parked.tasks.0).clear();
        let driven = second.len() + third.len() > 0;
        assert!(!driven || notified.wakes() > before || signal.wakes() > 0, "nobody is notified");
    });
}

/// A task finds nothing armed and ends by itself. Oracle: the sleep is woken, by that task or by
/// another that was started.
#[test]
fn arm_races_a_task_that_ends_for_want_of_timers() {
    check(|| {
        let mut parked = Parked::new();
        let first = parked.started();
        drop(parked.far.take());
        let ender = thread::spawn(move || polled(first, &Signal::new()));
        let (_near, signal) = parked.armed(5);
        let left = ender.join().unwrap();
        parked.time.move_to(at(5));
        let again = Signal::new();
        let _driving = (polled(left, &again), parked.polled(&again));
        assert!(signal.wakes() > 0, "nobody wakes it");
    });
}
