//! [`Sleep`], and the functions that make one.

use std::future::Future;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::{FAR, Instant};

/// Waits for `duration` from now.
///
/// A duration that is too long to be added to an instant counts as thirty years, as in tokio.
///
/// # Panics
///
/// Not here. The first poll panics if the driver thread cannot be started, like a
/// [`tourbillon::Sleep`]'s.
///
/// # Examples
///
/// ```
/// use tourbillon_compat_tokio::time::{Duration, sleep};
///
/// # pollster::block_on(async {
/// let nap = sleep(Duration::from_millis(1));
/// let mut nap = std::pin::pin!(nap);
/// nap.as_mut().await;
/// assert!(nap.is_elapsed());
/// # });
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    if duration > FAR {
        let now = Instant::now();
        return sleep_until(now.checked_add(duration).unwrap_or_else(|| now + FAR));
    }
    Sleep::new(tourbillon::sleep(duration))
}

/// Waits until `deadline`.
///
/// # Panics
///
/// Panics as [`sleep`] does.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(tourbillon::sleep_until(deadline.into_std()))
}

pin_project! {
    /// A future that completes once its deadline has come; of [`sleep`] and [`sleep_until`].
    ///
    /// Not [`Unpin`], as tokio's is not, so that what compiles here compiles there too:
    ///
    /// ```compile_fail,E0277
    /// fn movable(_: impl Unpin) {}
    /// movable(tourbillon_compat_tokio::time::sleep(std::time::Duration::ZERO));
    /// ```
    ///
    /// Never early, by the clock of its timer. It stays on the timer that was current as it was
    /// made. Polled again after completion, it is ready again.
    ///
    /// # Cancel safety
    ///
    /// Dropping it cancels it at once.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled or awaited"]
    pub struct Sleep {
        sleep: tourbillon::Sleep,
        // Whether tokio's timers would know of it: it was polled or reset.
        is_registered: bool,
        #[pin]
        _pinned: PhantomPinned,
    }
}

impl Sleep {
    fn new(sleep: tourbillon::Sleep) -> Self {
        Self { sleep, is_registered: false, _pinned: PhantomPinned }
    }

    /// Returns the deadline.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        Instant::from_std(self.sleep.deadline())
    }

    /// Returns whether its deadline has come. False before it is polled or reset, as in tokio.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.is_registered && self.sleep.is_elapsed()
    }

    /// Moves the deadline, before or after the old one has come.
    ///
    /// An armed sleep stays armed, and needs no poll.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tourbillon_compat_tokio::time::{Duration, Instant, sleep};
    ///
    /// # pollster::block_on(async {
    /// let mut idle = pin!(sleep(Duration::from_secs(60)));
    /// idle.as_mut().reset(Instant::now() + Duration::from_millis(1));
    /// idle.await;
    /// # });
    /// ```
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let this = self.project();
        this.sleep.reset(deadline.into_std());
        *this.is_registered = true;
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        *this.is_registered = true;
        Pin::new(this.sleep).poll(cx)
    }
}
