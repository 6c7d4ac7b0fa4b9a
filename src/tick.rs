//! One point on a timer's time line, and the only place where time is rounded.
//!
//! A tick is one nanosecond, the resolution of `Instant` itself, so nothing is rounded: the
//! deadline a caller gives is the deadline the wheel keeps. Only the two ends are left, where
//! arithmetic saturates: towards "long past" at the low end and towards [`Tick::NEVER`] at the high
//! end, out of reach of any clock.

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

pub(crate) fn nanos(span: Duration) -> Option<u64> {
    let seconds = span.as_secs();
    if seconds > u64::MAX / NANOS_PER_SEC {
        return None;
    }
    (seconds * NANOS_PER_SEC).checked_add(u64::from(span.subsec_nanos()))
}

/// A span in nanoseconds, or as many as can be counted: 584 years.
pub(crate) fn saturated_nanos(span: Duration) -> u64 {
    nanos(span).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
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
}
