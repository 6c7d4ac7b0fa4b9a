//! Schedules that change while they are moved.

use super::stores::{Interrupted, two_stores};
use super::{MOVED, SECOND};
use crate::id::ScheduleId;
use crate::mover::schedules::{removal, schedules};
use crate::mover::{Mover, Progress};
use crate::policy::Policies;
use crate::rule::Rule;
use crate::schedule::Schedule;
use crate::store::{Change, Changed, Memory, ScheduleRow, Store as _};

/// Makes a schedule of the place.
pub(super) fn schedule(store: &mut Memory) -> ScheduleRow {
    let next = store.now().unwrap() + SECOND * 60;
    let rule = Ok(Rule::new(Schedule::every(SECOND), Policies::default()));
    let row = ScheduleRow::new(ScheduleId::from_bits(1).at(MOVED), "t", "mail", rule, Some(next));
    assert!(store.adopt(&row).unwrap());
    row
}

#[test]
fn a_schedule_that_is_changed_as_it_is_put_back_is_put_back_later() {
    let [mut old, mut new] = two_stores();
    let row = schedule(&mut old);
    let before = |store: &mut Memory| {
        let found = store.schedule("t").unwrap().1.unwrap();
        let other = ScheduleRow { payload: b"other".to_vec(), ..found.clone() };
        let change = Change { row: Some(&other), ..removal(&found) };
        assert!(matches!(store.change(&change).unwrap(), Changed::Done { .. }));
    };
    let to = Interrupted { store: new.clone(), method: "shift", at: 1, before };
    let mut mover = Mover::new(MOVED, Box::new(old.clone()), Box::new(to));
    assert_eq!(mover.step().unwrap(), Progress::Waits(vec![]));
    assert_eq!(mover.step().unwrap(), Progress::Done);
    let found = schedules(&mut new, MOVED).unwrap().remove(0);
    assert_eq!((found.next, found.payload), (row.next, b"other".to_vec()));
}

#[test]
fn a_change_that_a_node_planned_before_a_move_is_stale() {
    let [mut old, mut new] = two_stores();
    let row = schedule(&mut old);
    let off = ScheduleRow { enabled: false, next: None, failing: true, ..row.clone() };
    let before = move |store: &mut Memory| {
        let change = Change { row: Some(&off), ..removal(&row) };
        assert_eq!(store.change(&change).unwrap(), Changed::Stale);
    };
    // Once the schedule is put off.
    let from = Interrupted { store: old.clone(), method: "timers", at: 3, before };
    let mut mover = Mover::new(MOVED, Box::new(from), Box::new(new.clone()));
    assert_eq!(mover.step().unwrap(), Progress::Done);
    assert!(schedules(&mut new, MOVED).unwrap()[0].enabled);
}

#[test]
fn dead_runs_of_a_schedule_that_was_not_disabled_yet_are_forgotten() {
    let [mut old, mut new] = two_stores();
    let next = old.now().unwrap() + SECOND * 60;
    for (bits, name, enabled) in [(1, "enabled", true), (2, "off", false)] {
        let rule = Ok(Rule::new(Schedule::every(SECOND), Policies::default()));
        let id = ScheduleId::from_bits(bits).at(MOVED);
        let row = ScheduleRow::new(id, name, "mail", rule, enabled.then_some(next));
        assert!(old.adopt(&ScheduleRow { enabled, failing: true, ..row }).unwrap());
    }
    let mut mover = Mover::new(MOVED, Box::new(old.clone()), Box::new(new.clone()));
    assert_eq!(mover.step().unwrap(), Progress::Done);
    let moved = schedules(&mut new, MOVED).unwrap();
    let moved: Vec<_> = moved.iter().map(|row| (row.enabled, row.failing, row.next)).collect();
    assert_eq!(moved, [(true, false, Some(next)), (false, true, None)]);
}
