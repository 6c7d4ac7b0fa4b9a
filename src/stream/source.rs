//! The stream inside an adapter, and the methods that adapters share.

use core::pin::Pin;
use core::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project_lite::pin_project;

/// Items that an adapter takes in one poll before other tasks get their turn.
const TAKEN_MAX: usize = 32;

pin_project! {
    /// A stream that is not polled again after its end.
    #[derive(Debug)]
    pub(super) struct Source<S> {
        #[pin]
        stream: S,
        has_ended: bool,
    }
}

/// Items that the present poll of an adapter may still take.
pub(super) struct PollBudget(usize);

impl PollBudget {
    pub(super) fn new() -> Self {
        Self(TAKEN_MAX)
    }

    /// Returns whether the budget ran out, so that the source may have more ready.
    pub(super) fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

impl<S> Source<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, has_ended: false }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn get_ref(&self) -> &S {
        &self.stream
    }

    pub(super) fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    pub(super) fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().stream
    }

    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Stream> Source<S> {
    pub(super) fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        if *this.has_ended {
            return Poll::Ready(None);
        }
        let item = ready!(this.stream.poll_next(cx));
        *this.has_ended = item.is_none();
        Poll::Ready(item)
    }

    /// [`poll_next`](Self::poll_next), for adapters that take more than one item in a poll. Once
    /// that is too many it is pending, and the task is woken to continue later.
    pub(super) fn poll_next_within(
        self: Pin<&mut Self>,
        budget: &mut PollBudget,
        cx: &mut Context<'_>,
    ) -> Poll<Option<S::Item>> {
        if budget.is_spent() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let item = ready!(self.poll_next(cx));
        budget.0 -= 1;
        Poll::Ready(item)
    }

    pub(super) fn size_hint(&self) -> (usize, Option<usize>) {
        if self.has_ended() { (0, Some(0)) } else { self.stream.size_hint() }
    }

    /// The hint of an adapter that drops any item but the last, and may hold one.
    pub(super) fn size_hint_of_some(&self, holds_one: bool) -> (usize, Option<usize>) {
        let held = usize::from(holds_one);
        let (lower, upper) = self.size_hint();
        (lower.saturating_add(held).min(1), upper.and_then(|upper| upper.checked_add(held)))
    }
}

/// Access to the stream in the field `source`.
macro_rules! source_methods {
    () => {
        /// The source.
        pub fn get_ref(&self) -> &S {
            self.source.get_ref()
        }

        /// The source, mutable. The adapter does not see items that are taken from it here.
        pub fn get_mut(&mut self) -> &mut S {
            self.source.get_mut()
        }

        /// The source, pinned, to be changed as by [`get_mut`](Self::get_mut).
        pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
            self.project().source.get_pin_mut()
        }

        /// Returns the source. Drops the items that the adapter holds, and cancels its timer.
        pub fn into_inner(self) -> S {
            self.source.into_inner()
        }
    };
}

/// Makes an adapter with the field `source` a stream that tells its end.
macro_rules! ends_with_its_source {
    ($adapter:ident) => {
        impl<S: Stream> futures_core::FusedStream for $adapter<S> {
            fn is_terminated(&self) -> bool {
                self.source.has_ended()
            }
        }
    };
}
