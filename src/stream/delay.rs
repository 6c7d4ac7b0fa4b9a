//! [`Delay`]: a stream that begins later.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::source::Source;
use crate::sleep::Sleep;

pin_project! {
    /// The stream of [`StreamExt::delay`](super::StreamExt::delay).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Delay<S> {
        #[pin]
        source: Source<S>,
        // Ends when the source may be polled, and is ready from then on.
        sleep: Sleep,
        span: Duration,
    }
}

impl<S> Delay<S> {
    pub(super) fn new(stream: S, span: Duration, sleep: Sleep) -> Self {
        Self { source: Source::new(stream), sleep, span }
    }

    source_methods!();
}

impl<S: Stream> Stream for Delay<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        ready!(Pin::new(&mut *this.sleep).poll(cx));
        this.source.poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.source.size_hint()
    }
}

ends_with_its_source!(Delay);
