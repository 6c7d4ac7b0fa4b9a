//! A hierarchical timing wheel over exact deadlines.
//!
//! Eleven levels of 64 slots, six bits of the 64-bit tick to a level, so that there is no horizon:
//! every tick has a slot. An entry lies on the level of the highest six-bit digit in which its
//! deadline differs from `elapsed`, in the slot of its digit there (Varghese and Lauck, "Hashed and
//! Hierarchical Timing Wheels", 1987, scheme 7, on a tick of one nanosecond).
//!
//! | level | a slot spans | all slots of the level span |
//! |---|---|---|
//! | 0 | 1 ns | 64 ns |
//! | 1 | 64 ns | 4.1 us |
//! | 2 | 4.1 us | 262.1 us |
//! | 3 | 262.1 us | 16.8 ms |
//! | 4 | 16.8 ms | 1.1 s |
//! | 5 | 1.1 s | 1.1 min |
//! | 6 | 1.1 min | 1.2 h |
//! | 7 | 1.2 h | 3.3 days |
//! | 8 | 3.3 days | 208.5 days |
//! | 9 | 208.5 days | 36.5 years |
//! | 10 | 36.5 years | 584.5 years |
//!
//! Level 10 has 16 slots, for the last four bits. From the rule for slots it follows that:
//!
//! - entries of a lower level are due before all entries of a higher level, and within a level
//!   slots are due in order, so the first occupied slot of the first occupied level holds the
//!   earliest;
//! - a level-0 slot holds equal deadlines only, and since slots are appended to and drained in
//!   order, equal deadlines expire in the order they were filed;
//! - `elapsed` may jump to any tick before the first occupied slot; no entry changes its slot.
//!
//! A turn may hand out an entry from its deadline on, and has to from its `due_by` on, the same
//! tick or a later one. (In Linux' hrtimers they are the soft and the hard expiry.) Entries lie by
//! their deadlines. Each slot keeps a lower bound of the ticks by which its entries are to be
//! handed out, so the driver can wait for exactly the first of them, instead of waking as each
//! level comes round. That first one is in a slot that begins no later, so it is found without a
//! look at the others. A slot whose start has come becomes the `draining` list as a whole, and is
//! emptied entry by entry: due entries expire, the others are filed again at a finer level. That
//! can stop and continue at any entry, and so bounds the time that a shard's lock is held. The rest
//! of a crowd may be [set aside](Wheel::set_aside) then, so that no other timer waits until the
//! whole of it is filed again, at the price of the order of equal deadlines.
//!
//! A slot is a list of [`Block`]s, and a block is a cache line of keys. So a removal writes to one
//! such line and to no neighbour, and the processor fetches the entries of a block all at once when
//! a slot is emptied. A list of linked entries costs twice as much in both. An emptied place is not
//! used again, to keep the order of equal deadlines: a timer that stays may keep a block to itself.
//!
//! Not done: nodes in the futures, which would take pinning, and unsafe code here; cancelled
//! entries that stay until their deadline, since memory would grow as rate times timeout; and a
//! crowd that is filed again before its slot begins, in a second set of slots. That would keep the
//! order, and spare the members of the crowd that are due first, if it were through by then.
//!
//! This module knows no clock, waker or thread, and has no unsafe code. Its only atomics are cells
//! in shared memory ([`Number`]).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::tick::Tick;

#[cfg(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"),
    all(test, not(tourbillon_model))
))]
pub(crate) mod heap;
#[cfg(any(fuzzing, all(test, not(tourbillon_model))))]
pub(crate) mod model;
mod store;
#[cfg(all(test, not(tourbillon_model)))]
mod tests;

pub(crate) use store::NodeKey;
use store::{NIL, Number, Pooled, Store, missing};

/// Bits of a tick that select the slot within one level.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = u64::BITS.div_ceil(BITS) as usize;

/// The number of the first list head: no block's is as large. One to each slot follow, and
/// [`DRAINING`].
const FIRST_HEAD: u32 = u32::MAX - 1023;

/// The list being emptied.
const DRAINING: u32 = FIRST_HEAD + (LEVELS * SLOTS) as u32;

/// Heads that are made together, once any of them is needed.
const HEADS: usize = 16;

/// The value of [`Wheel::draining_shift`] between slots.
const NOT_DRAINING: u32 = u32::MAX;

/// Entries that are taken back together, and keys that are ready to be handed out. The models have
/// few timers, and a processor without an operating system has no cache to fetch ahead for.
const DISCARDS: usize =
    if cfg!(any(target_os = "none", all(test, tourbillon_model))) { 1 } else { 16 };

