//! Takes the wheel's place without an operating system and in browsers: a binary heap, by the same
//! interface and the same rules.
//!
//! A wheel gives each slot in use a list head and a block, which thousands of timers share and
//! sixteen do not. A heap takes 24 bytes for each timer. It moves an entry past as many others as
//! it has levels, eleven for two thousand timers. That bounds how long interrupts wait, but for the
//! search of the next turn, which visits each window that begins before the first one ends. To set
//! the alarm for where a window begins would fire each timer by itself.
//!
//! Not done: a wheel of fewer levels, which still pays for slots of one timer; and a second `Sleep`
//! with static entries, which no interval, timeout, queue or stream could use.
//!
//! A browser downloads the code, and a heap is less of it. With thousands of timers pending, a
//! reset, or the arm and cancel of the earliest, takes longer than with a wheel.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::store::{Store, missing};
use super::{Allowance, DISCARDS, Filed, Memory, NodeKey, Timed, Turned};
use crate::tick::Tick;

/// Items that are allocated together. So a heap that grows moves nothing but the table of these.
const GROUP: usize = 16;

/// An entry's part of the heap.
#[derive(Clone, Copy, Debug)]
struct Item {
    /// Deadline that it was filed under; no later than the entry's own.
    deadline: Tick,
    /// The tick that it was to be handed out by then.
    due_by: Tick,
    key: NodeKey,
    /// Number of entries filed before it, which wraps. So it tells the order of entries that lie
    /// less than 2^31 filings apart. No deadline is out of order for others.
    order: u32,
}

impl Item {
    /// Fills a group.
    const NONE: Self =
        Self { deadline: Tick::NEVER, due_by: Tick::NEVER, key: NodeKey(0), order: 0 };

    /// Returns whether it is handed out first. Equal deadlines are handed out in filing order, as
    /// far as that is known.
    fn is_before(&self, other: &Self) -> bool {
        let is_older = (self.order.wrapping_sub(other.order) as i32) < 0;
        self.deadline < other.deadline || self.deadline == other.deadline && is_older
    }
}

/// The heap, and the storage of its entries.
pub(crate) struct Heap<T> {
    /// Items, each no later than both that follow from its index.
    #[allow(clippy::vec_box, reason = "a table that grows then moves pointers, not groups")]
    groups: Vec<Box<[Item; GROUP]>>,
    len: usize,
    /// Number of entries filed so far, which wraps.
    filings: u32,
    /// To allocate and release entries, and to read their values.
    pub(crate) entries: Store<T, DISCARDS>,
}

impl<T: Timed> Heap<T> {
    /// Creates an empty heap.
    pub(crate) const fn new(_: Tick, _: Memory) -> Self {
        Self { groups: Vec::new(), len: 0, filings: 0, entries: Store::new() }
    }

