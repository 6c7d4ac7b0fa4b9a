//! The wheel against an ordered map.
//!
//! [`Harness`] applies one operation to a wheel and to a `BTreeMap` and panics where they differ;
//! the tests feed it random operations.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Allowance, DRAINING, Due, LEVELS, NodeKey, SLOTS, Turned, Wheel};
use crate::tick::Tick;

/// One operation on a wheel. Numbers that name an entry are taken modulo the entries there are.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// File a new entry this many nanoseconds after now; before it, if negative.
    Insert(i64),
    /// Remove an entry.
    Remove(usize),
    /// Give an entry a later deadline without telling the wheel.
    Postpone(usize, u64),
    /// Turn to this many nanoseconds after now, at most so many entries at a time.
    Turn(u64, usize),
    /// Turn to the next deadline exactly.
    Step,
}

struct Entry {
    key: Cell<NodeKey>,
    /// The deadline in force, which is later than the filed one after [`Op::Postpone`].
    deadline: Cell<Tick>,
}

pub(crate) struct Harness {
    wheel: Wheel<Entry>,
    now: Tick,
    /// Filed deadline and order of filing -> entry.
    filed: BTreeMap<(Tick, u64), NodeKey>,
    filings: u64,
}

impl Harness {
    pub(crate) fn starting_at(now: Tick) -> Self {
        Self { wheel: Wheel::new(now), now, filed: BTreeMap::new(), filings: 0 }
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match *op {
            Op::Insert(delta) => {
                let raw = self.now.raw().saturating_add_signed(delta);
                self.insert(Tick::from_raw(raw.clamp(Tick::PAST.raw(), Tick::LAST.raw())));
            }
            Op::Remove(choice) => {
                if let Some(filing) = self.choose(choice) {
                    let key = self.filed.remove(&filing).expect("it was chosen from the map");
                    self.wheel.remove(key);
                    self.wheel.store().release(key);
                }
            }
            Op::Postpone(choice, delta) => {
                if let Some(filing) = self.choose(choice) {
                    let entry = self.wheel.value(self.filed[&filing]);
                    let later = entry.deadline.get().saturating_add(Duration::from_nanos(delta));
                    entry.deadline.set(later.min(Tick::LAST));
                }
            }
            Op::Turn(delta, step) => {
                let now = self.now.saturating_add(Duration::from_nanos(delta)).min(Tick::LAST);
                self.turn(now, step.max(1));
            }
            Op::Step => {
                if let Some(next) = self.wheel.earliest() {
                    let before = self.now;
                    let order = self.turn(next.max(before), usize::MAX);
                    let due_then = order.iter().all(|(deadline, _)| *deadline == next);
                    assert!(due_then || next <= before, "expired with {next:?}: {order:?}");
                }
            }
        }
        self.check_invariants();
    }

    fn insert(&mut self, deadline: Tick) {
        let new = |key| Entry { key: Cell::new(key), deadline: Cell::new(deadline) };
        let key = self.wheel.store().allocate(new);
        let entry = self.wheel.value(key);
        entry.key.set(key);
        entry.deadline.set(deadline);
        self.wheel.insert(key, deadline);
        self.filed.insert((deadline, self.filings), key);
        self.filings += 1;
    }

    fn choose(&self, choice: usize) -> Option<(Tick, u64)> {
        let count = self.filed.len();
        (count > 0).then(|| *self.filed.keys().nth(choice % count).expect("within the map"))
    }

    /// Turns both sides; returns the filings that expired, in the wheel's order.
    fn turn(&mut self, now: Tick, step: usize) -> Vec<(Tick, u64)> {
        let mut order = Vec::new();
        for part in 1u32.. {
            let mut handed_out = Vec::new();
            let mut postponed = Vec::new();
            let allowance = Allowance { expiries: step, moves: step };
            let turned = self.wheel.turn(now, allowance, |entry| {
                let later = entry.deadline.get();
                if later > now {
                    postponed.push((entry.key.get(), later));
                    Due::Postponed(later)
                } else {
                    handed_out.push(entry.key.get());
                    Due::Expired
                }
            });
            assert!(handed_out.len() <= step, "the allowance was exceeded");
            for key in handed_out {
                let filing = self.filing_of(key);
                assert!(filing.0 <= now, "{filing:?} expired early, at {now:?}");
                self.filed.remove(&filing);
                self.wheel.store().release(key);
                order.push(filing);
            }
            for (key, later) in postponed {
                let filing = self.filing_of(key);
                self.filed.remove(&filing);
                self.filed.insert((later, self.filings), key);
                self.filings += 1;
            }
            // Not after every part: there may be hundreds, and the check dwarfs them.
            if part.is_power_of_two() {
                self.check_lists();
            }
            if turned == Turned::Completely {
                break;
            }
        }
        self.now = now;
        if let Some((first, _)) = self.filed.first_key_value() {
            assert!(first.0 > now, "{first:?} was left behind at {now:?}");
        }
        for (at, filing) in order.iter().enumerate() {
            let earlier_filing = order[at..].iter().any(|(d, n)| *d == filing.0 && *n < filing.1);
            assert!(!earlier_filing, "equal deadlines out of filing order: {order:?}");
        }
        order
    }

    fn filing_of(&self, key: NodeKey) -> (Tick, u64) {
        let found = self.filed.iter().find(|(_, filed)| **filed == key);
        *found.expect("the wheel handed out an entry that is not in the map").0
    }

    fn check_invariants(&mut self) {
        self.check_lists();
        let first = self.filed.first_key_value().map(|((deadline, _), _)| *deadline);
        let bound = self.wheel.next_deadline();
        assert!(bound.is_some() == first.is_some() && bound <= first, "{bound:?} for {first:?}");
        assert_eq!(self.wheel.earliest(), first);
    }

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
                assert!(wheel.start_of(level, slot) >= wheel.start_of(0, 0));
                let length = self.check_list((level * SLOTS + slot) as u32);
                assert_ne!(length, 0, "slot bit of {level}, {slot}");
                found += length;
            }
        }
        // That no entry is elsewhere follows from their number.
        assert_eq!((found, wheel.len()), (self.filed.len(), self.filed.len()));
    }

    /// The length of a list whose links and deadlines are as they should be.
    fn check_list(&self, head: u32) -> usize {
        let store = &self.wheel.store;
        let (mut at, mut length) = (head, 0);
        loop {
            let next = store.link(at).next;
            assert_eq!(store.link(next).prev, at, "back link of {next} in list {head}");
            if next == head {
                return length;
            }
            at = next;
            length += 1;
            if head < DRAINING {
                let filed = store.link(at).filed;
                let (level, slot) = self.wheel.slot_of(filed);
                assert_eq!((level * SLOTS + slot) as u32, head, "slot of {filed:?}");
                assert!(store.link(head).filed <= filed, "bound of slot {head}");
            }
        }
    }
}
