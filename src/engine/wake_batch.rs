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
    /// How many more it takes in all.
    left: u64,
}

impl WakeBatch {
    /// Without a limit to what it takes in all.
    pub(crate) fn new() -> Self {
        Self { wakers: Vec::with_capacity(BATCH), left: u64::MAX }
    }

    /// Has it take so many more in all.
    pub(crate) fn allow(&mut self, count: u64) {
        self.left = count;
    }

    /// Whether it takes no more, even once it is empty.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// How many it holds.
    pub(crate) fn len(&self) -> usize {
        self.wakers.len()
    }

    /// How many more it takes before they have to be woken.
    pub(crate) fn room(&self) -> usize {
        (BATCH - self.wakers.len()).min(usize::try_from(self.left).unwrap_or(usize::MAX))
    }

    pub(crate) fn push(&mut self, waker: Waker) {
        debug_assert!(self.room() > 0, "the batch is full");
        self.wakers.push(waker);
        self.left -= 1;
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
