//! Choices that the target makes: a timer has other parts where it is small.

pub(crate) use imp::{PerShard, Wheel, per_shard};

/// True where an event loop of JavaScript's is the driver: there is one thread. While a timeout is
/// set, Node.js does not end, so the driver is notified once nothing is pending.
pub(crate) const IN_EVENT_LOOP: bool =
    cfg!(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"));

/// True where an event loop may have a timeout for each sleep: in hosts that tie running code to
/// the code that set its timeout. That shows only at run time. A bundle for pages is smaller
/// without.
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
pub(crate) const OWN_WAITS: bool = cfg!(not(tourbillon_one_timeout));

/// True where there is one shard: in an event loop there is one thread, and without an operating
/// system a critical section would lock them all.
pub(crate) const ONE_SHARD: bool = IN_EVENT_LOOP || cfg!(target_os = "none");

/// Returns where a shard's value is. A constant where there is one.
#[inline(always)]
pub(crate) fn position(shard: usize) -> usize {
    if ONE_SHARD { 0 } else { shard }
}

#[cfg(not(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
)))]
mod imp {
    use alloc::vec::Vec;
    use core::mem::ManuallyDrop;

    pub(crate) use crate::wheel::Wheel;

    /// Values in the order of their shards.
    pub(crate) type PerShard<T> = Vec<T>;

    /// Makes the value of each of so many shards.
    pub(crate) fn per_shard<T>(shards: usize, mut make: impl FnMut() -> T) -> PerShard<T> {
        // Otherwise each program has the code that drops the values if there is no memory for them.
        let mut all = ManuallyDrop::new(Vec::with_capacity(shards));
        all.extend((0..shards).map(|_| make()));
        ManuallyDrop::into_inner(all)
    }
}

/// Small parts, for one shard.
#[cfg(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
))]
mod imp {
    pub(crate) use crate::wheel::heap::Heap as Wheel;

    /// The value of the one shard there is, without an allocation.
    pub(crate) type PerShard<T> = [T; 1];

    /// Makes the value of the one shard there is.
    pub(crate) fn per_shard<T>(_shards: usize, mut make: impl FnMut() -> T) -> PerShard<T> {
        [make()]
    }
}
