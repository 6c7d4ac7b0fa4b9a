//! Timers whose driver is a task of a runtime: a small one, whose time is moved by hand.

use std::future::Future;
use std::io;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tourbillon::driver::{DriverTask, Runtime};
use tourbillon::{Sleep, Timer};

use crate::support::{Counter, SECOND, poll_with};

/// A runtime of one thread, which runs when `run` is called.
#[derive(Clone)]
struct Toy(Arc<Mutex<State>>);

struct State {
    now: Instant,
    tasks: Vec<Task>,
    /// Deadlines and wakers of the waits that are pending.
    waits: Vec<(usize, Instant, Waker)>,
    /// Waits that end before their deadlines.
    cut_short: Vec<usize>,
    next_wait: usize,
    spawned: usize,
    refusal: Refusal,
}

#[derive(Clone, Copy, PartialEq)]
enum Refusal {
    None,
    Error,
    Drop,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A test's own runtime. Its tasks end with it: they hold timers, which hold the runtime.
struct Own(Toy);

impl Own {
    fn new() -> Self {
        Self(Toy(Arc::new(Mutex::new(State {
            now: Instant::now(),
            tasks: Vec::new(),
            waits: Vec::new(),
            cut_short: Vec::new(),
            next_wait: 0,
            spawned: 0,
            refusal: Refusal::None,
        }))))
    }
}

impl Deref for Own {
    type Target = Toy;

    fn deref(&self) -> &Toy {
        &self.0
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.state().refusal = Refusal::Drop;
        self.end();
    }
}

impl Toy {
    fn timer(&self) -> Timer {
        Timer::builder().build_on(self.clone()).unwrap()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Polls the tasks that are woken until none is.
    fn run(&self) {
        loop {
            let mut state = self.state();
            let woken = |task: &Task| task.woken.0.swap(false, Ordering::SeqCst);
            let Some(place) = state.tasks.iter().position(woken) else { return };
            let mut task = state.tasks.swap_remove(place);
            drop(state);
            let waker = Waker::from(Arc::clone(&task.woken));
            if task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.state().tasks.push(task);
            }
        }
    }

    /// Moves the time without a run.
    fn jump(&self, span: Duration) {
        let mut state = self.state();
        state.now += span;
        let now = state.now;
        let waits = std::mem::take(&mut state.waits).into_iter();
        let (due, left): (Vec<_>, _) = waits.partition(|(_, deadline, _)| *deadline <= now);
        state.waits = left;
        drop(state);
        due.into_iter().for_each(|(_, _, waker)| waker.wake());
    }

    fn advance(&self, span: Duration) {
        self.jump(span);
        self.run();
    }

    /// How far off the waits end.
    fn waits(&self) -> Vec<Duration> {
        let state = self.state();
        state.waits.iter().map(|(_, deadline, _)| *deadline - state.now).collect()
    }

    /// Drops all tasks.
    fn end(&self) {
        let tasks = std::mem::take(&mut self.state().tasks);
        drop(tasks);
    }

    fn spawned(&self) -> usize {
        self.state().spawned
    }
}

struct Wait {
    toy: Toy,
    deadline: Instant,
    number: usize,
}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.toy.state();
        state.waits.retain(|(number, _, _)| *number != self.number);
        if state.now >= self.deadline || state.cut_short.contains(&self.number) {
            return Poll::Ready(());
        }
        state.waits.push((self.number, self.deadline, cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.toy.state().waits.retain(|(number, _, _)| *number != self.number);
    }
}

impl Runtime for Toy {
    type Wait = Wait;

    fn now(&self) -> Instant {
        self.state().now
    }

    fn wait_until(&self, deadline: Instant) -> Wait {
        let mut state = self.state();
        state.next_wait += 1;
        Wait { toy: self.clone(), deadline, number: state.next_wait }
    }

