//! One point on a timer's time line, and the only place where time is rounded.
//!
//! A tick is one nanosecond, the resolution of `Instant` itself, so nothing is rounded, except by a
//! tolerance that the caller gives: the deadline a caller gives is the deadline the wheel keeps.
//! What is left is the two ends, where arithmetic saturates: towards "long past" at the low end and
//! towards [`Tick::NEVER`] at the high end, which no clock reaches.

use core::fmt;
use core::time::Duration;

pub(crate) const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Nanoseconds on the time line of one timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Tick {
    /// Tick of a time line's base instant: 146 years are distinguished before it, 438 after.
    pub(crate) const ORIGIN: Self = Self(1 << 62);

    /// The earliest tick there is. Every clock is past it.
    pub(crate) const PAST: Self = Self(1);

    /// The latest tick that a clock may show and a deadline may have.
    pub(crate) const LAST: Self = Self(u64::MAX - 8);

    /// The deadline of a timer that never ends.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    /// `self + delay`, or [`Tick::NEVER`] where that is past [`Tick::LAST`].
    pub(crate) fn saturating_add(self, delay: Duration) -> Self {
        nanos(delay).and_then(|delay| self.0.checked_add(delay)).map_or(Self::NEVER, Self::or_never)
    }

    /// `self - span`, or [`Tick::PAST`] where that is before it.
    pub(crate) fn saturating_sub(self, span: Duration) -> Self {
        let raw = nanos(span).and_then(|span| self.0.checked_sub(span));
        raw.map_or(Self::PAST, |raw| Self(raw).max(Self::PAST))
    }

    /// The time from `earlier` to `self`; zero if there is none.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The tick that timers with this deadline and `tolerance`, in nanoseconds, meet at: no earlier
    /// than the deadline, and no later than `tolerance` after it.
    ///
    /// The tick is the roundest of the whole seconds since [`ORIGIN`](Self::ORIGIN) in that window,
    /// or if there is none, of its nanoseconds. So a tolerance of a second leaves one tick a
    /// second; what is near in time and has less lies at the start of a coarse slot, where the
    /// wheel fires it without a cascade. A later deadline with the same tolerance has no earlier
    /// meeting.
    #[inline]
    pub(crate) fn meeting_within(self, tolerance: u64) -> Self {
        if tolerance == 0 { self } else { self.roundest_within(tolerance) }
    }

    /// Not inlined, so that the paths of exact sleeps stay short.
    #[inline(never)]
    fn roundest_within(self, tolerance: u64) -> Self {
        if self == Self::NEVER {
            return self;
        }
        // What is no later than the origin is past, and rounds to itself.
        let Some(before) = self.0.checked_sub(Self::ORIGIN.0 + 1) else { return self };
        let last = self.0.saturating_add(tolerance).min(Self::LAST.0) - Self::ORIGIN.0;
        let seconds = (before / NANOS_PER_SEC, last / NANOS_PER_SEC);
        let offset = if seconds.0 < seconds.1 {
            roundest(seconds.0, seconds.1) * NANOS_PER_SEC
        } else {
            roundest(before, last)
        };
        Self(Self::ORIGIN.0 + offset)
    }

    /// [`since`](Self::since) in nanoseconds.
    pub(crate) fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns how far off it is, for `Debug` output.
    pub(crate) fn distance_from(self, now: impl FnOnce() -> Self) -> Distance {
        if self == Self::NEVER {
            return Distance::Never;
        }
        let now = now();
        if self > now { Distance::Ahead(self.since(now)) } else { Distance::Ago(now.since(self)) }
    }

    fn or_never(raw: u64) -> Self {
        if raw <= Self::LAST.0 { Self(raw) } else { Self::NEVER }
    }
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => f.write_str("never"),
            Self(raw) if raw >= Self::ORIGIN.0 => write!(f, "+{}ns", raw - Self::ORIGIN.0),
            Self(raw) => write!(f, "-{}ns", Self::ORIGIN.0 - raw),
        }
    }
}

/// Distance of a deadline from now.
pub(crate) enum Distance {
    Never,
    Ahead(Duration),
    Ago(Duration),
}

impl fmt::Debug for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::Ahead(span) => write!(f, "in {span:?}"),
            Self::Ago(span) => write!(f, "{span:?} ago"),
        }
    }
}

