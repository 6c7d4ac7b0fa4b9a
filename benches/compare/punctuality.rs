//! Lateness of single sleeps.

use std::hint::spin_loop;
use std::pin::pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};

use crate::common::peers::Peer;
use crate::common::turns::driven_by_hand;
use crate::common::wakers::poll;
use crate::common::work::FAR;
use crate::process::processor_time;
use crate::statistics::micros;
use crate::tasks::On;

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

/// Awaited by a parked thread, one after the other; and the processor microseconds of each.
pub(crate) fn parked<P: Peer>(delay: Duration, span: Duration) -> Vec<f64> {
    let _entered = P::enter();
    at_cost(delay, span, || drop(pollster::block_on(P::sleep(delay))))
}

/// Measures that for ours whose `last` part is spun.
pub(crate) fn spun(delay: Duration, last: Duration, span: Duration) -> Vec<f64> {
    at_cost(delay, span, || pollster::block_on(tourbillon::sleep(delay).spin_last(last)))
}

/// Measures that while each of `shards` threads has a far timer, and so does each of our shards;
/// and the processor microseconds of each sleep.
pub(crate) fn beside_far_timers<P: Peer>(
    shards: usize,
    delay: Duration,
    span: Duration,
) -> Vec<f64> {
    let begun = Barrier::new(shards + 1);
    let over = Barrier::new(shards + 1);
    thread::scope(|scope| {
        for _ in 0..shards {
            scope.spawn(|| {
                let _entered = P::enter();
                let far = pin!(P::sleep(FAR));
                assert!(poll(far, Waker::noop()).is_pending());
                begun.wait();
                over.wait();
            });
        }
        begun.wait();
        let figures = parked::<P>(delay, span);
        over.wait();
        figures
    })
}

/// Measures that while every processor has a thread that never rests.
pub(crate) fn parked_while_busy<P: Peer>(delay: Duration, span: Duration) -> Vec<f64> {
    let _entered = P::enter();
    while_busy(|| sleeping(delay, span, || drop(pollster::block_on(P::sleep(delay)))))
}

/// Measures that for a thread that turns our wheels itself, like the loop of an executor.
pub(crate) fn turning_while_busy(delay: Duration, span: Duration) -> Vec<f64> {
    let (timer, mut driver) = driven_by_hand(1);
    let mut sleep_and_turn = || {
        let mut sleep = pin!(timer.sleep(delay));
        while poll(sleep.as_mut(), Waker::noop()).is_pending() {
            driver.turn();
            driver.max_wait().into_iter().for_each(thread::sleep);
        }
    };
    while_busy(|| sleeping(delay, span, &mut sleep_and_turn))
}

/// `std::thread::sleep`, for reference.
pub(crate) fn thread_sleep(delay: Duration, span: Duration) -> Vec<f64> {
    at_cost(delay, span, || thread::sleep(delay))
}

/// The same with its `last` part spun, which is what the crate spin_sleep does.
pub(crate) fn thread_sleep_spun(delay: Duration, last: Duration, span: Duration) -> Vec<f64> {
    at_cost(delay, span, || {
        let end = Instant::now() + delay;
        thread::sleep(delay.saturating_sub(last));
        while Instant::now() < end {
            spin_loop();
        }
    })
}

pub(crate) fn thread_sleep_while_busy(delay: Duration, span: Duration) -> Vec<f64> {
    while_busy(|| sleeping(delay, span, || thread::sleep(delay)))
}

fn at_cost(delay: Duration, span: Duration, sleep: impl FnMut()) -> Vec<f64> {
    let before = processor_time();
    let late = latenesses(delay, span, sleep);
    let each = (processor_time() - before).as_secs_f64() * 1e6 / late.len() as f64;
    [lateness(&late), vec![each]].concat()
}

fn sleeping(delay: Duration, span: Duration, sleep: impl FnMut()) -> Vec<f64> {
    lateness(&latenesses(delay, span, sleep))
}

fn latenesses(delay: Duration, span: Duration, mut sleep: impl FnMut()) -> Vec<Duration> {
    sleep();
    let late = sleeps(span).map(|_| {
        let start = Instant::now();
        sleep();
        start.elapsed() - delay
    });
    late.collect()
}

/// Awaited by a task of a tokio runtime.
pub(crate) fn in_executor<P: Peer>(on: On, delay: Duration, span: Duration) -> Vec<f64> {
    sleeping_on::<P>(on.handle(), delay, span)
}

fn sleeping_on<P: Peer>(runtime: &Handle, delay: Duration, span: Duration) -> Vec<f64> {
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
            // Lets the worker go to sleep, perhaps while it waits for tokio's timers.
            P::sleep(Duration::from_millis(1)).await;
        }
    });
    let figures = sleeping_on::<P>(runtime.handle(), delay, span);
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
