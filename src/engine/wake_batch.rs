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
    /// Gives them the order to wake them in; `None` if that is the order they were taken in. By its
    /// address, so that a program without a seeded clock has none of its code. A driver that is
    /// turned in an interrupt handler moves this, and has no seed.
    #[cfg(not(target_os = "none"))]
    shuffle: Option<Shuffle>,
    /// Wakers for the owner of the batch to wake, if it does.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    deferred: Option<Vec<Waker>>,
}

/// A function that orders wakers by a seed, and the seed.
#[cfg(not(target_os = "none"))]
type Shuffle = (fn(&mut [Waker], u64), u64);

impl WakeBatch {
    /// Makes a batch without a limit in all.
    pub(crate) fn new() -> Self {
        Self {
            wakers: Vec::with_capacity(BATCH),
            left: u64::MAX,
            #[cfg(not(target_os = "none"))]
            shuffle: None,
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

    /// Has the wakers of the next pass woken together, in an order by `seed` if there is one.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn seed(&mut self, seed: Option<u64>) {
        self.shuffle = seed.map(|seed| (shuffle as fn(&mut [_], _), seed));
    }

    /// Returns whether all wakers of a pass are to be woken together.
    #[inline]
    pub(crate) fn is_seeded(&self) -> bool {
        #[cfg(not(target_os = "none"))]
        return self.shuffle.is_some();
        #[cfg(target_os = "none")]
        false
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
        let held = if self.is_seeded() { usize::MAX } else { HELD };
        BATCH.min(held - self.wakers.len()).min(usize::try_from(self.left).unwrap_or(usize::MAX))
    }

    pub(crate) fn push(&mut self, waker: Waker) {
        debug_assert!(self.room() > 0, "the batch is full");
        prefetch(waker.data());
        self.wakers.push(waker);
        self.left -= 1;
    }

    /// Wakes them in the order they were taken. Calls `woken` after each, with how many are left.
    /// Returns how many panicked.
    pub(crate) fn wake_all(&mut self, mut woken: impl FnMut(usize)) -> u64 {
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        if let Some(deferred) = &mut self.deferred {
            deferred.append(&mut self.wakers);
            return 0;
        }
        #[cfg(not(target_os = "none"))]
        if let Some((shuffle, seed)) = self.shuffle {
            shuffle(&mut self.wakers, seed);
        }
        let mut panics = 0;
        let mut wakers = self.wakers.drain(..);
        while let Some(waker) = wakers.next() {
            panics += u64::from(guarded(|| waker.wake()).is_none());
            woken(wakers.len());
        }
        panics
    }
}

/// Gives the wakers an order by the seed (Fisher and Yates).
#[cfg(not(target_os = "none"))]
fn shuffle(wakers: &mut [Waker], seed: u64) {
    for last in (1..wakers.len()).rev() {
        let number = mixed(seed ^ mixed(last as u64));
        wakers.swap(last, (number % (last as u64 + 1)) as usize);
    }
}

/// Returns another number for each number, with no order left between them (SplitMix64).
#[inline]
pub(crate) const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Prefetches a waker's target, often a task that was not touched for long, while the other wakers
/// are taken.
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
