//! Replacements for types of other crates.
//!
//! [`Delay`] replaces `futures_timer::Delay` 3. In your own code that is one line:
//!
//! ```
//! use tourbillon::compat::Delay; // was: use futures_timer::Delay;
//! # pollster::block_on(Delay::new(std::time::Duration::from_millis(1)));
//! ```
//!
//! For dependencies, a package named `futures-timer` that exports this type replaces the other; see
//! [`migration`](crate::guide::migration).

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use crate::sleep::Sleep;
use crate::timer;

/// A future that completes a duration after it was made or reset, like `futures_timer::Delay`.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
/// use tourbillon::compat::Delay;
///
/// # pollster::block_on(async {
/// let start = Instant::now();
/// let mut delay = Delay::new(Duration::from_millis(1));
/// (&mut delay).await;
/// delay.reset(Duration::from_millis(1));
/// delay.await;
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// # });
/// ```
///
/// # Details
///
/// `Delay` is a [`Sleep`] of the [current timer](crate::Timer::current) under the other crate's
/// names. Prefer `Sleep` in new code: it has a [`deadline`](Sleep::deadline), and can be reset to
/// an [`Instant`](std::time::Instant).
///
/// # Guarantees
///
/// As `futures_timer::Delay`:
///
/// - The time counts from [`new`](Self::new), or from the last [`reset`](Self::reset), and not
///   from the first poll. Never early.
/// - While it is pending, the waker of the last poll is woken, once.
/// - A reset keeps that waker unless it was used, so no poll is needed after it.
/// - Polled again after completion, it is ready again, until it is reset.
/// - [`Duration::ZERO`] and [`Duration::MAX`] are valid.
///
/// Unlike `futures_timer::Delay`:
///
/// - A poll completes it by the clock. The other is ready only once its helper thread has fired it,
///   and a delay of zero is pending at first.
/// - The thread that drops it drops its waker at once. There, the helper thread does that later.
/// - If the driver thread cannot be started, the poll panics, and the next one tries again. There,
///   a delay that was made after that failure panics in every poll.
/// - It is [`UnwindSafe`](std::panic::UnwindSafe), and takes 32 bytes instead of 8 and an
///   allocation.
///
/// # Cancel safety
///
/// Dropping it cancels it at once.
///
/// # Panics
///
/// Panics as a [`Sleep`] does.
// Not `must_use`: the other is not, and dependents that deny warnings must build.
#[derive(Debug)]
pub struct Delay {
    sleep: Sleep,
}

impl Delay {
    /// Makes a delay that ends `duration` from now.
    #[inline]
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn new(duration: Duration) -> Self {
        Self { sleep: timer::sleep(duration) }
    }

    /// Makes it end `duration` from now, whether or not it has ended.
    ///
    /// If it is pending, the waker of the last poll is woken then, without another poll. If that
    /// waker was woken before, or the delay was never polled, it needs a poll.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::compat::Delay;
    ///
    /// let mut idle = Delay::new(Duration::MAX);
    /// idle.reset(Duration::from_millis(1));
    /// pollster::block_on(idle);
    /// ```
    #[inline]
    pub fn reset(&mut self, duration: Duration) {
        self.sleep.reset_after(duration);
    }
}

impl Future for Delay {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.sleep).poll(cx)
    }
}
