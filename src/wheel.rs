//! A hierarchical timing wheel over exact deadlines.
//!
//! Eleven levels of 64 slots, six bits of the 64-bit tick to a level, so that there is no horizon:
//! every tick has a slot. An entry lies on the level of the highest six-bit digit in which its
//! deadline differs from `elapsed`, in the slot of its digit there (Varghese and Lauck, "Hashed and
//! Hierarchical Timing Wheels", 1987, scheme 7, on a tick of one nanosecond). It follows that:
//!
//! - entries of a lower level are due before those of a higher one, and within a level slots are
//!   due in order, so the first occupied slot of the first occupied level holds the earliest;
//! - a level-0 slot holds equal deadlines only, and since slots are lists that are appended to and
//!   drained in order, equal deadlines expire in the order they were filed;
//! - `elapsed` may jump to any tick before the first occupied slot; no entry changes its slot.
//!
//! Each slot keeps a lower bound of its deadlines, so the driver can wait for a far timer's exact
//! deadline instead of waking as each level comes round. A slot whose start has come is taken out
//! whole, as the `draining` list, and emptied entry by entry: what is due expires, the rest is
//! filed again at a finer level. That can stop and go on at any entry, which is what bounds the
//! time a shard's lock is held.
//!
//! This module knows no clock, waker, atomic or thread, and has no unsafe code.

use std::fmt;

use crate::tick::Tick;

#[cfg(any(fuzzing, all(test, not(tourbillon_model))))]
pub(crate) mod model;
mod store;
#[cfg(all(test, not(tourbillon_model)))]
mod tests;

use store::Store;

/// Bits of a tick that select the slot within one level.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = u64::BITS.div_ceil(BITS) as usize;

/// The list being emptied; the heads before it are the slots.
const DRAINING: u32 = (LEVELS * SLOTS) as u32;
const HEADS: usize = LEVELS * SLOTS + 1;

/// The value of [`Wheel::draining_shift`] between slots.
const NOT_DRAINING: u32 = u32::MAX;

/// Links of a draining list that are read ahead: as many as the processor's own cache has room for.
const READ_AHEAD: u32 = 1 << 13;

/// No link.
const NIL: u32 = u32::MAX;

/// Names an entry of one wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeKey(u32);

/// A list head, or an entry's links in a list. Named by a number: a slot's, [`DRAINING`], or from
/// there on an entry's key.
#[derive(Clone, Copy)]
struct Link {
    /// Of an entry: the deadline it is filed under. Of a head: no later than any in its list.
    filed: Tick,
    next: u32,
    prev: u32,
}

impl Link {
    const DETACHED: Self = Self { filed: Tick::NEVER, next: NIL, prev: NIL };

    /// The head of an empty list.
    const fn head(at: u32) -> Self {
        Self { filed: Tick::NEVER, next: at, prev: at }
    }
}

/// What became of an entry whose filed deadline has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// It left the wheel.
    Expired,
    /// Its deadline has moved to this later tick; it stays.
    Postponed(Tick),
}

/// How far a [`Wheel::turn`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turned {
    /// Everything that is due has been handed out.
    Completely,
    /// The allowance ran out first; turn again.
    Partly,
}

/// What one [`Wheel::turn`] may do before it has to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// Entries handed out.
    pub(crate) expiries: usize,
    /// Entries filed again.
    pub(crate) moves: usize,
}

impl Allowance {
    #[cfg(all(test, not(tourbillon_model)))]
    pub(crate) const UNLIMITED: Self = Self { expiries: usize::MAX, moves: usize::MAX };
}

/// The wheel, and the storage of its entries. In this order in memory; see
/// [`Engine`](crate::engine::Engine).
#[repr(C)]
pub(crate) struct Wheel<T> {
    /// Ticks up to here have been turned. Every entry's slot follows from it.
    elapsed: Tick,
    /// Entries filed.
    len: usize,
    /// While a slot is being emptied, by how much to shift a tick to tell which slot of that level
    /// it belongs to; otherwise so much that no tick belongs.
    draining_shift: u32,
    /// One bit per level that has an occupied slot.
    levels: u32,
    store: Store<T>,
    /// One bit per occupied slot.
    slots: [u64; LEVELS],
    /// How far the draining list has been [read ahead](Self::read_ahead). Names an entry that may
    /// have left that list since, or the wheel.
    read: u32,
    /// How many more links of it may be.
    unread: u32,
}

