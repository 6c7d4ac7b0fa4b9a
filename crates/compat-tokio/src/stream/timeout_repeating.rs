//! [`TimeoutRepeating`]: an error for each tick without an item.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::Elapsed;
use crate::time::Interval;

pin_project! {
    /// The stream of [`StreamExt::timeout_repeating`](super::StreamExt::timeout_repeating).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct TimeoutRepeating<S> {
        // `None` once it has ended.
        #[pin]
        stream: Option<S>,
        interval: Interval,
    }
}

impl<S: Stream> TimeoutRepeating<S> {
    pub(super) fn new(stream: S, interval: Interval) -> Self {
        Self { stream: Some(stream), interval }
    }
}

impl<S: Stream> Stream for TimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        let Some(stream) = this.stream.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        match stream.poll_next(cx) {
            Poll::Ready(Some(item)) => {
                this.interval.reset();
                Poll::Ready(Some(Ok(item)))
            }
            Poll::Ready(None) => {
                this.stream.set(None);
                Poll::Ready(None)
            }
            Poll::Pending => {
                ready!(this.interval.poll_tick(cx));
                Poll::Ready(Some(Err(Elapsed(()))))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.as_ref().map_or((0, Some(0)), |stream| (stream.size_hint().0, None))
    }
}
