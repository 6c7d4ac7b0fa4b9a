//! Values that each shard has one of.

#[cfg(not(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
)))]
use alloc::boxed::Box;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use crate::engine::ONE_SHARD;
use crate::engine::shard::Shard;
use crate::sync::{CachePadded, Lock, thread_index};

/// Values in the order of their shards.
#[cfg(not(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
)))]
pub(super) type PerShard<T> = Box<[T]>;

/// The value of the one shard there is, without an allocation.
#[cfg(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
))]
pub(super) type PerShard<T> = [T; 1];

/// Makes the value of each of so many shards.
#[cfg(not(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
)))]
pub(super) fn per_shard<T>(shards: usize, mut make: impl FnMut() -> T) -> PerShard<T> {
    (0..shards).map(|_| make()).collect()
}

/// Makes the value of the one shard there is.
#[cfg(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
))]
pub(super) fn per_shard<T>(_shards: usize, mut make: impl FnMut() -> T) -> PerShard<T> {
    [make()]
}

/// Returns where a shard's value is. A constant where there is one.
#[inline(always)]
pub(super) fn position(shard: usize) -> usize {
    if ONE_SHARD { 0 } else { shard }
}

/// Returns which of so many shards the calling thread calls home. A constant where there is one.
#[inline(always)]
pub(super) fn home(shards: usize) -> usize {
    if ONE_SHARD { 0 } else { thread_index() & (shards - 1) }
}

/// All shards of an engine.
pub(super) struct AllShards(ManuallyDrop<PerShard<CachePadded<Lock<Shard>>>>);

impl AllShards {
    pub(super) fn new(shards: usize, mut make: impl FnMut() -> Shard) -> Self {
        Self(ManuallyDrop::new(per_shard(shards, || CachePadded::new(Lock::new(make())))))
    }

    #[inline(always)]
    pub(super) fn at(&self, shard: usize) -> &Lock<Shard> {
        &self[position(shard)]
    }
}

impl Deref for AllShards {
    type Target = [CachePadded<Lock<Shard>>];

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0[..]
    }
}

impl Drop for AllShards {
    /// Frees the wheels. Not inlined, and not left to the compiler, which makes such code anew
    /// wherever an engine may be dropped: five times in a program that sleeps, 3 KB each.
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: this is the only drop, and nothing uses the value after it.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}
