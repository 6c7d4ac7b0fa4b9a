//! Runtimes that drive a timer in their own park.
#![cfg(any(target_os = "linux", target_os = "android"))]

use std::future::Future;
use std::io::ErrorKind;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{self, Runtime};
use tourbillon::Timer;
use tourbillon_tokio::drive;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn current_thread() -> Runtime {
    runtime::Builder::new_current_thread().enable_io().build().unwrap()
}

fn multi_thread() -> Runtime {
    runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build().unwrap()
}

/// A timer whose thread has this name, which no other test's has.
fn timer(name: &str) -> Timer {
    Timer::builder().thread_name(name).build().unwrap()
}

/// Returns whether a thread of this process has this name.
fn has_thread(name: &str) -> bool {
    let named = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread may end in between.
    tasks.flatten().any(|task| named(task).is_ok_and(|found| found.trim_end() == name))
}

/// Waits for what a thread does as it starts, and after it can be joined.
fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// Arms a sleep outside of any runtime.
fn arm<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(waker))
}

async fn sleeps(timer: Timer) {
    for micros in [0, 1, 50, 1_000, 3_000] {
        let (start, span) = (Instant::now(), Duration::from_micros(micros));
        timer.sleep(span).await;
        assert!(start.elapsed() >= span);
    }
}

