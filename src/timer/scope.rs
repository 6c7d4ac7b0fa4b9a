//! [`Scoped`]: a future with a current timer of its own.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::handle::scope::within;
use crate::timer::Timer;

pin_project! {
    /// A future whose polls have a [current timer](Timer::current) of their own.
    ///
    /// Made by [`Timer::scope`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the inner future, with the same current timer.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled or awaited"]
    pub struct Scoped<F> {
        timer: Timer,
        // `None` once it is ready.
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for Scoped<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some() {
                within(this.timer.handle(), || this.future.set(None));
            }
        }
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    /// # Panics
    ///
    /// If it was ready before; and as the inner future does.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        within(this.timer.handle(), || {
            let future = this.future.as_mut().as_pin_mut();
            let polled = future.expect("the scope's future is not ready yet").poll(cx);
            if polled.is_ready() {
                this.future.set(None);
            }
            polled
        })
    }
}

impl Timer {
    /// Makes this the [current timer](Self::current) of `future`, for as long as it is polled: the
    /// functions at the crate's root use it there.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon::virtual_time::VirtualClock;
    /// use tourbillon::{Timer, sleep};
    ///
    /// /// A library's function, which takes no timer.
    /// async fn retry() {
    ///     sleep(Duration::from_secs(3600)).await;
    /// }
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let start = clock.now();
    /// clock.block_on(timer.scope(retry()));
    /// assert_eq!(clock.now() - start, Duration::from_secs(3600));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// So code that takes no timer, such as a library that calls [`sleep()`](crate::sleep()), can
    /// be run on another clock, or on a driver of its own. The timer is current on the thread
    /// during each poll of `future`, and while `future` is dropped. Once ready, it is dropped at
    /// once. After each of these the previous timer is current again, also after a panic. Scopes
    /// nest, and the innermost counts.
    ///
    /// A future, interval, queue or callback keeps the timer that was current as it was made,
    /// wherever it is polled. So these are not on this timer:
    ///
    /// - Futures that were made before, and are polled within.
    /// - Tasks that `future` spawns: their executor polls them elsewhere. Give each a scope of its
    ///   own. An executor that runs *within* `future` polls its tasks in the scope, as tokio's
    ///   `LocalSet::run_until` and smol's `Executor::run` do.
    /// - Work of other threads, and callbacks. Code that runs in the middle of a poll is in the
    ///   scope, such as a waker that it wakes.
    pub fn scope<F: IntoFuture>(&self, future: F) -> Scoped<F::IntoFuture> {
        Scoped { timer: self.clone(), future: Some(future.into_future()) }
    }
}
