//! Tests code that starts tasks, in virtual time, with its tasks on threads of tokio and of smol.
//!
//! ```text
//! cargo run --release --example spawned
//! cargo test --example spawned
//! ```
//!
//! The clock moves only while no task is at work, since [`VirtualClock::spawn`] holds it from each
//! wake-up of a task to the end of its poll.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

/// Work for a task, and its output to come.
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

const SECOND: Duration = Duration::from_secs(1);

/// The code under test. It takes the function that starts a task, just like the timer.
///
/// Asks all servers at once, each in a task of its own. Returns the answers that come within ten
/// seconds.
async fn ask_all<T>(
    timer: &Timer,
    spawn: impl Fn(Boxed<T>) -> Boxed<T>,
    servers: impl IntoIterator<Item = Boxed<T>>,
) -> Vec<T> {
    let limit = timer.now() + 10 * SECOND;
    let tasks = servers.into_iter().map(spawn).collect::<Vec<_>>();
    let mut answers = Vec::new();
    for task in tasks {
        answers.extend(timer.timeout_at(limit, task).await);
    }
    answers
}

/// Stands for a server that takes some seconds for its answer, their number.
fn server(timer: &Timer, seconds: u32) -> Boxed<u32> {
    let timer = timer.clone();
    Box::pin(async move {
        for _ in 0..seconds {
            timer.sleep(SECOND).await;
        }
        seconds
    })
}

/// Asks a thousand times, with the tasks where `spawn` starts them.
fn test(spawn: impl Fn(&VirtualClock, Boxed<u32>) -> Boxed<u32>) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    for _ in 0..1_000 {
        let start = clock.now();
        let servers = [9, 12, 1, 11].map(|seconds| server(&timer, seconds));
        let answers = clock.block_on(ask_all(&timer, |work| spawn(&clock, work), servers));
        assert_eq!((answers, clock.now() - start), (vec![9, 1], 10 * SECOND));
    }
}

#[cfg_attr(test, test)]
fn leaves_slow_servers_out_on_tokio() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let _context = runtime.enter();
    test(|clock, work| Box::pin(clock.spawn(tokio::spawn, work)));
}

#[cfg_attr(test, test)]
fn leaves_slow_servers_out_on_smol() {
    test(|clock, work| Box::pin(clock.spawn(smol::spawn, work)));
}

fn main() {
    let start = Instant::now();
    leaves_slow_servers_out_on_tokio();
    leaves_slow_servers_out_on_smol();
    println!("20,000 s of virtual time passed in {:?}", start.elapsed());
}
