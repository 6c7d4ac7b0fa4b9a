//! [`Deadline`]: an instant that a request carries from caller to callee.

use alloc::format;
use alloc::string::String;
use core::cmp::Ordering;
use core::error::Error;
use core::fmt;
use core::time::Duration;

use crate::time::Instant;

/// Latest time for the answer to a request, or [`NEVER`](Self::NEVER) for no limit.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
/// use tourbillon::deadline::Deadline;
/// use tourbillon::virtual_time::VirtualClock;
///
/// let clock = VirtualClock::new();
/// let timer = Timer::builder().virtual_clock(&clock).build()?;
///
/// // A server receives a request, and has its own limit.
/// let deadline = Deadline::parse_grpc_timeout("2S", timer.now())?;
/// let deadline = deadline.min(Deadline::after(timer.now(), Duration::from_secs(30)));
///
/// clock.block_on(timer.sleep(Duration::from_millis(500)));
/// assert_eq!(deadline.to_grpc_timeout(timer.now()).as_deref(), Some("1500000u"));
///
/// let call = timer.timeout_at(deadline, std::future::pending::<()>());
/// assert!(clock.block_on(call).is_err());
/// assert_eq!(deadline.remaining(timer.now()), Some(Duration::ZERO));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Details
///
/// With a limit for each call, the time of a request adds up along the chain of servers. A deadline
/// is set once, where the request begins, and each callee passes it on, as in Go's `context`.
/// [`sleep_until`](crate::sleep_until) and [`timeout_at`](crate::timeout_at) take it.
///
/// Deadlines are ordered by time. `min` nests two: the earlier one counts.
///
/// An instant means nothing to another machine. So the request carries the time that remains, as
/// gRPC's [`grpc-timeout`](Self::to_grpc_timeout) or as [milliseconds](Self::to_millis). It is
/// rounded down, so no callee believes that it has longer than its caller waits. The time on the
/// way is not counted: the caller's own timeout still has to run.
///
/// `now` is the timer's, [`Timer::now`](crate::Timer::now).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Deadline(Option<Instant>);

/// The units of gRPC, from the finest.
const UNITS: [(u8, Duration); 6] = [
    (b'n', Duration::from_nanos(1)),
    (b'u', Duration::from_micros(1)),
    (b'm', Duration::from_millis(1)),
    (b'S', Duration::from_secs(1)),
    (b'M', Duration::from_secs(60)),
    (b'H', Duration::from_secs(3600)),
];

/// The most that gRPC's eight digits can say.
const GRPC_MAX: u128 = 99_999_999;

impl Deadline {
    /// No deadline. It is later than any other, and the default.
    pub const NEVER: Self = Self(None);

    /// Returns the deadline `limit` after `now`; [`NEVER`](Self::NEVER) if an [`Instant`] cannot
    /// represent it.
    pub fn after(now: Instant, limit: Duration) -> Self {
        Self(now.checked_add(limit))
    }

    /// The instant; `None` for [`NEVER`](Self::NEVER).
    pub fn instant(self) -> Option<Instant> {
        self.0
    }