/// Keys to a block: as many as fit on a cache line with the block's own data. The models, of a few
/// timers each, have lists of several blocks all the same.
const KEYS: usize = if cfg!(all(test, tourbillon_model)) { 2 } else { 13 };

/// Stands for the tick of a place without a key: earlier than all that an entry may have.
const EMPTIED: Tick = Tick::from_raw(0);
const _: () = assert!(EMPTIED.raw() < Tick::PAST.raw());

/// Entry that a wheel can file.
pub(crate) trait Timed {
    /// The wheel's part of the entry, as [`Place::new`] made it.
    fn place(&self) -> &Place;

    /// The tick that it is to be handed out by: the tick in force as it was filed, or a later one.
    fn due_by(&self) -> Tick;

    /// The deadline that goes with `due_by`, and is no later.
    #[inline(always)]
    fn deadline(&self, due_by: Tick) -> Tick {
        due_by
    }
}

/// The wheel's part of an entry: where it is filed, or else its key.
///
/// The place of an entry that is not handed out belongs to the store.
#[derive(Debug)]
pub(crate) struct Place(Number);

impl Place {
    pub(crate) const fn new() -> Self {
        Self(Number::new(NIL))
    }

    /// Notes where the entry is filed.
    #[inline(always)]
    pub(crate) fn file(&self, filed: Filed) {
        self.0.set(filed.0);
    }

    /// Returns where the entry is filed. Call it for filed entries only.
    #[inline(always)]
    pub(crate) fn filed(&self) -> Filed {
        Filed(self.0.get())
    }

    /// Notes the key of an entry that is not filed.
    #[inline(always)]
    pub(crate) fn leave(&self, key: NodeKey) {
        self.0.set(key.0);
    }

    /// The entry's key, once it is filed no more.
    #[inline(always)]
    pub(crate) fn key(&self) -> NodeKey {
        NodeKey(self.0.get())
    }
}

/// Names a place in a block: the block's number, and in the last bits an index in it.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Filed(u32);

impl Filed {
    const BITS: u32 = KEYS.next_power_of_two().ilog2();

    #[inline(always)]
    fn at(block: u32, index: usize) -> Self {
        Self(block << Self::BITS | index as u32)
    }

    #[inline(always)]
    fn block(self) -> u32 {
        self.0 >> Self::BITS
    }

    #[inline(always)]
    fn index(self) -> usize {
        (self.0 & ((1 << Self::BITS) - 1)) as usize
    }
}

impl<T: Timed> Pooled for T {
    const FIRST: usize = 8;

    #[inline(always)]
    fn next_free(&self) -> &Number {
        &self.place().0
    }
}

/// A part of a list: keys in filing order.
#[repr(align(64))]
struct Block {
    /// The next block of the list, or its head. Of a free block, the next free one.
    next: Number,
    prev: Number,
    /// Number of places that were filled, but for the last ones if they were emptied again, times
    /// [`FILLED`]; plus the number of keys.
    filled_and_keys: Number,
    /// A place that was emptied holds [`NIL`].
    keys: [Number; KEYS],
}

/// Amount that a filled place adds to [`Block::filled_and_keys`].
const FILLED: u32 = 256;

impl Block {
    const fn new() -> Self {
        Self {
            next: Number::new(NIL),
            prev: Number::new(NIL),
            filled_and_keys: Number::new(0),
            keys: [const { Number::new(NIL) }; KEYS],
        }
    }

    /// Puts a first key into an empty block: the new last block of a list, after `prev`.
    #[inline(always)]
    fn begin(&self, head: u32, prev: u32, key: NodeKey) {
        self.next.set(head);
        self.prev.set(prev);
        self.keys[0].set(key.0);
        self.filled_and_keys.set(FILLED + 1);
    }

    /// Puts a key in the first place that was not filled, and says which. `None` if there is none.
    #[inline(always)]
    fn push(&self, key: NodeKey) -> Option<usize> {
        let before = self.filled_and_keys.get();
        let index = (before / FILLED) as usize;
        self.keys.get(index)?.set(key.0);
        self.filled_and_keys.set(before + FILLED + 1);
        Some(index)
    }

    /// Empties a place. Returns its key, and whether the block is empty now.
    #[inline(always)]
    fn take(&self, index: usize) -> (NodeKey, bool) {
        let key = self.keys[index].get();
        debug_assert!(self.key(index).is_some(), "removed twice");
        self.keys[index].set(NIL);
        let before = self.filled_and_keys.get();
        let is_last = index as u32 + 1 == before / FILLED;
        let after = before - 1 - if is_last { FILLED } else { 0 };
        self.filled_and_keys.set(after);
        (NodeKey(key), after % FILLED == 0)
    }

