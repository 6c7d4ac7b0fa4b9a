//! [`ChunksTimeout`]: items in chunks that are full or old.

use alloc::vec::Vec;
use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::source::{PollBudget, Source};
use crate::sleep::Sleep;

pin_project! {
    /// The stream of [`StreamExt::chunks_timeout`](super::StreamExt::chunks_timeout).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct ChunksTimeout<S: Stream> {
        #[pin]
        source: Source<S>,
        // Fewer than `max`.
        items: Vec<S::Item>,
        // Ends when the chunk may be delivered, full or not. Left armed after a full chunk, since
        // putting it off for the next costs less than arming it anew.
        sleep: Sleep,
        max: usize,
        limit: Duration,
    }
}

impl<S: Stream> ChunksTimeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, max: usize, limit: Duration, sleep: Sleep) -> Self {
        assert!(max > 0, "a chunk must have room for an item");
        Self { source: Source::new(stream), items: Vec::new(), sleep, max, limit }
    }

    /// Takes the items that were collected for the next chunk; empty if there are none. Use it to
    /// lose nothing in a shutdown or after an error.
    ///
    /// Takes a pinned reference, as tokio-stream's does, since the stream may be pinned by then.
    /// It can be polled again, and starts a new chunk then.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::Pin;
    /// use std::time::Duration;
    ///
    /// use futures::{FutureExt as _, StreamExt as _, stream};
    /// use tourbillon::StreamExt as _;
    ///
    /// let numbers = stream::iter([1, 2]).chain(stream::pending());
    /// let mut chunks = numbers.chunks_timeout(10, Duration::from_secs(60));
    /// assert_eq!(chunks.next().now_or_never(), None);
    /// assert_eq!(Pin::new(&mut chunks).into_remainder(), [1, 2]);
    /// ```
    pub fn into_remainder(self: Pin<&mut Self>) -> Vec<S::Item> {
        let this = self.project();
        this.sleep.cancel();
        mem::take(this.items)
    }

    source_methods!();
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        let mut budget = PollBudget::new();
        while let Poll::Ready(item) = this.source.as_mut().poll_next_within(&mut budget, cx) {
            let Some(item) = item else {
                this.sleep.cancel();
                return Poll::Ready((!this.items.is_empty()).then(|| mem::take(this.items)));
            };
            if this.items.is_empty() {
                this.sleep.reset_after(*this.limit);
            }
            this.items.push(item);
            if this.items.len() == *this.max {
                return Poll::Ready(Some(mem::take(this.items)));
            }
        }
        if this.items.is_empty() {
            return Poll::Pending;
        }
        ready!(Pin::new(&mut *this.sleep).poll(cx));
        Poll::Ready(Some(mem::take(this.items)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.source.size_hint();
        let lower = lower.saturating_add(self.items.len()).div_ceil(self.max);
        let started = usize::from(!self.items.is_empty());
        (lower, upper.and_then(|upper| upper.checked_add(started)))
    }
}

ends_with_its_source!(ChunksTimeout);
