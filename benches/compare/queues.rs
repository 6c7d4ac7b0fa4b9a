//! Queues whose entries expire.

use std::hint::black_box;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::peers::{Peer, RUNTIME, Tokio};
use crate::common::work::{FAR, Random, timed};

pub(crate) type DelayQueue = tourbillon::queue::DelayQueue<u64>;
pub(crate) type TheirDelayQueue = tokio_util::time::DelayQueue<u64>;

/// A queue, of either crate.
pub(crate) trait Entries {
    type Key;

    fn new() -> Self;
    fn insert_at(&mut self, deadline: Instant) -> Self::Key;
    fn remove(&mut self, key: &Self::Key);
    /// Returns how many entries a poll finds expired.
    fn expire(&mut self, cx: &mut Context<'_>) -> u64;
}

macro_rules! entries {
    ($queue:ty, $key:ty, $instant:ty) => {
        impl Entries for $queue {
            type Key = $key;

            fn new() -> Self {
                <$queue>::new()
            }

            fn insert_at(&mut self, deadline: Instant) -> $key {
                <$queue>::insert_at(self, 1, <$instant>::from(deadline))
            }

            fn remove(&mut self, key: &$key) {
                black_box(<$queue>::remove(self, key));
            }

            fn expire(&mut self, cx: &mut Context<'_>) -> u64 {
                match self.poll_expired(cx) {
                    Poll::Ready(Some(expired)) => expired.into_inner(),
                    _ => 0,
                }
            }
        }
    };
}

entries!(DelayQueue, tourbillon::queue::Key, Instant);
entries!(TheirDelayQueue, tokio_util::time::delay_queue::Key, tokio::time::Instant);

/// `count` entries are due, at random instants: nanoseconds to hand out each.
pub(crate) fn backlog<E: Entries>(count: usize) -> Vec<f64> {
    const SPAN: Duration = Duration::from_secs(1);
    let _entered = Tokio::enter();
    let mut random = Random::new();
    let mut entries = E::new();
    let start = Instant::now();
    for _ in 0..count {
        entries.insert_at(start + random.within(SPAN));
    }
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

/// Half of `count` entries is due at one instant, the rest later: microseconds that the longest
/// poll takes as those are handed out.
pub(crate) fn worst_poll<E: Entries>(count: usize) -> Vec<f64> {
    const DELAY: Duration = Duration::from_secs(1);
    let _entered = Tokio::enter();
    let mut random = Random::new();
    let mut entries = E::new();
    let first = Instant::now() + DELAY;
    for _ in 0..count / 2 {
        entries.insert_at(first);
        entries.insert_at(first + FAR + random.within(FAR));
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
    let mut entries = E::new();
    let start = Instant::now() + FAR;
    let insert = |_| entries.insert_at(start + random.within(FAR));
    let mut keys: Vec<_> = (0..count).map(insert).collect();
    (1..count).for_each(|last| keys.swap(last, random.below(last as u64 + 1) as usize));
    let taken = timed(|| keys.iter().for_each(|key| entries.remove(key)));
    vec![taken.as_nanos() as f64 / count as f64]
}
