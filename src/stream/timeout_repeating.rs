//! [`TimeoutRepeating`]: an error for each tick without an item.

use core::pin::Pin;
use core::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::source::Source;
use crate::error::Elapsed;
use crate::interval::Interval;

pin_project! {
    /// The stream of [`StreamExt::timeout_repeating`](super::StreamExt::timeout_repeating).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct TimeoutRepeating<S> {
        #[pin]
        source: Source<S>,
        interval: Interval,
    }
}

impl<S> TimeoutRepeating<S> {
    pub(super) fn new(stream: S, interval: Interval) -> Self {
        Self { source: Source::new(stream), interval }
    }

    source_methods!();
}

impl<S: Stream> Stream for TimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.source.poll_next(cx) {
            match item {
                Some(_) => this.interval.reset(),
                None => this.interval.clear(),
            }
            return Poll::Ready(item.map(Ok));
        }
        ready!(this.interval.poll_tick(cx));
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, _) = self.source.size_hint();
        (lower, self.source.has_ended().then_some(0))
    }
}

ends_with_its_source!(TimeoutRepeating);
