//! [`Instant`]: an instant by the current timer's clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use tourbillon::{Timer, time};

/// An instant of the [current timer](Timer::current)'s clock.
///
/// The clock is std's, unless the timer is on a virtual one or in the time of a tokio runtime. In
/// browsers it is that of the crate `web-time`, as is [`tourbillon::time::Instant`].
///
/// # Panics
///
/// `+` and `-` of a [`Duration`] panic if the platform cannot represent the instant. The difference
/// of two is zero, and no panic, if the second is the later one.
///
/// # Examples
///
/// ```
/// use tourbillon_compat_tokio::time::{Duration, Instant};
///
/// let start = Instant::now();
/// let later = start + Duration::from_secs(5);
/// assert_eq!(later - start, Duration::from_secs(5));
/// assert_eq!(start - later, Duration::ZERO);
/// assert_eq!(std::time::Instant::from(later), later.into_std());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    std: time::Instant,
}

impl Instant {
    /// The present instant, by the current timer.
    #[must_use]
    pub fn now() -> Self {
        Self { std: Timer::current().now() }
    }

    /// Converts an instant of the platform.
    #[must_use]
    pub fn from_std(std: time::Instant) -> Self {
        Self { std }
    }

    /// The platform's instant.
    #[must_use]
    pub fn into_std(self) -> time::Instant {
        self.std
    }

    /// The time since `earlier`, or zero if that is later.
    #[must_use]
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.std.saturating_duration_since(earlier.std)
    }

    /// The time since `earlier`, or `None` if that is later.
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.std.checked_duration_since(earlier.std)
    }

    /// Another name of [`duration_since`](Self::duration_since).
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.std.saturating_duration_since(earlier.std)
    }

    /// The time that has passed since, by the current timer.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now() - *self
    }

    /// The instant `span` later, if the platform can represent it.
    #[must_use]
    pub fn checked_add(&self, span: Duration) -> Option<Self> {
        self.std.checked_add(span).map(Self::from_std)
    }

    /// The instant `span` earlier, if the platform can represent it.
    #[must_use]
    pub fn checked_sub(&self, span: Duration) -> Option<Self> {
        self.std.checked_sub(span).map(Self::from_std)
    }
}

impl From<time::Instant> for Instant {
    fn from(std: time::Instant) -> Self {
        Self { std }
    }
}

impl From<Instant> for time::Instant {
    fn from(instant: Instant) -> Self {
        instant.std
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self { std: self.std + span }
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.std.saturating_duration_since(earlier.std)
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self { std: self.std - span }
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, span: Duration) {
        *self = *self - span;
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.std.fmt(f)
    }
}