    /// Number of entries filed.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The key of the entry that is filed there.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn key(&self, filed: Filed) -> NodeKey {
        self.item(filed.0 as usize).key
    }

    /// A lower bound of the ticks by which entries are to be handed out; `None` when there is none
    /// but [`Tick::NEVER`]. Exact unless an entry was postponed.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        self.first_by(|item| item.due_by)
    }

    /// The earliest tick that an entry is to be handed out by; `None` as above.
    pub(crate) fn first_due(&mut self) -> Option<Tick> {
        self.first_by(|item| self.entries.value(item.key).due_by())
    }

    /// No later than any deadline; `None` if nothing is filed.
    pub(crate) fn next_start(&self) -> Option<Tick> {
        (self.len > 0).then(|| self.item(0).deadline)
    }

    /// The entry to be handed out first; `None` as above. Only if none is postponed.
    pub(crate) fn first(&self) -> Option<NodeKey> {
        (self.next_start()? != Tick::NEVER).then(|| self.item(0).key)
    }

    /// Returns whether [`first`](Self::first) walks past no more than so many entries: past none.
    pub(crate) fn finds_first_within(&self, _most: usize) -> bool {
        true
    }

    /// The entry to be handed out first, by itself: no walk finds it.
    pub(crate) fn firsts(&self, _most: usize) -> Vec<(Tick, NodeKey)> {
        self.first().map(|key| (self.item(0).deadline, key)).into_iter().collect()
    }

    /// Files the unfiled entry `key` under `deadline`, to be handed out by `due_by`. The caller
    /// notes the result in its [place](super::Place::file).
    pub(crate) fn insert(&mut self, key: NodeKey, deadline: Tick, due_by: Tick) -> Filed {
        if self.len == self.groups.len() * GROUP {
            self.groups.push(Box::new([Item::NONE; GROUP]));
        }
        let item = Item { deadline, due_by, key, order: self.filings };
        self.filings = self.filings.wrapping_add(1);
        self.len += 1;
        Filed(self.rise(self.len - 1, item) as u32)
    }

    /// Takes the entry that is filed there out, and back to the free ones.
    pub(crate) fn discard(&mut self, filed: Filed) {
        let key = self.take(filed.0 as usize);
        self.entries.release(key);
    }

    /// Does what [`discard`](Self::discard) left: nothing.
    #[cfg(not(test))]
    pub(crate) fn take_back_discarded(&mut self) {}

    /// Takes the entry that is filed there out. Returns its key, and leaves it in its place too.
    pub(crate) fn remove(&mut self, filed: Filed) -> NodeKey {
        let key = self.take(filed.0 as usize);
        self.entries.value(key).place().0.set(key.0);
        key
    }

    /// Hands every entry whose deadline is at or before `now` to `due`, with the tick that it was
    /// to be handed out by, once it is out of the heap: in the order of deadlines, and in filing
    /// order where these are equal and were never postponed. After `Partly`, call again with the
    /// same `now`.
    pub(crate) fn turn(
        &mut self,
        now: Tick,
        mut allowance: Allowance,
        mut due: impl FnMut(&T, Tick),
    ) -> Turned {
        if self.len == 0 {
            self.entries.trim();
        }
        while self.next_start().is_some_and(|deadline| deadline <= now) {
            let first = self.entries.value(self.item(0).key);
            let due_by = first.due_by();
            let deadline = first.deadline(due_by);
            let is_due = deadline <= now;
            if is_due && allowance.expiries == 0 || allowance.moves == 0 {
                return Turned::Partly;
            }
            let key = self.take(0);
            if is_due {
                allowance.expiries -= 1;
                let entry = self.entries.value(key);
                entry.place().0.set(key.0);
                due(entry, due_by);
            } else {
                allowance.moves -= 1;
                // Notes where it is, too.
                let _ = self.insert(key, deadline, due_by);
            }
        }
        Turned::Completely
    }

    /// Puts the rest of a turn back, where a wheel's slots have to be filed again.
    pub(crate) fn set_aside(&mut self) {}

    /// The least of what `tick` says of the items. That is no earlier than an item's deadline, so
    /// what begins later is passed over, with all below it.
    fn first_by(&self, tick: impl Fn(&Item) -> Tick) -> Option<Tick> {
        let (mut next, mut index) = (Tick::NEVER, 0);
        loop {
            if index < self.len && self.item(index).deadline < next {
                next = next.min(tick(self.item(index)));
                index = 2 * index + 1;
                continue;
            }
            // The second of two, whose parent is through with both.
            while index > 0 && index % 2 == 0 {
                index = (index - 1) / 2;
            }
            if index == 0 {
                return (next != Tick::NEVER).then_some(next);
            }
            index += 1;
        }
    }

    fn item(&self, index: usize) -> &Item {
        let Some(group) = self.groups.get(index / GROUP) else { missing() };
        &group[index % GROUP]
    }

    /// Puts an item at `index`, and notes that in its entry.
    fn put(&mut self, index: usize, item: Item) {
        // After this check the index has none of its own, whose message is formatted. Without an
        // operating system none is, and on a Cortex-M0 the longest wait of an interrupt doubles.
        if cfg!(not(target_os = "none")) && index / GROUP >= self.groups.len() {
            missing();
        }
        self.groups[index / GROUP][index % GROUP] = item;
        self.entries.value(item.key).place().file(Filed(index as u32));
    }

    /// Puts `item` at `index`, or above all that are after it. Returns where it is.
    fn rise(&mut self, mut index: usize, item: Item) -> usize {
        while index > 0 {
            let parent = (index - 1) / 2;
            let above = *self.item(parent);
            if !item.is_before(&above) {
                break;
            }
            self.put(index, above);
            index = parent;
        }
        self.put(index, item);
        index
    }

    /// Puts `item` at `index`, or below all that are before it.
    fn sink(&mut self, mut index: usize, item: Item) {
        loop {
            let mut child = 2 * index + 1;
            if child + 1 < self.len && self.item(child + 1).is_before(self.item(child)) {
                child += 1;
            }
            if child >= self.len || !self.item(child).is_before(&item) {
                break;
            }
            self.put(index, *self.item(child));
            index = child;
        }
        self.put(index, item);
    }

    /// Takes an item out, and fills its place with the last one. Keeps one group more than is used.
    fn take(&mut self, index: usize) -> NodeKey {
        let key = self.item(index).key;
        self.len -= 1;
        if index < self.len {
            let last = *self.item(self.len);
            if self.rise(index, last) == index {
                self.sink(index, last);
            }
        }
        if self.groups.len() > self.len.div_ceil(GROUP) + 1 {
            self.groups.pop();
        }
        key
    }
}

