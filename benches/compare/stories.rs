//! Loops of programs that gained much by other use of timers, as their authors reported.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::channel::mpsc;
use tokio::task::{JoinHandle, yield_now};

use crate::common::peers::{Peer, RUNTIME};
use crate::common::work::FAR;
use crate::process::processor_time;
use crate::statistics::micros;

/// A `select!` between messages and a sleep that is made anew in each turn, mostly of zero, since
/// the loop has more to do at once (<https://github.com/estuary/flow/pull/3273>: 17 times as many
/// documents without those sleeps). Nanoseconds a turn takes if its sleep is of zero, and if it is
/// far off and a message ends the turn.
pub(crate) fn select_loop<P: Peer>(turns: u32, span: Duration) -> Vec<f64> {
    let task = RUNTIME.spawn(async move {
        let (sender, mut messages) = mpsc::unbounded();
        let mut figures = Vec::new();
        for delay in [Duration::ZERO, FAR] {
            let start = Instant::now();
            let mut done = 0;
            while done < turns && start.elapsed() < span {
                if !delay.is_zero() {
                    sender.unbounded_send(()).expect("it is received");
                }
                tokio::select! {
                    biased;
                    _ = pin!(P::sleep(delay)) => {}
                    _ = messages.next() => {}
                }
                done += 1;
            }
            figures.push(start.elapsed().as_nanos() as f64 / f64::from(done));
        }
        figures
    });
    pollster::block_on(task).expect("it ends")
}

/// A client of a database: each command is limited, and each of its reads and writes once more
/// (<https://github.com/aerospike/aerospike-client-rust/pull/208>: a million timers a second, all
/// cancelled, contended for one lock). Nanoseconds of processor a command takes on all workers; and
/// the same with one sleep for each connection that is reset before each read and write, which is
/// how the client was mended.
pub(crate) fn limited_commands<P: Peer>(tasks: u32, commands: u32) -> Vec<f64> {
    const LIMIT: Duration = Duration::from_secs(1);
    /// Reads and writes of a command.
    const TRANSFERS: usize = 3;
    async fn limited<P: Peer>() {
        let command = async {
            for _ in 0..TRANSFERS {
                assert!(P::timeout(LIMIT, yield_now()).await);
            }
        };
        assert!(P::timeout(LIMIT, command).await);
    }
    async fn with_one_sleep<P: Peer>(mut sleep: Pin<&mut P::Sleep>) {
        for _ in 0..TRANSFERS {
            P::reset(sleep.as_mut(), Instant::now() + LIMIT);
            tokio::select! {
                biased;
                () = yield_now() => {}
                _ = sleep.as_mut() => unreachable!("the limit is a second"),
            }
        }
    }
    let anew = cost(tasks, commands, move || async move {
        for _ in 0..commands {
            limited::<P>().await;
        }
    });
    let reset = cost(tasks, commands, move || async move {
        let mut sleep = pin!(P::sleep(FAR));
        for _ in 0..commands {
            with_one_sleep::<P>(sleep.as_mut()).await;
        }
    });
    vec![anew, reset]
}

/// Processor nanoseconds of each of `each` steps of so many tasks.
fn cost<F: Future<Output = ()> + Send + 'static>(
    tasks: u32,
    each: u32,
    task: impl Fn() -> F,
) -> f64 {
    let before = processor_time();
    let tasks_begun: Vec<_> = (0..tasks).map(|_| RUNTIME.spawn(task())).collect();
    tasks_begun.into_iter().for_each(ended);
    (processor_time() - before).as_nanos() as f64 / f64::from(tasks) / f64::from(each)
}

fn ended<T>(task: JoinHandle<T>) -> T {
    pollster::block_on(task).expect("it ends")
}

/// A load generator at a fixed rate: streams that sleep until the next operation is to start, and
/// start it, with a limit (<https://github.com/scylladb/latte/pull/152> and
/// <https://github.com/tokio-rs/tokio/issues/7745>: 37 % more throughput and half the tail with one
/// sleep that is reset, and another wheel of tokio's). Processor nanoseconds of each operation, and
/// microseconds that they start late, p50 and p99.
pub(crate) fn at_a_rate<P: Peer>(streams: u32, per_second: u32, span: Duration) -> Vec<f64> {
    const LIMIT: Duration = Duration::from_secs(30);
    let period = Duration::from_secs(1) * streams / per_second;
    let before = processor_time();
    let tasks: Vec<_> = (0..streams)
        .map(|stream| {
            RUNTIME.spawn(async move {
                let mut due = Instant::now() + period + period * stream / streams;
                let end = due + span;
                let mut sleep = pin!(P::sleep_until(due));
                let mut late = Vec::new();
                while due < end {
                    sleep.as_mut().await;
                    late.push(due.elapsed());
                    tokio::spawn(async move {
                        assert!(P::timeout(LIMIT, yield_now()).await);
                    });
                    due += period;
                    P::reset(sleep.as_mut(), due);
                }
                late
            })
        })
        .collect();
    let late: Vec<Duration> = tasks.into_iter().flat_map(ended).collect();
    let each = (processor_time() - before).as_nanos() as f64 / late.len() as f64;
    [vec![each], micros(&late, [0.5, 0.99]).to_vec()].concat()
}
