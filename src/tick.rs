//! One point on a timer's time line, and the only place where time is rounded.
//!
//! A tick is one nanosecond, the resolution of [`Instant`] itself, so nothing is rounded at all:
//! the deadline a caller gives is the deadline the wheel keeps. What is left is the two ends,
//! where arithmetic saturates: towards "long past" at the low end and towards [`Tick::NEVER`] at
//! the high end, which no clock reaches.

use std::fmt;
use std::time::{Duration, Instant};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Nanoseconds on the time line of one timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Tick {
    /// Where a time line's base instant lies: 146 years may be told apart before it, 438 after.
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

    /// The time from `earlier` to `self`; zero if there is none.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
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

fn nanos(span: Duration) -> Option<u64> {
    span.as_secs().checked_mul(NANOS_PER_SEC)?.checked_add(u64::from(span.subsec_nanos()))
}

/// The correspondence between [`Instant`]s and ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLine {
    /// The instant at [`Tick::ORIGIN`].
    base: Instant,
}

impl TimeLine {
    pub(crate) const fn starting_at(base: Instant) -> Self {
        Self { base }
    }

    /// The tick of `instant`: exact within the time line, saturated outside.
    pub(crate) fn tick(&self, instant: Instant) -> Tick {
        match instant.checked_duration_since(self.base) {
            Some(after) => Tick::ORIGIN.saturating_add(after),
            None => nanos(self.base.saturating_duration_since(instant))
                .and_then(|before| Tick::ORIGIN.0.checked_sub(before))
                .map_or(Tick::PAST, |raw| Tick(raw).max(Tick::PAST)),
        }
    }

    /// The instant of `tick`, or the nearest one that the platform can represent.
    pub(crate) fn instant(&self, tick: Tick) -> Instant {
        if tick >= Tick::ORIGIN {
            let mut after = tick.since(Tick::ORIGIN);
            loop {
                match self.base.checked_add(after) {
                    Some(instant) => return instant,
                    None => after /= 2,
                }
            }
        }
        let mut before = Tick::ORIGIN.since(tick);
        loop {
            match self.base.checked_sub(before) {
                Some(instant) => return instant,
                None => before /= 2,
            }
        }
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    #[test]
    fn instants_survive_the_round_trip_on_both_sides_of_the_base() {
        let base = Instant::now();
        let line = TimeLine::starting_at(base);
        for nanos in [0, 1, 999, 1_000_000_007, 86_400_000_000_000] {
            let span = Duration::from_nanos(nanos);
            assert_eq!(line.instant(line.tick(base + span)), base + span);
            if let Some(before) = base.checked_sub(span) {
                assert_eq!(line.instant(line.tick(before)), before);
            }
        }
    }

    #[test]
    fn ticks_keep_the_order_of_instants() {
        let base = Instant::now();
        let line = TimeLine::starting_at(base);
        let instants = [base, base + Duration::from_nanos(1), base + Duration::from_secs(1)];
        assert!(instants.windows(2).all(|pair| line.tick(pair[0]) < line.tick(pair[1])));
    }

    #[test]
    fn sums_past_the_end_are_never() {
        assert_eq!(Tick::ORIGIN.saturating_add(Duration::MAX), Tick::NEVER);
        assert_eq!(Tick::LAST.saturating_add(Duration::from_nanos(1)), Tick::NEVER);
        assert_eq!(Tick::LAST.saturating_add(Duration::ZERO), Tick::LAST);
        assert_eq!(Tick::NEVER.saturating_add(Duration::ZERO), Tick::NEVER);
    }

    #[test]
    fn never_has_an_instant_in_the_far_future() {
        let base = Instant::now();
        let line = TimeLine::starting_at(base);
        assert!(line.instant(Tick::NEVER) > base + Duration::from_secs(100 * 365 * 86_400));
    }
}