    /// Returns the key in a place.
    #[inline(always)]
    fn key(&self, index: usize) -> Option<NodeKey> {
        let number = self.filled().get(index)?.get();
        (number != NIL).then_some(NodeKey(number))
    }

    /// The places that were filled, in order.
    #[inline(always)]
    fn filled(&self) -> &[Number] {
        let filled = (self.filled_and_keys.get() / FILLED) as usize;
        &self.keys[..filled.min(KEYS)]
    }
}

impl Pooled for Block {
    const FIRST: usize = 2;

    #[inline(always)]
    fn next_free(&self) -> &Number {
        &self.next
    }
}

/// A list of blocks: a slot, or the one being emptied.
struct Head {
    /// No later than the tick by which any entry of the list is to be handed out. Of an empty one,
    /// any.
    bound: Tick,
    /// Numbers of blocks. Of an empty list, both are the head's own.
    first: u32,
    last: u32,
}

impl Head {
    const fn empty(at: u32) -> Self {
        Self { bound: Tick::NEVER, first: at, last: at }
    }
}

/// When a wheel allocates the list heads of its slots, 11 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// With the first entry that is filed. From then on, filing and removing entries one by one
    /// allocates nothing.
    Ahead,
    /// Sixteen at a time, with the first entry of each.
    AsNeeded,
}

/// All list heads.
struct Heads {
    memory: Memory,
    slots: [Option<Box<[Head; HEADS]>>; LEVELS * SLOTS / HEADS],
    draining: Head,
}

impl Heads {
    const fn new(memory: Memory) -> Self {
        let slots = [const { None }; LEVELS * SLOTS / HEADS];
        Self { memory, slots, draining: Head::empty(DRAINING) }
    }

    /// The head `at`. If it is a slot's, the slot was filled at some time.
    #[inline(always)]
    fn get(&self, at: u32) -> &Head {
        let index = (at - FIRST_HEAD) as usize;
        match self.slots.get(index / HEADS) {
            Some(Some(group)) => &group[index % HEADS],
            Some(None) => missing(),
            None => &self.draining,
        }
    }

    /// The head `at`; makes it if it is not there.
    #[inline(always)]
    fn get_mut(&mut self, at: u32) -> &mut Head {
        let index = (at - FIRST_HEAD) as usize;
        if self.slots.get(index / HEADS).is_some_and(Option::is_none) {
            self.make(index / HEADS);
        }
        match self.slots.get_mut(index / HEADS) {
            Some(group) => &mut group.as_mut().expect("it has just been made")[index % HEADS],
            None => &mut self.draining,
        }
    }

    /// The head `at` of a list that has an entry, or had one.
    #[inline(always)]
    fn used_mut(&mut self, at: u32) -> &mut Head {
        let index = (at - FIRST_HEAD) as usize;
        match self.slots.get_mut(index / HEADS) {
            Some(Some(group)) => &mut group[index % HEADS],
            Some(None) => missing(),
            None => &mut self.draining,
        }
    }

    /// Makes a group of heads, and perhaps the others.
    #[cold]
    fn make(&mut self, group: usize) {
        let needed = |index: usize| self.memory == Memory::Ahead || index == group;
        for (index, heads) in self.slots.iter_mut().enumerate().filter(|(index, _)| needed(*index))
        {
            let first = FIRST_HEAD + (index * HEADS) as u32;
            let head = |offset| Head::empty(first + offset as u32);
            *heads = Some(Box::new(core::array::from_fn(head)));
        }
    }
}

/// Progress of a [`Wheel::turn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turned {
    /// Everything that is due has been handed out.
    Completely,
    /// The allowance ran out first; turn again.
    Partly,
}

/// Limit on the work of one [`Wheel::turn`].
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
    /// Number of entries in `discarded`.
    discards: u32,
    /// To allocate and release entries, and to read their values.
    pub(crate) entries: Store<T, DISCARDS>,
    blocks: Store<Block, 1>,
    /// Tick up to which entries are handed out of the slot that is being emptied. The rest is filed
    /// again, also if a later turn continues with the slot, so entries that are due between the two
    /// keep their order.
    draining_to: Tick,
    /// One bit per occupied slot.
    slots: [u64; LEVELS],
    /// Places of the entries that are to be taken back.
    discarded: [Filed; DISCARDS],
    heads: Heads,
    /// One bit per level that has a list that was [set aside](Self::set_aside), or had one.
    aside: u32,
}

