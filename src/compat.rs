//! Stand-ins for the types of other crates.
//!
//! [`Delay`] takes the place of `futures_timer::Delay` 3. In one's own code, moving is one line:
//!
//! ```
//! use tourbillon::compat::Delay; // was: use futures_timer::Delay;
//! # pollster::block_on(Delay::new(std::time::Duration::from_millis(1)));
//! ```
//!
//! What dependencies use is moved by the package named `futures-timer` in `shim/` of this crate's
//! repository, which exports this type; see [`migration`](crate::migration).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::sleep::Sleep;
use crate::timer;

/// The longest delay that is told from never: a hundred years.
///
/// A deadline past the end of the time line would be [`never`](crate::never), and a sleep made so
/// is not armed by a poll, while a [`Delay`] has to have that poll's waker when it is reset.
const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A future that completes a duration after it was made or reset, like `futures_timer::Delay`.
///
/// It is a [`Sleep`] of the process-wide timer, which [`Timer::set_global`] can choose, under the
/// other crate's names. New code is better off with `Sleep`, which can be asked for its deadline
/// and moved to an [`Instant`](std::time::Instant).
///
/// # Guarantees
///
/// As of a `futures_timer::Delay`:
///
/// - The time counts from [`new`](Self::new), or from the last [`reset`](Self::reset), and not
///   from the first poll. Never early.
/// - While it is pending, the waker of the last poll is the one that is woken, once.
/// - A reset keeps that waker, unless it was used: no poll is needed after it.
/// - Polled again after completion, it is ready again, until it is reset.
/// - [`Duration::ZERO`] and [`Duration::MAX`] are as good as any. What is longer than a hundred
///   years may end after a hundred years.
///
/// Other than there:
///
/// - A poll finds by the clock that the deadline has come. There it is ready only once the helper
///   thread has got round to it, and a delay of zero is pending at first.
/// - Dropped, its waker is dropped by the same thread at once. There, the helper thread does that.
/// - If the driver thread cannot be started, the poll panics and the next one tries again. There,
///   every poll panics of a delay that was made then.
/// - It is [`UnwindSafe`](std::panic::UnwindSafe), and takes 24 bytes in place of 8 and an
///   allocation.
///
/// # Cancel safety
///
/// Dropping it cancels it at once.
///
/// # Panics
///
/// As a [`Sleep`] does.
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
/// [`Timer::set_global`]: crate::Timer::set_global
// Not `must_use`: the other is not, and a dependent that denies warnings is to build.
#[derive(Debug)]
pub struct Delay {
    sleep: Sleep,
}

impl Delay {
    /// Makes a delay that ends `duration` from now.
    #[inline]
    pub fn new(duration: Duration) -> Self {
        Self { sleep: timer::sleep(duration.min(FAR)) }
    }

    /// Makes it end `duration` from now, whether or not it has ended.
    ///
    /// If it is pending, the waker of the last poll will be woken then, without another poll. If
    /// that waker was woken already, or the delay was never polled, a poll has to bring one.
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
        self.sleep.reset_after(duration.min(FAR));
    }
}

impl Future for Delay {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.sleep).poll(cx)
    }
}
