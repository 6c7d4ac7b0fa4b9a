//! [`Time`]: an instant on the database's clock.

use std::fmt;
use std::time::{Duration, SystemTime};

/// The first of all times.
pub(crate) const BEGINNING: Time = Time::from_micros(i64::MIN);

/// Longest pause of a timer: a thousand years. Stores do not add more to a time.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(1_000 * 366 * 86_400);

/// An instant on the database's clock: whole microseconds since the Unix epoch.
///
/// All arithmetic saturates. A [`SystemTime`] between two microseconds is rounded up, so that
/// nothing becomes due before it.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tourbillon_durable::Time;
///
/// let time = Time::from(SystemTime::UNIX_EPOCH + Duration::from_nanos(1_001));
/// assert_eq!(time, Time::from_micros(2));
/// assert_eq!((time + Duration::from_secs(1)).as_micros(), 1_000_002);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// Later than any time that comes. A timer that is due then waits for something else.
    pub const NEVER: Self = Self(i64::MAX);

    /// The time that lies `micros` microseconds after the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the time when a pause that begins now is over; the pause is at most
    /// [`LONGEST_PAUSE`].
    pub(crate) fn after_pause(self, pause: Duration) -> Self {
        self + pause.min(LONGEST_PAUSE)
    }

    /// Returns how long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0).max(0);
        Duration::from_micros(micros.unsigned_abs())
    }
}

/// Rounded up to a microsecond.
fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

impl std::ops::Add<Duration> for Time {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }
}

impl std::ops::Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => Self(micros(since)),
            Err(before) => {
                let before = i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX);
                Self(-before)
            }
        }
    }
}

impl From<Time> for SystemTime {
    /// Saturates at the range of [`SystemTime`].
    fn from(time: Time) -> Self {
        let span = Duration::from_micros(time.0.unsigned_abs());
        let epoch = Self::UNIX_EPOCH;
        if time.0 >= 0 { epoch + span } else { epoch.checked_sub(span).unwrap_or(epoch) }
    }
}

impl fmt::Display for Time {
    /// Seconds since the Unix epoch, with six digits after the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let micros = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
    }
}
