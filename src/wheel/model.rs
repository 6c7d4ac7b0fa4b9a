//! The wheel, and the heap that takes its place, against an ordered map.
//!
//! [`Harness`] applies one operation to one of the two and to a `BTreeMap` and panics where they
//! differ; the tests feed it random operations.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    Allowance, DISCARDS, DRAINING, FILLED, FIRST_HEAD, Filed, KEYS, LEVELS, Memory, NodeKey, Place,
    Store, Timed, Turned, Wheel, head_of,
};
use crate::tick::Tick;

/// One operation. Numbers that name an entry are taken modulo the entries there are.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// File a new entry this many nanoseconds after now; before it, if negative. Every third has a
    /// tolerance, of an eighth of that.
    Insert(i64),
    /// Remove an entry.
    Remove(usize),
    /// Have an entry taken back later.
    Discard(usize),
    /// Give an entry a later deadline without telling.
    Postpone(usize, u64),
    /// Turn to this many nanoseconds after now, at most so many entries at a time.
    Turn(u64, usize),
    /// Turn to this many nanoseconds after now, for so many entries, and set aside the rest.
    /// From then on equal deadlines have no order.
    Part(u64, usize),
    /// The clock steps back by this many nanoseconds. Only for a heap: a wheel may keep an entry
    /// then until its tolerance ends.
    #[cfg(test)]
    StepBack(u64),
    /// Turn to the instant by which an entry is to be handed out.
    Step,
}

pub(crate) struct Entry {
    place: Place,
    /// Its deadline and number in the map.
    pub(super) filing: Cell<(Tick, u64)>,
    /// Nanoseconds after its deadline by which it is to be handed out.
    tolerance: Cell<u64>,
    /// Whether the deadline is later than the one it was filed under.
    pub(super) postponed: Cell<bool>,
}

impl Timed for Entry {
    fn place(&self) -> &Place {
        &self.place
    }

    fn due_by(&self) -> Tick {
        let by = self.filing.get().0.raw().saturating_add(self.tolerance.get());
        Tick::from_raw(by).min(Tick::LAST)
    }

    fn deadline(&self, due_by: Tick) -> Tick {
        assert_eq!(due_by, self.due_by());
        self.filing.get().0
    }
}

impl Entry {
    pub(super) fn new() -> Self {
        Self {
            place: Place::new(),
            filing: Cell::new((Tick::PAST, 0)),
            tolerance: Cell::new(0),
            postponed: Cell::new(false),
        }
    }
}

/// Wheel or heap. Its methods are those of the same names.
pub(crate) trait Subject: Sized {
    /// Whether it hands out in the order of deadlines all that is due at a turn.
    const SORTS: bool;

    fn starting_at(now: Tick) -> Self;
    fn store(&mut self) -> &mut Store<Entry, DISCARDS>;
    fn value(&self, key: NodeKey) -> &Entry;
    fn first_due(&mut self) -> Option<Tick>;
    fn insert(&mut self, key: NodeKey, deadline: Tick, due_by: Tick) -> Filed;
    fn remove(&mut self, filed: Filed) -> NodeKey;
    fn discard(&mut self, filed: Filed);
    fn turn(&mut self, now: Tick, allowance: Allowance, due: impl FnMut(&Entry, Tick)) -> Turned;
    fn set_aside(&mut self);

    /// Checks that every entry is where it belongs. Also in the middle of a turn.
    fn check(harness: &Harness<Self>);

    /// Checks what it says of the first entries.
    fn check_answers(harness: &mut Harness<Self>);
}

