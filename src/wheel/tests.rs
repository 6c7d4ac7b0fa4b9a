use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::model::{self, Harness, Op};
use super::*;

/// Ticks around the place where `level` wraps: 64^k - 1, 64^k, 64^k + 1. A few of them where each
/// instruction is interpreted.
fn around_wraps() -> impl Iterator<Item = u64> {
    let ticks = (0..LEVELS as u32).flat_map(|level| {
        let wrap = 1u64 << (BITS * level);
        [wrap - 1, wrap, wrap + 1].map(|tick| tick.max(1))
    });
    ticks.step_by(if cfg!(miri) { 8 } else { 1 })
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    // Distances of every magnitude, so that every level is reached.
    let span = (0..60u32, any::<u64>()).prop_map(|(bits, random)| random % (1 << bits).max(2));
    let near = (0u64..200).prop_map(|delta| delta);
    let delta = prop_oneof![span, near].boxed();
    let signed = (delta.clone(), prop::bool::weighted(0.1))
        .prop_map(|(delta, past)| if past { -(delta as i64) } else { delta as i64 });
    prop_oneof![
        6 => signed.prop_map(Op::Insert),
        2 => any::<usize>().prop_map(Op::Remove),
        2 => any::<usize>().prop_map(Op::Discard),
        1 => (any::<usize>(), delta.clone()).prop_map(|(entry, by)| Op::Postpone(entry, by)),
        3 => (delta, 1usize..6).prop_map(|(by, step)| Op::Turn(by, step)),
        2 => Just(Op::Step),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    vec(op(), 1..60)
}

/// Operations between turns in parts, whose slots are set aside.
fn ops_in_parts() -> impl Strategy<Value = Vec<Op>> {
    let spans = (0..36u32, any::<u64>()).prop_map(|(bits, random)| random % (1 << bits).max(2));
    let part = (spans, 1usize..6).prop_map(|(by, step)| Op::Part(by, step));
    vec(prop_oneof![3 => op(), 2 => part], 1..120)
}

/// The same operations in every run, so that a failure is the change's and not the day's. One
/// case where each instruction is interpreted.
pub(super) fn repeatable(cases: u32) -> ProptestConfig {
    let cases = if cfg!(miri) { 1 } else { cases };
    let rng_seed = RngSeed::Fixed(0x7075_7262_696c_6c6f);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(repeatable(2_000))]

    #[test]
    fn agrees_with_an_ordered_map_from_any_start(start in any::<u64>(), ops in ops()) {
        let start = start.clamp(Tick::PAST.raw(), Tick::LAST.raw());
        let mut harness = Harness::<Wheel<model::Entry>>::starting_at(Tick::from_raw(start));
        ops.iter().for_each(|op| harness.apply(op));
    }

    #[test]
    fn agrees_with_an_ordered_map_while_slots_are_set_aside(ops in ops_in_parts()) {
        let mut harness = Harness::<Wheel<model::Entry>>::starting_at(Tick::ORIGIN);
        ops.iter().for_each(|op| harness.apply(op));
        harness.apply(&Op::Turn(u64::MAX, 3));
    }
}

proptest! {
    #![proptest_config(repeatable(100))]

    #[test]
    fn agrees_with_an_ordered_map_around_every_wrap(ops in ops()) {
        for start in around_wraps() {
            let mut harness = Harness::<Wheel<model::Entry>>::starting_at(Tick::from_raw(start));
            ops.iter().for_each(|op| harness.apply(op));
        }
    }
}

thread_local! {
    /// Times that a deadline was read.
    static READS: Cell<usize> = const { Cell::new(0) };
}

struct Entry {
    place: Place,
    deadline: Cell<u64>,
}

impl Timed for Entry {
    fn place(&self) -> &Place {
        &self.place
    }

    fn due_by(&self) -> Tick {
        READS.set(READS.get() + 1);
        Tick::from_raw(self.deadline.get())
    }
}

