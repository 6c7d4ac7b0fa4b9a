//! `tokio_stream::wrappers`.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::stream::FusedStream;

use crate::time::{Instant, Interval};

/// The ticks of an [`Interval`] as a stream, without an end.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use futures::StreamExt;
/// use tourbillon_compat_tokio::stream::wrappers::IntervalStream;
/// use tourbillon_compat_tokio::time::interval;
///
/// let ticks = IntervalStream::new(interval(Duration::from_millis(1)));
/// assert_eq!(pollster::block_on(ticks.take(3).count()), 3);
/// ```
#[derive(Debug)]
pub struct IntervalStream {
    interval: Interval,
}

impl IntervalStream {
    /// Makes a stream of an interval's ticks.
    #[must_use]
    pub fn new(interval: Interval) -> Self {
        Self { interval }
    }

    /// Gives the interval back.
    #[must_use]
    pub fn into_inner(self) -> Interval {
        self.interval
    }
}

impl Stream for IntervalStream {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.interval.poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl FusedStream for IntervalStream {
    fn is_terminated(&self) -> bool {
        false
    }
}

impl AsRef<Interval> for IntervalStream {
    fn as_ref(&self) -> &Interval {
        &self.interval
    }
}

impl AsMut<Interval> for IntervalStream {
    fn as_mut(&mut self) -> &mut Interval {
        &mut self.interval
    }
}
