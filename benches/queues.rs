//! Cost of an entry of a queue, beside the cost of a sleep for each entry.
//!
//! All of it is measured on the thread that uses the queue. A sleep's cost for its driver thread
//! when it fires is on top of that, and as great for a queue of a thousand entries as for one.
//! tokio's queue continues to the next millisecond only once its runtime has looked at the clock;
//! the wait for that is in its figures for entries that expire spread out, and great on a busy
//! machine.

mod common;

use std::hint::black_box;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::entries::{DelayQueue, Entries, Sleeps, TheirDelayQueue, TimeoutQueue};
use common::peers::{Peer, Tokio, Tourbillon};
use common::prove_that_sleeps_fire;
use common::wakers::Count;
use common::work::Random;
use criterion::Criterion;

const FAR: Duration = Duration::from_secs(1_000);
/// Longest delay of an entry that is to expire.
const SOON: Duration = Duration::from_millis(5);
/// Entries inserted before all of them expire.
const BATCH: u64 = 10_000;

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// A structure with so many entries, all far off, that somebody waits for.
fn filled<E: Entries>(count: usize, waker: &Waker) -> (E, Vec<E::Key>) {
    let mut random = Random::new();
    let mut entries = E::new(count + 1, FAR);
    let keys = (0..count).map(|_| entries.insert(FAR + random.within(FAR), waker)).collect();
    assert_eq!(entries.expire(&mut Context::from_waker(waker)), 0);
    (entries, keys)
}

/// Insert an entry that is far off and remove it, among so many others.
fn insert_remove<E: Entries>(others: usize) -> impl FnMut(u64) -> Duration {
    let waker = Count::new().waker();
    let (mut entries, _keys) = filled::<E>(others, &waker);
    move |times| {
        timed(|| {
            for _ in 0..times {
                let key = entries.insert(black_box(FAR), &waker);
                entries.remove(key);
            }
        })
    }
}

/// Move a random entry of so many to later.
fn refresh<E: Entries>(count: usize) -> impl FnMut(u64) -> Duration {
    let waker = Count::new().waker();
    let (mut entries, keys) = filled::<E>(count, &waker);
    let mut random = Random::new();
    let order: Vec<_> = (0..4_096).map(|_| random.below(count as u64) as usize).collect();
    let mut at = 0;
    move |times| {
        timed(|| {
            for _ in 0..times {
                at = (at + 1) % order.len();
                entries.reset(&keys[order[at]], black_box(2 * FAR));
            }
        })
    }
}

/// Insert entries, and take them out when all of them are due. The wait between is not counted.
fn insert_expire<E: Entries>(spread: bool) -> impl FnMut(u64) -> Duration {
    let waker = Count::new().waker();
    let mut random = Random::new();
    let delays: Vec<_> = (0..BATCH)
        .map(|_| if spread { SOON / 2 + random.within(SOON / 2) } else { SOON })
        .collect();
    let mut entries = E::new(BATCH as usize, SOON);
    move |times| {
        let mut sum = Duration::ZERO;
        let mut left = times;
        while left > 0 {
            let batch = left.min(BATCH);
            left -= batch;
            let mut cx = Context::from_waker(&waker);
            let mut expired = 0;
            sum += timed(|| {
                for delay in &delays[..batch as usize] {
                    entries.insert(*delay, &waker);
                }
                expired += entries.expire(&mut cx);
            });
            thread::sleep(2 * SOON);
            sum += timed(|| {
                while expired < batch {
                    expired += entries.expire(&mut cx);
                }
            });
        }
        sum
    }
}

/// One criterion group: the function for every kind of entries.
macro_rules! compare {
    ($criterion:expr, $name:expr, $function:ident($argument:expr), $($entries:ty),+) => {{
        let mut group = $criterion.benchmark_group($name);
        $(group.bench_function(<$entries>::NAME, |bencher| {
            // Prepared when it runs: a filter on the command line saves that, too.
            let mut work = $function::<$entries>($argument);
            bencher.iter_custom(&mut work);
        });)+
        group.finish();
    }};
}

fn main() {
    prove_that_sleeps_fire();
    let _entered = (Tourbillon::enter(), Tokio::enter());
    let mut criterion = Criterion::default().configure_from_args();
    for others in [0, 10_000] {
        let name = format!("insert and remove, among {others}");
        compare!(
            criterion,
            name,
            insert_remove(others),
            DelayQueue,
            TheirDelayQueue,
            TimeoutQueue,
            Sleeps
        );
    }
    compare!(
        criterion,
        "insert and expire, spread",
        insert_expire(true),
        DelayQueue,
        TheirDelayQueue
    );
    compare!(
        criterion,
        "push and expire, equal delays",
        insert_expire(false),
        TimeoutQueue,
        DelayQueue,
        TheirDelayQueue,
        Sleeps
    );
    for count in [1_000, 100_000] {
        let name = format!("refresh one of {count}");
        compare!(
            criterion,
            name,
            refresh(count),
            TimeoutQueue,
            DelayQueue,
            TheirDelayQueue,
            Sleeps
        );
    }
    criterion.final_summary();
}
