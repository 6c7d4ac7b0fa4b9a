//! Calls of wakers and callbacks, and the time that they take.
//!
//! To read the clock around each would cost as much as a third of its fire. So wakers that follow
//! each other in a crowd are measured a few at a time, for as long as they are brisk, and each by
//! itself once they are not. A slow one is off by no more than the brisk ones beside it.

use core::time::Duration;

use crate::clock::Clock;
use crate::engine::wake_batch::WakeBatch;
use crate::sync::Ordering;
use crate::sync::unmodelled::AtomicU64;
use crate::tick::{Tick, saturated_nanos};

/// A call that takes longer is slow, unless the timer has another limit. Several times what a busy
/// system adds by itself; asyncio's limit is the same.
pub(crate) const LIMIT: Duration = Duration::from_millis(100);

/// Wakers that are measured together, at most. Each batch begins with one, and twice as many follow
/// while they are brisk. So a crowd that stops being brisk in the middle of a batch is off by that
/// many calls, once, and one that never is brisk by none.
const TOGETHER_MAX: usize = 64;

/// A batch is measured in no fewer parts, down to one waker each, so that few are exact.
const PARTS: usize = 8;

/// Wakers are brisk that take no longer than this, on average.
const BRISK_NS: u64 = 10_000;

/// The calls of one timer's wakers and callbacks, by its driver.
#[derive(Debug)]
pub(crate) struct Calls {
    longest_ns: AtomicU64,
    /// Calls that took longer than the limit.
    slow: AtomicU64,
    limit_ns: u64,
    /// Tick at which the one that is under way began; 0 if there is none.
    began: AtomicU64,
}

/// The calls of one batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) panics: u64,
    pub(crate) longest_ns: u64,
    pub(crate) slow: u64,
}

impl Calls {
    /// None so far. `limit`: how long one may take that is not slow.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            longest_ns: AtomicU64::new(0),
            slow: AtomicU64::new(0),
            limit_ns: saturated_nanos(limit),
            began: AtomicU64::new(0),
        }
    }

    pub(crate) fn limit(&self) -> Duration {
        Duration::from_nanos(self.limit_ns)
    }

    /// The longest so far, with the one that is under way.
    pub(crate) fn longest(&self, clock: &Clock) -> Duration {
        // ORDERING: Relaxed, twice; statistics.
        let began = self.began.load(Ordering::Relaxed);
        let under_way_ns = match began {
            0 => 0,
            began => clock.now().nanos_since(Tick::from_raw(began)),
        };
        Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed).max(under_way_ns))
    }

    pub(crate) fn slow(&self) -> u64 {
        // ORDERING: Relaxed; a statistic.
        self.slow.load(Ordering::Relaxed)
    }

    /// Wakes the batch, which is not empty, and measures that.
    pub(crate) fn wake_all(&self, clock: &Clock, batch: &mut WakeBatch) -> Measured {
        // In the models a reading of the clock would be one more place to switch threads.
        if cfg!(all(test, tourbillon_model)) {
            return Measured { panics: batch.wake_all(usize::MAX, |_| 1), longest_ns: 0, slow: 0 };
        }
        let most = self.together_at_most(batch.len());
        let (mut longest_ns, mut slow) = (0, 0);
        let mut began = clock.now();
        // A pass of this timer within a call of one of its wakers is a part of that call.
        let outer = self.begin(began.raw());
        let panics = batch.wake_all(1, |woken| {
            let now = clock.now();
            let took_ns = now.nanos_since(began);
            longest_ns = took_ns.max(longest_ns);
            slow += u64::from(took_ns > self.limit_ns);
            began = now;
            self.begin(now.raw());
            if took_ns > BRISK_NS * woken as u64 { 1 } else { most.min(2 * woken) }
        });
        self.begin(outer);
        self.record(longest_ns, slow);
        Measured { panics, longest_ns, slow }
    }

    /// Wakes one waker, and measures that.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn wake_one(&self, clock: &Clock, waker: core::task::Waker) -> Measured {
        let began = clock.now();
        let outer = self.begin(began.raw());
        let panics = u64::from(crate::foreign::guarded(|| waker.wake()).is_none());
        let longest_ns = clock.now().nanos_since(began);
        let slow = u64::from(longest_ns > self.limit_ns);
        self.begin(outer);
        self.record(longest_ns, slow);
        Measured { panics, longest_ns, slow }
    }

    /// Ends the measurement of a call that was cut off.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn cut_off(&self, clock: &Clock) {
        let began = self.begin(0);
        if began != 0 {
            let took_ns = clock.now().nanos_since(Tick::from_raw(began));
            self.record(took_ns, u64::from(took_ns > self.limit_ns));
        }
    }

    /// Notes when the call that is under way began. Returns when the one before it did.
    fn begin(&self, tick: u64) -> u64 {
        // ORDERING: Relaxed, twice; a statistic, which one thread at a time writes.
        let before = self.began.load(Ordering::Relaxed);
        self.began.store(tick, Ordering::Relaxed);
        before
    }

    fn record(&self, longest_ns: u64, slow: u64) {
        // ORDERING: Relaxed, twice; statistics.
        if longest_ns > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.fetch_max(longest_ns, Ordering::Relaxed);
        }
        if slow > 0 {
            // ORDERING: Relaxed; a statistic.
            self.slow.fetch_add(slow, Ordering::Relaxed);
        }
    }

    /// Returns how many wakers of a batch to measure together. One, if a few that are brisk could
    /// exceed the limit.
    fn together_at_most(&self, len: usize) -> usize {
        if self.limit_ns < BRISK_NS * TOGETHER_MAX as u64 {
            return 1;
        }
        (len / PARTS).clamp(1, TOGETHER_MAX)
    }
}
