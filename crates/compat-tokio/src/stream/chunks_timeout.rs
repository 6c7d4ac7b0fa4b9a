//! [`ChunksTimeout`]: items in chunks that are full or old.

use std::fmt;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;
use tourbillon::StreamExt as _;

pin_project! {
    /// The stream of [`StreamExt::chunks_timeout`](super::StreamExt::chunks_timeout). Not
    /// [`Unpin`], as tokio-stream's.
    #[must_use = "streams do nothing unless polled"]
    pub struct ChunksTimeout<S: Stream> {
        #[pin]
        stream: tourbillon::stream::ChunksTimeout<S>,
        #[pin]
        _pinned: PhantomPinned,
    }
}

impl<S: Stream> ChunksTimeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, max_size: usize, duration: Duration) -> Self {
        Self { stream: stream.chunks_timeout(max_size, duration), _pinned: PhantomPinned }
    }

    /// Takes the items that were collected for the next chunk.
    pub fn into_remainder(self: Pin<&mut Self>) -> Vec<S::Item> {
        self.project().stream.into_remainder()
    }
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.project().stream.poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

impl<S: Stream + fmt::Debug> fmt::Debug for ChunksTimeout<S>
where
    S::Item: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}
