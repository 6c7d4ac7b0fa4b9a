//! [`Histogram`]: how late timers were fired.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;
use core::time::Duration;

/// Bits of a value below its highest that tell its bucket.
const DETAIL: u32 = 3;

/// Buckets to a power of two.
const DIVISIONS: usize = 1 << DETAIL;

/// Values below [`DIVISIONS`] have a bucket each; from there on each power of two has as many.
const BUCKETS: usize = (u64::BITS - DETAIL + 1) as usize * DIVISIONS;

/// Snapshot of how late a timer fired its sleeps; see [`Timer::lateness`](crate::Timer::lateness).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use futures::FutureExt;
/// use tourbillon::Timer;
/// use tourbillon::virtual_time::VirtualClock;
///
/// let clock = VirtualClock::new();
/// let timer = Timer::builder().virtual_clock(&clock).lateness_histogram(true).build()?;
/// let mut sleeps: Vec<_> = (1..=100).map(|n| timer.sleep(Duration::from_millis(n))).collect();
/// assert!(sleeps.iter_mut().all(|sleep| sleep.now_or_never().is_none()));
///
/// // As if the driver had been kept from running for a tenth of a second.
/// clock.jump(Duration::from_millis(100));
/// clock.advance(Duration::ZERO);
///
/// let lateness = timer.lateness().expect("it was asked for");
/// assert_eq!(lateness.count(), 100);
/// assert_eq!(lateness.max(), Duration::from_millis(99));
/// let median = lateness.percentile(50.0);
/// assert!(median >= Duration::from_millis(49) && median <= Duration::from_millis(49) * 9 / 8);
/// # std::io::Result::Ok(())
/// ```
///
/// # Details
///
/// The snapshot covers all that the driver has fired since the timer was made. Lateness is the time
/// from the deadline to the start of the pass that fired the sleep. Buckets are an eighth of a
/// power of two wide, as in HdrHistogram, so no answer is off by more than an eighth, from a
/// nanosecond up to centuries. A sleep whose own poll found its deadline past is not counted. A
/// sleep that was reset to a deadline in the past counts as late from that deadline.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Fires by bucket.
    counts: Box<[u64]>,
    max_ns: u64,
}

impl Histogram {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), max_ns: 0 }
    }

    /// The number of timers counted.
    #[inline]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The lateness that `percent` per cent of the timers did not exceed: the upper end of a
    /// bucket, and never more than [`max`](Self::max).
    ///
    /// `percent` is clamped to 0..=100. Zero if nothing was counted.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let timer = tourbillon::Timer::builder().lateness_histogram(true).build()?;
    /// pollster::block_on(timer.sleep(Duration::from_millis(1)));
    /// let lateness = timer.lateness().expect("it was asked for");
    /// println!("{:?} at the most in 99.9 % of all cases", lateness.percentile(99.9));
    /// assert_eq!(lateness.percentile(100.0), lateness.max());
    /// # std::io::Result::Ok(())
    /// ```
    #[inline]
    pub fn percentile(&self, percent: f64) -> Duration {
        let count = self.count();
        // Rounded up, so that at least so many are covered; divided last, so that a result that
        // comes out even is not. The conversion saturates.
        let exact = percent * count as f64 / 100.0;
        let rank = (exact as u64).saturating_add(u64::from(exact > (exact as u64) as f64));
        let rank = rank.clamp(count.min(1), count);
        let mut covered = 0;
        let bucket = self.counts.iter().position(|in_it| {
            covered += in_it;
            covered >= rank
        });
        Duration::from_nanos(bucket.map_or(0, upper_end).min(self.max_ns))
    }

    /// The worst lateness, exactly. Zero if nothing was counted.
    #[inline]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// The buckets that are not empty, in ascending order: the inclusive upper end of each, and how
    /// many timers it counts.
    ///
    /// Use it to export the histogram. The difference of two snapshots' buckets is the count
    /// between them.
    ///
    /// # Examples
    ///
    /// ```
    /// use tourbillon::stats::Histogram;
    ///
    /// /// How many were no later than each of these times, as Prometheus counts.
    /// fn cumulative(lateness: &Histogram) -> Vec<(f64, u64)> {
    ///     let mut sum = 0;
    ///     let buckets = lateness.buckets();
    ///     buckets.map(|(end, count)| (end.as_secs_f64(), { sum += count; sum })).collect()
    /// }
    /// ```
    #[inline]
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let all = self.counts.iter().enumerate();
        all.filter(|(_, count)| **count > 0)
            .map(|(bucket, count)| (Duration::from_nanos(upper_end(bucket)), *count))
    }

    #[inline]
    pub(crate) fn record(&mut self, lateness_ns: u64) {
        // There is one for each value. A check that can panic formats a message, by code that is a
        // tenth of all that a sleep adds to a bundle.
        if let Some(count) = self.counts.get_mut(bucket_of(lateness_ns)) {
            *count += 1;
        }
        self.max_ns = self.max_ns.max(lateness_ns);
    }

    /// Adds what `other` has counted.
    #[inline]
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, more)| *sum += more);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