    fn spawn(&self, task: DriverTask<Self>) -> io::Result<()> {
        let mut state = self.state();
        match state.refusal {
            Refusal::Error => return Err(io::Error::other("on purpose")),
            Refusal::Drop => return Ok(()),
            Refusal::None => {}
        }
        state.spawned += 1;
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        state.tasks.push(Task { future: Box::pin(task), woken });
        Ok(())
    }
}

/// Armed, with a count of its wake-ups.
fn armed(timer: &Timer, delay: Duration) -> (Sleep, Arc<Counter>, Waker) {
    let count = Counter::new();
    let waker = Waker::from(Arc::clone(&count));
    let mut sleep = timer.sleep(delay);
    assert!(poll_with(&mut sleep, &waker).is_pending());
    (sleep, count, waker)
}

fn panics(action: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(action)).unwrap_err();
    *panic.downcast::<String>().unwrap()
}

#[test]
fn sleeps_end_at_their_deadlines_by_the_clock_of_the_runtime() {
    let toy = Own::new();
    let timer = toy.timer();
    assert_eq!(timer.now(), toy.now());
    let mut sleeps = [3, 1, 2].map(|n| armed(&timer, n * SECOND));
    assert_eq!((toy.spawned(), toy.waits()), (1, vec![]), "it has not run yet");
    toy.run();
    assert_eq!(toy.waits(), [SECOND]);
    for (passed, woken) in [(1, [0, 1, 0]), (2, [0, 1, 1]), (3, [1, 1, 1])] {
        toy.advance(SECOND - Duration::from_nanos(1));
        assert_eq!(timer.stats().fired, passed - 1);
        toy.advance(Duration::from_nanos(1));
        assert_eq!(sleeps.each_ref().map(|(_, count, _)| count.wakes()), woken);
    }
    for (sleep, _, waker) in &mut sleeps {
        assert!(poll_with(sleep, waker).is_ready());
    }
    assert_eq!((timer.stats().lateness_max, toy.waits()), (Duration::ZERO, vec![]));
    assert_eq!((toy.spawned(), toy.state().tasks.len()), (1, 0));
}

/// A runtime may stop its time while its tasks run.
#[test]
fn a_sleep_does_not_spin_on_the_clock_of_the_runtime() {
    let toy = Own::new();
    let timer = toy.timer();
    let mut spin = timer.sleep(SECOND).spin_last(SECOND / 1_000);
    assert!(poll_with(&mut spin, Waker::noop()).is_pending());
    toy.run();
    assert_eq!(toy.waits(), [SECOND]);
    toy.advance(SECOND);
    assert!(poll_with(&mut spin, Waker::noop()).is_ready());
}

#[test]
fn a_poll_sees_the_time_before_the_task_has_run() {
    let toy = Own::new();
    let timer = toy.timer();
    let (mut sleep, count, waker) = armed(&timer, SECOND);
    toy.run();
    toy.jump(SECOND);
    assert!(poll_with(&mut sleep, &waker).is_ready());
    assert_eq!(timer.sleep(Duration::ZERO).deadline(), toy.now());
    assert_eq!((timer.wall_now(), count.wakes()), (timer.wall_now(), 0));
}

#[test]
fn the_task_waits_for_the_earliest_timer_and_ends_once_there_is_none() {
    let toy = Own::new();
    let timer = toy.timer();
    let (late, ..) = armed(&timer, 3 * SECOND);
    toy.run();
    assert_eq!(toy.waits(), [3 * SECOND]);
    let (early, ..) = armed(&timer, 2 * SECOND);
    toy.run();
    assert_eq!(toy.waits(), [2 * SECOND]);
    drop(early);
    toy.run();
    assert_eq!(toy.waits().len(), 1, "the cancel of one among others wakes nobody");
    drop(late);
    toy.run();
    assert_eq!((toy.waits(), toy.state().tasks.len()), (vec![], 0));
    let (again, ..) = armed(&timer, SECOND);
    toy.run();
    assert_eq!((toy.waits(), toy.spawned()), (vec![SECOND], 2));
    toy.advance(SECOND);
    assert_eq!((toy.waits(), toy.state().tasks.len()), (vec![], 0));
    drop(again);
}

