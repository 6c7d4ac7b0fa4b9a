//! Queues whose entries expire.

use std::hint::black_box;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::entries::Entries;
use crate::common::peers::{Peer, RUNTIME, Tokio};
use crate::common::work::{FAR, Random, timed};
use crate::own::{asking, making};

/// A queue with one entry: bytes allocated, and nanoseconds.
pub(crate) fn made<E: Entries>() -> Vec<f64> {
    let _entered = Tokio::enter();
    making(|| filled::<E>(1, FAR, Duration::from_nanos(1)))
}

/// With `count` entries that expire at random within `span`, `delay` from now.
fn filled<E: Entries>(count: usize, delay: Duration, span: Duration) -> E {
    let mut random = Random::new();
    let mut entries = E::new(0, delay);
    for _ in 0..count {
        entries.insert(delay + random.within(span), Waker::noop());
    }
    entries
}

/// `count` entries are due, at random instants: nanoseconds to hand out each.
pub(crate) fn backlog<E: Entries>(count: usize) -> Vec<f64> {
    const SPAN: Duration = Duration::from_secs(1);
    let _entered = Tokio::enter();
    let mut entries = filled::<E>(count, Duration::ZERO, SPAN);
    thread::sleep(SPAN);
    // tokio's queue asks its runtime, and that must have looked at the clock since.
    RUNTIME.block_on(Tokio::sleep(Duration::from_millis(10)));
    let mut cx = Context::from_waker(Waker::noop());
    let mut left = count as u64;
    let taken = timed(|| {
        while left > 0 {
            left -= entries.expire(&mut cx);
        }
    });
    vec![taken.as_nanos() as f64 / count as f64]
}

/// Half of `count` entries is due within `span`, the rest later: microseconds that the longest poll
/// takes as those are handed out.
pub(crate) fn worst_poll<E: Entries>(
    count: usize,
    span: Duration,
    insert_at: fn(&mut E, Instant) -> E::Key,
) -> Vec<f64> {
    const DELAY: Duration = Duration::from_secs(1);
    let _entered = Tokio::enter();
    let mut random = Random::new();
    let mut entries = E::new(0, DELAY);
    let first = Instant::now() + DELAY;
    for _ in 0..count / 2 {
        insert_at(&mut entries, first + random.within(span));
        insert_at(&mut entries, first + FAR + random.within(FAR));
    }
    thread::sleep(2 * DELAY);
    RUNTIME.block_on(Tokio::sleep(Duration::from_millis(10)));
    let mut cx = Context::from_waker(Waker::noop());
    let mut left = count as u64 / 2;
    let mut worst = Duration::ZERO;
    while left > 0 {
        worst = worst.max(timed(|| left -= entries.expire(&mut cx)));
    }
    vec![worst.as_secs_f64() * 1e6]
}

/// `count` entries far off, in random order: nanoseconds to remove each.
pub(crate) fn removed_at_random<E: Entries>(count: usize) -> Vec<f64> {
    let _entered = Tokio::enter();
    let mut random = Random::new();
    let mut entries = E::new(0, FAR);
    let insert = |_| entries.insert(FAR + random.within(FAR), Waker::noop());
    let mut keys: Vec<_> = (0..count).map(insert).collect();
    (1..count).for_each(|last| keys.swap(last, random.below(last as u64 + 1) as usize));
    let taken = timed(|| keys.into_iter().for_each(|key| entries.remove(key)));
    vec![taken.as_nanos() as f64 / count as f64]
}

/// Microseconds to `peek` at the first of `count` entries within a millisecond, far off: again, and
/// once the first has been removed.
pub(crate) fn peek<E: Entries>(count: usize, peek: fn(&E) -> Option<E::Key>) -> Vec<f64> {
    let _entered = Tokio::enter();
    let mut entries = filled::<E>(count, FAR, Duration::from_millis(1));
    let first = |entries: &E| black_box(peek(entries)).expect("many are left");
    let again = asking(|| timed(|| drop(first(&entries))));
    let anew = asking(|| {
        entries.remove(first(&entries));
        timed(|| drop(first(&entries)))
    });
    [again, anew].concat()
}
