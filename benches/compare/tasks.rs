//! Tasks of a tokio runtime.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use futures::StreamExt;

use crate::common::peers::{Peer, RUNTIME};
use crate::common::work::Random;
use crate::expiry::{sleep_until, wait_for};
use crate::process::processor_time;
use crate::statistics::micros;

/// So many tasks that each sleep once, until some time within one second: processor nanoseconds
/// per task, and microseconds of lateness, p50 and p99.
pub(crate) fn many<P: Peer>(count: usize) -> Vec<f64> {
    static WOKEN: AtomicUsize = AtomicUsize::new(0);
    let mut random = Random::new();
    let lead = Duration::from_millis(200) + Duration::from_micros(5) * count as u32;
    let start = Instant::now() + lead;
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let deadline = start + random.within(Duration::from_secs(1));
            RUNTIME.spawn(async move {
                P::sleep_until(deadline).await;
                let late = deadline.elapsed();
                WOKEN.fetch_add(1, Ordering::Relaxed);
                late
            })
        })
        .collect();
    sleep_until(start - Duration::from_millis(100));
    let before = processor_time();
    wait_for(start, || WOKEN.load(Ordering::Relaxed) == count);
    let each = (processor_time() - before).as_nanos() as f64 / count as f64;
    let late = tasks.into_iter().map(|task| pollster::block_on(task).expect("it ends"));
    let late: Vec<Duration> = late.collect();
    [vec![each], micros(&late, [0.5, 0.99]).to_vec()].concat()
}

/// So many tasks with an interval each, of `period`: processor nanoseconds for each tick.
pub(crate) fn intervals<P: Peer>(count: usize, period: Duration, span: Duration) -> Vec<f64> {
    let ticks: Arc<[_]> = (0..count).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
    for task in 0..count {
        let ticks = Arc::clone(&ticks);
        RUNTIME.spawn(async move {
            let mut interval = pin!(P::ticks(period));
            while interval.next().await.is_some() {
                ticks[task].fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let sum = || ticks.iter().map(|ticks| ticks.load(Ordering::Relaxed)).sum::<u64>();
    // Until all tasks tick.
    thread::sleep(span / 4);
    let (time_before, before) = (processor_time(), sum());
    thread::sleep(span);
    let (time, counted) = (processor_time() - time_before, sum() - before);
    vec![time.as_nanos() as f64 / counted as f64]
}
