//! Chunked storage for a wheel's entries: stable addresses, no allocation in steady state.
//!
//! A chunk holds [`CHUNK`] entries and as many links. The links belong to whoever holds
//! `&mut Store`, so no lock-free reader can meet a write to them; the entries' values are shared
//! and are only ever reached by shared reference. The first empty chunk is kept for the next
//! burst, every further one is given back at once.

use super::{FIRST_KEY, Key, Link, NIL};
use crate::sync::StdArc;

/// Entries to a chunk. At 48 bytes an entry a chunk is 12 KiB: a page-sized request that
/// allocators serve in about a microsecond, which matters since it happens under a shard's lock.
pub(crate) const CHUNK: u32 = 256;

struct Chunk<T> {
    links: Box<[Link]>,
    values: StdArc<[T]>,
    /// First free key of this chunk, chained through `Link::next`.
    free: u32,
    /// Keys handed out.
    live: u32,
    /// Neighbours in the list of chunks that have a free key.
    prev: u32,
    next: u32,
}

/// Storage for the entries of one wheel.
pub(crate) struct Store<T> {
    chunks: Vec<Option<Chunk<T>>>,
    /// Positions in `chunks` that hold nothing.
    vacant: Vec<u32>,
    /// First chunk that has a free key.
    available: u32,
    /// Chunks with no key handed out: never more than one.
    empty: u32,
}

impl<T> Store<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), vacant: Vec::new(), available: NIL, empty: 0 }
    }

    /// Hands out a key. Builds a chunk of values with `make` if all are taken.
    ///
    /// # Panics
    ///
    /// When 2^32 - 1024 entries are live.
    #[inline]
    pub(crate) fn allocate(&mut self, make: impl FnMut(Key) -> T) -> Key {
        if self.available == NIL {
            self.grow(make);
        }
        let index = self.available;
        let chunk = self.chunk_mut(index);
        let key = chunk.free;
        chunk.free = chunk.links[offset(key)].next;
        chunk.live += 1;
        let (live, full) = (chunk.live, chunk.free == NIL);
        if live == 1 {
            self.empty -= 1;
        }
        if full {
            self.unlink(index);
        }
        Key(key)
    }

    /// Takes a key back; gives the chunk's memory back if it is the second empty one.
    #[inline]
    pub(crate) fn release(&mut self, key: Key) {
        let index = index(key.0);
        let chunk = self.chunk_mut(index);
        let was_full = chunk.free == NIL;
        chunk.links[offset(key.0)].next = chunk.free;
        chunk.free = key.0;
        chunk.live -= 1;
        let empty = chunk.live == 0;
        if was_full {
            self.link(index);
        }
        if empty {
            if self.empty == 0 {
                self.empty = 1;
            } else {
                self.unlink(index);
                self.chunks[index as usize] = None;
                self.vacant.push(index);
            }
        }
    }

    #[inline]
    pub(crate) fn value(&self, key: Key) -> &T {
        &self.chunk(index(key.0)).values[offset(key.0)]
    }

    pub(super) fn link_of(&self, key: u32) -> &Link {
        &self.chunk(index(key)).links[offset(key)]
    }

    pub(super) fn link_of_mut(&mut self, key: u32) -> &mut Link {
        &mut self.chunk_mut(index(key)).links[offset(key)]
    }

    /// Chunks that hold memory now.
    #[cfg(all(test, not(tourbillon_model)))]
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len() - self.vacant.len()
    }

    fn grow(&mut self, mut make: impl FnMut(Key) -> T) {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.chunks.push(None);
            u32::try_from(self.chunks.len() - 1).expect("fewer chunks than keys")
        });
        let first = index
            .checked_mul(CHUNK)
            .and_then(|first| first.checked_add(FIRST_KEY))
            .filter(|first| *first <= NIL - CHUNK)
            .expect("more than 2^32 - 1024 timers armed in one shard");
        let keys = first..first + CHUNK;
        let links = keys
            .clone()
            .map(|key| Link {
                next: if key + 1 < keys.end { key + 1 } else { NIL },
                ..Link::DETACHED
            })
            .collect();
        let values = keys.map(|key| make(Key(key))).collect();
        self.chunks[index as usize] =
            Some(Chunk { links, values, free: first, live: 0, prev: NIL, next: NIL });
        self.empty += 1;
        self.link(index);
    }

    /// Puts a chunk at the front of the list of those with a free key.
    fn link(&mut self, index: u32) {
        let next = self.available;
        let chunk = self.chunk_mut(index);
        (chunk.prev, chunk.next) = (NIL, next);
        if next != NIL {
            self.chunk_mut(next).prev = index;
        }
        self.available = index;
    }

    fn unlink(&mut self, index: u32) {
        let chunk = self.chunk(index);
        let (prev, next) = (chunk.prev, chunk.next);
        match prev {
            NIL => self.available = next,
            prev => self.chunk_mut(prev).next = next,
        }
        if next != NIL {
            self.chunk_mut(next).prev = prev;
        }
    }

    #[inline]
    fn chunk(&self, index: u32) -> &Chunk<T> {
        self.chunks[index as usize].as_ref().expect("a key's chunk is kept")
    }

    #[inline]
    fn chunk_mut(&mut self, index: u32) -> &mut Chunk<T> {
        self.chunks[index as usize].as_mut().expect("a key's chunk is kept")
    }
}

const fn index(key: u32) -> u32 {
    (key - FIRST_KEY) / CHUNK
}

const fn offset(key: u32) -> usize {
    ((key - FIRST_KEY) % CHUNK) as usize
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    fn fill(store: &mut Store<u32>, count: u32) -> Vec<Key> {
        (0..count).map(|_| store.allocate(|key| key.0)).collect()
    }

    #[test]
    fn keys_are_distinct_and_find_their_values() {
        let mut store = Store::new();
        let keys = fill(&mut store, 3 * CHUNK);
        let mut raw: Vec<u32> = keys.iter().map(|key| *store.value(*key)).collect();
        raw.sort_unstable();
        raw.dedup();
        assert_eq!(raw.len(), keys.len());
        assert!(keys.iter().all(|key| *store.value(*key) == key.0));
    }

    #[test]
    fn addresses_stay_while_the_store_grows() {
        let mut store = Store::new();
        let first = fill(&mut store, 1)[0];
        let address: *const u32 = store.value(first);
        fill(&mut store, 10 * CHUNK);
        assert!(std::ptr::eq(address, store.value(first)));
    }

    #[test]
    fn one_empty_chunk_is_kept_and_the_rest_given_back() {
        let mut store = Store::new();
        let keys = fill(&mut store, 5 * CHUNK);
        assert_eq!(store.chunks(), 5);
        for key in keys {
            store.release(key);
        }
        assert_eq!(store.chunks(), 1);
        assert_eq!(fill(&mut store, 2 * CHUNK).len(), 2 * CHUNK as usize);
        assert_eq!(store.chunks(), 2);
    }

    #[test]
    fn a_released_key_is_the_next_one_handed_out() {
        let mut store = Store::new();
        let keys = fill(&mut store, CHUNK + 7);
        store.release(keys[3]);
        assert_eq!(fill(&mut store, 1)[0].0, keys[3].0);
    }
}