#[test]
fn runtimes_fire_timers_on_time_and_without_a_thread() {
    for (name, runtime) in [("hosted-one", current_thread()), ("hosted-many", multi_thread())] {
        let timer = timer(name);
        runtime.block_on(async {
            drive(&timer).unwrap();
            let tasks: Vec<_> = (0..50).map(|_| tokio::spawn(sleeps(timer.clone()))).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert!(!has_thread(name));
    }
}

#[test]
fn intervals_that_crowd_keep_their_count_and_none_is_early() {
    let runtime = multi_thread();
    let timer = timer("crowding");
    runtime.block_on(async {
        drive(&timer).unwrap();
        let ticks = |timer: Timer| async move {
            let mut ticks = timer.interval(ms(1));
            for n in 0..50 {
                let due = ticks.tick().await;
                assert!(Instant::now() >= due, "tick {n}");
            }
        };
        let tasks: Vec<_> = (0..500).map(|_| tokio::spawn(ticks(timer.clone()))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert!(!has_thread("crowding"));
}

/// The insert that is earlier than what the reactor waits for comes from a thread of no runtime.
#[test]
fn threads_that_arm_call_the_runtime() {
    let runtime = multi_thread();
    let timer = timer("called");
    runtime.block_on(async { drive(&timer).unwrap() });
    let mut far = timer.sleep(Duration::from_secs(3600));
    assert!(arm(&mut far, Waker::noop()).is_pending());
    for _ in 0..20 {
        pollster::block_on(timer.sleep(ms(1)));
    }
    assert!(!has_thread("called"));
}

#[test]
fn a_runtime_takes_over_from_the_thread_with_all_that_is_armed() {
    let runtime = multi_thread();
    let timer = timer("taken-over");
    let mut armed = timer.sleep(ms(100));
    assert!(arm(&mut armed, Waker::noop()).is_pending());
    until(|| has_thread("taken-over"));
    runtime.block_on(async {
        drive(&timer).unwrap();
        until(|| !has_thread("taken-over"));
        armed.await;
    });
    assert!(!has_thread("taken-over"));
}

#[test]
fn the_end_of_a_runtime_loses_nothing_and_another_takes_over() {
    let makers = [("ending-one", current_thread as fn() -> Runtime), ("ending-many", multi_thread)];
    for (name, make) in makers {
        let timer = timer(name);
        let runtime = make();
        runtime.block_on(async { drive(&timer).unwrap() });
        let (fires, fired) = channel();
        let waker = Waker::from(Arc::new(Sends(fires)));
        let mut sleeps = [30, 60].map(|count| timer.sleep(ms(count)));
        assert!(sleeps.iter_mut().all(|sleep| arm(sleep, &waker).is_pending()));
        drop(runtime);
        until(|| has_thread(name));
        for sleep in &mut sleeps {
            fired.recv().unwrap();
            assert!(arm(sleep, &waker).is_ready());
        }
        let runtime = make();
        runtime.block_on(async {
            drive(&timer).unwrap();
            until(|| !has_thread(name));
            timer.sleep(ms(1)).await;
        });
    }
}

struct Sends(Sender<()>);

impl Wake for Sends {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
    }
}

#[test]
fn a_second_runtime_is_refused_while_the_first_drives() {
    let (first, second) = (multi_thread(), multi_thread());
    let timer = timer("refused");
    first.block_on(async { drive(&timer).unwrap() });
    let refused = second.block_on(async { drive(&timer).unwrap_err() });
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    let refused = first.block_on(async { drive(&timer).unwrap_err() });
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    second.block_on(timer.sleep(ms(1)));
    let virtual_clock = tourbillon::virtual_time::VirtualClock::new();
    let other = Timer::builder().virtual_clock(&virtual_clock).build().unwrap();
    let refused = first.block_on(async { drive(&other).unwrap_err() });
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

/// Descriptors of this process that are timers.
fn timer_descriptors() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = descriptors.filter_map(|one| std::fs::read_link(one.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("timerfd")).count()
}

/// Drops the timer that has woken it, handles and all.
struct Last(Mutex<Option<Timer>>);

impl Wake for Last {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

/// In a process of its own, as other tests have descriptors.
#[test]
fn a_timer_that_is_gone_leaves_the_runtime_and_its_descriptor() {
    if !in_own_process("a_timer_that_is_gone_leaves_the_runtime_and_its_descriptor") {
        return;
    }
    let runtime = current_thread();
    for by_waker in [false, true] {
        let timer = timer("gone");
        runtime.block_on(async {
            drive(&timer).unwrap();
            timer.sleep(ms(1)).await;
            if by_waker {
                let mut last = timer.sleep(ms(1));
                let timer = Arc::new(Last(Mutex::new(Some(timer))));
                assert!(arm(&mut last, &Waker::from(Arc::clone(&timer))).is_pending());
                while timer.0.lock().unwrap().is_some() {
                    tokio::task::yield_now().await;
                }
            } else {
                drop(timer);
            }
            while timer_descriptors() > 0 {
                tokio::task::yield_now().await;
            }
        });
    }
}

/// The process-wide timer: no thread but the test's own and the runtime's.
#[test]
fn a_process_whose_runtime_drives_has_the_runtimes_threads_alone() {
    if !in_own_process("a_process_whose_runtime_drives_has_the_runtimes_threads_alone") {
        return;
    }
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    for (workers, runtime) in [(0, current_thread()), (2, multi_thread())] {
        let before = threads() - workers;
        runtime.block_on(async {
            drive(&Timer::global()).unwrap();
            for _ in 0..20 {
                tourbillon::sleep(ms(1)).await;
            }
        });
        assert_eq!(threads(), before + workers);
    }
}

/// Runs the test of this name in a process of its own, or says that this is the process.
fn in_own_process(test: &str) -> bool {
    if std::env::var_os("TOURBILLON_OWN_PROCESS").is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let output = std::process::Command::new(program)
        .args(["--exact", test, "--test-threads", "1", "--nocapture"])
        .env("TOURBILLON_OWN_PROCESS", "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}{stderr}");
    false
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("the test's waker panics");
    }
}

#[test]
fn a_waker_that_panics_harms_no_other_timer() {
    let runtime = current_thread();
    let timer = timer("panics");
    runtime.block_on(async {
        drive(&timer).unwrap();
        let mut bad = timer.sleep(ms(1));
        assert!(arm(&mut bad, &Waker::from(Arc::new(Panics))).is_pending());
        timer.sleep(ms(2)).await;
    });
    assert_eq!(timer.stats().waker_panics, 1);
    assert!(!has_thread("panics"));
}

/// A first call in a task without budget left.
#[test]
fn a_task_whose_budget_is_spent_may_call() {
    current_thread().block_on(async {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        (0..1_000).for_each(|n| sender.send(n).unwrap());
        let waker = Waker::noop();
        while receiver.poll_recv(&mut Context::from_waker(waker)).is_ready() {}
        let timer = timer("budget");
        drive(&timer).unwrap();
        timer.sleep(ms(1)).await;
        assert!(!has_thread("budget"));
    });
}
