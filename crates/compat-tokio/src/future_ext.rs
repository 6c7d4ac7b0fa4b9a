//! [`FutureExt`]: timeouts as methods.

use std::future::Future;
use std::time::Duration;

use crate::time::{self, Instant, Timeout};

/// Timeouts for any future, as methods.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tourbillon_compat_tokio::util::future::FutureExt;
///
/// let answer = async { 42 }.timeout(Duration::from_secs(5));
/// assert_eq!(pollster::block_on(answer), Ok(42));
/// ```
pub trait FutureExt: Future {
    /// [`timeout(timeout, self)`](time::timeout).
    #[track_caller]
    fn timeout(self, timeout: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        time::timeout(timeout, self)
    }

    /// [`timeout_at(deadline, self)`](time::timeout_at).
    #[track_caller]
    fn timeout_at(self, deadline: Instant) -> Timeout<Self>
    where
        Self: Sized,
    {
        time::timeout_at(deadline, self)
    }
}

impl<F: Future + ?Sized> FutureExt for F {}
