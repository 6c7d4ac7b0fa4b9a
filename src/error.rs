//! Public errors.

use core::error::Error;
use core::fmt;
#[cfg(not(target_os = "none"))]
use std::io;

/// The error of a [`Timeout`](crate::Timeout) whose deadline came before its future was ready, and
/// of a [stream](crate::StreamExt::timeout) whose next item did not come in time.
///
/// Converts into an [`io::Error`] of kind [`TimedOut`](io::ErrorKind::TimedOut).
///
/// # Examples
///
/// ```
/// use std::io;
/// use std::time::Duration;
///
/// let never = std::future::pending::<()>();
/// let error = pollster::block_on(tourbillon::timeout(Duration::ZERO, never)).unwrap_err();
/// assert_eq!(error.to_string(), "deadline has elapsed");
/// assert_eq!(io::Error::from(error).kind(), io::ErrorKind::TimedOut);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed(());

impl Elapsed {
    /// Makes an error, for your own limits and for tests.
    ///
    /// # Examples
    ///
    /// ```
    /// use tourbillon::Elapsed;
    ///
    /// // A cache that may give up by itself.
    /// fn read(is_slow: bool) -> Result<u32, Elapsed> {
    ///     if is_slow { Err(Elapsed::new()) } else { Ok(42) }
    /// }
    /// assert_eq!(read(true), Err(Elapsed::new()));
    /// ```
    #[must_use]
    #[allow(clippy::new_without_default, reason = "an error is no default")]
    pub const fn new() -> Self {
        Self(())
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl Error for Elapsed {}

#[cfg(not(target_os = "none"))]
impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(io::ErrorKind::TimedOut, elapsed)
    }
}

/// The error of [`Timer::set_global`](crate::Timer::set_global) when the process-wide timer is in
/// use already.
///
/// # Examples
///
/// ```
/// use tourbillon::Timer;
///
/// let timer = Timer::builder().build()?;
/// assert!(Timer::set_global(timer.clone()).is_ok());
/// let error = Timer::set_global(timer).unwrap_err();
/// assert_eq!(error.to_string(), "the process-wide timer is already in use");
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetGlobalError(pub(crate) ());

impl fmt::Display for SetGlobalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the process-wide timer is already in use")
    }
}

impl Error for SetGlobalError {}

/// The error of [`Timer::end_driver`](crate::Timer::end_driver): the driver runs on.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use futures::FutureExt;
/// use tourbillon::Timer;
///
/// let timer = Timer::builder().build()?;
/// let mut sleep = timer.sleep(Duration::from_secs(60));
/// assert!((&mut sleep).now_or_never().is_none());
/// let error = timer.end_driver().unwrap_err();
/// assert_eq!(error.armed(), Some(1));
/// assert_eq!(error.to_string(), "the driver still runs: 1 timer is armed");
/// # std::io::Result::Ok(())
/// ```
#[cfg(not(target_os = "none"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndDriverError(pub(crate) Option<usize>);

#[cfg(not(target_os = "none"))]
impl EndDriverError {
    /// Returns the number of armed timers. `None` if the call came from a waker, a callback or a
    /// timer's own thread, which cannot wait for the driver.
    #[must_use]
    pub fn armed(&self) -> Option<usize> {
        self.0
    }
}

#[cfg(not(target_os = "none"))]
impl fmt::Display for EndDriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(1) => f.write_str("the driver still runs: 1 timer is armed"),
            Some(armed) => write!(f, "the driver still runs: {armed} timers are armed"),
            None => f.write_str("the driver still runs: a waker or callback cannot wait for it"),
        }
    }
}

#[cfg(not(target_os = "none"))]
impl Error for EndDriverError {}