/// wstd's loop drops no task, and the next loop polls none of this one's.
#[test]
fn a_runtime_that_ends_while_nothing_is_armed_leaves_no_task_behind() {
    let toy = Own::new();
    let timer = toy.timer();
    // Not dropped: what wakes a task still holds it.
    let mut left = Vec::new();
    for round in 1..=3 {
        let (sleep, ..) = armed(&timer, SECOND);
        toy.run();
        if round == 2 {
            drop(sleep);
            toy.run();
        } else {
            toy.advance(SECOND);
        }
        left.append(&mut toy.state().tasks);
        assert_eq!(toy.spawned(), round);
    }
    let (mut last, count, waker) = armed(&timer, SECOND);
    toy.run();
    toy.advance(SECOND);
    assert!(count.wakes() == 1 && poll_with(&mut last, &waker).is_ready());
}

/// Some hosts round a wait down.
#[test]
fn waits_that_end_early_end_no_sleep_early() {
    let toy = Own::new();
    let timer = toy.timer();
    let (mut sleep, count, waker) = armed(&timer, SECOND);
    toy.run();
    for _ in 0..3 {
        let waits = std::mem::take(&mut toy.state().waits);
        toy.state().cut_short = waits.iter().map(|(number, ..)| *number).collect();
        waits.into_iter().for_each(|(_, _, waker)| waker.wake());
        toy.run();
        assert_eq!((count.wakes(), toy.waits()), (0, vec![SECOND]));
        assert!(poll_with(&mut sleep, &waker).is_pending());
    }
    toy.advance(SECOND);
    assert!(count.wakes() == 1 && poll_with(&mut sleep, &waker).is_ready());
}

#[test]
fn the_task_ends_with_the_last_sleep_also_once_no_handle_is_left() {
    let toy = Own::new();
    let timer = toy.timer();
    let (mut sleep, _, waker) = armed(&timer, SECOND);
    toy.run();
    drop(timer);
    toy.run();
    assert_eq!(toy.state().tasks.len(), 1, "a sleep is armed");
    toy.advance(SECOND);
    assert_eq!(toy.state().tasks.len(), 0);
    assert!(poll_with(&mut sleep, &waker).is_ready());

    sleep.reset(toy.now() + SECOND);
    assert!(poll_with(&mut sleep, &waker).is_pending());
    assert_eq!(toy.spawned(), 2);
    toy.advance(SECOND);
    assert!(poll_with(&mut sleep, &waker).is_ready());
    assert_eq!(toy.state().tasks.len(), 0);
}

#[test]
fn a_task_that_is_dropped_wakes_all_and_completes_none() {
    // More than one chunk of entries. A single shard of the two is used.
    const SLEEPS: u32 = 300;
    let toy = Own::new();
    let timer = Timer::builder().shards(2).build_on(toy.clone()).unwrap();
    let mut sleeps: Vec<_> = (1..=SLEEPS).map(|n| armed(&timer, n * SECOND)).collect();
    let cancelled = sleeps.split_off(SLEEPS as usize - 20);
    toy.run();
    drop(cancelled);
    sleeps[7].0.reset(toy.now() + 400 * SECOND);
    let past = armed(&timer, Duration::from_nanos(1));
    toy.end();
    assert!(sleeps.iter().chain([&past]).all(|(_, count, _)| count.wakes() == 1));
    toy.jump(SECOND);
    let ready = |sleeps: &mut [(Sleep, Arc<Counter>, Waker)]| {
        let polls = sleeps.iter_mut().map(|(sleep, _, waker)| poll_with(sleep, waker));
        polls.filter(Poll::is_ready).count()
    };
    assert_eq!(ready(&mut sleeps), 1);
    assert_eq!(ready(&mut [past]), 1);
    assert_eq!((toy.spawned(), timer.stats().pending), (2, sleeps.len() - 1));
    toy.run();
    assert_eq!(toy.waits(), [SECOND]);
    for n in 2..=400 {
        toy.advance(SECOND);
        let due = n.min(sleeps.len()) - usize::from((8..400).contains(&n));
        assert_eq!(ready(&mut sleeps), due, "after {n} s");
    }
    let stats = timer.stats();
    assert_eq!((stats.pending, stats.lateness_max), (0, Duration::ZERO));
    assert_eq!(stats.armed, stats.fired + stats.cancelled);
}

