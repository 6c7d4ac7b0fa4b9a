//! [`Debounce`]: the last item of each burst.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::source::{PollBudget, Source};
use crate::sleep::Sleep;

pin_project! {
    /// The stream of [`StreamExt::debounce`](super::StreamExt::debounce).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Debounce<S: Stream> {
        #[pin]
        source: Source<S>,
        held: Option<S::Item>,
        // Ends when the held item may be delivered.
        sleep: Sleep,
        quiet: Duration,
    }
}

impl<S: Stream> Debounce<S> {
    pub(super) fn new(stream: S, quiet: Duration, sleep: Sleep) -> Self {
        Self { source: Source::new(stream), held: None, sleep, quiet }
    }

    source_methods!();
}

impl<S: Stream> Stream for Debounce<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut this = self.project();
        let mut budget = PollBudget::new();
        while let Poll::Ready(item) = this.source.as_mut().poll_next_within(&mut budget, cx) {
            if item.is_none() {
                this.sleep.cancel();
                return Poll::Ready(this.held.take());
            }
            // Before anything foreign runs, such as the drop of the item that this one replaces.
            this.sleep.reset_after(*this.quiet);
            *this.held = item;
        }
        if this.held.is_none() || budget.is_spent() {
            return Poll::Pending;
        }
        ready!(Pin::new(&mut *this.sleep).poll(cx));
        Poll::Ready(this.held.take())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.source.size_hint_of_some(self.held.is_some())
    }
}

ends_with_its_source!(Debounce);
