//! [`Worker`]: the attempts of one kind, as a stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_channel::Receiver;
use futures_core::Stream;

use super::fire::Fire;
use super::shared::{Kind, Shared};

/// A stream of due timers of one kind; see [`Engine::worker`](crate::Engine::worker).
///
/// The stream ends when the engine is stopped. Dropping it hands back attempts that it has not
/// yielded.
///
/// No [`Fire`] is yielded once the node's lease may have ended.
///
/// # Cancel safety
///
/// A [`next`](Self::next) that is dropped loses nothing.
pub struct Worker {
    shared: Arc<Shared>,
    number: u32,
    fires: Pin<Box<Receiver<Fire>>>,
}

impl Worker {
    /// A worker with room for `prefetch` attempts at a time.
    ///
    /// # Panics
    ///
    /// If this kind has a worker already, or is no valid kind.
    #[track_caller]
    pub(crate) fn new(shared: &Arc<Shared>, kind: &str, prefetch: usize) -> Self {
        let is_kind = !kind.is_empty() && !kind.contains('\0');
        assert!(is_kind, "a kind is not empty and has no NUL");
        let (sender, fires) = async_channel::unbounded();
        let mut state = shared.lock();
        let is_taken = state.kinds.values().any(|known| known.name == kind);
        let number = state.next_kind;
        if !is_taken {
            state.next_kind += 1;
            let (name, cache, room) = (kind.to_owned(), Default::default(), prefetch.max(1));
            let waiting = fires.clone();
            state.kinds.insert(number, Kind { name, cache, room, fires: sender, waiting });
            state.requests.scan_all = true;
        }
        drop(state);
        assert!(!is_taken, "the engine has a worker for `{kind}` already");
        shared.main.notify();
        Self { shared: shared.clone(), number, fires: Box::pin(fires) }
    }

    /// The next attempt; `None` once the engine is stopped.
    pub async fn next(&mut self) -> Option<Fire> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Worker {
    type Item = Fire;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Fire>> {
        loop {
            match ready!(self.fires.as_mut().poll_next(cx)) {
                Some(fire) if !fire.is_current() || self.fires.is_closed() => drop(fire),
                fire => return Poll::Ready(fire),
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let kind = self.shared.lock().kinds.remove(&self.number);
        drop(kind);
        while self.fires.try_recv().is_ok() {}
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("waiting", &self.fires.len()).finish_non_exhaustive()
    }
}