/// The number after `low` and up to `high` that has the most trailing zeros in binary. There is
/// one, as `low` is less than `high`, and it is the only one with as many.
fn roundest(low: u64, high: u64) -> u64 {
    let below_highest_difference = (low ^ high).leading_zeros();
    high & !(u64::MAX >> below_highest_difference >> 1)
}

pub(crate) fn nanos(span: Duration) -> Option<u64> {
    span.as_secs().checked_mul(NANOS_PER_SEC)?.checked_add(u64::from(span.subsec_nanos()))
}

/// A span in nanoseconds, or as many as can be counted: 584 years.
pub(crate) fn saturated_nanos(span: Duration) -> u64 {
    nanos(span).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    #[test]
    fn sums_past_the_end_are_never() {
        assert_eq!(Tick::ORIGIN.saturating_add(Duration::MAX), Tick::NEVER);
        assert_eq!(Tick::LAST.saturating_add(Duration::from_nanos(1)), Tick::NEVER);
        assert_eq!(Tick::LAST.saturating_add(Duration::ZERO), Tick::LAST);
        assert_eq!(Tick::NEVER.saturating_add(Duration::ZERO), Tick::NEVER);
    }

    #[test]
    fn differences_before_the_start_are_past() {
        let span = Duration::from_nanos;
        assert_eq!(Tick::ORIGIN.saturating_sub(span(7)).raw(), Tick::ORIGIN.raw() - 7);
        for long in [span(Tick::ORIGIN.raw()), span(u64::MAX), Duration::MAX] {
            assert_eq!(Tick::ORIGIN.saturating_sub(long), Tick::PAST);
        }
    }

    fn at(offset: u64) -> Tick {
        Tick::from_raw(Tick::ORIGIN.raw() + offset)
    }

    fn roundness(tick: Tick) -> (bool, u32) {
        let offset = tick.raw() - Tick::ORIGIN.raw();
        let whole = offset % NANOS_PER_SEC == 0;
        let counted = if whole { offset / NANOS_PER_SEC } else { offset };
        (whole, counted.trailing_zeros())
    }

    #[test]
    fn the_meeting_is_the_roundest_tick_of_the_window() {
        for start in [1, 60, 1_000, NANOS_PER_SEC - 40, NANOS_PER_SEC, 7 * NANOS_PER_SEC - 3] {
            for deadline in start..start + 70 {
                for tolerance in 0..70 {
                    let window = (deadline..=deadline + tolerance).map(at);
                    let roundest = window.max_by_key(|tick| roundness(*tick));
                    assert_eq!(Some(at(deadline).meeting_within(tolerance)), roundest);
                }
            }
        }
        let seconds = |count| at(count * NANOS_PER_SEC);
        for (deadline, tolerance, meeting) in [(1, 1, 2), (5, 3, 8), (9, 2, 10), (13, 60, 64)] {
            let tolerance = tolerance * NANOS_PER_SEC;
            assert_eq!(seconds(deadline).meeting_within(tolerance), seconds(meeting));
        }
    }

    #[test]
    fn the_ends_of_the_time_line_have_meetings_too() {
        assert_eq!(Tick::NEVER.meeting_within(u64::MAX), Tick::NEVER);
        assert_eq!(Tick::PAST.meeting_within(u64::MAX), Tick::PAST);
        assert_eq!(Tick::ORIGIN.meeting_within(u64::MAX), Tick::ORIGIN);
        for tolerance in [0, 1, NANOS_PER_SEC, u64::MAX] {
            assert_eq!(Tick::LAST.meeting_within(tolerance), Tick::LAST);
            assert!(at(1).meeting_within(tolerance) <= Tick::LAST);
        }
    }

    /// Numbers of all magnitudes.
    fn offset() -> impl Strategy<Value = u64> {
        (0..62u32, any::<u64>()).prop_map(|(bits, random)| random >> (63 - bits))
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 100 } else { 20_000 },
            rng_seed: RngSeed::Fixed(15),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_meeting_is_in_the_window_and_a_later_deadline_has_no_earlier_one(
            deadline in offset(),
            tolerance in offset(),
            step in offset(),
        ) {
            let deadline = at(deadline);
            let meeting = deadline.meeting_within(tolerance);
            prop_assert!(deadline <= meeting && meeting <= Tick::LAST);
            prop_assert!(meeting.nanos_since(deadline) <= tolerance);
            let later = deadline.saturating_add(Duration::from_nanos(step));
            prop_assert!(later.meeting_within(tolerance) >= meeting);
            prop_assert!(deadline.meeting_within(tolerance.saturating_add(step)) >= meeting);
        }
    }
}
