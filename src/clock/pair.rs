//! Readings of two clocks that belong together.
//!
//! Two readings are never one moment: the thread may lose the processor between them, for as long
//! as a quota, a busy machine or a paused one has it. So one clock is read before *and* after the
//! other, which shows how far apart the readings may be, and all are made again if that is far.

use std::time::Duration;

use crate::time::Instant;

/// A pair that is no further apart than this is as good as one reading. Several times what three
/// readings take, where each is a system call.
const NARROW: Duration = Duration::from_micros(10);

/// Most tries to read a pair.
const TRIES: usize = 8;

/// A reading of one clock between two of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair<A, B> {
    pub(super) before: A,
    pub(super) between: B,
    pub(super) after: A,
}

/// A reading that tells how long after another it was made.
pub(super) trait Reading: Copy {
    /// `None` if it was made before `earlier`: the clock has stepped back.
    fn since(self, earlier: Self) -> Option<Duration>;
}

impl Reading for Instant {
    fn since(self, earlier: Self) -> Option<Duration> {
        self.checked_duration_since(earlier)
    }
}

/// In nanoseconds.
impl Reading for u64 {
    fn since(self, earlier: Self) -> Option<Duration> {
        self.checked_sub(earlier).map(Duration::from_nanos)
    }
}

impl<A: Reading, B> Pair<A, B> {
    /// Reads both clocks: the closest pair of several tries, or the first that is narrow.
    ///
    /// However long the thread was held, `between` was read after `before` and before `after`. So
    /// code that must not err in one direction takes the one or the other.
    pub(super) fn read(outer: impl Fn() -> A, inner: impl Fn() -> B) -> Self {
        let read = || Self { before: outer(), between: inner(), after: outer() };
        let mut closest = read();
        for _ in 1..TRIES {
            if closest.width() <= NARROW {
                break;
            }
            let next = read();
            if next.width() < closest.width() {
                closest = next;
            }
        }
        closest
    }

    /// The most that its readings may be apart.
    fn width(&self) -> Duration {
        self.after.since(self.before).unwrap_or(Duration::MAX)
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Time that the clock shows at first: it may be set back by less than that.
    const SHOWN: u64 = 10_000_000_000;

    /// Reads one clock twice with so many nanoseconds before each reading, over and over. Returns
    /// the pair, and how many readings it took.
    fn read(held: &[i64]) -> (Pair<u64, u64>, usize) {
        let (time, readings) = (Cell::new(SHOWN), Cell::new(0));
        let clock = || {
            let held = held.get(readings.get()).copied().unwrap_or_default();
            time.set(time.get().checked_add_signed(held).expect("the clock shows more"));
            readings.set(readings.get() + 1);
            time.get()
        };
        (Pair::read(clock, clock), readings.get())
    }

    #[test]
    fn a_thread_that_is_not_held_reads_once() {
        let (pair, readings) = read(&[0, 20, 20]);
        assert_eq!((pair.width(), readings), (Duration::from_nanos(40), 3));
        assert_eq!(pair.between - pair.before, 20);
    }

    #[test]
    fn a_thread_that_is_held_at_either_reading_reads_again() {
        const HELD: i64 = 100_000_000;
        for held in [[0, HELD, 20], [0, 20, HELD]] {
            let (pair, readings) = read(&held);
            assert_eq!((pair.width(), readings), (Duration::ZERO, 6));
        }
        let (pair, readings) = read(&[HELD, 20, 20]);
        assert_eq!((pair.width(), readings), (Duration::from_nanos(40), 3), "not between them");
    }

    #[test]
    fn a_thread_that_is_held_over_and_over_takes_the_closest_pair() {
        let mut held = [50_000_000; 3 * TRIES];
        held[3 * 4 + 1] = 1_000_000;
        let (pair, readings) = read(&held);
        assert_eq!((pair.width(), readings), (Duration::from_millis(51), 3 * TRIES));
        assert!(pair.before < pair.between && pair.between < pair.after);
    }

    #[test]
    fn a_clock_that_steps_back_is_read_again() {
        for held in [[0, -5_000_000_000, 20], [0, 20, -5_000_000_000]] {
            let (pair, readings) = read(&held);
            assert_eq!((pair.width(), readings), (Duration::ZERO, 6));
        }
    }
}
