//! [`Timeout`]: a future with a deadline.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use pin_project_lite::pin_project;

use crate::deadline::Deadline;
use crate::error::Elapsed;
use crate::sleep::Sleep;
use crate::time::Instant;

pin_project! {
    /// A future with a deadline: `Ok` with its output, or `Err(Elapsed)`.
    ///
    /// Made by [`timeout`](crate::timeout()), [`timeout_at`](crate::timeout_at) and the methods of
    /// [`Timer`](crate::Timer) of the same names.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # pollster::block_on(async {
    /// let answer = tourbillon::timeout(Duration::from_secs(5), async { 42 });
    /// assert_eq!(answer.await, Ok(42));
    ///
    /// let silence = tourbillon::timeout(Duration::from_millis(1), std::future::pending::<()>());
    /// assert!(silence.await.is_err());
    /// # });
    /// ```
    ///
    /// # Guarantees
    ///
    /// A poll polls the inner future first: if it is ready, the result is `Ok` with its output,
    /// even if it is late. If it is pending and the deadline has passed, the result is `Err` with
    /// [`Elapsed`]. The inner future is not dropped then: it lives until the `Timeout` is dropped,
    /// or is returned by [`into_inner`](Timeout::into_inner).
    ///
    /// The deadline is set when the `Timeout` is made, and not by its first poll: a limit counts
    /// from the call that sets it. A `Timeout` that is first polled after its deadline still polls
    /// the inner future first.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the inner future and cancels the deadline.
    ///
    /// # Panics
    ///
    /// Panics as a [`Sleep`] does, and if the inner future panics.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled or awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: Sleep,
    }
}

impl<F> Timeout<F> {
    #[inline(always)]
    pub(crate) fn new(future: F, sleep: Sleep) -> Self {
        Self { future, sleep }
    }

    /// Returns the deadline: from then on the result is [`Elapsed`] if the inner future is pending.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let deadline = Instant::now() + Duration::from_secs(5);
    /// let timeout = tourbillon::timeout_at(deadline, async { 42 });
    /// assert_eq!(timeout.deadline(), deadline);
    /// ```
    pub fn deadline(&self) -> Instant {
        self.sleep.deadline()
    }

    /// Returns whether the deadline has come, by the clock; see [`Sleep::is_elapsed`].
    pub fn is_elapsed(&self) -> bool {
        self.sleep.is_elapsed()
    }

    /// The time until the deadline: zero once it has come, and `None` if it never does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let timeout = tourbillon::timeout(Duration::from_secs(5), async { 42 });
    /// assert!(timeout.remaining().is_some_and(|left| left <= Duration::from_secs(5)));
    /// assert!(tourbillon::timeout(Duration::MAX, async { 42 }).remaining().is_none());
    /// ```
    pub fn remaining(&self) -> Option<Duration> {
        self.sleep.remaining()
    }

    /// Moves the deadline, also after it has passed: the inner future then has time again.
    ///
    /// An armed deadline needs no poll after it, as with [`Sleep::reset`]. Takes a pinned
    /// reference, since most futures are pinned once they were polled.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::time::{Duration, Instant};
    ///
    /// # pollster::block_on(async {
    /// let work = tourbillon::sleep(Duration::from_millis(1));
    /// let mut timeout = pin!(tourbillon::timeout(Duration::ZERO, work));
    /// assert!(timeout.as_mut().await.is_err());
    /// timeout.as_mut().reset(Instant::now() + Duration::from_secs(5));
    /// assert!(timeout.await.is_ok());
    /// # });
    /// ```
    pub fn reset(self: Pin<&mut Self>, deadline: impl Into<Deadline>) {
        self.project().sleep.reset(deadline);
    }

    /// Moves the deadline to `limit` from now; see [`reset`](Self::reset).
    ///
    /// # Examples
    ///
    /// A limit on silence. Each sign of life moves it:
    ///
    /// ```
    /// use std::future::pending;
    /// use std::pin::pin;
    /// use std::time::{Duration, Instant};
    ///
    /// let mut timeout = pin!(tourbillon::timeout(Duration::ZERO, pending::<()>()));
    /// timeout.as_mut().reset_after(Duration::from_secs(5));
    /// assert!(timeout.deadline() > Instant::now());
    /// ```
    pub fn reset_after(self: Pin<&mut Self>, limit: Duration) {
        self.project().sleep.reset_after(limit);
    }

    /// Allows the deadline to be noticed up to `tolerance` later, to share a wake-up with others;
    /// see [`Builder::tolerance`](crate::timer::Builder::tolerance).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let answer = tourbillon::timeout(Duration::from_secs(60), async { 42 });
    /// let answer = answer.with_tolerance(Duration::from_secs(1));
    /// assert_eq!(answer.tolerance(), Duration::from_secs(1));
    /// assert_eq!(pollster::block_on(answer), Ok(42));
    /// ```
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.sleep.set_tolerance(tolerance);
        self
    }

    /// How much later than at its deadline the end may be noticed; see [`Sleep::tolerance`].
    pub fn tolerance(&self) -> Duration {
        self.sleep.tolerance()
    }

    /// The inner future.
    ///
    /// # Examples
    ///
    /// ```
    /// let timeout = tourbillon::timeout(std::time::Duration::ZERO, std::future::ready(1));
    /// assert_eq!(timeout.get_ref().clone().into_inner(), 1);
    /// ```
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// The inner future, to be changed.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timeout = tourbillon::timeout(std::time::Duration::ZERO, std::future::ready(1));
    /// *timeout.get_mut() = std::future::ready(2);
    /// assert_eq!(pollster::block_on(timeout), Ok(2));
    /// ```
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// The inner future, pinned.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timeout = Box::pin(tourbillon::timeout(std::time::Duration::ZERO, async { 1 }));
    /// assert_eq!(pollster::block_on(timeout.as_mut().get_pin_mut()), 1);
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut F> {
        self.project().future
    }

    /// Gives the inner future back; the deadline is cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// let timeout = tourbillon::timeout(std::time::Duration::ZERO, std::future::ready(1));
    /// assert_eq!(timeout.into_inner().into_inner(), 1);
    /// ```
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(this.sleep).poll(cx).map(|()| Err(Elapsed::new()))
    }
}
