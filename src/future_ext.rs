//! [`FutureExt`]: timeouts as methods.

use core::future::Future;
use core::time::Duration;

use crate::deadline::Deadline;
use crate::timeout::Timeout;
use crate::timer::{self, Timer};

/// Timeouts for any future, as methods.
///
/// To use the trait beside that of `futures`, import both as `_`.
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
    fn timeout(self, limit: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        timer::timeout(limit, self)
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
    fn timeout_at(self, deadline: impl Into<Deadline>) -> Timeout<Self>
    where
        Self: Sized,
    {
        timer::timeout_at(deadline, self)
    }

    /// Limits the future to `limit` from now, on `timer`; the same as
    /// [`timer.timeout(limit, self)`](Timer::timeout).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{FutureExt, Timer, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let silence = std::future::pending::<()>().timeout_on(&timer, Duration::from_secs(3600));
    /// assert!(clock.block_on(silence).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    fn timeout_on(self, timer: &Timer, limit: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        timer.timeout(limit, self)
    }

    /// Limits the future to `deadline`, on `timer`; the same as
    /// [`timer.timeout_at(deadline, self)`](Timer::timeout_at).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{FutureExt, Timer, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let deadline = timer.now() + Duration::from_secs(3600);
    /// let silence = std::future::pending::<()>().timeout_at_on(&timer, deadline);
    /// assert!(clock.block_on(silence).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    fn timeout_at_on(self, timer: &Timer, deadline: impl Into<Deadline>) -> Timeout<Self>
    where
        Self: Sized,
    {
        timer.timeout_at(deadline, self)
    }
}

impl<F: Future + ?Sized> FutureExt for F {}
