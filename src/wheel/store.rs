//! Chunked storage for a wheel's entries and blocks: stable addresses, no allocation in steady
//! state.
//!
//! Stored values are only ever reached by shared reference, since a sleep has a pointer to its
//! entry.
//!
//! The key released last is handed out first, and the last few are handed out without a look at
//! their chunks: that is what arm and cancel do. The first empty chunk is kept for the next burst,
//! every further one is given back at once.
//!
//! Not done: moving together the entries that outlive a burst, and keep its pages: futures point to
//! them. Nor their blocks: that would have to keep each slot's order, and write to each entry.

use alloc::vec::Vec;

use crate::sync::unmodelled::AtomicU32;
use crate::sync::{Ordering, StdArc};

/// No key.
pub(super) const NIL: u32 = u32::MAX;

/// Key numbers to a chunk, and entries to all but the first ones. A chunk of entries of 32 bytes
/// takes half a page. With larger ones, the few timers that outlive a burst keep more of its
/// memory; with smaller ones, the table of chunks outgrows the processor's own cache. Without an
/// operating system there is little memory, and no such cache. The models, of a few timers each,
/// have chunks come and go all the same.
pub(crate) const CHUNK: usize = if cfg!(all(test, tourbillon_model)) {
    4
} else if cfg!(target_os = "none") {
    8
} else {
    64
};

/// Names an entry of one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeKey(pub(crate) u32);

/// A number in shared memory that only the holder of the store reads or writes.
#[derive(Debug)]
pub(crate) struct Number(AtomicU32);

impl Number {
    pub(super) const fn new(number: u32) -> Self {
        Self(AtomicU32::new(number))
    }

    #[inline(always)]
    pub(super) fn get(&self) -> u32 {
        // ORDERING: Relaxed; one thread at a time has the store.
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn set(&self, number: u32) {
        // ORDERING: Relaxed; as above.
        self.0.store(number, Ordering::Relaxed);
    }
}

/// Value that a [`Store`] can keep.
pub(crate) trait Pooled {
    /// Entries of the first chunk. Each of the next chunks has twice as many, up to [`CHUNK`]; the
    /// keys between are not used. So a wheel of a few timers is small.
    const FIRST: usize;

    /// The next of the entries of its chunk that are not handed out. It belongs to the store until
    /// this entry is handed out.
    fn next_free(&self) -> &Number;
}

/// A chunk of entries. A freed one leaves its place, with no entries and none free.
struct Chunk<T> {
    entries: Option<StdArc<[T]>>,
    /// First free key of this chunk; [`Pooled::next_free`] of each says the next.
    free: u32,
    /// Keys handed out, or spare.
    live: u16,
    /// True if its number is in [`Store::available`].
    listed: bool,
}

impl<T> Chunk<T> {
    #[inline]
    fn entry(&self, key: u32) -> &T {
        let Some(entries) = &self.entries else { missing() };
        let Some(entry) = entries.get(key as usize % CHUNK) else { missing() };
        entry
    }
}

/// Ends a program whose wheel is in disorder. The message of an index that is out of bounds has
/// numbers in it, and the code that formats them is a tenth of all that a sleep adds to a bundle.
#[cold]
pub(super) fn missing() -> ! {
    panic!("the entry of a key, or an item of the heap, is missing")
}

/// Storage for the entries of one wheel. Chunks are numbered.
///
/// `SPARES` released keys wait to be handed out, outside of their chunks. When one more comes, all
/// go into their chunks together: the processor can fetch their memory at the same time.
#[repr(C)]
pub(crate) struct Store<T, const SPARES: usize> {
    /// Number of `spares`.
    spare: u32,
    /// Chunks with no key handed out: never more than one.
    empty: u32,
    chunks: Vec<Chunk<T>>,
    /// Numbers of all chunks that have a free key, and of some that have none any more.
    available: Vec<u32>,
    /// Numbers of chunks that were freed.
    vacant: Vec<u32>,
    /// Keys that were released and not handed out since, the last one last.
    spares: [u32; SPARES],
}

impl<T: Pooled, const SPARES: usize> Store<T, SPARES> {
    pub(super) const fn new() -> Self {
        Self {
            spare: 0,
            empty: 0,
            chunks: Vec::new(),
            available: Vec::new(),
            vacant: Vec::new(),
            spares: [NIL; SPARES],
        }
    }

