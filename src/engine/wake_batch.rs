//! Wakers taken under a lock, woken after it.

use std::task::Waker;

use crate::foreign::guarded;

/// Wakers taken in one go. Bounds how long a shard's lock is held: about 2 us for a full batch.
/// The models, of a few timers each, have turns end partly all the same.
pub(crate) const BATCH: usize = if cfg!(all(test, tourbillon_model)) { 2 } else { 32 };

/// Up to [`BATCH`] wakers, in a buffer that is allocated once.
#[derive(Debug)]
pub(crate) struct WakeBatch {
    wakers: Vec<Waker>,
}

impl WakeBatch {
    pub(crate) fn new() -> Self {
        Self { wakers: Vec::with_capacity(BATCH) }
    }

    /// How many it holds.
    pub(crate) fn len(&self) -> usize {
        self.wakers.len()
    }

    /// How many more it takes.
    pub(crate) fn room(&self) -> usize {
        BATCH - self.wakers.len()
    }

    pub(crate) fn push(&mut self, waker: Waker) {
        debug_assert!(self.room() > 0, "the batch is full");
        self.wakers.push(waker);
    }

    /// Wakes them in the order they were taken. Returns how many panicked.
    pub(crate) fn wake_all(&mut self) -> u64 {
        let mut panics = 0;
        for waker in self.wakers.drain(..) {
            panics += u64::from(guarded(|| waker.wake()).is_none());
        }
        panics
    }
}