#[test]
fn a_sleep_that_was_woken_by_the_end_of_its_driver_can_be_cancelled_in_time() {
    let toy = Own::new();
    let timer = toy.timer();
    let (mut early, ..) = armed(&timer, SECOND);
    let (mut late, ..) = armed(&timer, SECOND);
    toy.run();
    toy.end();
    assert!(early.cancel());
    toy.jump(SECOND);
    assert!(!late.cancel());
}

#[test]
fn a_callback_outlives_the_task_that_was_to_call_it() {
    let toy = Own::new();
    let timer = toy.timer();
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let callback = timer.interval(SECOND).call(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    toy.run();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    toy.end();
    assert_eq!((toy.spawned(), calls.load(Ordering::SeqCst)), (2, 1));
    toy.run();
    toy.advance(SECOND);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    // Where there can be no other, it waits for one.
    toy.state().refusal = Refusal::Drop;
    toy.end();
    toy.state().refusal = Refusal::None;
    timer.start().unwrap();
    toy.advance(SECOND);
    assert_eq!((toy.spawned(), calls.load(Ordering::SeqCst)), (3, 3));
    drop(callback);
}

#[test]
fn a_poll_that_would_wait_panics_where_no_task_can_be_started() {
    let toy = Own::new();
    let timer = toy.timer();
    let waker = Waker::noop();
    for (refusal, message) in [(Refusal::Error, "on purpose"), (Refusal::Drop, "dropped the task")]
    {
        toy.state().refusal = refusal;
        let mut sleep = timer.sleep(SECOND);
        let panic = panics(|| _ = poll_with(&mut sleep, waker));
        assert!(panic.starts_with("cannot start the timer's driver: ") && panic.contains(message));
        assert!(timer.start().is_err());
        assert!(poll_with(&mut timer.sleep(Duration::ZERO), waker).is_ready(), "it need not wait");
        assert_eq!(timer.stats().pending, 0);
        toy.state().refusal = Refusal::None;
        assert!(poll_with(&mut sleep, waker).is_pending());
        toy.advance(SECOND);
        assert!(poll_with(&mut sleep, waker).is_ready());
        toy.end();
    }
}

#[test]
fn sleeps_whose_driver_is_gone_panic_if_there_can_be_no_other() {
    let toy = Own::new();
    let timer = toy.timer();
    let (mut sleep, count, waker) = armed(&timer, SECOND);
    toy.state().refusal = Refusal::Error;
    toy.end();
    assert_eq!(count.wakes(), 1, "or nobody would poll it");
    assert!(panics(|| _ = poll_with(&mut sleep, &waker)).contains("on purpose"));
    toy.jump(SECOND);
    assert!(poll_with(&mut sleep, &waker).is_ready());
}

#[test]
fn other_tasks_have_their_turn_between_parts_of_a_crowd() {
    let toy = Own::new();
    let timer = toy.timer();
    let crowd: Vec<_> = (0..10_000).map(|_| armed(&timer, SECOND)).collect();
    toy.run();
    toy.jump(SECOND);
    let mut task = toy.state().tasks.pop().unwrap();
    let waker = Waker::from(Arc::clone(&task.woken));
    let mut polls = 0;
    while task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        assert!(task.woken.0.swap(false, Ordering::SeqCst));
        polls += 1;
    }
    assert!(polls > 3, "{polls} polls");
    assert!(crowd.iter().all(|(_, count, _)| count.wakes() == 1));
}
