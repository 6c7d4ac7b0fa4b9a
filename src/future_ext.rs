//! [`FutureExt`]: timeouts as methods.

use core::future::Future;
use core::time::Duration;

use crate::deadline::Deadline;
use crate::timeout::Timeout;
use crate::timer::functions;

/// Timeouts for any future, as methods.
///
/// A timer other than the current one limits a future by
/// [`Timer::timeout`](crate::Timer::timeout) or [`Timer::timeout_at`](crate::Timer::timeout_at).
///
/// To use the trait beside `futures::FutureExt`, import both as `_`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use futures::FutureExt;
/// use tourbillon::FutureExt as _;
///
/// let answer = async { 41 }.map(|n| n + 1).timeout(Duration::from_secs(5));
/// assert_eq!(pollster::block_on(answer), Ok(42));
/// ```
pub trait FutureExt: Future {
    /// Limits the future to `limit` from now; the same as
    /// [`timeout(limit, self)`](crate::timeout()).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::FutureExt;
    ///
    /// let silence = std::future::pending::<()>().timeout(Duration::from_millis(1));
    /// assert!(pollster::block_on(silence).is_err());
    /// ```
    #[cfg_attr(feature = "pending", track_caller)]
    fn timeout(self, limit: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        functions::timeout(limit, self)
    }

    /// Limits the future to `deadline`; the same as
    /// [`timeout_at(deadline, self)`](crate::timeout_at).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Instant;
    /// use tourbillon::FutureExt;
    ///
    /// let silence = std::future::pending::<()>().timeout_at(Instant::now());
    /// assert!(pollster::block_on(silence).is_err());
    /// ```
    #[cfg_attr(feature = "pending", track_caller)]
    fn timeout_at(self, deadline: impl Into<Deadline>) -> Timeout<Self>
    where
        Self: Sized,
    {
        functions::timeout_at(deadline, self)
    }
}

impl<F: Future + ?Sized> FutureExt for F {}
