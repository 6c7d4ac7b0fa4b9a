//! [`Throttle`]: a pause after each item.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::source::Source;
use crate::sleep::Sleep;

pin_project! {
    /// The stream of [`StreamExt::throttle`](super::StreamExt::throttle).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Throttle<S> {
        #[pin]
        source: Source<S>,
        // The pause after the last item; over from the start, for the first.
        sleep: Sleep,
        period: Duration,
    }
}

impl<S> Throttle<S> {
    pub(super) fn new(stream: S, period: Duration, sleep: Sleep) -> Self {
        Self { source: Source::new(stream), sleep, period }
    }

    source_methods!();
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        ready!(Pin::new(&mut *this.sleep).poll(cx));
        let item = ready!(this.source.poll_next(cx));
        if item.is_some() {
            this.sleep.reset_after(*this.period);
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.source.size_hint()
    }
}

ends_with_its_source!(Throttle);
