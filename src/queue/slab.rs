//! A slab: slots are reused, keys are not.

use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::ops::Range;

use crate::queue::Key;
use crate::tick::Tick;

/// Entries a queue may hold: numbers of 32 bits tell so many apart, with room to spare for the
/// wheel's.
pub(crate) const ENTRIES: usize = 1 << 31;

/// No slot.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// The entries of one queue. `P` is the note that its order keeps of each.
pub(crate) struct Slab<T, P> {
    slots: Vec<Place<T, P>>,
    /// First free slot, chained through [`Place::Free`].
    free: u32,
    /// Entries there are.
    len: usize,
    /// Entries there ever were, and so the serial of the last. Not set back by `clear`.
    serials: u64,
}

enum Place<T, P> {
    /// And the next free slot.
    Free(u32),
    Taken(Item<T, P>),
}

pub(crate) struct Item<T, P> {
    /// No other entry of the queue has or had it.
    pub(crate) serial: NonZeroU64,
    pub(crate) deadline: Tick,
    pub(crate) position: P,
    pub(crate) value: T,
}

impl<T, P> Slab<T, P> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: NO_SLOT, len: 0, serials: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Room for so many entries more than there are.
    pub(crate) fn reserve(&mut self, additional: usize) {
        let free = self.slots.len() - self.len;
        self.slots.reserve(additional.saturating_sub(free));
    }

    /// Returns the place of the entry of `key`, if it is still there.
    #[inline]
    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        match self.slots.get(key.index as usize) {
            Some(Place::Taken(entry)) if entry.serial == key.serial => Some(key.index),
            _ => None,
        }
    }

    pub(crate) fn key(&self, index: u32) -> Key {
        Key { index, serial: self.entry(index).serial }
    }

    #[inline]
    pub(crate) fn entry(&self, index: u32) -> &Item<T, P> {
        match &self.slots[index as usize] {
            Place::Taken(entry) => entry,
            Place::Free(_) => unreachable!("slot {index} is free"),
        }
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, index: u32) -> &mut Item<T, P> {
        match &mut self.slots[index as usize] {
            Place::Taken(entry) => entry,
            Place::Free(_) => unreachable!("slot {index} is free"),
        }
    }

    /// # Panics
    ///
    /// When there are [`ENTRIES`] entries.
    #[inline]
    pub(crate) fn insert(&mut self, value: T, deadline: Tick, position: P) -> u32 {
        assert!(self.len < ENTRIES, "a queue holds at most {ENTRIES} entries");
        self.serials += 1;
        let serial = NonZeroU64::new(self.serials).expect("2^64 entries take 500 years to insert");
        let entry = Place::Taken(Item { serial, deadline, position, value });
        let index = if self.free == NO_SLOT {
            self.slots.push(entry);
            (self.slots.len() - 1) as u32
        } else {
            let index = self.free;
            let slot = core::mem::replace(&mut self.slots[index as usize], entry);
            let Place::Free(next) = slot else { unreachable!("slot {index} is taken") };
            self.free = next;
            index
        };
        self.len += 1;
        index
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Item<T, P> {
        match core::mem::replace(&mut self.slots[index as usize], Place::Free(self.free)) {
            Place::Taken(entry) => {
                self.free = index;
                self.len -= 1;
                entry
            }
            Place::Free(_) => unreachable!("slot {index} is free"),
        }
    }

    /// Drops all values, and keeps their room. Empty even if a drop panics.
    pub(crate) fn clear(&mut self) {
        self.free = NO_SLOT;
        self.len = 0;
        self.slots.clear();
    }

    /// The indices that there are, of entries and of free slots.
    pub(crate) fn indices(&self) -> Range<u32> {
        0..self.slots.len() as u32
    }

    /// The key of the entry at `index`; `None` if the slot is free.
    pub(crate) fn key_at(&self, index: u32) -> Option<Key> {
        match &self.slots[index as usize] {
            Place::Taken(entry) => Some(Key { index, serial: entry.serial }),
            Place::Free(_) => None,
        }
    }

    /// Takes all entries out, and keeps their room. Dropping the iterator drops the rest.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u32, Item<T, P>)> {
        self.free = NO_SLOT;
        self.len = 0;
        (0..).zip(self.slots.drain(..)).filter_map(|(index, slot)| match slot {
            Place::Taken(entry) => Some((index, entry)),
            Place::Free(_) => None,
        })
    }

    /// Gives back the room behind the last entry. No entry moves, so all keys stay valid.
    pub(crate) fn shrink_to_fit(&mut self) {
        while matches!(self.slots.last(), Some(Place::Free(_))) {
            self.slots.pop();
        }
        self.slots.shrink_to_fit();
        self.free = NO_SLOT;
        for (index, slot) in self.slots.iter_mut().enumerate().rev() {
            if let Place::Free(next) = slot {
                *next = core::mem::replace(&mut self.free, index as u32);
            }
        }
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    #[test]
    fn free_places_are_used_again_the_last_one_first() {
        let mut slab = Slab::<_, ()>::new();
        let places = [(); 4].map(|()| slab.insert('a', Tick::NEVER, ()));
        for _ in 0..100 {
            slab.remove(places[1]);
            slab.remove(places[3]);
            let again = [(); 2].map(|()| slab.insert('b', Tick::NEVER, ()));
            assert_eq!(again, [places[3], places[1]]);
        }
        assert_eq!((slab.len(), slab.slots.len()), (4, 4));
    }
}