/// Methods of [`Subject`] that are those of the type.
macro_rules! forward {
    () => {
        fn starting_at(now: Tick) -> Self {
            Self::new(now, Memory::AsNeeded)
        }

        fn store(&mut self) -> &mut Store<Entry, DISCARDS> {
            &mut self.entries
        }

        fn value(&self, key: NodeKey) -> &Entry {
            self.entries.value(key)
        }

        fn first_due(&mut self) -> Option<Tick> {
            self.first_due()
        }

        fn insert(&mut self, key: NodeKey, deadline: Tick, due_by: Tick) -> Filed {
            self.insert(key, deadline, due_by)
        }

        fn remove(&mut self, filed: Filed) -> NodeKey {
            self.remove(filed)
        }

        fn discard(&mut self, filed: Filed) {
            self.discard(filed);
        }

        fn turn(
            &mut self,
            now: Tick,
            allowance: Allowance,
            due: impl FnMut(&Entry, Tick),
        ) -> Turned {
            self.turn(now, allowance, due)
        }

        fn set_aside(&mut self) {
            self.set_aside();
        }
    };
}
#[cfg(test)]
pub(super) use forward;

pub(crate) struct Harness<S> {
    pub(super) wheel: S,
    now: Tick,
    /// Deadline in force and order of insertion -> entry.
    pub(super) filed: BTreeMap<(Tick, u64), NodeKey>,
    insertions: u64,
    /// Whether equal deadlines are handed out in the order of their filing.
    in_order: bool,
}

impl<S: Subject> Harness<S> {
    pub(crate) fn starting_at(now: Tick) -> Self {
        let wheel = S::starting_at(now);
        Self { wheel, now, filed: BTreeMap::new(), insertions: 0, in_order: true }
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match *op {
            Op::Insert(delta) => {
                let raw = self.now.raw().saturating_add_signed(delta);
                let deadline = Tick::from_raw(raw.clamp(Tick::PAST.raw(), Tick::LAST.raw()));
                let is_exact = self.insertions % 3 != 2;
                self.insert(deadline, if is_exact { 0 } else { delta.unsigned_abs() / 8 });
            }
            Op::Remove(choice) => {
                if let Some((key, filed)) = self.take(choice) {
                    assert_eq!(self.wheel.remove(filed), key);
                    assert_eq!(self.wheel.value(key).place().key(), key);
                    self.wheel.store().release(key);
                }
            }
            Op::Discard(choice) => {
                if let Some((_, filed)) = self.take(choice) {
                    self.wheel.discard(filed);
                }
            }
            Op::Postpone(choice, delta) => {
                if let Some(filing) = self.choose(choice) {
                    let key = self.filed.remove(&filing).expect("it was chosen from the map");
                    let later = filing.0.saturating_add(Duration::from_nanos(delta));
                    let filing = (later.min(Tick::LAST), filing.1);
                    let entry = self.wheel.value(key);
                    entry.postponed.set(entry.postponed.get() || delta > 0);
                    entry.filing.set(filing);
                    self.filed.insert(filing, key);
                }
            }
            Op::Turn(delta, step) => self.turn(self.later(delta), step.max(1)),
            Op::Part(delta, step) => {
                self.now = self.later(delta);
                self.in_order = false;
                let mut order = Vec::new();
                self.turn_a_part(self.now, step.max(1), &mut order);
            }
            #[cfg(test)]
            Op::StepBack(by) => {
                let raw = self.now.raw().saturating_sub(by);
                self.now = Tick::from_raw(raw).max(Tick::PAST);
            }
            Op::Step => {
                if let Some(next) = self.wheel.first_due() {
                    let last = self.earliest().is_some_and(|earliest| earliest == next);
                    let before = self.filed.len();
                    self.turn(next.max(self.now), usize::MAX);
                    let handed_out = self.filed.len() < before;
                    assert!(handed_out || !last, "nothing expired by {next:?}");
                }
            }
        }
        S::check(self);
        S::check_answers(self);
    }

    fn insert(&mut self, deadline: Tick, tolerance: u64) {
        let filing = (deadline, self.insertions);
        self.insertions += 1;
        let key = self.wheel.store().allocate(Entry::new);
        let due_by = deadline.saturating_add(Duration::from_nanos(tolerance)).min(Tick::LAST);
        // It may have been another's.
        let entry = self.wheel.value(key);
        entry.tolerance.set(tolerance);
        entry.filing.set(filing);
        entry.postponed.set(false);
        let filed = self.wheel.insert(key, deadline, due_by);
        self.wheel.value(key).place.file(filed);
        self.filed.insert(filing, key);
    }