impl<T: Timed> Wheel<T> {
    /// Creates an empty wheel at `elapsed`.
    pub(crate) const fn new(elapsed: Tick, memory: Memory) -> Self {
        Self {
            elapsed,
            len: 0,
            draining_shift: NOT_DRAINING,
            levels: 0,
            discards: 0,
            entries: Store::new(),
            blocks: Store::new(),
            draining_to: elapsed,
            slots: [0; LEVELS],
            discarded: [Filed(NIL); DISCARDS],
            heads: Heads::new(memory),
            aside: 0,
        }
    }

    /// Number of entries filed.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A lower bound of the ticks by which entries are to be handed out; `None` when there is none
    /// but [`Tick::NEVER`].
    ///
    /// Exact unless an entry was removed or postponed since its slot was filled. An entry that is
    /// discarded and not taken back is removed, but its slot still counts.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        if self.heads.draining.first != DRAINING {
            return Some(self.elapsed);
        }
        let mut next = Tick::NEVER;
        let mut slot = self.first_slot();
        while let Some(head) = slot.filter(|head| self.start_of(*head) < next) {
            next = next.min(self.heads.get(head).bound);
            slot = self.slot_after(head);
        }
        (next != Tick::NEVER).then_some(next)
    }

    /// The earliest tick that an entry is to be handed out by. Walks the slots that begin before
    /// it; `None` as above.
    ///
    /// Exact unless all entries of such a slot are postponed to after it; then that is the bound.
    pub(crate) fn first_due(&mut self) -> Option<Tick> {
        self.take_back_discarded();
        let mut next = Tick::NEVER;
        for key in self.keys_in(DRAINING) {
            next = next.min(self.entries.value(key).due_by());
        }
        let mut slot = self.first_slot();
        while let Some(head) = slot.filter(|head| self.start_of(*head) < next) {
            if self.heads.get(head).bound < next {
                let (mut deadline, mut due_by) = (Tick::NEVER, Tick::NEVER);
                for entry in self.keys_in(head).map(|key| self.entries.value(key)) {
                    let own = entry.due_by();
                    due_by = due_by.min(own);
                    deadline = deadline.min(entry.deadline(own));
                }
                let end = self.end_of(head);
                let bound = if deadline > end { end } else { due_by };
                self.heads.get_mut(head).bound = bound;
                next = next.min(bound);
            }
            slot = self.slot_after(head);
        }
        (next != Tick::NEVER).then_some(next)
    }

    /// No later than any deadline, once a turn is complete, unless the clock has stepped back since
    /// it was filed; `None` if nothing is filed.
    pub(crate) fn next_start(&self) -> Option<Tick> {
        self.first_slot().map(|head| self.start_of(head))
    }

    /// The entry to be handed out first. Walks the first slot with an entry; `None` as above. Only
    /// if none is postponed.
    pub(crate) fn first(&self) -> Option<NodeKey> {
        let slots = core::iter::successors(self.first_slot(), |head| self.slot_after(*head));
        // An entry filed again out of the draining list was ahead of its equals there.
        let first = slots.map(|head| self.first_in(head)).find(Option::is_some).flatten();
        let firsts = first.into_iter().chain(self.first_in(DRAINING));
        let (deadline, key) = firsts.min_by_key(|(deadline, _)| *deadline)?;
        (deadline != Tick::NEVER).then_some(key)
    }

    /// Returns whether [`first`](Self::first) walks past no more than `most` entries.
    pub(crate) fn finds_first_within(&self, most: usize) -> bool {
        let is_left = |key| !self.is_discarded(self.entries.value(key).place().filed());
        let slot = core::iter::successors(self.first_slot(), |head| self.slot_after(*head))
            .find(|head| self.keys_in(*head).any(is_left));
        let lists = slot.into_iter().chain([DRAINING]);
        lists.flat_map(|head| self.keys_in(head)).nth(most).is_none()
    }

    /// The entries to be handed out first, in reverse order: at most `most` (not 0), and all others
    /// are handed out after them. Walks the first slot that has any; empty if
    /// [`first`](Self::first) is `None`. Only if none is postponed.
    pub(crate) fn firsts(&self, most: usize) -> Vec<(Tick, NodeKey)> {
        let mut firsts = Firsts::new(most);
        let slot =
            core::iter::successors(self.first_slot(), |head| self.slot_after(*head)).find(|head| {
                self.look_for_firsts(*head, Tick::LAST, &mut firsts);
                !firsts.found.is_empty()
            });
        // Later ones may come after entries of the next slot.
        let end = slot.map_or(Tick::LAST, |head| self.end_of(head));
        self.look_for_firsts(DRAINING, end, &mut firsts);
        firsts.in_reverse()
    }

    /// Adds the entries of a list whose deadlines are no later than `end`.
    fn look_for_firsts(&self, head: u32, end: Tick, firsts: &mut Firsts) {
        for key in self.keys_in(head) {
            let entry = self.entries.value(key);
            let deadline = entry.deadline(entry.due_by());
            if deadline < firsts.limit
                && deadline <= end
                && !self.is_discarded(entry.place().filed())
            {
                firsts.add(deadline, key);
            }
        }
    }

    /// Files the unfiled entry `key` under `deadline`, to be handed out by `due_by`. The caller
    /// notes the result in its [place](Place::file).
    ///
    /// A deadline already turned past is handed out by the next turn. An entry of the slot that is
    /// being emptied goes to the end of that list, behind its equals there.
    ///
    /// # Panics
    ///
    /// When 2^28 entries are filed, or fewer if many were removed.
    #[cfg_attr(not(any(target_family = "wasm", target_os = "none")), inline(always))]
    pub(crate) fn insert(&mut self, key: NodeKey, deadline: Tick, due_by: Tick) -> Filed {
        let apart = deadline.max(self.elapsed).raw() ^ self.elapsed.raw();
        if self.draining_shift != NOT_DRAINING && apart >> self.draining_shift == 0 {
            self.append(DRAINING, key, due_by)
        } else {
            self.file(key, deadline, due_by)
        }
    }

    /// Files the entry `key` in the slot of `deadline`.
    #[inline(always)]
    fn file(&mut self, key: NodeKey, deadline: Tick, due_by: Tick) -> Filed {
        let (level, slot) = self.slot_of(deadline);
        let filed = self.append(head_of(level, slot), key, due_by);
        // Another processor may have the line of a slot's bit: it is written if that changes.
        if self.slots[level] & 1 << slot == 0 {
            self.levels |= 1 << level;
            self.slots[level] |= 1 << slot;
        }
        filed
    }

    #[inline(always)]
    fn append(&mut self, at: u32, key: NodeKey, due_by: Tick) -> Filed {
        let head = self.heads.get_mut(at);
        let last = head.last;
        if last == at {
            head.bound = due_by;
        } else {
            head.bound = head.bound.min(due_by);
            if let Some(index) = self.blocks.value(NodeKey(last)).push(key) {
                self.len += 1;
                return Filed::at(last, index);
            }
        }
        self.append_in_new_block(at, last, key)
    }

    /// Puts a block with `key` at the end of a list, behind `last`.
    #[cold]
    fn append_in_new_block(&mut self, at: u32, last: u32, key: NodeKey) -> Filed {
        let number = self.blocks.allocate(Block::new).0;
        assert!(number < NIL >> Filed::BITS, "2^28 blocks of timers in one shard");
        self.heads.used_mut(at).last = number;
        self.set_next(last, number);
        self.blocks.value(NodeKey(number)).begin(at, last, key);
        self.len += 1;
        Filed::at(number, 0)
    }

    /// Takes the entry that is filed there out of its list, and frees it: together with the next
    /// ones, or in the next turn. From now on it counts no more.
    ///
    /// Several at a time, because they are independent: the processor can fetch all their blocks
    /// while it waits for the first. It cannot do that across the lock of a shard. And a timer that
    /// is armed and cancelled again and again does not empty a block each time.
    #[inline(always)]
    pub(crate) fn discard(&mut self, filed: Filed) {
        self.len -= 1;
        if let Some(place) = self.discarded.get_mut(self.discards as usize) {
            *place = filed;
            self.discards += 1;
        } else {
            self.take_back_discarded();
            (self.discarded[0], self.discards) = (filed, 1);
        }
    }

    /// Does the rest of all [`discard`](Self::discard)s.
    #[inline(never)]
    pub(crate) fn take_back_discarded(&mut self) {
        if self.discards == 0 {
            return;
        }
        let discarded = self.discarded;
        for filed in &discarded[..core::mem::take(&mut self.discards) as usize] {
            let key = self.take(*filed);
            self.entries.release(key);
        }
    }

    /// Takes the entry that is filed there out of its list. Returns its key, and leaves it in its
    /// place too.
    #[inline]
    pub(crate) fn remove(&mut self, filed: Filed) -> NodeKey {
        let key = self.take(filed);
        self.len -= 1;
        self.entries.value(key).place().0.set(key.0);
        key
    }

    /// Takes the entry that is filed there out of its list, and leaves its place and the count as
    /// they are.
    #[inline(always)]
    fn take(&mut self, filed: Filed) -> NodeKey {
        let (key, empty) = self.blocks.value(NodeKey(filed.block())).take(filed.index());
        if empty {
            self.drop_block(filed.block());
        }
        key
    }

    /// Takes an empty block out of its list.
    #[cold]
    fn drop_block(&mut self, number: u32) {
        let block = self.blocks.value(NodeKey(number));
        let (next, prev) = (block.next.get(), block.prev.get());
        self.set_next(prev, next);
        self.set_prev(next, prev);
        // Both neighbours are the same only if that is the head of a list now empty.
        if next == prev && next >= FIRST_HEAD && next != DRAINING {
            self.vacate(next);
        }
        self.blocks.release(NodeKey(number));
    }

    /// Sets the next after block or head `at`.
    #[inline(always)]
    fn set_next(&mut self, at: u32, next: u32) {
        if at >= FIRST_HEAD {
            self.heads.used_mut(at).first = next;
        } else {
            self.blocks.value(NodeKey(at)).next.set(next);
        }
    }

    /// Sets the one before block or head `at`.
    #[inline(always)]
    fn set_prev(&mut self, at: u32, prev: u32) {
        if at >= FIRST_HEAD {
            self.heads.used_mut(at).last = prev;
        } else {
            self.blocks.value(NodeKey(at)).prev.set(prev);
        }
    }

    /// Advances to `now`, handing every entry whose deadline is at or before it to `due`, with the
    /// tick that it was to be handed out by, once it is out of its list, slot by slot, and in
    /// filing order where deadlines are equal and were never postponed.
    ///
    /// If `now` is before the last one, entries filed between the two stay filed until their
    /// deadline has come again; those with a tolerance up to its end. After `Partly`, call again
    /// with the same `now`.
    pub(crate) fn turn(
        &mut self,
        now: Tick,
        mut allowance: Allowance,
        mut due: impl FnMut(&T, Tick),
    ) -> Turned {
        self.take_back_discarded();
        if self.len == 0 {
            self.entries.trim();
        }
        self.draining_to = now.min(self.draining_to);
        let mut from_its_end = false;
        loop {
            while self.heads.draining.first != DRAINING {
                let Head { first, last, .. } = self.heads.draining;
                let number = if core::mem::take(&mut from_its_end) { last } else { first };
                if !self.empty_block(number, &mut allowance, &mut due) {
                    return Turned::Partly;
                }
            }
            self.draining_shift = NOT_DRAINING;
            let Some(was_aside) = self.drain_first_slot(now) else {
                self.elapsed = now.max(self.elapsed);
                return Turned::Completely;
            };
            from_its_end = was_aside;
        }
    }

    /// After a turn whose moves were spent: puts the rest of the slot back among the slots. So
    /// the next turn, perhaps at a later `now`, hands out all else that is due before it files
    /// more of these again. It begins with the last block: the last filed is likely to be due
    /// soon. Equal deadlines of such a slot are handed out in no order.
    #[cold]
    pub(crate) fn set_aside(&mut self) {
        let level = self.draining_shift / BITS;
        // Left there by a clock that stepped back, it is filed again in the same slot.
        if level > 0 {
            let at = self.slot_of_elapsed(level);
            let list = core::mem::replace(&mut self.heads.draining, Head::empty(DRAINING));
            self.link(&list, at);
            *self.heads.used_mut(at) = list;
            let (_, slot) = place_of(at);
            self.levels |= 1 << level;
            self.slots[level as usize] |= 1 << slot;
            self.aside |= 1 << level;
            self.draining_shift = NOT_DRAINING;
        }
    }

    /// Hands out or files again the entries in a block of the draining list. False if the allowance
    /// ran out first.
    fn empty_block(
        &mut self,
        number: u32,
        allowance: &mut Allowance,
        due: &mut impl FnMut(&T, Tick),
    ) -> bool {
        // All ticks first: the entries lie anywhere in memory, and so the processor fetches them at
        // the same time.
        let places = self.blocks.value(NodeKey(number)).filled();
        let filled = places.len();
        let mut ticks = [EMPTIED; KEYS];
        for (tick, place) in ticks.iter_mut().zip(places).filter(|(_, key)| key.get() != NIL) {
            *tick = self.entries.value(NodeKey(place.get())).due_by();
        }
        for (index, &due_by) in ticks[..filled].iter().enumerate() {
            if due_by == EMPTIED {
                continue;
            }
            let deadline = if due_by <= self.draining_to {
                due_by
            } else {
                self.deadline_of(number, index, due_by)
            };
            let is_due = deadline <= self.draining_to;
            if is_due && allowance.expiries == 0 || allowance.moves == 0 {
                return false;
            }
            let key = self.take(Filed::at(number, index));
            self.len -= 1;
            if is_due {
                allowance.expiries -= 1;
                let entry = self.entries.value(key);
                entry.place().0.set(key.0);
                due(entry, due_by);
            } else {
                allowance.moves -= 1;
                let filed = self.file(key, deadline, due_by);
                self.entries.value(key).place().file(filed);
            }
        }
        true
    }

    /// The deadline of an entry of a block. Not inlined: most drained entries are due by then.
    #[inline(never)]
    fn deadline_of(&self, number: u32, index: usize, due_by: Tick) -> Tick {
        let key = self.blocks.value(NodeKey(number)).key(index).expect("it is filed there");
        self.entries.value(key).deadline(due_by)
    }

    /// Moves the first slot into the empty draining list if it begins by `now`, or has an entry due
    /// by then: after a `now` that stepped back, its deadlines may lie before it begins. If not, a
    /// list that was set aside, if there is one. Says whether it is such a list.
    fn drain_first_slot(&mut self, now: Tick) -> Option<bool> {
        let mut at = self.first_slot()?;
        if self.start_of(at) > now && self.heads.get(at).bound > now {
            if self.aside == 0 {
                return None;
            }
            at = self.first_aside()?;
        }
        let (level, _) = place_of(at);
        // INVARIANT: the first slot begins no later than any filed deadline, so `elapsed` passes
        // none; a slot that holds deadlines of the past begins at `elapsed` itself. Deadlines in a
        // list that was set aside may be passed, but not beyond `now`.
        self.elapsed = self.start_of(at).max(self.elapsed);
        self.draining_shift = BITS * level as u32;
        self.draining_to = now;
        let list = core::mem::replace(self.heads.get_mut(at), Head::empty(at));
        self.link(&list, DRAINING);
        self.heads.draining = list;
        self.vacate(at);
        let was_aside = self.aside & 1 << level != 0;
        self.aside &= !(1 << level);
        Some(was_aside)
    }

    /// The list of the lowest level that was set aside and has not been emptied since.
    #[cold]
    #[inline(never)]
    fn first_aside(&mut self) -> Option<u32> {
        while self.aside != 0 {
            let at = self.slot_of_elapsed(self.aside.trailing_zeros());
            let (level, slot) = place_of(at);
            if self.slots[level] & 1 << slot != 0 {
                return Some(at);
            }
            self.aside &= self.aside - 1;
        }
        None
    }

    /// The head of the slot of a level that `elapsed` is in. No entry is filed there: a list that
    /// is set aside is.
    fn slot_of_elapsed(&self, level: u32) -> u32 {
        head_of(level as usize, (self.elapsed.raw() >> (BITS * level)) as usize % SLOTS)
    }

    /// Gives the blocks of a list that is not empty another head.
    #[inline(always)]
    fn link(&self, list: &Head, head: u32) {
        self.blocks.value(NodeKey(list.first)).prev.set(head);
        self.blocks.value(NodeKey(list.last)).next.set(head);
    }

    /// The head of the occupied slot that begins first.
    fn first_slot(&self) -> Option<u32> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.slots[level].trailing_zeros() as usize;
        Some(head_of(level, slot))
    }

    /// The head of the occupied slot that begins next after this one.
    fn slot_after(&self, head: u32) -> Option<u32> {
        let (level, slot) = place_of(head);
        let later = self.slots[level] & u64::MAX << slot << 1;
        if later != 0 {
            return Some(head_of(level, later.trailing_zeros() as usize));
        }
        let above = self.levels & u32::MAX << level << 1;
        let level = above.trailing_zeros() as usize;
        Some(head_of(level, self.slots.get(level)?.trailing_zeros() as usize))
    }

    /// The first tick of the slot.
    fn start_of(&self, head: u32) -> Tick {
        let (level, slot) = place_of(head);
        let shift = BITS * level as u32;
        let above = u64::MAX.checked_shl(shift + BITS).unwrap_or(0);
        Tick::from_raw(self.elapsed.raw() & above | (slot as u64) << shift)
    }

    /// The last tick that belongs to the slot.
    fn end_of(&self, head: u32) -> Tick {
        let (level, _) = place_of(head);
        let width = 1u64.checked_shl(BITS * level as u32).unwrap_or(0);
        Tick::from_raw(self.start_of(head).raw().saturating_add(width.wrapping_sub(1)))
    }

    #[inline]
    fn slot_of(&self, deadline: Tick) -> (usize, usize) {
        let at = deadline.max(self.elapsed).raw();
        let level = ((at ^ self.elapsed.raw()) | 1).ilog2() / BITS;
        (level as usize, (at >> (BITS * level)) as usize % SLOTS)
    }

    #[inline]
    fn vacate(&mut self, head: u32) {
        let (level, slot) = place_of(head);
        self.slots[level] &= !(1 << slot);
        if self.slots[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// The first of the entries of a list with the earliest deadline, found by walking it.
    fn first_in(&self, head: u32) -> Option<(Tick, NodeKey)> {
        let mut first = None;
        for key in self.keys_in(head) {
            let entry = self.entries.value(key);
            let deadline = entry.deadline(entry.due_by());
            let is_first = first.is_none_or(|(earliest, _)| deadline < earliest);
            if is_first && !self.is_discarded(entry.place().filed()) {
                first = Some((deadline, key));
            }
        }
        first
    }

    /// Returns whether the entry that is filed there was discarded.
    fn is_discarded(&self, filed: Filed) -> bool {
        self.discarded[..self.discards as usize].iter().any(|discarded| discarded.0 == filed.0)
    }

    /// The keys of a list, in order.
    fn keys_in(&self, head: u32) -> Keys<'_> {
        Keys { blocks: &self.blocks, next: self.heads.get(head).first, left: [].iter() }
    }
}

