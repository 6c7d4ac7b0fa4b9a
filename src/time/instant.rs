//! An [`Instant`] for where `std` has none.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::time::Duration;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// An instant of the clock that was given to the timer: the time since that began, in nanoseconds.
///
/// An instant counts 584 years. It has the methods of `std`'s, except `now` and `elapsed`: it
/// belongs to no clock in particular. [`Timer::now`](crate::Timer::now) is the present.
/// [`from_ticks`](Self::from_ticks) and [`to_ticks`](Self::to_ticks) exchange it for the ticks of a
/// hardware counter, of embassy-time or of fugit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// When the clock began.
    pub const ZERO: Self = Self(0);

    /// The instant so many nanoseconds after the clock began.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The nanoseconds since the clock began.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant of a counter that makes `per_second` ticks a second, rounded down to a
    /// nanosecond, so that a clock never shows a time that has yet to come. Saturates after 584
    /// years.
    ///
    /// # Panics
    ///
    /// If `per_second` is zero.
    #[must_use]
    #[inline]
    pub const fn from_ticks(ticks: u64, per_second: u32) -> Self {
        let per_second = per_second as u64;
        // If the arguments are known at compile time, no division is left.
        if NANOS_PER_SEC % per_second == 0 {
            return Self(ticks.saturating_mul(NANOS_PER_SEC / per_second));
        }
        let (seconds, rest) = (ticks / per_second, ticks % per_second);
        let nanos = seconds.saturating_mul(NANOS_PER_SEC);
        // The rest is below 2^32, and makes less than a second.
        Self(nanos.saturating_add(rest * NANOS_PER_SEC / per_second))
    }

    /// The tick of a counter that makes `per_second` ticks a second, rounded up, so that an alarm
    /// set to it is never early. Saturates at `u64::MAX`.
    ///
    /// # Panics
    ///
    /// If `per_second` is zero.
    #[must_use]
    #[inline]
    pub const fn to_ticks(self, per_second: u32) -> u64 {
        assert!(per_second > 0, "a counter that makes no ticks");
        let per_second = per_second as u64;
        let (seconds, rest) = (self.0 / NANOS_PER_SEC, self.0 % NANOS_PER_SEC);
        // The rest is below 2^30.
        let ticks = (rest * per_second).div_ceil(NANOS_PER_SEC);
        seconds.saturating_mul(per_second).saturating_add(ticks)
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn duration_since(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The time from `earlier` to `self`; `None` if `earlier` is later.
    #[must_use]
    pub const fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        match self.0.checked_sub(earlier.0) {
            Some(nanos) => Some(Duration::from_nanos(nanos)),
            None => None,
        }
    }

    /// `self + span`; `None` if that is after the last instant.
    #[must_use]
    pub fn checked_add(self, span: Duration) -> Option<Self> {
        let span = u64::try_from(span.as_nanos()).ok()?;
        self.0.checked_add(span).map(Self)
    }

    /// `self - span`; `None` if that is before the clock began.
    #[must_use]
    pub fn checked_sub(self, span: Duration) -> Option<Self> {
        let span = u64::try_from(span.as_nanos()).ok()?;
        self.0.checked_sub(span).map(Self)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({:?})", Duration::from_nanos(self.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// # Panics
    ///
    /// If the sum is after the last instant; see [`Instant::checked_add`].
    fn add(self, span: Duration) -> Self {
        self.checked_add(span).expect("an instant past the last one")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// # Panics
    ///
    /// If the difference is before the clock began; see [`Instant::checked_sub`].
    fn sub(self, span: Duration) -> Self {
        self.checked_sub(span).expect("an instant before the clock began")
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, span: Duration) {
        *self = *self - span;
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    #[test]
    fn a_clock_rounds_down_and_an_alarm_up() {
        let third = Instant::from_ticks(1, 3);
        assert_eq!(third.as_nanos(), 333_333_333);
        assert_eq!(third.to_ticks(3), 1);
        assert_eq!(Instant::from_nanos(333_333_334).to_ticks(3), 2);
        for (ticks, per_second) in [(0, 1), (7, 32_768), (1 << 40, 1_000_000), (12, 168_000_000)] {
            let instant = Instant::from_ticks(ticks, per_second);
            assert_eq!(instant.to_ticks(per_second), ticks);
        }
    }

    #[test]
    fn the_ends_are_reached_without_overflow() {
        let last = Instant::from_nanos(u64::MAX);
        assert_eq!(Instant::from_ticks(u64::MAX, 1), last);
        assert_eq!(Instant::from_ticks(u64::MAX, 1_000_000_000), last);
        assert_eq!(Instant::from_ticks(u64::MAX, u32::MAX).as_nanos(), 4_294_967_297_000_000_000);
        assert_eq!(last.to_ticks(1_000_000_000), u64::MAX);
        assert_eq!(last.to_ticks(1), 18_446_744_074);
        let exact = (u128::from(u64::MAX) * u128::from(u32::MAX)).div_ceil(1_000_000_000);
        assert_eq!(u128::from(last.to_ticks(u32::MAX)), exact.min(u64::MAX.into()));
    }

    #[test]
    fn arithmetic_ends_where_the_clock_does() {
        let (first, last) = (Instant::ZERO, Instant::from_nanos(u64::MAX));
        let nanosecond = Duration::from_nanos(1);
        assert_eq!(last.checked_add(nanosecond), None);
        assert_eq!(first.checked_add(Duration::MAX), None);
        assert_eq!(first.checked_sub(nanosecond), None);
        assert_eq!(last.checked_sub(Duration::MAX), None);
        assert_eq!(first - last, Duration::ZERO);
        assert_eq!(first.checked_duration_since(last), None);
        assert_eq!(first + (last - first), last);
        assert_eq!(last - (last - first), first);
    }
}