    fn choose(&self, choice: usize) -> Option<(Tick, u64)> {
        let count = self.filed.len();
        (count > 0).then(|| *self.filed.keys().nth(choice % count).expect("within the map"))
    }

    /// Takes an entry out of the map.
    fn take(&mut self, choice: usize) -> Option<(NodeKey, Filed)> {
        let filing = self.choose(choice)?;
        let key = self.filed.remove(&filing).expect("it was chosen from the map");
        Some((key, self.wheel.value(key).place().filed()))
    }

    fn later(&self, delta: u64) -> Tick {
        self.now.saturating_add(Duration::from_nanos(delta)).min(Tick::LAST)
    }

    /// Turns both sides for so many entries. Adds those handed out to `order`.
    fn turn_a_part(
        &mut self,
        now: Tick,
        step: usize,
        order: &mut Vec<((Tick, u64), bool)>,
    ) -> Turned {
        let mut handed_out = Vec::new();
        let allowance = Allowance { expiries: step, moves: step };
        let turned = self.wheel.turn(now, allowance, |entry, due_by| {
            assert_eq!(due_by, entry.due_by());
            handed_out.push((entry.place().key(), entry.filing.get(), entry.postponed.get()));
        });
        assert!(handed_out.len() <= step, "the allowance was exceeded");
        if !self.in_order && turned == Turned::Partly && handed_out.len() < step {
            self.wheel.set_aside();
        }
        for (key, filing, postponed) in handed_out {
            assert!(filing.0 <= now, "{filing:?} expired early, at {now:?}");
            assert_eq!(self.filed.remove(&filing), Some(key));
            self.wheel.store().release(key);
            order.push((filing, postponed));
        }
        turned
    }

    /// Turns both sides.
    fn turn(&mut self, now: Tick, step: usize) {
        let mut order = Vec::new();
        for part in 1u32.. {
            let turned = self.turn_a_part(now, step, &mut order);
            // Not after every part: there may be hundreds, and the check dwarfs them.
            if part.is_power_of_two() {
                S::check(self);
            }
            if turned == Turned::Completely {
                break;
            }
        }
        self.now = now;
        if let Some((first, _)) = self.filed.first_key_value() {
            assert!(first.0 > now, "{first:?} was left behind at {now:?}");
        }
        // A postponed one has no place among its equals.
        let filings = |postponed| order.iter().filter(move |(_, p)| *p <= postponed);
        let order: Vec<_> = filings(false).map(|(filing, _)| *filing).collect();
        assert!(!S::SORTS || order.is_sorted(), "{order:?}");
        for (at, filing) in order.iter().enumerate().filter(|_| self.in_order) {
            let earlier_filing = order[at..].iter().any(|(d, n)| *d == filing.0 && *n < filing.1);
            assert!(!earlier_filing, "equal deadlines out of filing order: {order:?}");
        }
    }

    /// The first tick by which an entry is to be handed out.
    pub(super) fn earliest(&self) -> Option<Tick> {
        self.filed.values().map(|key| self.wheel.value(*key).due_by()).min()
    }
}

impl Subject for Wheel<Entry> {
    const SORTS: bool = false;

    forward!();

    fn check(harness: &Harness<Self>) {
        harness.check_lists();
    }