fn filed(wheel: &mut Wheel<Entry>, deadline: u64) -> NodeKey {
    let new = || Entry { place: Place::new(), deadline: Cell::new(0) };
    let key = wheel.entries.allocate(new);
    let filed = wheel.insert(key, Tick::from_raw(deadline), Tick::from_raw(deadline));
    wheel.entries.value(key).place.file(filed);
    wheel.entries.value(key).deadline.set(deadline);
    key
}

fn remove(wheel: &mut Wheel<Entry>, key: NodeKey) {
    let filed = wheel.entries.value(key).place.filed();
    assert_eq!(wheel.remove(filed), key);
}

fn expired(wheel: &mut Wheel<Entry>, now: u64) -> usize {
    let mut count = 0;
    let turned = wheel.turn(Tick::from_raw(now), Allowance::UNLIMITED, |_, _| count += 1);
    assert_eq!(turned, Turned::Completely);
    count
}

#[test]
fn every_deadline_expires_at_its_tick_and_not_before() {
    for start in around_wraps() {
        for distance in around_wraps() {
            let Some(deadline) = start.checked_add(distance).filter(|d| *d <= Tick::LAST.raw())
            else {
                continue;
            };
            let mut wheel = Wheel::new(Tick::from_raw(start), Memory::AsNeeded);
            filed(&mut wheel, deadline);
            assert_eq!(wheel.next_due(), Some(Tick::from_raw(deadline)));
            assert_eq!(expired(&mut wheel, deadline - 1), 0, "{start} + {distance}");
            assert_eq!(expired(&mut wheel, deadline), 1, "{start} + {distance}");
        }
    }
}

#[test]
fn a_clock_that_steps_back_moves_nothing_and_expires_nothing_early() {
    let start = Tick::ORIGIN.raw();
    let mut wheel = Wheel::new(Tick::ORIGIN, Memory::AsNeeded);
    filed(&mut wheel, start + 100);
    assert_eq!(expired(&mut wheel, start + 50), 0);
    assert_eq!(expired(&mut wheel, start), 0);
    filed(&mut wheel, start + 10);
    filed(&mut wheel, start + 20);
    assert_eq!(expired(&mut wheel, start), 0, "turned past already, and yet to come again");
    assert_eq!(wheel.next_due(), Some(Tick::from_raw(start + 10)));
    assert_eq!(expired(&mut wheel, start + 10), 1);
    assert_eq!(wheel.next_due(), Some(Tick::from_raw(start + 20)));
    assert_eq!(expired(&mut wheel, start + 100), 2);
}

#[test]
fn what_a_clock_that_stepped_back_leaves_of_a_slot_is_not_set_aside() {
    let start = Tick::ORIGIN.raw();
    let mut wheel = Wheel::new(Tick::ORIGIN, Memory::AsNeeded);
    assert_eq!(expired(&mut wheel, start + 100), 0);
    for deadline in [start + 10, start + 20, start + 30] {
        filed(&mut wheel, deadline);
    }
    // The second is filed again in the same slot, and the third is left.
    let allowance = Allowance { expiries: 1, moves: 1 };
    assert_eq!(wheel.turn(Tick::from_raw(start + 10), allowance, |_, _| {}), Turned::Partly);
    wheel.set_aside();
    assert_eq!(expired(&mut wheel, start + 30), 2);
}

#[test]
fn a_slot_that_was_set_aside_may_lose_its_last_entry() {
    let mut wheel = Wheel::new(Tick::ORIGIN, Memory::AsNeeded);
    let begins = Tick::ORIGIN.raw() + 4096;
    let [_, left] = [begins + 1_000, begins + 2_000].map(|deadline| filed(&mut wheel, deadline));
    let allowance = Allowance { expiries: 0, moves: 1 };
    assert_eq!(wheel.turn(Tick::from_raw(begins), allowance, |_, _| {}), Turned::Partly);
    wheel.set_aside();
    remove(&mut wheel, left);
    assert_eq!([0, 2_000].map(|after| expired(&mut wheel, begins + after)), [0, 1]);
}