impl<T> Wheel<T> {
    /// Creates an empty wheel at `elapsed`.
    pub(crate) fn new(elapsed: Tick) -> Self {
        Self {
            elapsed,
            len: 0,
            draining_shift: NOT_DRAINING,
            levels: 0,
            store: Store::new(),
            slots: [0; LEVELS],
            read: DRAINING,
            unread: 0,
        }
    }

    /// Number of entries filed.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The storage, to allocate and release entries and to read their values.
    pub(crate) fn store(&mut self) -> &mut Store<T> {
        &mut self.store
    }

    /// The value of the entry `key`.
    pub(crate) fn value(&self, key: NodeKey) -> &T {
        self.store.value(key)
    }

    /// A lower bound of all filed deadlines; `None` when there is none but [`Tick::NEVER`].
    ///
    /// Exact unless the earliest entry of the first slot was removed since that slot was filled.
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        if self.store.link(DRAINING).next != DRAINING {
            return Some(self.elapsed);
        }
        let bound = self.store.link(self.first_slot()?).filed;
        (bound != Tick::NEVER).then_some(bound)
    }

    /// The earliest filed deadline, found by walking the first slot; `None` as above.
    pub(crate) fn earliest(&mut self) -> Option<Tick> {
        let draining = self.walk(DRAINING).min();
        let first = self.first_slot().and_then(|head| {
            let exact = self.walk(head).min()?;
            self.store.link_mut(head).filed = exact;
            Some(exact)
        });
        draining.into_iter().chain(first).min().filter(|earliest| *earliest != Tick::NEVER)
    }

    /// The entry to be handed out first, found by walking the first slot; `None` as above.
    pub(crate) fn first(&self) -> Option<NodeKey> {
        // What was filed again out of the draining list was ahead of its equals there.
        let first = self.first_slot().into_iter().flat_map(|head| self.walk_keys(head));
        let (filed, key) = first.chain(self.walk_keys(DRAINING)).min_by_key(|(filed, _)| *filed)?;
        (filed != Tick::NEVER).then_some(key)
    }

    /// Files the detached entry `key` under `deadline`.
    ///
    /// A deadline already turned past is handed out by the next turn. One that belongs to the slot
    /// that is being emptied goes to the end of that list, behind equal ones that are still in it.
    #[inline(always)]
    pub(crate) fn insert(&mut self, key: NodeKey, deadline: Tick) {
        let apart = deadline.max(self.elapsed).raw() ^ self.elapsed.raw();
        if self.draining_shift != NOT_DRAINING && apart >> self.draining_shift == 0 {
            self.append(DRAINING, key, deadline);
        } else {
            self.file(key, deadline);
        }
    }

    /// Files the detached entry `key` in the slot of `deadline`.
    #[inline(always)]
    fn file(&mut self, key: NodeKey, deadline: Tick) {
        let (level, slot) = self.slot_of(deadline);
        self.levels |= 1 << level;
        self.slots[level] |= 1 << slot;
        self.append((level * SLOTS + slot) as u32, key, deadline);
    }

    #[inline(always)]
    fn append(&mut self, head: u32, key: NodeKey, deadline: Tick) {
        let anchor = self.store.link_mut(head);
        anchor.filed = if anchor.next == head { deadline } else { anchor.filed.min(deadline) };
        let last = std::mem::replace(&mut anchor.prev, key.0);
        self.store.link_mut(last).next = key.0;
        *self.store.link_mut(key.0) = Link { filed: deadline, next: head, prev: last };
        self.len += 1;
    }

    /// Takes the filed entry `key` out of its list.
    #[inline]
    pub(crate) fn remove(&mut self, key: NodeKey) {
        let Link { next, prev, .. } = *self.store.link(key.0);
        if cfg!(debug_assertions) {
            assert!(next != NIL && prev != NIL, "{key:?} is not filed");
            *self.store.link_mut(key.0) = Link::DETACHED;
        }
        self.store.link_mut(prev).next = next;
        self.store.link_mut(next).prev = prev;
        // Both neighbours are the same link only if that is the head of a list now empty.
        if next == prev && next < DRAINING {
            self.vacate(next);
        }
        self.len -= 1;
    }

    /// Advances to `now`, handing every entry filed at or before it to `due` once it is out of its
    /// list, slot by slot, and in filing order where deadlines are equal.
    ///
    /// If `now` is before the last one, entries filed between the two stay filed until their
    /// deadline has come again. After `Partly`, call again with the same `now`.
    pub(crate) fn turn(
        &mut self,
        now: Tick,
        mut allowance: Allowance,
        mut due: impl FnMut(&T) -> Due,
    ) -> Turned {
        loop {
            while let Some((key, filed)) = self.first_draining() {
                if allowance.expiries == 0 || allowance.moves == 0 {
                    return Turned::Partly;
                }
                self.read_ahead();
                self.remove(key);
                if filed > now {
                    allowance.moves -= 1;
                    self.file(key, filed);
                    continue;
                }
                match due(self.store.value(key)) {
                    Due::Expired => allowance.expiries -= 1,
                    Due::Postponed(later) => {
                        allowance.moves -= 1;
                        self.insert(key, later);
                    }
                }
            }
            self.draining_shift = NOT_DRAINING;
            if !self.drain_first_slot(now) {
                self.elapsed = now.max(self.elapsed);
                return Turned::Completely;
            }
        }
    }

    /// Moves the first slot into the empty draining list if it begins by `now`, or has something
    /// due then: after a `now` that stepped back, its deadlines may lie before it begins.
    fn drain_first_slot(&mut self, now: Tick) -> bool {
        let Some(head) = self.first_slot() else { return false };
        let (level, slot) = (head as usize / SLOTS, head as usize % SLOTS);
        let start = self.start_of(level, slot);
        if start > now && self.store.link(head).filed > now {
            return false;
        }
        // INVARIANT: the first slot begins no later than any filed deadline, so `elapsed` passes
        // none; a slot that holds deadlines of the past begins at `elapsed` itself.
        self.elapsed = start.max(self.elapsed);
        self.draining_shift = BITS * level as u32;
        let Link { next, prev, .. } =
            std::mem::replace(self.store.link_mut(head), Link::head(head));
        self.vacate(head);
        self.store.link_mut(next).prev = DRAINING;
        self.store.link_mut(prev).next = DRAINING;
        let draining = self.store.link_mut(DRAINING);
        (draining.next, draining.prev) = (next, prev);
        (self.read, self.unread) = (DRAINING, READ_AHEAD);
        true
    }

    /// Reads one more link of the draining list, from its end towards its front, so that it is in
    /// the processor's cache when its turn comes.
    ///
    /// The list's links lie far apart, and only the link before says where the next one is. So
    /// emptying a long list waits for memory. From both ends, two cache misses overlap.
    #[inline]
    fn read_ahead(&mut self) {
        if self.unread > 0 {
            self.unread -= 1;
            self.read = self.store.try_link(self.read).map_or(DRAINING, |link| link.prev);
        }
    }

    fn first_draining(&self) -> Option<(NodeKey, Tick)> {
        let first = self.store.link(DRAINING).next;
        (first != DRAINING).then(|| (NodeKey(first), self.store.link(first).filed))
    }

    /// The head of the occupied slot that begins first.
    fn first_slot(&self) -> Option<u32> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.slots[level].trailing_zeros() as usize;
        Some((level * SLOTS + slot) as u32)
    }

    fn start_of(&self, level: usize, slot: usize) -> Tick {
        let shift = BITS * level as u32;
        let above = u64::MAX.checked_shl(shift + BITS).unwrap_or(0);
        Tick::from_raw(self.elapsed.raw() & above | (slot as u64) << shift)
    }

    #[inline]
    fn slot_of(&self, deadline: Tick) -> (usize, usize) {
        let at = deadline.max(self.elapsed).raw();
        let level = ((at ^ self.elapsed.raw()) | 1).ilog2() / BITS;
        (level as usize, (at >> (BITS * level)) as usize % SLOTS)
    }

    #[inline]
    fn vacate(&mut self, head: u32) {
        let (level, slot) = (head as usize / SLOTS, head as usize % SLOTS);
        self.slots[level] &= !(1 << slot);
        if self.slots[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// The filed deadlines of one list, in order.
    fn walk(&self, head: u32) -> impl Iterator<Item = Tick> {
        self.walk_keys(head).map(|(filed, _)| filed)
    }

    /// The same with their entries.
    fn walk_keys(&self, head: u32) -> impl Iterator<Item = (Tick, NodeKey)> {
        let mut at = self.store.link(head).next;
        std::iter::from_fn(move || {
            (at != head).then(|| {
                let (link, key) = (self.store.link(at), NodeKey(at));
                at = link.next;
                (link.filed, key)
            })
        })
    }
}

impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Wheel");
        shown.field("elapsed", &self.elapsed).field("len", &self.len);
        for (level, slots) in self.slots.iter().enumerate().filter(|(_, slots)| **slots != 0) {
            shown.field(&format!("level {level}"), &format_args!("{slots:#066b}"));
        }
        shown.finish()
    }
}
