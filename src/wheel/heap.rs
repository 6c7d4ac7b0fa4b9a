//! Takes the wheel's place without an operating system and in browsers: a heap, by the same
//! interface and the same rules.
//!
//! A wheel gives each slot in use a list head and a block, some 100 bytes, which thousands of
//! timers share and sixteen do not. A heap takes 20 bytes for each timer. It moves an entry past as
//! many others as it has levels, six for two thousand timers, as four items follow from each: to
//! compare two is cheaper than to move one, which writes to its entry too. That bounds how long
//! interrupts wait, but for the search of the next turn, which visits each window that begins
//! before the first one ends. To set the alarm for where a window begins would fire each timer by
//! itself.
//!
//! A browser downloads the code, and a heap's is 5 KB smaller. With ten thousand timers pending, a
//! reset, or the arm and cancel of the earliest, takes up to twice as long as with a wheel. That is
//! 0.5 us in Chromium, a sixth of what `setTimeout` and `clearTimeout` take.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::store::Store;
use super::{Allowance, DISCARDS, Filed, Memory, NodeKey, Timed, Turned};
use crate::tick::Tick;

/// Items that are allocated together. So a heap that grows moves nothing but the table of these.
const GROUP: usize = 16;

/// Items that follow from one.
const CHILDREN: usize = 4;

/// An entry's part of the heap. Packed, as padding would take a sixth of it.
#[derive(Clone, Copy, Debug)]
#[repr(packed(4))]
struct Item {
    /// Deadline that it was filed under; no later than the entry's own.
    deadline: Tick,
    /// Time from there to the tick by which it was to be handed out.
    window: Window,
    key: NodeKey,
    /// Number of entries filed before it, which wraps. So it tells the order of entries that lie
    /// less than 2^31 filings apart. No deadline is out of order for others.
    order: u32,
}

impl Item {
    /// Fills a group.
    const NONE: Self =
        Self { deadline: Tick::NEVER, window: Window(0), key: NodeKey::numbered(0), order: 0 };

    /// Returns whether it is handed out first. Equal deadlines are handed out in filing order, as
    /// far as that is known.
    fn is_before(&self, other: &Self) -> bool {
        let (own, others) = (self.deadline, other.deadline);
        let is_older = (self.order.wrapping_sub(other.order) as i32) < 0;
        own < others || own == others && is_older
    }

    /// A lower bound of the tick by which it was to be handed out.
    fn due_by(&self) -> Tick {
        Tick::from_raw(self.deadline.raw() + self.window.nanos())
    }
}

/// A span of nanoseconds in 27 bits, and in the others the power of two that these are multiples
/// of. So what is below 134 ms is exact, and any other rounded down by less than a part in 2^26: a
/// turn may be that much before the end of the first window, and fires what it would fire then.
#[derive(Clone, Copy, Debug)]
struct Window(u32);

impl Window {
    const BITS: u32 = 27;
    const MAX: u64 = (1 << Self::BITS) - 1;

    fn between(deadline: Tick, due_by: Tick) -> Self {
        let nanos = due_by.nanos_since(deadline);
        let power = (u64::BITS - nanos.leading_zeros()).saturating_sub(Self::BITS);
        let power = power.min(u32::BITS - 1);
        Self((nanos >> power).min(Self::MAX) as u32 | power << Self::BITS)
    }

    fn nanos(self) -> u64 {
        (u64::from(self.0) & Self::MAX) << (self.0 >> Self::BITS)
    }
}

/// The heap, and the storage of its entries.
pub(crate) struct Heap<T> {
    items: Items,
    entries: Entries<T>,
}

type Entries<T> = Store<T, DISCARDS>;

/// Items, each no later than those that follow from its index.
struct Items {
    #[allow(clippy::vec_box, reason = "a table that grows then moves pointers, not groups")]
    groups: Vec<Box<[Item; GROUP]>>,
    len: usize,
    /// Number of entries filed so far, which wraps.
    filings: u32,
}

impl<T: Timed> Heap<T> {
    /// Creates an empty heap.
    pub(crate) const fn new(_: Tick, _: Memory) -> Self {
        Self { items: Items { groups: Vec::new(), len: 0, filings: 0 }, entries: Store::new() }
    }

