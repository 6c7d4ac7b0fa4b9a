//! The order of a [`DelayQueue`](super::DelayQueue)'s entries: a wheel, and the first of them.

use alloc::vec::Vec;

use crate::platform::Wheel;
use crate::queue::Order;
use crate::queue::slab::{ENTRIES, Item, Slab};
use crate::sync::unmodelled::{AtomicU32, AtomicU64};
use crate::sync::{Ordering, SetOnce};
use crate::tick::Tick;
use crate::wheel::{self, Allowance, Filed, Memory, Place, Timed, Turned};

/// Part of an entry that the wheel holds. Atomic only because a wheel shares its entries: the owner
/// of the queue alone reaches it.
struct InWheel {
    deadline: AtomicU64,
    place: Place,
    /// Its index in the slab; plus [`LISTED`] while it is in [`ByDeadline::firsts`].
    index: AtomicU32,
}

/// Bit that no index in the slab has.
const LISTED: u32 = 1 << 31;
const _: () = assert!(ENTRIES <= LISTED as usize);

impl InWheel {
    fn new() -> Self {
        let (deadline, index) = (AtomicU64::new(0), AtomicU32::new(0));
        Self { deadline, place: Place::new(), index }
    }

    fn set(&self, deadline: Tick, filed: Filed, index: u32) {
        self.place.file(filed);
        // ORDERING: Relaxed, twice; the owner of the queue is alone with it.
        self.deadline.store(deadline.raw(), Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
    }

    /// Its index in the slab, and whether it is listed.
    #[inline]
    fn index(&self) -> (u32, bool) {
        // ORDERING: Relaxed; as above.
        let index = self.index.load(Ordering::Relaxed);
        (index & !LISTED, index & LISTED != 0)
    }

    /// Notes whether it is listed in [`ByDeadline::firsts`].
    fn list(&self, is_listed: bool) {
        let (index, _) = self.index();
        // ORDERING: Relaxed; threads that find the same entries first all store the same.
        self.index.store(if is_listed { index | LISTED } else { index }, Ordering::Relaxed);
    }
}

impl Timed for InWheel {
    fn place(&self) -> &Place {
        &self.place
    }

    fn due_by(&self) -> Tick {
        // ORDERING: Relaxed; as in `set`.
        Tick::from_raw(self.deadline.load(Ordering::Relaxed))
    }
}

/// The entry's key in the wheel; `None` if it never expires.
type Position = Option<wheel::NodeKey>;

/// Entries that are walked each time that the first is asked for. If there are more in the first
/// slot, a walk finds the next ones too. A bound for each block would leave a walk of all blocks,
/// and to file them at finer levels, the wheel would have to pass deadlines that may still come.
const FEW: usize = 8;

/// Entries that are known to be the first after a walk, at most. Inserts ahead of them may add
/// fewer than as many again.
const FIRSTS_MAX: usize = 1_024;

/// A wheel of the places of entries.
pub(super) struct ByDeadline {
    wheel: Wheel<InWheel>,
    /// The deadline that the wheel is being turned to, if there may be more entries of it.
    turning_to: Option<Tick>,
    /// The entries that are due first, in reverse order, since somebody asked for the first, and
    /// until all of them have left. All others are due after these. Each is marked as [`LISTED`].
    firsts: SetOnce<Vec<(Tick, wheel::NodeKey)>>,
}

impl From<Tick> for ByDeadline {
    fn from(now: Tick) -> Self {
        let (wheel, firsts) = (Wheel::new(now, Memory::AsNeeded), SetOnce::new());
        Self { wheel, turning_to: None, firsts }
    }
}

impl ByDeadline {
    /// Turns the wheel to `goal`, or until so many entries have come out of it. Returns the last,
    /// and whether it is listed.
    fn turn(&mut self, goal: Tick, expiries: usize) -> (Option<(u32, bool)>, Turned) {
        let mut due = None;
        let turned =
            self.wheel.turn(goal, Allowance { expiries, moves: usize::MAX }, |entry, _| {
                due = Some(entry.index());
            });
        (due, turned)
    }

