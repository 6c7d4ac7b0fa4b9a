//! Tasks of a tokio runtime.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use futures::StreamExt;
use tokio::runtime::{Builder, Handle};
use tourbillon::Timer;

use crate::common::peers::{Peer, RUNTIME};
use crate::common::work::Random;
use crate::expiry::{sleep_until, wait_for};
use crate::process::processor_time;
use crate::statistics::micros;

/// A runtime of tokio's.
#[derive(Clone, Copy)]
pub(crate) enum On {
    /// The multi-thread one.
    Workers,
    /// The current-thread one.
    OneThread,
}

impl On {
    pub(crate) fn handle(self) -> &'static Handle {
        match self {
            Self::Workers => RUNTIME.handle(),
            Self::OneThread => &ONE_THREAD,
        }
    }
}

/// A current-thread runtime with a thread of its own.
static ONE_THREAD: LazyLock<Handle> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().expect("there is room");
    let handle = runtime.handle().clone();
    thread::spawn(move || runtime.block_on(pending::<()>()));
    handle
});

/// Has that runtime turn our wheels in its own park. For processes of their own.
pub(crate) fn drive(on: On, tolerance: Duration) {
    let timer = Timer::builder().tolerance(tolerance).build().expect("the options are valid");
    let _entered = on.handle().enter();
    tourbillon_tokio::drive(&timer).expect("nothing else drives it");
    Timer::set_global(timer).expect("nothing has used it");
}

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
pub(crate) fn intervals<P: Peer>(
    on: On,
    count: usize,
    period: Duration,
    span: Duration,
) -> Vec<f64> {
    rounds(on, count, span, move |rounds| async move {
        let mut interval = pin!(P::ticks(period));
        while interval.next().await.is_some() {
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    })
}

/// So many tasks that each sleep again and again, for `delay`: processor nanoseconds for each time.
pub(crate) fn loops<P: Peer>(on: On, count: usize, delay: Duration, span: Duration) -> Vec<f64> {
    rounds(on, count, span, move |rounds| async move {
        loop {
            P::sleep(delay).await;
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    })
}

/// So many tasks that count their rounds: processor nanoseconds for each round.
fn rounds<F: Future<Output = ()> + Send + 'static>(
    on: On,
    count: usize,
    span: Duration,
    task: impl Fn(&'static AtomicU64) -> F,
) -> Vec<f64> {
    let rounds: Vec<_> = (0..count).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
    let rounds: &'static [_] = rounds.leak();
    for own in rounds {
        on.handle().spawn(task(own));
    }
    let sum = || rounds.iter().map(|own| own.load(Ordering::Relaxed)).sum::<u64>();
    // Until all tasks are in their rounds.
    thread::sleep(span / 4);
    let (time_before, before) = (processor_time(), sum());
    thread::sleep(span);
    let (time, counted) = (processor_time() - time_before, sum() - before);
    vec![time.as_nanos() as f64 / counted as f64]
}