    /// Number of entries filed.
    pub(crate) fn len(&self) -> usize {
        self.items.len
    }

    /// The storage, to allocate and release entries and to read their values.
    pub(crate) fn store(&mut self) -> &mut Store<T, DISCARDS> {
        &mut self.entries
    }

    /// The value of the entry `key`.
    pub(crate) fn value(&self, key: NodeKey) -> &T {
        self.entries.value(key)
    }

    /// A lower bound of the ticks by which entries are to be handed out; `None` when there is none
    /// but [`Tick::NEVER`]. As near as a [`Window`] is, unless an entry was postponed.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        self.first_by(Item::due_by)
    }

    /// The first tick by which an entry is to be handed out; `None` as above.
    pub(crate) fn first_due(&mut self) -> Option<Tick> {
        self.first_by(|item| self.entries.value(item.key).due_by())
    }

    /// The least of what `tick` says of the items. That is no earlier than an item's deadline, so
    /// what begins later is passed over, with all below it.
    fn first_by(&self, tick: impl Fn(&Item) -> Tick) -> Option<Tick> {
        let (len, mut next, mut index) = (self.items.len, Tick::NEVER, 0);
        while index < len {
            let item = self.items.at(index);
            if { item.deadline } < next {
                next = next.min(tick(item));
                if CHILDREN * index + 1 < len {
                    index = CHILDREN * index + 1;
                    continue;
                }
            }
            // The last of those of a parent, which is through with all.
            while index > 0 && (index % CHILDREN == 0 || index + 1 == len) {
                index = (index - 1) / CHILDREN;
            }
            if index == 0 {
                break;
            }
            index += 1;
        }
        (next != Tick::NEVER).then_some(next)
    }

    /// No later than any deadline; `None` if nothing is filed.
    pub(crate) fn next_start(&self) -> Option<Tick> {
        (self.items.len > 0).then(|| self.items.at(0).deadline)
    }

    /// The entry to be handed out first; `None` as above. Only if none is postponed.
    pub(crate) fn first(&self) -> Option<NodeKey> {
        (self.next_start()? != Tick::NEVER).then(|| self.items.at(0).key)
    }

    /// Returns whether [`first`](Self::first) walks past no more than so many entries: past none.
    pub(crate) fn finds_first_within(&self, _most: usize) -> bool {
        true
    }

    /// The entry to be handed out first, by itself: no walk finds it.
    pub(crate) fn firsts(&self, _most: usize) -> Vec<(Tick, NodeKey)> {
        self.first().map(|key| (self.items.at(0).deadline, key)).into_iter().collect()
    }

    /// Files the entry `key`, which is not filed, under `deadline`, to be handed out by `due_by`.
    /// The caller notes the result in its [place](super::Place::file).
    pub(crate) fn insert(&mut self, key: NodeKey, deadline: Tick, due_by: Tick) -> Filed {
        let item = self.items.next(key, deadline, due_by);
        self.items.push(item, &self.entries)
    }

    /// Takes the entry that is filed there out, and back to the free ones.
    pub(crate) fn discard(&mut self, filed: Filed) {
        let key = self.items.take(filed.0 as usize, &self.entries);
        self.entries.release(key);
    }

    /// Does what [`discard`](Self::discard) left: nothing.
    #[cfg(not(test))]
    pub(crate) fn take_back_discarded(&mut self) {}

    /// Takes the entry that is filed there out. Returns its key, which is also in its place then.
    pub(crate) fn remove(&mut self, filed: Filed) -> NodeKey {
        let key = self.items.take(filed.0 as usize, &self.entries);
        self.entries.value(key).place().0.set(key.number());
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
        let Self { items, entries } = self;
        if items.len == 0 {
            entries.trim();
        }
        while items.len > 0 {
            let Item { deadline, key, .. } = *items.at(0);
            if deadline > now {
                break;
            }
            let entry = entries.value(key);
            let due_by = entry.due_by();
            let deadline = entry.deadline(due_by);
            let is_due = deadline <= now;
            let left = if is_due { &mut allowance.expiries } else { &mut allowance.moves };
            if *left == 0 {
                return Turned::Partly;
            }
            *left -= 1;
            if is_due {
                items.take(0, entries);
                entry.place().0.set(key.number());
                due(entry, due_by);
            } else {
                let item = items.next(key, deadline, due_by);
                items.replace(0, item, entries);
            }
        }
        Turned::Completely
    }
}

