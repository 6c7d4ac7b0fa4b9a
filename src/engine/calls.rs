//! Calls of wakers and callbacks, and the time that they take.
//!
//! To read the clock around each would cost as much as a third of its fire. So wakers that follow
//! each other in a crowd are measured a few at a time, for as long as they are quick, and each by
//! itself once they are not. After each the coarse clock is read, which takes an eighth of the
//! time, and once it has moved on, the few end there: two that take long are never among them. So a
//! slow one is off by the quick ones before it at most, less than a step of that clock. Where there
//! is none, each is measured by itself.

use core::time::Duration;

use crate::clock::Clock;
use crate::engine::wake_batch::WakeBatch;
use crate::sync::Ordering;
use crate::sync::unmodelled::AtomicU64;
use crate::tick::{Tick, saturated_nanos};

/// A call that takes longer is slow, unless the timer has another limit. Several times the delay
/// that a busy system adds by itself; asyncio's limit is the same.
pub(crate) const LIMIT: Duration = Duration::from_millis(100);

/// Wakers that are measured together, at most. Each batch begins with one, and twice as many follow
/// while they are quick. So a crowd that stops being quick in the middle of a batch is off by that
/// many calls, once, and a crowd that never is quick by none.
const TOGETHER_MAX: usize = 64;

/// A batch is measured in no fewer parts, down to one waker each, so that few are exact.
const PARTS: usize = 8;

/// Wakers are quick that take no longer than this, on average.
const QUICK_NS: u64 = 10_000;

/// With a lower limit each waker is measured by itself: several that are not slow might exceed it
/// together before the coarse clock moves on, each 10 ms or more often.
const TOGETHER_LIMIT_NS: u64 = 20_000_000;

/// The calls of one timer's wakers and callbacks, by its driver.
#[derive(Debug)]
pub(crate) struct Calls {
    longest_ns: AtomicU64,
    /// Calls that took longer than the limit.
    slow: AtomicU64,
    limit_ns: u64,
    /// Tick when the call under way began; 0 if there is none.
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

    /// The longest so far, the call under way included.
    pub(crate) fn longest(&self, clock: &Clock) -> Duration {
        // ORDERING: Relaxed, twice; statistics.
        let (began, longest_ns) =
            (self.began.load(Ordering::Relaxed), self.longest_ns.load(Ordering::Relaxed));
        let under_way_ns = match began {
            0 => 0,
            began => clock.now().nanos_since(Tick::from_raw(began)),
        };
        Duration::from_nanos(longest_ns.max(under_way_ns))
    }

    pub(crate) fn slow(&self) -> u64 {
        // ORDERING: Relaxed; a statistic.
        self.slow.load(Ordering::Relaxed)
    }

    /// Wakes a batch that is not empty, and measures the calls.
    pub(crate) fn wake_all(&self, clock: &Clock, batch: &mut WakeBatch) -> Measured {
        // In the models a reading of the clock would be one more place to switch threads.
        if cfg!(all(test, tourbillon_model)) {
            return Measured { panics: batch.wake_all(|_| ()), longest_ns: 0, slow: 0 };
        }
        self.wake_all_by(|| clock.now(), || clock.coarse(), batch)
    }

