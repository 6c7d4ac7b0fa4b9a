//! [`Timeout`]: one error for each gap.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::source::Source;
use crate::error::Elapsed;
use crate::sleep::Sleep;
use crate::tick::Tick;

pin_project! {
    /// The stream of [`StreamExt::timeout`](super::StreamExt::timeout).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Timeout<S> {
        #[pin]
        source: Source<S>,
        // Ends when the present gap is too long; never, once that was reported.
        sleep: Sleep,
        limit: Duration,
    }
}

impl<S> Timeout<S> {
    pub(super) fn new(stream: S, limit: Duration, sleep: Sleep) -> Self {
        Self { source: Source::new(stream), sleep, limit }
    }

    source_methods!();
}

impl<S: Stream> Stream for Timeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.source.poll_next(cx) {
            match item {
                Some(_) => this.sleep.reset_after(*this.limit),
                None => _ = this.sleep.cancel(),
            }
            return Poll::Ready(item.map(Ok));
        }
        ready!(Pin::new(&mut *this.sleep).poll(cx));
        this.sleep.cancel();
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.source.size_hint();
        // At most one error before each item that is to come, and one after the last.
        let waits = usize::from(self.sleep.deadline_tick() != Tick::NEVER);
        (lower, upper.and_then(|upper| upper.checked_mul(2)?.checked_add(waits)))
    }
}

ends_with_its_source!(Timeout);