    /// Hands out a key. Builds a chunk of entries with `make` if all are taken.
    ///
    /// # Panics
    ///
    /// When some 2^32 entries are live.
    #[inline]
    pub(crate) fn allocate(&mut self, make: impl FnMut() -> T) -> NodeKey {
        let last = self.spare.wrapping_sub(1);
        match self.spares.get(last as usize) {
            Some(&spare) => {
                self.spare = last;
                NodeKey(spare)
            }
            None => self.take(make),
        }
    }

    /// Takes a key back.
    #[inline]
    pub(crate) fn release(&mut self, key: NodeKey) {
        if let Some(spare) = self.spares.get_mut(self.spare as usize) {
            *spare = key.0;
            self.spare += 1;
        } else {
            self.give_spares();
            (self.spares[0], self.spare) = (key.0, 1);
        }
    }

    /// Puts the spare keys into their chunks.
    #[inline(never)]
    fn give_spares(&mut self) {
        let spares = self.spares;
        let count = core::mem::take(&mut self.spare) as usize;
        spares.iter().take(count).for_each(|key| self.give(*key));
    }

    #[inline]
    pub(crate) fn value(&self, key: NodeKey) -> &T {
        let Some(chunk) = self.chunks.get(key.0 as usize / CHUNK) else { missing() };
        chunk.entry(key.0)
    }

    /// The value of a key that may have been taken back. It may be another's by now.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn find(&self, key: NodeKey) -> Option<&T> {
        let chunk = self.chunks.get(key.0 as usize / CHUNK)?;
        chunk.entries.as_ref()?.get(key.0 as usize % CHUNK)
    }

    /// The entries of a chunk, handed out or not. `None` if there are no more chunks.
    pub(crate) fn chunk(&self, number: usize) -> Option<&[T]> {
        self.chunks.get(number).map(|chunk| chunk.entries.as_deref().unwrap_or_default())
    }

    /// Chunks of entries that hold memory now.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len() - self.vacant.len()
    }

    /// Puts the spare keys into their chunks, if these are many. Only while no key is handed out:
    /// the chunks of a burst go back then, and the chunks of few timers are kept.
    pub(super) fn trim(&mut self) {
        if self.chunks() > 2 {
            self.give_spares();
        }
    }

    /// Hands out the first free key of a chunk that has one.
    #[inline(never)]
    fn take(&mut self, mut make: impl FnMut() -> T) -> NodeKey {
        loop {
            let Some(&number) = self.available.last() else {
                self.grow(&mut make);
                continue;
            };
            let Some(chunk) = self.chunks.get_mut(number as usize) else { missing() };
            let key = chunk.free;
            if key == NIL {
                chunk.listed = false;
                self.available.pop();
                continue;
            }
            self.empty -= u32::from(chunk.live == 0);
            chunk.live += 1;
            chunk.free = chunk.entry(key).next_free().get();
            return NodeKey(key);
        }
    }

    /// Puts a key into its chunk; gives the chunk's memory back if it is the second empty one.
    fn give(&mut self, key: u32) {
        let number = key as usize / CHUNK;
        let Some(chunk) = self.chunks.get_mut(number) else { missing() };
        chunk.live -= 1;
        if chunk.live == 0 && self.empty > 0 {
            (chunk.entries, chunk.free) = (None, NIL);
            self.vacant.push(number as u32);
            return;
        }
        self.empty += u32::from(chunk.live == 0);
        chunk.entry(key).next_free().set(chunk.free);
        chunk.free = key;
        if !core::mem::replace(&mut chunk.listed, true) {
            self.available.push(number as u32);
        }
    }

    /// Makes a chunk. Only if none is listed.
    #[cold]
    fn grow(&mut self, mut make: impl FnMut() -> T) {
        let number = self.vacant.pop().map_or(self.chunks.len(), |number| number as usize);
        assert!(number < NIL as usize / CHUNK, "2^32 - 64 entries in one store");
        let keys = first_of(number)..first_of(number) + capacity::<T>(number);
        // Collected where it stays: a box that is moved there would leave a hole of its size.
        let entries: StdArc<[T]> = keys.clone().map(|_| make()).collect();
        for (entry, next) in entries.iter().zip(keys.clone().skip(1).chain([NIL])) {
            entry.next_free().set(next);
        }
        let chunk = Chunk { entries: Some(entries), free: keys.start, live: 0, listed: true };
        if number == self.chunks.len() {
            self.chunks.push(chunk);
        } else {
            let Some(place) = self.chunks.get_mut(number) else { missing() };
            *place = chunk;
        }
        self.empty += 1;
        self.available.push(number as u32);
    }
}