impl fmt::Debug for Histogram {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("p50", &self.percentile(50.0))
            .field("p99", &self.percentile(99.0))
            .field("p99.9", &self.percentile(99.9))
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

#[inline]
fn bucket_of(value: u64) -> usize {
    if value < DIVISIONS as u64 {
        return value as usize;
    }
    // The bits that tell the bucket, the highest among them, and how many lie below them.
    let below = value.ilog2() - DETAIL;
    below as usize * DIVISIONS + (value >> below) as usize
}

/// The greatest value in a bucket.
#[inline]
fn upper_end(bucket: usize) -> u64 {
    if bucket < DIVISIONS {
        return bucket as u64;
    }
    let below = bucket / DIVISIONS - 1;
    let leading = (DIVISIONS + bucket % DIVISIONS) as u64;
    (leading << below) | ((1 << below) - 1)
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    /// Values around each end of a bucket, and both ends of all.
    fn edges() -> impl Iterator<Item = u64> {
        let powers = (0..u64::BITS).flat_map(|bit| {
            (0..=DIVISIONS as u64).map(move |n| (1_u64 << bit).wrapping_add(n << bit >> DETAIL))
        });
        powers.flat_map(|edge| [edge.wrapping_sub(1), edge, edge.wrapping_add(1)])
    }

    #[test]
    fn every_value_is_in_a_bucket_that_ends_no_more_than_an_eighth_above_it() {
        for value in edges() {
            let bucket = bucket_of(value);
            let end = upper_end(bucket);
            assert!(bucket < BUCKETS && end >= value, "{value} in {bucket}, to {end}");
            assert!(end - value <= value / DIVISIONS as u64, "{value} in {bucket}, to {end}");
        }
    }

    #[test]
    fn buckets_touch_and_cover_everything() {
        assert_eq!((upper_end(0), upper_end(BUCKETS - 1)), (0, u64::MAX));
        for bucket in 1..BUCKETS {
            let end = upper_end(bucket - 1);
            assert_eq!((bucket_of(end), bucket_of(end + 1)), (bucket - 1, bucket));
        }
    }

    #[test]
    fn percentiles_are_of_ranks_and_saturate() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentile(50.0), Duration::ZERO);
        (1..=4).for_each(|value| histogram.record(value));
        let percentiles = [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0, 25.0, 25.1, 50.0, 75.1, 1e9];
        let nanos = percentiles.map(|percent| histogram.percentile(percent).as_nanos());
        assert_eq!(nanos, [1, 1, 1, 1, 1, 2, 2, 4, 4]);
    }

    #[test]
    fn a_rank_that_comes_out_even_is_not_rounded_up() {
        let mut histogram = Histogram::new();
        (0..999).for_each(|_| histogram.record(1));
        histogram.record(7);
        assert_eq!(histogram.percentile(99.9), Duration::from_nanos(1));
        assert_eq!(histogram.percentile(99.95), Duration::from_nanos(7));
    }

    #[test]
    fn a_percentile_is_no_more_than_the_maximum() {
        let mut histogram = Histogram::new();
        histogram.record(1_000_000);
        assert!(upper_end(bucket_of(1_000_000)) > 1_000_000);
        assert_eq!(histogram.percentile(99.0), Duration::from_millis(1));
    }

    #[test]
    fn merging_adds() {
        let (mut one, mut other, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for value in edges() {
            if value % 3 == 0 {
                one.record(value)
            } else {
                other.record(value)
            }
            both.record(value);
        }
        one.merge(&other);
        assert_eq!(one, both);
        assert_eq!(both.count(), edges().count() as u64);
    }
}