    /// Walks a slot, and marks its first entries.
    fn find_firsts(&self) -> Vec<(Tick, wheel::NodeKey)> {
        let most = self.wheel.len().isqrt().clamp(FEW, FIRSTS_MAX);
        let firsts = self.wheel.firsts(most);
        firsts.iter().for_each(|(_, key)| self.wheel.entries.value(*key).list(true));
        firsts
    }

    /// Lists an entry that was just filed, behind equal ones, if the last listed entry is due after
    /// it.
    #[cold]
    fn note_filed(
        firsts: &mut Vec<(Tick, wheel::NodeKey)>,
        wheel: &Wheel<InWheel>,
        deadline: Tick,
        key: wheel::NodeKey,
    ) {
        if firsts.first().is_none_or(|(last, _)| deadline >= *last) {
            return;
        }
        let place = firsts.partition_point(|(other, _)| *other > deadline);
        firsts.insert(place, (deadline, key));
        wheel.entries.value(key).list(true);
        if firsts.len() == 2 * FIRSTS_MAX {
            for (_, key) in firsts.drain(..FIRSTS_MAX) {
                wheel.entries.value(key).list(false);
            }
        }
    }

    /// Takes an entry that leaves the wheel off the list.
    #[cold]
    fn forget(&mut self, deadline: Tick, key: wheel::NodeKey) {
        let firsts = self.firsts.get_mut().expect("the first ones are known");
        let equals = firsts.partition_point(|(other, _)| *other > deadline);
        let place = (equals..firsts.len()).rev().find(|place| firsts[*place].1 == key);
        firsts.remove(place.expect("it is one of them"));
        if firsts.is_empty() {
            self.firsts = SetOnce::new();
        }
    }
}

impl Order for ByDeadline {
    type Position = Position;

    #[inline]
    fn file<T>(&mut self, slab: &mut Slab<T, Self::Position>, index: u32) {
        let entry = slab.entry_mut(index);
        if entry.deadline == Tick::NEVER {
            return;
        }
        let key = self.wheel.entries.allocate(InWheel::new);
        let filed = self.wheel.insert(key, entry.deadline, entry.deadline);
        self.wheel.entries.value(key).set(entry.deadline, filed, index);
        entry.position = Some(key);
        if let Some(firsts) = self.firsts.get_mut() {
            Self::note_filed(firsts, &self.wheel, entry.deadline, key);
        }
    }

    #[inline]
    fn remove<T>(&mut self, slab: &mut Slab<T, Self::Position>, index: u32) {
        let Item { deadline, position, .. } = slab.entry_mut(index);
        if let Some(key) = position.take() {
            let entry = self.wheel.entries.value(key);
            let (filed, (_, is_listed)) = (entry.place().filed(), entry.index());
            if is_listed {
                self.forget(*deadline, key);
            }
            // Out of its block with the next ones, as each block lies anywhere in memory.
            self.wheel.discard(filed);
        }
    }

    fn take_due<T>(&mut self, slab: &mut Slab<T, Self::Position>, now: Tick) -> Option<u32> {
        loop {
            // From deadline to deadline, since a turn past several hands them out by the slot. The
            // wheel files the rest of each slot at a finer level, so a look for the earliest
            // deadline costs no more than that, and equal deadlines cost no look.
            let goal = match self.turning_to {
                Some(goal) => goal,
                None if self.wheel.next_due()? > now => return None,
                None => match self.wheel.first_due()? {
                    earliest if earliest <= now => earliest,
                    // The bound belonged to a removed entry. Entries ahead are filed finely, so
                    // that the next such bound is not found out by a walk past them all again.
                    _ => {
                        self.turn(now, usize::MAX);
                        return None;
                    }
                },
            };
            let (due, turned) = self.turn(goal, 1);
            self.turning_to = (turned == Turned::Partly).then_some(goal);
            if let Some((index, is_listed)) = due {
                let Item { deadline, position, .. } = slab.entry_mut(index);
                if let Some(key) = position.take() {
                    if is_listed {
                        self.forget(*deadline, key);
                    }
                    self.wheel.entries.release(key);
                }
                return Some(index);
            }
        }
    }