impl Items {
    // The checks here and in the store end in a message without numbers, since to format these is
    // a kilobyte of a bundle.
    fn at(&self, index: usize) -> &Item {
        let group = self.groups.get(index / GROUP).expect("a group is kept");
        &group[index % GROUP]
    }

    /// Makes the item of an entry that is filed now.
    fn next(&mut self, key: NodeKey, deadline: Tick, due_by: Tick) -> Item {
        let order = self.filings;
        self.filings = order.wrapping_add(1);
        Item { deadline, window: Window::between(deadline, due_by), key, order }
    }

    fn push<T: Timed>(&mut self, item: Item, entries: &Entries<T>) -> Filed {
        if self.len == self.groups.len() * GROUP {
            self.groups.push(Box::new([Item::NONE; GROUP]));
        }
        self.len += 1;
        self.rise(self.len - 1, item, entries)
    }

    /// Takes an item out, and fills its place with the last one. Keeps one group more than is used.
    fn take<T: Timed>(&mut self, index: usize, entries: &Entries<T>) -> NodeKey {
        let key = self.at(index).key;
        self.len -= 1;
        if index < self.len {
            let last = *self.at(self.len);
            self.replace(index, last, entries);
        }
        if self.len + 2 * GROUP <= self.groups.len() * GROUP {
            self.groups.pop();
        }
        key
    }

    /// Puts `item` in the place of another. That is filled from below, down to a place without
    /// more below it, and `item` rises from there. It seldom rises far, as it was the last one, or
    /// is later than the one before. To compare it with all on the way down would cost more.
    fn replace<T: Timed>(&mut self, mut index: usize, item: Item, entries: &Entries<T>) {
        loop {
            let children = CHILDREN * index + 1;
            if children >= self.len {
                break;
            }
            let (mut first, mut at) = (self.at(children), children);
            for child in children + 1..self.len.min(children + CHILDREN) {
                let other = self.at(child);
                if other.is_before(first) {
                    (first, at) = (other, child);
                }
            }
            let _ = self.put(index, *first, entries);
            index = at;
        }
        let _ = self.rise(index, item, entries);
    }

    /// Puts `item` at `index`, or above those that are after it. Returns where it is.
    fn rise<T: Timed>(&mut self, mut index: usize, item: Item, entries: &Entries<T>) -> Filed {
        while index > 0 {
            let parent = (index - 1) / CHILDREN;
            let above = self.at(parent);
            if !item.is_before(above) {
                break;
            }
            let _ = self.put(index, *above, entries);
            index = parent;
        }
        self.put(index, item, entries)
    }

    /// Puts an item at `index`, and notes that in its entry.
    fn put<T: Timed>(&mut self, index: usize, item: Item, entries: &Entries<T>) -> Filed {
        let group = self.groups.get_mut(index / GROUP).expect("a group is kept");
        group[index % GROUP] = item;
        let filed = Filed(index as u32);
        entries.value(item.key).place().file(filed);
        filed
    }
}