    /// [`wake_all`](Self::wake_all) by two clocks; `coarse` is `None` where there is none.
    fn wake_all_by(
        &self,
        now: impl Fn() -> Tick,
        coarse: impl Fn() -> Option<Tick>,
        batch: &mut WakeBatch,
    ) -> Measured {
        let most = match self.together_at_most(batch.len()) {
            1 => 1,
            most => coarse().map_or(1, |_| most),
        };
        // How many are measured next, and how many of them were woken; the coarse time before.
        let (mut together, mut woken, mut shown) = (1, 0, None);
        let (mut longest_ns, mut slow) = (0, 0);
        let mut began = now();
        // A pass of this timer within a call of its own waker is a part of that call.
        let outer = self.begin(began.raw());
        let panics = batch.wake_all(|left| {
            woken += 1;
            if woken < together && left > 0 && coarse() == shown {
                return;
            }
            let ended = now();
            let took_ns = ended.nanos_since(began);
            longest_ns = took_ns.max(longest_ns);
            slow += u64::from(took_ns > self.limit_ns);
            began = ended;
            self.begin(ended.raw());
            together = if took_ns > QUICK_NS * woken as u64 { 1 } else { most.min(2 * woken) };
            woken = 0;
            if together > 1 {
                shown = coarse();
            }
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
        // ORDERING: Relaxed, twice; a statistic.
        if longest_ns > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.fetch_max(longest_ns, Ordering::Relaxed);
        }
        if slow > 0 {
            // ORDERING: Relaxed; a statistic.
            self.slow.fetch_add(slow, Ordering::Relaxed);
        }
    }

    /// Returns how many wakers of a batch to measure together.
    fn together_at_most(&self, len: usize) -> usize {
        if self.limit_ns < TOGETHER_LIMIT_NS {
            return 1;
        }
        (len / PARTS).clamp(1, TOGETHER_MAX)
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use alloc::task::Wake;
    use core::cell::Cell;
    use core::task::Waker;

    use super::*;
    use crate::sync::StdArc;

    /// A waker that takes so many nanoseconds.
    struct Takes(u64, StdArc<AtomicU64>);

    impl Wake for Takes {
        fn wake(self: StdArc<Self>) {
            // ORDERING: Relaxed; one thread has it.
            self.1.fetch_add(self.0, Ordering::Relaxed);
        }
    }

    /// Step of the stand-in for a coarse clock, in nanoseconds.
    const STEP: u64 = 4_000_000;

    /// Wakes a full batch, each by a waker that takes as long as `span` says. Returns the slow
    /// ones, the longest, and the readings of the exact clock.
    fn wake(limit: Duration, has_coarse: bool, span: impl Fn(u64) -> u64) -> (u64, u64, usize) {
        let time = StdArc::new(AtomicU64::new(Tick::ORIGIN.raw() + STEP / 3));
        let mut batch = WakeBatch::new();
        let mut place = 0;
        while batch.room() > 0 {
            let waker = Takes(span(place), StdArc::clone(&time));
            batch.push(Waker::from(StdArc::new(waker)));
            place += 1;
        }
        // ORDERING: Relaxed; one thread has it.
        let shown = || time.load(Ordering::Relaxed);
        let (calls, readings) = (Calls::new(limit), Cell::new(0));
        let now = || {
            readings.set(readings.get() + 1);
            Tick::from_raw(shown())
        };
        let coarse = || has_coarse.then(|| Tick::from_raw(shown() / STEP * STEP));
        let measured = calls.wake_all_by(now, coarse, &mut batch);
        let longest_ns = calls.longest_ns.load(Ordering::Relaxed); // ORDERING: one thread has it
        assert_eq!((measured.slow, measured.longest_ns), (calls.slow(), longest_ns));
        (measured.slow, measured.longest_ns, readings.get())
    }

    const QUICK: u64 = 1_000;
    const MS: u64 = 1_000_000;
    const LIMIT: Duration = Duration::from_millis(100);

    #[test]
    fn two_long_calls_that_follow_quick_ones_are_two() {
        for (first, second) in [(0, 1), (15, 16), (70, 80), (300, 301), (300, 362), (510, 511)] {
            for (long, slow) in [(60 * MS, 0), (99 * MS, 0), (101 * MS, 2), (200 * MS, 2)] {
                let span = |n| if n == first || n == second { long } else { QUICK };
                let (found, longest, _) = wake(LIMIT, true, span);
                assert_eq!(found, slow, "{long} ns at {first} and {second}");
                assert!((long..=long + 63 * QUICK).contains(&longest), "{longest} of {long} ns");
                assert_eq!(wake(LIMIT, false, span), (slow, long, 513), "each by itself");
            }
        }
    }

    #[test]
    fn quick_calls_are_measured_together_unless_they_could_exceed_the_limit() {
        let (slow, longest, readings) = wake(LIMIT, true, |_| QUICK);
        assert!((slow, longest) == (0, 64 * QUICK) && readings < 20, "{longest} ns, {readings}");
        // Of the next longer ones, no two would be slow by themselves.
        let limit = Duration::from_nanos(TOGETHER_LIMIT_NS - 1);
        assert_eq!(wake(limit, true, |_| QUICK), (0, QUICK, 513));
        // Calls that are not quick are measured one by one.
        assert_eq!(wake(LIMIT, true, |_| 4 * QUICK_NS), (0, 4 * QUICK_NS, 513));
    }
}