    fn bound<T>(&mut self, _slab: &Slab<T, Self::Position>) -> Tick {
        // An entry that is still filed has a bound, and would be waited for.
        self.wheel.take_back_discarded();
        self.wheel.next_due().unwrap_or(Tick::NEVER)
    }

    fn earliest<T>(&mut self, _slab: &Slab<T, Self::Position>) -> Tick {
        self.wheel.first_due().unwrap_or(Tick::NEVER)
    }

    fn first<T>(&self, _slab: &Slab<T, Self::Position>) -> Option<u32> {
        let first = if self.firsts.get().is_none() && self.wheel.finds_first_within(FEW) {
            self.wheel.first()?
        } else {
            self.firsts.get_or_init(|| self.find_firsts()).last()?.1
        };
        Some(self.wheel.entries.value(first).index().0)
    }

    fn clear(&mut self, now: Tick) {
        *self = Self::from(now);
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    /// Tick from which on entries share a slot.
    const BEGINS: u64 = Tick::ORIGIN.raw() + (1 << 40);

    /// Entries of one slot, each so long after it begins.
    fn filled(deadlines: impl Iterator<Item = u64>) -> (ByDeadline, Slab<(), Position>) {
        let (mut order, mut slab) = (ByDeadline::from(Tick::ORIGIN), Slab::new());
        for deadline in deadlines {
            insert(&mut order, &mut slab, deadline);
        }
        (order, slab)
    }

    fn insert(order: &mut ByDeadline, slab: &mut Slab<(), Position>, deadline: u64) -> u32 {
        let index = slab.insert((), Tick::from_raw(BEGINS + deadline), None);
        order.file(slab, index);
        index
    }

    /// Asks for the first entry and removes it, until there is none. Returns their deadlines, and
    /// how many of them were found by a walk.
    fn drain(order: &mut ByDeadline, slab: &mut Slab<(), Position>) -> (Vec<u64>, usize) {
        let (mut deadlines, mut walks) = (Vec::new(), 0);
        loop {
            walks += usize::from(order.firsts.get().is_none());
            let Some(first) = order.first(slab) else { break };
            assert_eq!(order.first(slab), Some(first));
            order.remove(slab, first);
            deadlines.push(slab.remove(first).deadline.raw() - BEGINS);
        }
        (deadlines, walks)
    }

    const COUNT: u64 = if cfg!(miri) { 300 } else { 10_000 };

    #[test]
    fn who_asks_for_the_first_entry_and_removes_it_walks_once_for_many() {
        // Each once, in no order.
        let (mut order, mut slab) = filled((0..COUNT).map(|n| n * 7_919 % COUNT));
        let (deadlines, walks) = drain(&mut order, &mut slab);
        assert_eq!(deadlines, (0..COUNT).collect::<Vec<_>>());
        assert!(walks <= 2 * COUNT.isqrt() as usize + FEW, "{walks} walks");
    }

    #[test]
    fn entries_that_come_and_go_leave_the_order_of_the_known_ones_as_it_is() {
        let (mut order, mut slab) = filled((0..COUNT).map(|n| 10 * (n * 7_919 % COUNT)));
        let first = order.first(&slab).expect("there are many");
        assert_eq!(slab.entry(first).deadline.raw() - BEGINS, 0);
        // Ahead of all, between, and behind all that are known.
        let added: Vec<_> = (0..COUNT).map(|n| n * 13 % COUNT * 10 + 5).collect();
        let inserted: Vec<_> = added.iter().map(|n| insert(&mut order, &mut slab, *n)).collect();
        for index in inserted.iter().step_by(3) {
            order.remove(&mut slab, *index);
            slab.remove(*index);
        }
        let known = order.firsts.get().expect("some are left").len();
        assert!(known <= 2 * FIRSTS_MAX, "{known} are known");
        let left = |n: &usize| n % 3 != 0;
        let mut expected: Vec<_> = (0..added.len()).filter(left).map(|n| added[n]).collect();
        expected.extend((0..COUNT).map(|n| 10 * n));
        expected.sort_unstable();
        assert_eq!(drain(&mut order, &mut slab).0, expected);
    }

    #[test]
    fn so_many_inserts_ahead_of_the_known_entries_are_not_all_known() {
        let (mut order, mut slab) = filled(COUNT..2 * COUNT);
        let first = order.first(&slab).expect("there are many");
        for deadline in (0..COUNT).rev() {
            insert(&mut order, &mut slab, deadline);
        }
        let known = order.firsts.get().expect("they are known");
        assert!(size_of_val(&known[0]) * known.capacity() <= 32 << 10, "as `peek` says");
        // It may be known no more, and leaves all the same.
        order.remove(&mut slab, first);
        slab.remove(first);
        let left = (0..2 * COUNT).filter(|deadline| *deadline != COUNT);
        assert_eq!(drain(&mut order, &mut slab).0, left.collect::<Vec<_>>());
    }

    #[test]
    fn what_is_inserted_with_the_deadline_of_a_known_entry_comes_after_it() {
        let (mut order, mut slab) = filled((0..20).map(|n| n / 2));
        order.first(&slab).expect("there are some");
        let inserted = insert(&mut order, &mut slab, 1);
        let mut places = Vec::new();
        for _ in 0..6 {
            let first = order.first(&slab).expect("many are left");
            order.remove(&mut slab, first);
            places.push(first);
        }
        assert_eq!(places, [0, 1, 2, 3, inserted, 4]);
    }

    #[test]
    fn the_first_entry_is_not_kept_where_few_share_its_slot() {
        for entries_of_slot in 1..=FEW as u64 {
            let deadlines = (0..40).flat_map(|slot| vec![slot << 36; entries_of_slot as usize]);
            let (mut order, mut slab) = filled(deadlines);
            let mut places = Vec::new();
            while let Some(first) = order.first(&slab) {
                assert!(order.firsts.get().is_none(), "memory was allocated");
                order.remove(&mut slab, first);
                places.push(first);
            }
            assert!(places.iter().copied().eq(0..40 * entries_of_slot as u32));
        }
        // Nor where removed entries share it.
        let (mut order, mut slab) = filled((0..20).chain([1 << 36]));
        for index in 0..19 {
            order.remove(&mut slab, index);
        }
        assert_eq!(order.first(&slab), Some(19));
        order.remove(&mut slab, 19);
        assert_eq!(order.first(&slab), Some(20));
        assert!(order.firsts.get().is_none());
    }

    #[test]
    fn an_entry_that_is_handed_out_is_not_known_any_more() {
        let (mut order, mut slab) = filled(0..20);
        assert_eq!(order.first(&slab), Some(0));
        assert_eq!(order.take_due(&mut slab, Tick::from_raw(BEGINS)), Some(0));
        assert_eq!(order.first(&slab), Some(1));
    }

    #[test]
    fn equal_deadlines_stay_in_order_though_some_of_them_are_known() {
        let (mut order, mut slab) = filled([7; 20].into_iter());
        let known = order.first(&slab).expect("there are some");
        assert_eq!(known, 0);
        let last = insert(&mut order, &mut slab, 7);
        order.remove(&mut slab, 0);
        order.file(&mut slab, 0);
        let mut places = Vec::new();
        while let Some(first) = order.first(&slab) {
            order.remove(&mut slab, first);
            places.push(first);
        }
        assert_eq!(places, (1..=last).chain([0]).collect::<Vec<_>>());
    }
}
