//! [`OnTimer`]: a chain of adapters that share a timer.

use core::time::Duration;

use futures_core::Stream;

use super::{ChunksTimeout, Debounce, Delay, Sample, Throttle, ThrottleFirst, Timeout};
use crate::timer::Timer;

/// A chain of adapters on one timer, from [`StreamExt::on_timer`](super::StreamExt::on_timer).
///
/// It has the methods of [`StreamExt`](super::StreamExt), each with this timer. No part of the
/// chain uses the process-wide timer. It is not a stream, so a chain cannot switch back to that
/// timer unnoticed: [`through`](Self::through) is for the adapters of other crates, and
/// [`into_stream`](Self::into_stream) ends it.
/// [`timeout_repeating`](super::StreamExt::timeout_repeating) is on the timer of its interval, and
/// goes through too.
#[derive(Debug)]
#[must_use = "it is no stream until `into_stream`"]
pub struct OnTimer<'a, S> {
    stream: S,
    timer: &'a Timer,
}

impl<'a, S: Stream> OnTimer<'a, S> {
    pub(super) fn new(stream: S, timer: &'a Timer) -> Self {
        Self { stream, timer }
    }

    /// [`StreamExt::timeout`](super::StreamExt::timeout) on this timer.
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn timeout(self, limit: Duration) -> OnTimer<'a, Timeout<S>> {
        let sleep = self.timer.sleep(limit);
        self.through(|stream| Timeout::new(stream, limit, sleep))
    }

    /// [`StreamExt::throttle`](super::StreamExt::throttle) on this timer.
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn throttle(self, period: Duration) -> OnTimer<'a, Throttle<S>> {
        let sleep = self.timer.sleep(Duration::ZERO);
        self.through(|stream| Throttle::new(stream, period, sleep))
    }

    /// [`StreamExt::throttle_first`](super::StreamExt::throttle_first) on this timer.
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn throttle_first(self, period: Duration) -> OnTimer<'a, ThrottleFirst<S>> {
        let sleep = self.timer.sleep(Duration::ZERO);
        self.through(|stream| ThrottleFirst::new(stream, period, sleep))
    }

    /// [`StreamExt::debounce`](super::StreamExt::debounce) on this timer.
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn debounce(self, quiet: Duration) -> OnTimer<'a, Debounce<S>> {
        let sleep = self.timer.never();
        self.through(|stream| Debounce::new(stream, quiet, sleep))
    }

    /// [`StreamExt::chunks_timeout`](super::StreamExt::chunks_timeout) on this timer.
    ///
    /// # Panics
    ///
    /// If `max` is zero.
    #[track_caller]
    pub fn chunks_timeout(self, max: usize, limit: Duration) -> OnTimer<'a, ChunksTimeout<S>> {
        let Self { stream, timer } = self;
        OnTimer { stream: ChunksTimeout::new(stream, max, limit, timer.never()), timer }
    }

    /// [`StreamExt::sample`](super::StreamExt::sample) on this timer.
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn sample(self, period: Duration) -> OnTimer<'a, Sample<S>> {
        let sleep = self.timer.sleep(period);
        self.through(|stream| Sample::new(stream, period, sleep))
    }

    /// [`StreamExt::delay`](super::StreamExt::delay) on this timer.
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn delay(self, span: Duration) -> OnTimer<'a, Delay<S>> {
        let sleep = self.timer.sleep(span);
        self.through(|stream| Delay::new(stream, span, sleep))
    }

    /// Applies an adapter of another crate, such as `map` or `filter` of `futures`, and continues
    /// the chain with the stream that it returns.
    pub fn through<T: Stream>(self, apply: impl FnOnce(S) -> T) -> OnTimer<'a, T> {
        OnTimer { stream: apply(self.stream), timer: self.timer }
    }

    /// Returns the stream of the whole chain.
    pub fn into_stream(self) -> S {
        self.stream
    }
}
