//! Chunked storage for a wheel's entries: stable addresses, no allocation in steady state.
//!
//! A chunk holds [`CHUNK`] entries and as many links. The links belong to the holder of
//! `&mut Store`, so no lock-free reader can meet a write to them; the entries' values are shared
//! and are only ever reached by shared reference. The list heads of the wheel are links as well,
//! in chunks of their own before the first key.
//!
//! The key released last is handed out first, without a look at its chunk: that is what arm and
//! cancel do. The first empty chunk is kept for the next burst, every further one is given back at
//! once.

use super::{HEADS, Link, NIL, NodeKey};
use crate::sync::StdArc;

/// Entries to a chunk. At 48 bytes an entry a chunk is 12 KiB: a page-sized request that
/// allocators serve in about a microsecond, which matters since it happens under a shard's lock.
/// The models, of a few timers each, have chunks come and go all the same.
pub(crate) const CHUNK: usize = if cfg!(all(test, tourbillon_model)) { 4 } else { 256 };

/// Chunks of list heads.
const HEAD_CHUNKS: usize = HEADS.div_ceil(CHUNK);

type Links = Box<[Link; CHUNK]>;

/// What is known of a chunk of entries.
#[derive(Clone, Copy)]
struct Chunk {
    /// First free key of this chunk, chained through `Link::next`.
    free: u32,
    /// Keys handed out, or spare.
    live: u32,
    /// Neighbours in the list of chunks that have a free key.
    prev: u32,
    next: u32,
}

/// Storage for the entries of one wheel. Chunks are numbered, those of list heads included. A freed
/// chunk leaves `None` at its number in the tables.
#[repr(C)]
pub(crate) struct Store<T> {
    /// The key released last, unless it was handed out since.
    spare: u32,
    /// First chunk that has a free key.
    available: u32,
    links: Vec<Option<Links>>,
    values: Vec<Option<StdArc<[T; CHUNK]>>>,
    chunks: Vec<Chunk>,
    /// Places that hold nothing.
    vacant: Vec<u32>,
    /// Chunks with no key handed out: never more than one.
    empty: u32,
}

impl<T> Store<T> {
    pub(crate) fn new() -> Self {
        let mut store = Self {
            spare: NIL,
            available: NIL,
            links: Vec::new(),
            values: Vec::new(),
            chunks: Vec::new(),
            vacant: Vec::new(),
            empty: 0,
        };
        for index in 0..HEAD_CHUNKS {
            let number = store.vacant_number();
            store.links[number] = Some(links(index, Link::head));
        }
        store
    }

    /// Hands out a key. Builds a chunk of values with `make` if all are taken.
    ///
    /// # Panics
    ///
    /// When 2^32 - 1024 entries are live.
    #[inline]
    pub(crate) fn allocate(&mut self, make: impl FnMut(NodeKey) -> T) -> NodeKey {
        match std::mem::replace(&mut self.spare, NIL) {
            NIL => self.take(make),
            spare => NodeKey(spare),
        }
    }

    /// Takes a key back.
    #[inline]
    pub(crate) fn release(&mut self, key: NodeKey) {
        match std::mem::replace(&mut self.spare, key.0) {
            NIL => {}
            older => self.give(older),
        }
    }

    #[inline]
    pub(crate) fn value(&self, key: NodeKey) -> &T {
        let values = self.values[index(key.0)].as_ref().expect("a key's chunk is kept");
        &values[offset(key.0)]
    }

    #[inline]
    pub(super) fn link(&self, at: u32) -> &Link {
        &self.links[index(at)].as_ref().expect("a key's chunk is kept")[offset(at)]
    }

    /// The link at `at`, whatever it names.
    #[inline]
    pub(super) fn try_link(&self, at: u32) -> Option<&Link> {
        Some(&self.links.get(index(at))?.as_ref()?[offset(at)])
    }

    #[inline]
    pub(super) fn link_mut(&mut self, at: u32) -> &mut Link {
        &mut self.links[index(at)].as_mut().expect("a key's chunk is kept")[offset(at)]
    }

    /// Chunks of entries that hold memory now.
    #[cfg(all(test, not(tourbillon_model)))]
    pub(crate) fn chunks(&self) -> usize {
        self.values.iter().flatten().count()
    }