    /// The time from `now` to the deadline, zero if it has passed; `None` for
    /// [`NEVER`](Self::NEVER).
    pub fn remaining(self, now: Instant) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(now))
    }

    /// Returns the remaining time as the value of a `grpc-timeout` header, rounded down to the
    /// finest unit that has room for it; `None` for [`NEVER`](Self::NEVER), where the header is
    /// left out.
    ///
    /// `0n` if the deadline has passed, as grpc-go sends it. The specification wants a positive
    /// number: do not make the call then, and answer your own caller.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tourbillon::deadline::Deadline;
    ///
    /// let now = Instant::now();
    /// let value = |limit| Deadline::after(now, limit).to_grpc_timeout(now).unwrap();
    /// assert_eq!(value(Duration::from_nanos(1_500)), "1500n");
    /// assert_eq!(value(Duration::from_secs(3)), "3000000u");
    /// assert_eq!(value(Duration::from_secs(86_400)), "86400000m");
    /// assert_eq!(Deadline::NEVER.to_grpc_timeout(now), None);
    /// ```
    pub fn to_grpc_timeout(self, now: Instant) -> Option<String> {
        let left = self.remaining(now)?.as_nanos();
        let counts = UNITS.map(|(name, unit)| (char::from(name), left / unit.as_nanos()));
        let finest = counts.into_iter().find(|(_, count)| *count <= GRPC_MAX);
        let (name, count) = finest.unwrap_or(('H', GRPC_MAX));
        Some(format!("{count}{name}"))
    }

    /// Reads the value of a `grpc-timeout` header that was received at `now`: one to eight digits
    /// and a unit of `H`, `M`, `S`, `m`, `u` and `n` ([gRPC over HTTP2]). Without the header it is
    /// [`NEVER`](Self::NEVER). A zero has passed already.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tourbillon::deadline::Deadline;
    ///
    /// let now = Instant::now();
    /// let deadline = Deadline::parse_grpc_timeout("1M", now)?;
    /// assert_eq!(deadline.remaining(now), Some(Duration::from_secs(60)));
    /// assert!(Deadline::parse_grpc_timeout("60s", now).is_err());
    /// # Ok::<_, tourbillon::deadline::ParseDeadlineError>(())
    /// ```
    ///
    /// [gRPC over HTTP2]: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
    ///
    /// # Errors
    ///
    /// If the value is anything else, such as one with a sign, a space or a ninth digit.
    pub fn parse_grpc_timeout(
        value: impl AsRef<[u8]>,
        now: Instant,
    ) -> Result<Self, ParseDeadlineError> {
        let malformed =
            ParseDeadlineError { expected: "1 to 8 digits and one of H, M, S, m, u, n" };
        let (name, digits) = value.as_ref().split_last().ok_or(malformed)?;
        let (_, unit) = UNITS.into_iter().find(|(unit, _)| unit == name).ok_or(malformed)?;
        let count = number(digits).filter(|_| digits.len() <= 8).ok_or(malformed)?;
        // Eight digits fit, and so do as many hours.
        let limit = unit * count as u32;
        Ok(Self::after(now, limit))
    }

    /// The remaining time in milliseconds, rounded down, zero if the deadline has passed; `None`
    /// for [`NEVER`](Self::NEVER). For headers such as `x-envoy-expected-rq-timeout-ms` and
    /// `connect-timeout-ms`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tourbillon::deadline::Deadline;
    ///
    /// let now = Instant::now();
    /// let deadline = Deadline::after(now, Duration::from_micros(2_900));
    /// assert_eq!(deadline.to_millis(now), Some(2));
    /// ```
    pub fn to_millis(self, now: Instant) -> Option<u64> {
        self.remaining(now).map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    /// The deadline of a request that was received at `now` with so many milliseconds left, as
    /// [`to_millis`](Self::to_millis) counts them.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Instant;
    /// use tourbillon::deadline::Deadline;
    ///
    /// let now = Instant::now();
    /// assert_eq!(Deadline::from_millis(250, now).to_millis(now), Some(250));
    /// ```
    pub fn from_millis(millis: u64, now: Instant) -> Self {
        Self::after(now, Duration::from_millis(millis))
    }

    /// Reads milliseconds in decimal digits, from a header that was received at `now`. A zero has
    /// passed already.
    ///
    /// # Errors
    ///
    /// If there is anything but digits, or if they are more than a `u64` can hold.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Instant;
    /// use tourbillon::deadline::Deadline;
    ///
    /// let now = Instant::now();
    /// let deadline = Deadline::parse_millis("250", now)?;
    /// assert_eq!(deadline, Deadline::from_millis(250, now));
    /// assert!(Deadline::parse_millis("0.25", now).is_err());
    /// # Ok::<_, tourbillon::deadline::ParseDeadlineError>(())
    /// ```
    pub fn parse_millis(value: impl AsRef<[u8]>, now: Instant) -> Result<Self, ParseDeadlineError> {
        let malformed = ParseDeadlineError { expected: "a number of milliseconds" };
        let millis = number(value.as_ref()).ok_or(malformed)?;
        Ok(Self::from_millis(millis, now))
    }
}

/// The number that is written in these digits; `None` if there are none, others than digits, or too
/// many.
fn number(digits: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let add = |sum: u64, byte| sum.checked_mul(10)?.checked_add(digit(byte)?);
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, add))?
}

impl From<Instant> for Deadline {
    fn from(instant: Instant) -> Self {
        Self(Some(instant))
    }
}

impl Ord for Deadline {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (Some(one), Some(other)) => one.cmp(&other),
            // `None` is never, and so the latest.
            (one, other) => one.is_none().cmp(&other.is_none()),
        }
    }
}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(instant) => f.debug_tuple("Deadline").field(&instant).finish(),
            None => f.write_str("Deadline::NEVER"),
        }
    }
}

/// The error of a [`Deadline`] that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseDeadlineError {
    expected: &'static str,
}

impl fmt::Display for ParseDeadlineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a deadline: {} expected", self.expected)
    }
}

impl Error for ParseDeadlineError {}