#[test]
fn of_equals_the_first_is_that_which_was_filed_first_also_in_the_middle_of_a_slot() {
    let mut wheel = Wheel::new(Tick::ORIGIN, Memory::AsNeeded);
    let begins = Tick::ORIGIN.raw().next_multiple_of(4096) + 4096;
    let keys: Vec<_> = (0..3).map(|_| filed(&mut wheel, begins + 5)).collect();
    // One of them is filed again, and the others are still in the slot that is being emptied.
    let allowance = Allowance { expiries: 0, moves: 1 };
    assert_eq!(wheel.turn(Tick::from_raw(begins), allowance, |_, _| {}), Turned::Partly);
    for key in keys {
        assert_eq!(wheel.first(), Some(key));
        remove(&mut wheel, key);
    }
}

/// The deadlines of the first entries, as they are handed out.
fn firsts(wheel: &Wheel<Entry>, most: usize) -> Vec<u64> {
    wheel.firsts(most).into_iter().rev().map(|(deadline, _)| deadline.raw()).collect()
}

#[test]
fn many_first_entries_are_found_by_a_look_at_each_entry_of_one_slot() {
    let mut wheel = Wheel::new(Tick::ORIGIN, Memory::AsNeeded);
    let begins = Tick::ORIGIN.raw() + (1 << 40);
    // In descending order, so that each is ahead of all that were seen before it.
    for deadline in (begins..begins + 1_000).rev().chain([begins + (1 << 40)]) {
        filed(&mut wheel, deadline);
    }
    READS.set(0);
    assert_eq!(firsts(&wheel, 30), (begins..begins + 30).collect::<Vec<_>>());
    assert_eq!(READS.get(), 1_000);
    assert_eq!(firsts(&wheel, 2_000).len(), 1_000, "the next slot is not walked");
}

#[test]
fn what_is_discarded_is_none_of_the_first_entries() {
    let mut wheel = Wheel::new(Tick::ORIGIN, Memory::AsNeeded);
    let begins = Tick::ORIGIN.raw() + (1 << 40);
    let keys: Vec<_> = (0..5).map(|n| filed(&mut wheel, begins + n)).collect();
    for key in [keys[0], keys[2]] {
        let filed = wheel.entries.value(key).place.filed();
        wheel.discard(filed);
    }
    assert_eq!(firsts(&wheel, 2), [begins + 1, begins + 3]);
}

#[test]
fn the_first_slot_is_that_with_an_entry_that_is_not_discarded() {
    let mut wheel = Wheel::new(Tick::ORIGIN, Memory::AsNeeded);
    let begins = Tick::ORIGIN.raw() + (1 << 40);
    let discarded = filed(&mut wheel, begins);
    for n in 0..5 {
        filed(&mut wheel, begins + (1 << 40) + n);
    }
    wheel.discard(wheel.entries.value(discarded).place.filed());
    assert!(wheel.finds_first_within(5) && !wheel.finds_first_within(4));
}

#[test]
fn the_first_entries_end_with_the_slot_if_others_are_still_to_be_filed_again() {
    let mut wheel = Wheel::new(Tick::ORIGIN, Memory::AsNeeded);
    let begins = Tick::ORIGIN.raw().next_multiple_of(4096) + 4096;
    // Two of them are filed again, in slots of their own.
    for after in [70, 200, 130, 71] {
        filed(&mut wheel, begins + after);
    }
    let allowance = Allowance { expiries: 0, moves: 2 };
    assert_eq!(wheel.turn(Tick::from_raw(begins), allowance, |_, _| {}), Turned::Partly);
    assert_eq!(firsts(&wheel, 4), [70, 71].map(|after| begins + after));
}

#[test]
fn debug_names_the_occupied_levels() {
    let mut wheel = Wheel::new(Tick::ORIGIN, Memory::AsNeeded);
    filed(&mut wheel, Tick::ORIGIN.raw() + 3);
    let shown = format!("{wheel:?}");
    assert!(shown.contains("elapsed: +0ns") && shown.contains("level 0"), "{shown}");
}
