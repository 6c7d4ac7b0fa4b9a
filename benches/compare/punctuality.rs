//! Lateness of single sleeps.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::common::peers::{Peer, RUNTIME};
use crate::statistics::micros;

/// One for each sleep of a probe: as many as `span` takes, within limits.
fn sleeps(span: Duration) -> impl Iterator<Item = usize> {
    const LEAST: usize = 5;
    const MOST: usize = 5_000;
    let end = Instant::now() + span;
    (0..MOST).take_while(move |sleep| *sleep < LEAST || Instant::now() < end)
}

/// p50 and p99 in microseconds.
fn lateness(late: &[Duration]) -> Vec<f64> {
    micros(late, [0.5, 0.99]).to_vec()
}

/// Awaited by a parked thread, one after the other.
pub(crate) fn parked<P: Peer>(delay: Duration, span: Duration) -> Vec<f64> {
    let _entered = P::enter();
    sleeping(delay, span, || drop(pollster::block_on(P::sleep(delay))))
}

/// Measures that while every processor has a thread that never rests.
pub(crate) fn parked_while_busy<P: Peer>(delay: Duration, span: Duration) -> Vec<f64> {
    while_busy(|| parked::<P>(delay, span))
}

/// `std::thread::sleep`, for reference.
pub(crate) fn thread_sleep(delay: Duration, span: Duration) -> Vec<f64> {
    sleeping(delay, span, || thread::sleep(delay))
}

pub(crate) fn thread_sleep_while_busy(delay: Duration, span: Duration) -> Vec<f64> {
    while_busy(|| thread_sleep(delay, span))
}

fn sleeping(delay: Duration, span: Duration, mut sleep: impl FnMut()) -> Vec<f64> {
    sleep();
    let late = sleeps(span).map(|_| {
        let start = Instant::now();
        sleep();
        start.elapsed() - delay
    });
    lateness(&late.collect::<Vec<_>>())
}

/// Awaited by a task of a tokio runtime.
pub(crate) fn in_executor<P: Peer>(delay: Duration, span: Duration) -> Vec<f64> {
    sleeping_on::<P>(&RUNTIME, delay, span)
}

fn sleeping_on<P: Peer>(runtime: &Runtime, delay: Duration, span: Duration) -> Vec<f64> {
    let task = runtime.spawn(async move {
        let mut late = Vec::new();
        for _ in sleeps(span) {
            let start = Instant::now();
            P::sleep(delay).await;
            late.push(start.elapsed() - delay);
        }
        late
    });
    lateness(&pollster::block_on(task).expect("it ends"))
}

/// Awaited by a task while one worker of four is blocked for 100 ms at a time.
pub(crate) fn beside_blocked_worker<P: Peer>(delay: Duration, span: Duration) -> Vec<f64> {
    const BLOCKED: Duration = Duration::from_millis(100);
    let runtime = Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .expect("the runtime's threads start");
    runtime.spawn(async {
        loop {
            thread::sleep(BLOCKED);
            // Lets the worker go to sleep, perhaps as the one that waits for tokio's timers.
            P::sleep(Duration::from_millis(1)).await;
        }
    });
    let figures = sleeping_on::<P>(&runtime, delay, span);
    runtime.shutdown_background();
    figures
}

fn while_busy<R>(measure: impl FnOnce() -> R) -> R {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        let result = measure();
        over.store(true, Ordering::Relaxed);
        result
    })
}