    fn check_answers(harness: &mut Harness<Self>) {
        // Nobody asks before a turn is complete.
        let is_through = harness.wheel.heads.draining.first == DRAINING;
        if !is_through || harness.wheel.first_aside().is_some() {
            return;
        }
        let first = harness.earliest();
        let bound = harness.wheel.next_due();
        let discarded = harness.wheel.discards > 0;
        assert!(discarded || bound.is_some() == first.is_some(), "{bound:?} for {first:?}");
        assert!(first.is_none() || bound <= first, "{bound:?} for {first:?}");
        // To look for the first takes back what was discarded, which has to stay at times.
        if discarded && harness.insertions % 4 != 0 {
            return;
        }
        let start = harness.wheel.next_start();
        let deadline = harness.filed.first_key_value().map(|((deadline, _), _)| *deadline);
        let is_bound = start <= deadline || deadline < Some(harness.wheel.elapsed);
        assert!(deadline.is_none() || is_bound, "{start:?} for {deadline:?}");
        let found = harness.wheel.first_due();
        assert!(found.is_some() == first.is_some() && found <= first, "{found:?}");
        let postponed = harness.filed.values().any(|key| harness.wheel.value(*key).postponed.get());
        assert!(postponed || found == first, "{found:?} for {first:?}");
    }
}

impl Harness<Wheel<Entry>> {
    /// Every entry is in the list that its deadline and `elapsed` call for, and nowhere else.
    fn check_lists(&self) {
        let wheel = &self.wheel;
        let mut found = self.check_list(DRAINING);
        for level in 0..LEVELS {
            let mut slots = wheel.slots[level];
            assert_eq!(wheel.levels >> level & 1 == 1, slots != 0, "bit of level {level}");
            while slots != 0 {
                let slot = slots.trailing_zeros() as usize;
                slots &= slots - 1;
                let head = head_of(level, slot);
                let is_future = wheel.start_of(head) >= wheel.start_of(head_of(0, 0));
                assert!(is_future || self.is_aside(head));
                let length = self.check_list(head);
                assert_ne!(length, 0, "slot bit of {level}, {slot}");
                found += length;
            }
        }
        let discards = wheel.discards as usize;
        // That no entry is elsewhere follows from their number.
        assert_eq!((found, wheel.len()), (self.filed.len() + discards, self.filed.len()));
    }

    /// Whether the list of a slot was set aside.
    fn is_aside(&self, at: u32) -> bool {
        let level = (at - FIRST_HEAD) / 64;
        self.wheel.aside >> level & 1 == 1 && self.wheel.slot_of_elapsed(level) == at
    }

    /// The length of a list whose blocks and deadlines are as they should be.
    fn check_list(&self, at: u32) -> usize {
        let wheel = &self.wheel;
        let head = wheel.heads.get(at);
        let (mut before, mut number, mut length) = (at, head.first, 0);
        while number < FIRST_HEAD {
            let block = wheel.blocks.value(NodeKey(number));
            assert_eq!(block.prev.get(), before, "back link in list {at}");
            let keys = (0..KEYS).filter_map(|index| Some((index, block.key(index)?)));
            let live = keys.map(|(index, key)| self.check_entry(at, Filed::at(number, index), key));
            let live = live.count();
            let counted = block.filled_and_keys.get() % FILLED;
            assert_eq!(live, counted as usize, "keys of {number}");
            assert_ne!(live, 0, "an empty block in list {at}");
            length += live;
            (before, number) = (number, block.next.get());
        }
        assert_eq!((number, head.last), (at, before), "ends of list {at}");
        length
    }

    fn check_entry(&self, at: u32, filed: Filed, key: NodeKey) {
        let entry = self.wheel.value(key);
        assert_eq!(entry.place().filed().0, filed.0, "place of {key:?}");
        let in_map = self.filed.get(&entry.filing.get()) == Some(&key);
        let discarded = &self.wheel.discarded[..self.wheel.discards as usize];
        assert!(
            in_map || discarded.iter().any(|other| other.0 == filed.0),
            "{key:?} is in the wheel only"
        );
        if at != DRAINING {
            let deadline = entry.filing.get().0;
            let (level, slot) = self.wheel.slot_of(deadline);
            let own = head_of(level, slot);
            let postponed = entry.postponed.get() || !in_map;
            let is_there = own == at || postponed && own > at || self.is_aside(at);
            assert!(is_there, "slot of {deadline:?}");
            assert!(self.wheel.heads.get(at).bound <= entry.due_by(), "bound of slot {at}");
        }
    }
}
