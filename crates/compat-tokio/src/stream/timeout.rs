//! [`Timeout`]: one error for each wait that is too long.

use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;
use tourbillon::StreamExt as _;

use super::Elapsed;

pin_project! {
    /// The stream of [`StreamExt::timeout`](super::StreamExt::timeout). Not [`Unpin`], as
    /// tokio-stream's.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Timeout<S> {
        #[pin]
        stream: tourbillon::stream::Timeout<S>,
        #[pin]
        _pinned: PhantomPinned,
    }
}

impl<S: Stream> Timeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, duration: Duration) -> Self {
        Self { stream: stream.timeout(duration), _pinned: PhantomPinned }
    }
}

impl<S: Stream> Stream for Timeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.project().stream.poll_next(cx);
        next.map(|item| item.map(|item| item.map_err(Elapsed::from)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}