/// Returns how many entries the chunk has.
fn capacity<T: Pooled>(number: usize) -> u32 {
    (T::FIRST << number.min(CHUNK.ilog2() as usize)).min(CHUNK) as u32
}

const fn first_of(number: usize) -> u32 {
    (number * CHUNK) as u32
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    struct Entry(Number);

    impl Pooled for Entry {
        const FIRST: usize = 8;

        fn next_free(&self) -> &Number {
            &self.0
        }
    }

    fn fill(store: &mut Store<Entry, 16>, count: usize) -> Vec<NodeKey> {
        (0..count).map(|_| store.allocate(|| Entry(Number::new(NIL)))).collect()
    }

    #[test]
    fn each_key_has_an_entry_of_its_own() {
        let mut store = Store::new();
        let keys = fill(&mut store, 3 * CHUNK);
        for (number, key) in (0..).zip(&keys) {
            store.value(*key).0.set(number);
        }
        assert!((0..).zip(&keys).all(|(number, key)| store.value(*key).0.get() == number));
    }

    #[test]
    fn addresses_stay_while_the_store_grows() {
        let mut store = Store::new();
        let first = fill(&mut store, 1)[0];
        let address: *const Entry = store.value(first);
        fill(&mut store, 10 * CHUNK);
        assert!(core::ptr::eq(address, store.value(first)));
    }

    #[test]
    fn one_chunk_is_kept_beside_those_of_spare_keys_and_the_rest_given_back() {
        let mut store = Store::new();
        let keys = fill(&mut store, 5 * CHUNK);
        let chunks = store.chunks();
        assert!(chunks > 5, "the first ones are smaller");
        // From all chunks in turn.
        for start in 0..CHUNK {
            keys.iter().skip(start).step_by(CHUNK).for_each(|key| store.release(*key));
        }
        assert!(store.chunks() > 1);
        store.trim();
        assert_eq!(store.chunks(), 1, "an empty one");
        assert_eq!(fill(&mut store, 5 * CHUNK).len(), 5 * CHUNK);
        assert!(store.chunks() <= chunks, "the places of those given back are filled first");
    }

    #[test]
    fn bursts_that_come_and_go_leave_the_table_of_chunks_as_long_as_one_of_them_does() {
        let mut store = Store::new();
        let mut burst = || {
            fill(&mut store, 5 * CHUNK).into_iter().for_each(|key| store.release(key));
            store.trim();
            store.chunks.len()
        };
        let places = burst();
        assert!((0..10).all(|_| burst() == places));
    }

    #[test]
    fn what_is_free_in_a_chunk_is_handed_out_before_there_is_another() {
        let mut store = Store::new();
        let keys = fill(&mut store, 5 * CHUNK);
        let chunks = store.chunks();
        keys.iter().step_by(2).for_each(|key| store.release(*key));
        fill(&mut store, 5 * CHUNK / 2);
        assert_eq!(store.chunks(), chunks);
    }

    #[test]
    fn a_released_key_is_the_next_one_handed_out() {
        let mut store = Store::new();
        let keys = fill(&mut store, CHUNK + 7);
        store.release(keys[3]);
        assert_eq!(fill(&mut store, 1)[0].0, keys[3].0);
    }
}
