//! Sleeping tasks of a tokio runtime.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::peers::{Peer, RUNTIME};
use crate::common::work::Random;
use crate::expiry::{sleep_until, wait_for};
use crate::process::processor_time;
use crate::statistics::micros;

/// 200 thousand tasks that each sleep once, until some time within one second: processor
/// nanoseconds per task, and microseconds of lateness, p50 and p99.
pub(crate) fn many<P: Peer>() -> Vec<f64> {
    const TASKS: u64 = 200_000;
    static LEFT: AtomicU64 = AtomicU64::new(TASKS);
    let mut random = Random::new();
    let start = Instant::now() + Duration::from_secs(2);
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let deadline = start + random.within(Duration::from_secs(1));
            RUNTIME.spawn(async move {
                P::sleep_until(deadline).await;
                let late = deadline.elapsed();
                LEFT.fetch_sub(1, Ordering::Relaxed);
                late
            })
        })
        .collect();
    sleep_until(start - Duration::from_millis(100));
    let before = processor_time();
    wait_for(start, || LEFT.load(Ordering::Relaxed) == 0);
    let each = (processor_time() - before).as_nanos() as f64 / TASKS as f64;
    let late = tasks.into_iter().map(|task| pollster::block_on(task).expect("it ends"));
    let late: Vec<Duration> = late.collect();
    [vec![each], micros(&late, [0.5, 0.99]).to_vec()].concat()
}

/// One worker of four is blocked for 100 ms at a time: how late a sleep of 30 ms ends in a task,
/// p50 and p99 in microseconds.
pub(crate) fn worker_blocked<P: Peer>() -> Vec<f64> {
    const BLOCKED: Duration = Duration::from_millis(100);
    const DELAY: Duration = Duration::from_millis(30);
    const SLEEPS: usize = 50;
    let runtime = tokio::runtime::Builder::new_multi_thread()
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
    let sleeper = runtime.spawn(async {
        let mut late = Vec::new();
        for _ in 0..SLEEPS {
            let start = Instant::now();
            P::sleep(DELAY).await;
            late.push(start.elapsed() - DELAY);
        }
        late
    });
    let late = pollster::block_on(sleeper).expect("it ends");
    runtime.shutdown_background();
    micros(&late, [0.5, 0.99]).to_vec()
}