impl<T> fmt::Debug for Heap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("len", &self.items.len).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{Place, tests::repeatable};
    use super::*;

    struct Entry {
        place: Place,
        due_by: Cell<Tick>,
        tolerance: Cell<u64>,
        /// Deadline and number in the map, as it was filed or postponed.
        filing: Cell<(Tick, u64)>,
        is_postponed: Cell<bool>,
    }

    impl Timed for Entry {
        fn place(&self) -> &Place {
            &self.place
        }

        fn due_by(&self) -> Tick {
            self.due_by.get()
        }

        fn deadline(&self, due_by: Tick) -> Tick {
            Tick::from_raw(due_by.raw() - self.tolerance.get())
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        /// After now, and a tolerance.
        Insert(u64, u64),
        Remove(usize),
        Discard(usize),
        Postpone(usize, u64),
        /// By so much, so many entries at a time.
        Turn(u64, usize),
        /// The clock steps back.
        StepBack(u64),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let tolerance = prop_oneof![2 => Just(0), 1 => 0..40u64];
        let op = prop_oneof![
            8 => (0..100u64, tolerance).prop_map(|(after, by)| Op::Insert(after, by)),
            2 => any::<usize>().prop_map(Op::Remove),
            2 => any::<usize>().prop_map(Op::Discard),
            2 => (any::<usize>(), 0..60u64).prop_map(|(entry, by)| Op::Postpone(entry, by)),
            3 => (0..40u64, 1..5usize).prop_map(|(by, step)| Op::Turn(by, step)),
            1 => (0..20u64).prop_map(Op::StepBack),
        ];
        vec(op, 1..150)
    }

    struct Harness {
        heap: Heap<Entry>,
        now: Tick,
        filed: BTreeMap<(Tick, u64), NodeKey>,
        insertions: u64,
    }

    impl Harness {
        fn later(&self, nanos: u64) -> Tick {
            Tick::from_raw(self.now.raw() + nanos)
        }

        fn choose(&self, choice: usize) -> Option<(Tick, u64)> {
            let count = self.filed.len();
            (count > 0).then(|| *self.filed.keys().nth(choice % count).expect("within the map"))
        }

        fn take(&mut self, choice: usize) -> Option<(NodeKey, Filed)> {
            let key = self.filed.remove(&self.choose(choice)?).expect("it was chosen from the map");
            Some((key, self.heap.value(key).place().filed()))
        }

        fn apply(&mut self, op: &Op) {
            match *op {
                Op::Insert(after, tolerance) => {
                    let filing = (self.later(after), self.insertions);
                    let due_by = self.later(after + tolerance);
                    self.insertions += 1;
                    let key = self.heap.store().allocate(|| Entry {
                        place: Place::new(),
                        due_by: Cell::new(due_by),
                        tolerance: Cell::new(tolerance),
                        filing: Cell::new(filing),
                        is_postponed: Cell::new(false),
                    });
                    let entry = self.heap.value(key);
                    // It may have been another's.
                    entry.due_by.set(due_by);
                    entry.tolerance.set(tolerance);
                    entry.filing.set(filing);
                    entry.is_postponed.set(false);
                    let filed = self.heap.insert(key, filing.0, due_by);
                    self.heap.value(key).place().file(filed);
                    self.filed.insert(filing, key);
                }
                Op::Remove(choice) => {
                    if let Some((key, filed)) = self.take(choice) {
                        assert_eq!(self.heap.remove(filed), key);
                        assert_eq!(self.heap.value(key).place().key(), key);
                        self.heap.store().release(key);
                    }
                }
                Op::Discard(choice) => {
                    if let Some((_, filed)) = self.take(choice) {
                        self.heap.discard(filed);
                    }
                }
                Op::Postpone(choice, by) => {
                    let Some(filing) = self.choose(choice) else { return };
                    let key = self.filed.remove(&filing).expect("it was chosen from the map");
                    let entry = self.heap.value(key);
                    let filing = (Tick::from_raw(filing.0.raw() + by), filing.1);
                    entry.filing.set(filing);
                    entry.due_by.set(Tick::from_raw(entry.due_by.get().raw() + by));
                    entry.is_postponed.set(entry.is_postponed.get() || by > 0);
                    self.filed.insert(filing, key);
                }
                Op::Turn(by, step) => self.turn(by, step),
                Op::StepBack(by) => self.now = Tick::from_raw(self.now.raw() - by),
            }
        }

        fn turn(&mut self, by: u64, step: usize) {
            self.now = self.later(by);
            let mut order = Vec::new();
            loop {
                let mut handed_out = Vec::new();
                let allowance = Allowance { expiries: step, moves: step };
                let turned = self.heap.turn(self.now, allowance, |entry, due_by| {
                    assert_eq!(due_by, entry.due_by());
                    handed_out.push((entry.place().key(), entry.filing.get()));
                    if !entry.is_postponed.get() {
                        order.push(entry.filing.get());
                    }
                });
                assert!(handed_out.len() <= step);
                for (key, filing) in handed_out {
                    assert!(filing.0 <= self.now, "early");
                    assert_eq!(self.filed.remove(&filing), Some(key));
                    self.heap.store().release(key);
                }
                if turned == Turned::Completely {
                    break;
                }
            }
            assert!(order.is_sorted(), "{order:?}");
            assert!(self.filed.keys().next().is_none_or(|first| first.0 > self.now), "late");
        }

        fn check(&mut self) {
            let heap = &self.heap;
            assert_eq!(heap.len(), self.filed.len());
            assert!(heap.items.groups.len() <= heap.len().div_ceil(GROUP) + 1);
            for index in 0..heap.len() {
                let item = heap.items.at(index);
                let entry = heap.value(item.key);
                assert_eq!(entry.place().filed().0 as usize, index);
                let (deadline, due_by) = (item.deadline, item.due_by());
                assert!(deadline <= entry.filing.get().0 && due_by <= entry.due_by());
                assert!(index == 0 || heap.items.at((index - 1) / CHILDREN).is_before(item));
            }
            let keys = self.filed.values();
            let first_due = keys.map(|key| self.heap.value(*key).due_by()).min();
            assert_eq!(self.heap.first_due(), first_due);
            let bound = self.heap.next_due();
            assert!(bound.is_some() == first_due.is_some() && bound <= first_due);
            let first = self.filed.first_key_value().map(|((deadline, _), key)| (*deadline, *key));
            assert!(self.heap.next_start() <= first.map(|(deadline, _)| deadline));
            if !self.filed.values().any(|key| self.heap.value(*key).is_postponed.get()) {
                assert_eq!(bound, first_due);
                assert!(self.heap.finds_first_within(0));
                assert_eq!(self.heap.first(), first.map(|(_, key)| key));
                let firsts: Vec<_> = self.heap.firsts(8).into_iter().map(|(_, key)| key).collect();
                assert_eq!(firsts, Vec::from_iter(self.heap.first()));
            }
        }
    }

    #[test]
    fn deadlines_are_in_order_whatever_number_of_filings_lies_between_them() {
        let mut heap: Heap<Entry> = Heap::new(Tick::ORIGIN, Memory::AsNeeded);
        let mut handed_out = Vec::new();
        // Among equal deadlines, each of three numbers is before the next, in a circle.
        for round in 0..30_u32 {
            heap.items.filings = round % 3 * (u32::MAX / 3);
            let tick = Tick::from_raw(Tick::ORIGIN.raw() + u64::from(round * 7 % 10));
            let key = heap.store().allocate(|| Entry {
                place: Place::new(),
                due_by: Cell::new(tick),
                tolerance: Cell::new(0),
                filing: Cell::new((tick, 0)),
                is_postponed: Cell::new(false),
            });
            // It may have been made along with another.
            heap.value(key).due_by.set(tick);
            let filed = heap.insert(key, tick, tick);
            heap.value(key).place().file(filed);
        }
        let allowance = Allowance { expiries: 30, moves: 30 };
        let turned = heap.turn(Tick::LAST, allowance, |_, due_by| handed_out.push(due_by));
        assert_eq!((turned, handed_out.len()), (Turned::Completely, 30));
        assert!(handed_out.is_sorted());
    }

    proptest! {
        #![proptest_config(repeatable(500))]

        #[test]
        fn agrees_with_an_ordered_map(ops in ops()) {
            let (heap, now) = (Heap::new(Tick::ORIGIN, Memory::AsNeeded), Tick::ORIGIN);
            let mut harness = Harness { heap, now, filed: BTreeMap::new(), insertions: 0 };
            for op in &ops {
                harness.apply(op);
                harness.check();
            }
        }
    }

    #[test]
    fn a_window_is_exact_or_loses_a_part_in_a_million() {
        let spans = (0..64).map(|bit| (1_u64 << bit) - 1).chain([2_100, 5_000_000_000]);
        for span in spans.chain([7_200_000_000_000]) {
            let window = Window::between(Tick::from_raw(1), Tick::from_raw(1 + span)).nanos();
            assert!(window <= span, "{span}");
            assert!(span - window <= span >> 26 || span >= 1 << 58, "{span}: {window}");
            assert!(window == span || span > Window::MAX, "{span}: {window}");
        }
    }
}