    /// Hands out the first free key of the first chunk that has one.
    fn take(&mut self, make: impl FnMut(NodeKey) -> T) -> NodeKey {
        if self.available == NIL {
            self.grow(make);
        }
        let number = self.available;
        let key = self.chunks[number as usize].free;
        let next = self.link(key).next;
        let chunk = &mut self.chunks[number as usize];
        chunk.free = next;
        chunk.live += 1;
        if chunk.live == 1 {
            self.empty -= 1;
        }
        if next == NIL {
            self.unlink(number);
        }
        NodeKey(key)
    }

    /// Puts a key into its chunk; gives the chunk's memory back if it is the second empty one.
    fn give(&mut self, key: u32) {
        let number = index(key);
        let chunk = &mut self.chunks[number];
        let free = std::mem::replace(&mut chunk.free, key);
        chunk.live -= 1;
        let empty = chunk.live == 0;
        self.link_mut(key).next = free;
        if free == NIL {
            self.link_in(number as u32);
        }
        if empty && self.empty == 0 {
            self.empty = 1;
        } else if empty {
            self.unlink(number as u32);
            (self.links[number], self.values[number]) = (None, None);
            self.vacant.push(number as u32);
        }
    }

    #[cold]
    fn grow(&mut self, mut make: impl FnMut(NodeKey) -> T) {
        let number = self.vacant_number();
        let keys = first_of(number)..first_of(number) + CHUNK as u32;
        let last = keys.end - 1;
        self.links[number] = Some(links(number, |key| Link {
            next: if key == last { NIL } else { key + 1 },
            ..Link::DETACHED
        }));
        let values: Box<[T]> = keys.clone().map(|key| make(NodeKey(key))).collect();
        self.values[number] = <Box<[T; CHUNK]>>::try_from(values).ok().map(StdArc::from);
        self.chunks[number].free = keys.start;
        self.empty += 1;
        self.link_in(number as u32);
    }

    /// A number for a new chunk.
    fn vacant_number(&mut self) -> usize {
        if let Some(number) = self.vacant.pop() {
            return number as usize;
        }
        let number = self.chunks.len();
        assert!(number < NIL as usize / CHUNK, "2^32 - 1024 timers armed in one shard");
        self.links.push(None);
        self.values.push(None);
        self.chunks.push(Chunk { free: NIL, live: 0, prev: NIL, next: NIL });
        number
    }

    /// Puts a chunk at the front of the list of those with a free key.
    fn link_in(&mut self, number: u32) {
        let next = std::mem::replace(&mut self.available, number);
        let chunk = &mut self.chunks[number as usize];
        (chunk.prev, chunk.next) = (NIL, next);
        if next != NIL {
            self.chunks[next as usize].prev = number;
        }
    }

    fn unlink(&mut self, number: u32) {
        let Chunk { prev, next, .. } = self.chunks[number as usize];
        match prev {
            NIL => self.available = next,
            prev => self.chunks[prev as usize].next = next,
        }
        if next != NIL {
            self.chunks[next as usize].prev = prev;
        }
    }
}

/// A chunk of links for a number in the tables.
fn links(number: usize, link: impl Fn(u32) -> Link) -> Links {
    Box::new(std::array::from_fn(|offset| link(first_of(number) + offset as u32)))
}

const fn first_of(number: usize) -> u32 {
    (number * CHUNK) as u32
}

const fn index(at: u32) -> usize {
    at as usize / CHUNK
}

const fn offset(at: u32) -> usize {
    at as usize % CHUNK
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    fn fill(store: &mut Store<u32>, count: usize) -> Vec<NodeKey> {
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
    fn two_chunks_are_kept_and_the_rest_given_back() {
        let mut store = Store::new();
        let keys = fill(&mut store, 5 * CHUNK);
        assert_eq!(store.chunks(), 5);
        for key in keys {
            store.release(key);
        }
        assert_eq!(store.chunks(), 2, "an empty one, and the one of the spare key");
        assert_eq!(fill(&mut store, 2 * CHUNK).len(), 2 * CHUNK);
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
