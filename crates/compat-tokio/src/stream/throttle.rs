//! [`Throttle`]: a pause after each item.

use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;
use tourbillon::StreamExt as _;

pin_project! {
    /// The stream of [`StreamExt::throttle`](super::StreamExt::throttle). Not [`Unpin`], as
    /// tokio-stream's.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Throttle<S> {
        #[pin]
        stream: tourbillon::stream::Throttle<S>,
        #[pin]
        _pinned: PhantomPinned,
    }
}

impl<S> Throttle<S> {
    /// The source.
    pub fn get_ref(&self) -> &S {
        self.stream.get_ref()
    }

    /// The source, to be changed.
    pub fn get_mut(&mut self) -> &mut S {
        self.stream.get_mut()
    }

    /// Gives the source back.
    pub fn into_inner(self) -> S {
        self.stream.into_inner()
    }
}

impl<S: Stream> Throttle<S> {
    #[track_caller]
    pub(super) fn new(stream: S, duration: Duration) -> Self {
        Self { stream: stream.throttle(duration), _pinned: PhantomPinned }
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.project().stream.poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}
