//! [`Timeout`]: a future with a deadline.

use std::future::{Future, IntoFuture};
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tourbillon::Elapsed;

use super::Instant;

/// Gives up on `future` once `duration` has passed since this call.
///
/// # Errors
///
/// The output is [`Elapsed`] if the time was up first. The future is polled before the clock is
/// looked at.
///
/// # Examples
///
/// ```
/// use tourbillon_compat_tokio::time::{Duration, timeout};
///
/// # pollster::block_on(async {
/// assert_eq!(timeout(Duration::from_secs(5), async { 42 }).await, Ok(42));
/// # });
/// ```
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(tourbillon::timeout(duration, future))
}

/// Gives up on `future` once `deadline` has come.
///
/// # Errors
///
/// The output is an error as that of [`timeout`].
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(tourbillon::timeout_at(deadline.into_std(), future))
}

pin_project! {
    /// A future with a deadline; of [`timeout`] and [`timeout_at`]. Not [`Unpin`], as tokio's.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the inner future, and cancels the deadline.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled or awaited"]
    pub struct Timeout<F> {
        #[pin]
        timeout: tourbillon::Timeout<F>,
        #[pin]
        _pinned: PhantomPinned,
    }
}

impl<F> Timeout<F> {
    fn new(timeout: tourbillon::Timeout<F>) -> Self {
        Self { timeout, _pinned: PhantomPinned }
    }

    /// The inner future.
    pub fn get_ref(&self) -> &F {
        self.timeout.get_ref()
    }

    /// The inner future, to be changed.
    pub fn get_mut(&mut self) -> &mut F {
        self.timeout.get_mut()
    }

    /// Gives the inner future back; the deadline is cancelled.
    pub fn into_inner(self) -> F {
        self.timeout.into_inner()
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().timeout.poll(cx)
    }
}
