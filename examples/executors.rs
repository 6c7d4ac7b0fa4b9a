//! Sleeps on six executors at once, with nothing set up for any of them.
//!
//! ```text
//! cargo run --release --example executors
//! ```
//!
//! Every executor runs on a thread of its own; one driver thread wakes them all. tokio's runtime is
//! built without its own timer.

use std::thread;
use std::time::{Duration, Instant};

use futures::executor::{LocalPool, ThreadPool};
use futures::task::{LocalSpawnExt, SpawnExt};
use tourbillon::{Timer, sleep};

const NAP: Duration = Duration::from_millis(100);

/// Naps, and returns how long that took.
async fn nap() -> Duration {
    let start = Instant::now();
    sleep(NAP).await;
    start.elapsed()
}

type Run = fn() -> Duration;

fn main() {
    let executors: [(&str, Run); 6] = [
        ("tokio, one thread", || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(nap())
        }),
        ("tokio, a spawned task", || {
            let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
            runtime.block_on(async { tokio::spawn(nap()).await.unwrap() })
        }),
        ("smol", || smol::block_on(async { smol::spawn(nap()).await })),
        ("futures, LocalPool", || {
            let mut pool = LocalPool::new();
            let task = pool.spawner().spawn_local_with_handle(nap()).unwrap();
            pool.run_until(task)
        }),
        ("futures, ThreadPool", || {
            let pool = ThreadPool::new().unwrap();
            futures::executor::block_on(pool.spawn_with_handle(nap()).unwrap())
        }),
        ("pollster", || pollster::block_on(nap())),
    ];

    let start = Instant::now();
    let threads = executors.map(|(name, run)| (name, thread::spawn(run)));
    for (name, thread) in threads {
        println!("{name:22} slept for {:?}", thread.join().unwrap());
    }
    println!("{:22} took {:?}", "all of them together", start.elapsed());
    println!("the driver was woken {} times", Timer::global().stats().driver_wakeups);
}
