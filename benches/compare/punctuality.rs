//! How late a single sleep ends.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use crate::common::peers::{Peer, RUNTIME};
use crate::statistics::micros;

/// All sleeps of one probe together take about so long.
const SPAN: Duration = Duration::from_millis(1_500);
const SLEEPS_MAX: u32 = 1_000;

fn sleeps(delay: Duration) -> u32 {
    (SPAN.as_micros() / delay.as_micros()).clamp(15, SLEEPS_MAX.into()) as u32
}

/// Awaited by a parked thread; p50 and p99 in microseconds.
pub(crate) fn parked<P: Peer>(delay: Duration) -> Vec<f64> {
    let _entered = P::enter();
    lateness(delay, || drop(pollster::block_on(P::sleep(delay))))
}

/// The same while every processor has a thread that never rests.
pub(crate) fn parked_while_busy<P: Peer>(delay: Duration) -> Vec<f64> {
    while_busy(|| parked::<P>(delay))
}

/// Awaited by a task of a tokio runtime.
pub(crate) fn in_executor<P: Peer>(delay: Duration) -> Vec<f64> {
    let task = RUNTIME.spawn(async move {
        let mut late = Vec::new();
        for _ in 0..sleeps(delay) {
            let start = Instant::now();
            P::sleep(delay).await;
            late.push(start.elapsed() - delay);
        }
        late
    });
    micros(&pollster::block_on(task).expect("it ends"), [0.5, 0.99]).to_vec()
}

/// `std::thread::sleep`, for reference.
pub(crate) fn thread_sleep(delay: Duration) -> Vec<f64> {
    lateness(delay, || thread::sleep(delay))
}

pub(crate) fn thread_sleep_while_busy(delay: Duration) -> Vec<f64> {
    while_busy(|| thread_sleep(delay))
}

fn lateness(delay: Duration, mut sleep: impl FnMut()) -> Vec<f64> {
    sleep();
    let late = (0..sleeps(delay)).map(|_| {
        let start = Instant::now();
        sleep();
        start.elapsed() - delay
    });
    micros(&late.collect::<Vec<_>>(), [0.5, 0.99]).to_vec()
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