/// The keys of a list; see [`Wheel::keys_in`]. A loop of its own: a chain of adapters takes several
/// times as long.
struct Keys<'a> {
    blocks: &'a Store<Block, 1>,
    /// The block after this one, or the list's head.
    next: u32,
    /// Places of the block that are still to be looked at.
    left: core::slice::Iter<'a, Number>,
}

impl Iterator for Keys<'_> {
    type Item = NodeKey;

    #[inline]
    fn next(&mut self) -> Option<NodeKey> {
        loop {
            for place in self.left.by_ref() {
                if place.get() != NIL {
                    return Some(NodeKey(place.get()));
                }
            }
            if self.next >= FIRST_HEAD {
                return None;
            }
            let block = self.blocks.value(NodeKey(self.next));
            (self.next, self.left) = (block.next.get(), block.filled().iter());
        }
    }
}

/// The head of a slot.
const fn head_of(level: usize, slot: usize) -> u32 {
    FIRST_HEAD + (level * SLOTS + slot) as u32
}

/// The level and slot of a head.
const fn place_of(head: u32) -> (usize, usize) {
    let index = (head - FIRST_HEAD) as usize;
    (index / SLOTS, index % SLOTS)
}

/// Search for the entries that come first, among all that are added in the order of their lists. It
/// sorts twice the wanted number at a time, so each addition costs the same.
struct Firsts {
    most: usize,
    /// Each with its number: equal deadlines are handed out in that order.
    found: Vec<(Tick, u32, NodeKey)>,
    added: u32,
    /// Entries with this deadline or a later one are not among the first.
    limit: Tick,
}

impl Firsts {
    fn new(most: usize) -> Self {
        Self { most, found: Vec::new(), added: 0, limit: Tick::NEVER }
    }

    fn add(&mut self, deadline: Tick, key: NodeKey) {
        self.found.push((deadline, self.added, key));
        self.added += 1;
        if self.found.len() == 2 * self.most {
            self.leave_out_the_last();
        }
    }

    fn leave_out_the_last(&mut self) {
        if self.found.len() > self.most {
            let last = *self.found.select_nth_unstable(self.most - 1).1;
            self.found.truncate(self.most);
            self.limit = last.0;
        }
    }

    fn in_reverse(mut self) -> Vec<(Tick, NodeKey)> {
        self.leave_out_the_last();
        self.found.sort_unstable_by(|one, other| other.cmp(one));
        self.found.into_iter().map(|(deadline, _, key)| (deadline, key)).collect()
    }
}

impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Wheel");
        shown.field("elapsed", &self.elapsed).field("len", &self.len);
        for (level, slots) in self.slots.iter().enumerate().filter(|(_, slots)| **slots != 0) {
            shown.field(&alloc::format!("level {level}"), &format_args!("{slots:#066b}"));
        }
        shown.finish()
    }
}
