//! Wakers taken under a lock, woken after it.

use alloc::vec::Vec;
use core::task::Waker;

use crate::foreign::guarded;

/// Wakers taken under one lock. Bounds how long that is held: for about 2 us. The models, of a few
/// timers each, have turns end partly all the same.
pub(crate) const BATCH: usize = if cfg!(all(test, tourbillon_model)) {
    2
} else if cfg!(target_os = "none") {
    8
} else {
    32
};

/// Wakers held before they are woken. Woken in one go, they find the threads of an executor awake,
/// which would run out of tasks and park while the next few are taken. In the models, so few that a
/// full batch is woken before the next shard, and one waker is not.
const HELD: usize = if cfg!(all(test, tourbillon_model)) { 3 } else { 512 };

/// Up to [`HELD`] wakers, in a buffer that is kept.
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

    /// How many more it takes under one lock. None once it is full, until it has been woken.
    pub(crate) fn room(&self) -> usize {
        BATCH.min(HELD - self.wakers.len()).min(usize::try_from(self.left).unwrap_or(usize::MAX))
    }

    pub(crate) fn push(&mut self, waker: Waker) {
        debug_assert!(self.room() > 0, "the batch is full");
        prefetch(waker.data());
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

/// Has the processor fetch what a waker points to, often a task that nobody touched for long, while
/// the other wakers are taken.
#[inline]
fn prefetch(at: *const ()) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which reads nothing that the program sees, and cannot fault, wherever `at`
    // points.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast())
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
