//! Timers armed in one go, so that their memory is cold when they are dropped.

use std::pin::pin;
use std::time::{Duration, Instant};

use crate::allocations;
use crate::common::peers::Peer;
use crate::common::slots::Slots;
use crate::common::wakers::{Count, poll};
use crate::common::work::{FAR, Random, timed};
use crate::process::{give_back_pages, resident, settle};

/// Arms `count` timers, and drops them in random order. Nanoseconds for each: both together, the
/// arming, the dropping.
///
/// Deadlines are random, too, and computed beforehand. Who arms the timers is the first to touch
/// the memory of the futures.
pub(crate) fn random_order<P: Peer>(count: usize) -> Vec<f64> {
    random_order_times::<P>(count, 1)
}

/// Both together, again and again: `sum` timers altogether.
pub(crate) fn random_order_again<P: Peer>(count: usize, sum: usize) -> Vec<f64> {
    vec![random_order_times::<P>(count, sum.div_ceil(count))[0]]
}

fn random_order_times<P: Peer>(count: usize, times: usize) -> Vec<f64> {
    let _entered = P::enter();
    let waker = Count::new().waker();
    let mut random = Random::new();
    let start = Instant::now() + FAR;
    let deadlines: Vec<_> = (0..count).map(|_| start + random.within(FAR)).collect();
    let order = shuffled(count, &mut random);
    // Whatever is there once for all timers.
    assert!(poll(pin!(P::sleep(FAR / 2)), &waker).is_pending());
    let (mut arming, mut dropping) = (Duration::ZERO, Duration::ZERO);
    let mut sleeps = Slots::with_capacity(count);
    for _ in 0..times {
        arming += timed(|| {
            for deadline in &deadlines {
                let sleep = sleeps.push(Some(P::sleep_until(*deadline))).as_pin_mut();
                assert!(poll(sleep.expect("it was just made"), &waker).is_pending());
            }
        });
        dropping += timed(|| order.iter().for_each(|index| sleeps.at(*index as usize).set(None)));
        sleeps.clear();
    }
    let each = |sum: Duration| sum.as_nanos() as f64 / (times * count) as f64;
    vec![each(arming + dropping), each(arming), each(dropping)]
}

fn shuffled(count: usize, random: &mut Random) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    for last in (1..count).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order
}

/// Size of the future.
pub(crate) fn size<P: Peer>() -> Vec<f64> {
    vec![size_of::<P::Sleep>() as f64]
}

/// Bytes per armed timer with the future: allocated, resident; and what of each is left when all
/// are dropped.
pub(crate) fn memory<P: Peer>(count: usize) -> Vec<f64> {
    let _entered = P::enter();
    let memory = Memory::before::<P>();
    let waker = Count::new().waker();
    let mut sleeps = Slots::with_capacity(count);
    let start = Instant::now() + FAR;
    for n in 0..count {
        let deadline = start + Duration::from_micros(n as u64);
        assert!(poll(sleeps.push(P::sleep_until(deadline)), &waker).is_pending());
    }
    let armed = memory.since();
    drop(sleeps);
    let dropped = memory.since();
    [armed, dropped].concat().iter().map(|bytes| bytes / count as f64).collect()
}

/// Keeps one in 256 of a burst of timers in boxes of their own. Megabytes while all are armed,
/// allocated and resident, and the same when the others are dropped and the allocator has given
/// back what pages it can.
pub(crate) fn survivors<P: Peer>(count: usize) -> Vec<f64> {
    let _entered = P::enter();
    let waker = Count::new().waker();
    let mut sleeps: Vec<_> = (0..count).map(|_| None).collect();
    let memory = Memory::before::<P>();
    let start = Instant::now() + FAR;
    for (n, sleep) in sleeps.iter_mut().enumerate() {
        let deadline = start + Duration::from_micros(n as u64);
        let sleep = sleep.insert(Box::pin(P::sleep_until(deadline)));
        assert!(poll(sleep.as_mut(), &waker).is_pending());
    }
    let peak = memory.since();
    for (n, sleep) in sleeps.iter_mut().enumerate() {
        if n % 256 != 0 {
            *sleep = None;
        }
    }
    give_back_pages();
    [peak, memory.since()].concat().iter().map(|bytes| bytes / 1e6).collect()
}

/// Memory taken before.
pub(crate) struct Memory {
    resident: f64,
}

impl Memory {
    /// Begins to count, once whatever is there for all timers is there.
    pub(crate) fn before<P: Peer>() -> Self {
        let waker = Count::new().waker();
        assert!(poll(pin!(P::sleep(FAR)), &waker).is_pending());
        settle();
        allocations::count();
        Self { resident: resident() as f64 }
    }

    /// Bytes since: allocated, resident.
    pub(crate) fn since(&self) -> [f64; 2] {
        settle();
        [allocations::bytes() as f64, resident() as f64 - self.resident]
    }
}