impl<T> fmt::Debug for Heap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::model::{Entry, Harness, Op, Subject, forward};
    use super::super::tests::{op, repeatable};
    use super::*;

    impl Subject for Heap<Entry> {
        const SORTS: bool = true;

        forward!();

        fn check(harness: &Harness<Self>) {
            let heap = &harness.wheel;
            assert_eq!(heap.len(), harness.filed.len());
            assert!(heap.groups.len() <= heap.len().div_ceil(GROUP) + 1);
            for index in 0..heap.len() {
                let item = heap.item(index);
                let entry = heap.entries.value(item.key);
                assert_eq!(entry.place().filed().0 as usize, index);
                assert!(item.deadline <= entry.filing.get().0);
                assert!(index == 0 || heap.item((index - 1) / 2).is_before(item));
            }
        }

        fn check_answers(harness: &mut Harness<Self>) {
            let first_due = harness.earliest();
            let heap = &mut harness.wheel;
            assert_eq!(heap.first_due(), first_due);
            let bound = heap.next_due();
            assert!(bound.is_some() == first_due.is_some() && bound <= first_due);
            let first = harness.filed.first_key_value();
            let first = first.map(|((deadline, _), key)| (*deadline, *key));
            assert!(heap.next_start() <= first.map(|(deadline, _)| deadline));
            if !harness.filed.values().any(|key| heap.entries.value(*key).postponed.get()) {
                assert_eq!(bound, first_due);
                assert!(heap.finds_first_within(0));
                assert_eq!(heap.first(), first.map(|(_, key)| key));
                let firsts: Vec<_> = heap.firsts(8).into_iter().map(|(_, key)| key).collect();
                assert_eq!(firsts, Vec::from_iter(heap.first()));
            }
        }
    }

    #[test]
    fn deadlines_are_in_order_whatever_number_of_filings_lies_between_them() {
        let mut heap: Heap<Entry> = Heap::new(Tick::ORIGIN, Memory::AsNeeded);
        let mut handed_out = Vec::new();
        // Among equal deadlines, each of three numbers is before the next, in a circle.
        for round in 0..30_u32 {
            heap.filings = round % 3 * (u32::MAX / 3);
            let tick = Tick::from_raw(Tick::ORIGIN.raw() + u64::from(round * 7 % 10));
            let key = heap.entries.allocate(Entry::new);
            heap.entries.value(key).filing.set((tick, 0));
            let filed = heap.insert(key, tick, tick);
            heap.entries.value(key).place().file(filed);
        }
        let allowance = Allowance { expiries: 30, moves: 30 };
        let turned = heap.turn(Tick::LAST, allowance, |_, due_by| handed_out.push(due_by));
        assert_eq!((turned, handed_out.len()), (Turned::Completely, 30));
        assert!(handed_out.is_sorted());
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        // So many close to each other that some deadlines are equal, and groups come and go.
        let op = prop_oneof![
            10 => op(),
            8 => (0..100i64).prop_map(Op::Insert),
            1 => (0..20u64).prop_map(Op::StepBack),
        ];
        vec(op, 1..150)
    }

    proptest! {
        #![proptest_config(repeatable(500))]

        #[test]
        fn agrees_with_an_ordered_map_from_any_start(start in any::<u64>(), ops in ops()) {
            let start = start.clamp(Tick::PAST.raw(), Tick::LAST.raw());
            let mut harness = Harness::<Heap<Entry>>::starting_at(Tick::from_raw(start));
            ops.iter().for_each(|op| harness.apply(op));
        }
    }
}
