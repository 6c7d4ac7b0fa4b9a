//! Wakers taken under a lock, woken after it.

use alloc::vec::Vec;
use core::task::Waker;

use crate::foreign::guarded;

/// Wakers taken under one lock. Bounds how long that is held: for about 2 us. The models, of a few
/// timers each, have turns end partly all the same.
pub(crate) const BATCH: usize =
    if cfg!(any(all(test, tourbillon_model), target_os = "none")) { 2 } else { 32 };

/// Wakers held before they are woken. Woken in one go, they find the threads of an executor awake,
/// which would run out of tasks and park while the next few are taken. In the models, so few that a
/// full batch is woken before the next shard, and one waker is not.
const HELD: usize = if cfg!(all(test, tourbillon_model)) { 3 } else { 512 };

/// Wakers, at most [`HELD`], in a buffer that is kept.
#[derive(Debug)]
pub(crate) struct WakeBatch {
    wakers: Vec<Waker>,
    /// Wakers that it still takes in all.
    left: u64,
    /// Wakers for the owner of the batch to wake, if it does.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    deferred: Option<Vec<Waker>>,
}

impl WakeBatch {
    /// Makes one without a limit to what it takes in all.
    pub(crate) fn new() -> Self {
        Self {
            wakers: Vec::with_capacity(BATCH),
            left: u64::MAX,
            #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
            deferred: None,
        }
    }

    /// Makes a batch whose wakers are not woken, but kept for
    /// [`take_deferred`](Self::take_deferred).
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn deferring() -> Self {
        Self { deferred: Some(Vec::new()), ..Self::new() }
    }

    /// Takes out the wakers that were to be woken, in their order.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn take_deferred(&mut self) -> Vec<Waker> {
        self.deferred.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Allows so many more in all.
    pub(crate) fn allow(&mut self, count: u64) {
        self.left = count;
    }

    /// Returns whether it takes no more, even once it is empty.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Returns how many it holds.
    pub(crate) fn len(&self) -> usize {
        self.wakers.len()
    }

    /// Returns how many more it takes under one lock: none once it is full, until it has been
    /// woken.
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
    ///
    /// Calls `pause` after the first `together`, with how many were woken since the last pause, and
    /// again after as many more as it says, at least one; and at the end.
    pub(crate) fn wake_all(
        &mut self,
        mut together: usize,
        mut pause: impl FnMut(usize) -> usize,
    ) -> u64 {
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        if let Some(deferred) = &mut self.deferred {
            deferred.append(&mut self.wakers);
            return 0;
        }
        let mut panics = 0;
        let mut wakers = self.wakers.drain(..);
        while wakers.len() > 0 {
            let count = together.min(wakers.len());
            for waker in wakers.by_ref().take(count) {
                panics += u64::from(guarded(|| waker.wake()).is_none());
            }
            together = pause(count);
        }
        panics
    }
}

/// Prefetches what a waker points to, often a task that was not touched for long, while the other
/// wakers are taken.
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
