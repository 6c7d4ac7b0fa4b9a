//! [`ThrottleFirst`]: the first item of each burst.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::source::{PollBudget, Source};
use crate::sleep::Sleep;

pin_project! {
    /// The stream of [`StreamExt::throttle_first`](super::StreamExt::throttle_first).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct ThrottleFirst<S> {
        #[pin]
        source: Source<S>,
        // Until its deadline items are dropped. Never polled: nothing is to be done at its end.
        sleep: Sleep,
        period: Duration,
    }
}

impl<S> ThrottleFirst<S> {
    pub(super) fn new(stream: S, period: Duration, sleep: Sleep) -> Self {
        Self { source: Source::new(stream), sleep, period }
    }

    source_methods!();
}

impl<S: Stream> Stream for ThrottleFirst<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut this = self.project();
        let mut budget = PollBudget::new();
        loop {
            let item = ready!(this.source.as_mut().poll_next_within(&mut budget, cx));
            if item.is_none() {
                return Poll::Ready(None);
            }
            if this.sleep.is_elapsed() {
                this.sleep.reset_after(*this.period);
                return Poll::Ready(item);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.source.size_hint();
        (if self.sleep.is_elapsed() { lower.min(1) } else { 0 }, upper)
    }
}

ends_with_its_source!(ThrottleFirst);
