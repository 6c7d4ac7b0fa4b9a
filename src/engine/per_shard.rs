//! One value for each shard.

use core::mem::ManuallyDrop;
use core::ops::Deref;

use crate::engine::shard::Shard;
use crate::platform::{ONE_SHARD, PerShard, per_shard};
use crate::sync::{CachePadded, Lock, thread_index};

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

/// All shards of an engine. In one lock for all, threads would meet, and one inbox for all would
/// cost each timer a hand-over.
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
