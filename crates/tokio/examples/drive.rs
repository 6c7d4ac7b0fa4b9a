//! A tokio runtime drives the process-wide timer: the process has tokio's threads, and no other.
//!
//! ```text
//! cargo run --package tourbillon-tokio --example drive
//! ```

use std::io::{self, ErrorKind};
use std::time::Duration;

use tourbillon::{Timer, sleep};

/// A library's function. It knows neither tokio nor who drives the timer.
async fn retry() {
    for delay in [1, 2, 4] {
        sleep(Duration::from_millis(delay)).await;
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> io::Result<()> {
    match tourbillon_tokio::drive(&Timer::global()) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            println!("{error}: the timer has its thread");
            retry().await;
            return Ok(());
        }
        driven => driven?,
    }
    let tasks: Vec<_> = (0..1_000).map(|_| tokio::spawn(retry())).collect();
    for task in tasks {
        task.await?;
    }
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    println!("1000 tasks slept, by {threads} threads: main and two workers");
    assert_eq!(threads, 3);
    Ok(())
}
