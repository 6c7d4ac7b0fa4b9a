//! Timers that change while they are moved, or cannot be.

use super::schedules::schedule;
use super::stores::{Apart, Interrupted, Noted, Promoted, two_stores};
use super::{MOVED, SECOND, STAYS};
use crate::error::StoreErrorKind;
use crate::id::{Place, ScheduleId, TimerId};
use crate::mover::schedules::{removal, schedules};
use crate::mover::timers::BYTES;
use crate::mover::{Mover, PAGE, Progress};
use crate::policy::Policies;
use crate::record::Reason;
use crate::rule::Rule;
use crate::schedule::Schedule;
use crate::store::transfer::sent;
use crate::store::{
    Memory, NewTimer, RecordQuery, ScheduleRow, Store as _, Timer, TimerQuery, TimerUpdate,
    Transfer,
};
use crate::time::Time;

#[test]
fn a_timer_that_leaves_its_lane_while_the_list_is_read_is_moved() {
    let [mut old, mut new] = two_stores();
    let due = old.now().unwrap() + SECOND * 60;
    // A page of what stays, between where the timer is due and where it waits.
    for n in 0..PAGE {
        let id = TimerId::from_bits(u128::from(n) << 64).at(STAYS);
        old.insert(&[NewTimer::new(id, "mail", due + SECOND)]).unwrap();
    }
    let waits = NewTimer::new(TimerId::from_bits(0x77 << 64).at(MOVED), "mail", due);
    let waits = NewTimer { lane: Some("a lane".to_owned()), ..waits };
    old.insert(std::slice::from_ref(&waits)).unwrap();
    let from = Promoted { store: old.clone(), lists: 0 };
    assert_eq!(
        Mover::new(MOVED, Box::new(from), Box::new(new.clone())).step().unwrap(),
        Progress::Done
    );
    let found = TimerQuery::new().timer(waits.id);
    assert_eq!(old.timers(&found).unwrap(), []);
    assert_eq!(new.timers(&found).unwrap()[0].new, waits);
}

#[test]
fn a_mover_names_what_is_in_its_way() {
    let [mut old, mut new] = two_stores();
    let [from, to] = [old.clone(), new.clone()];
    let mover = || Mover::new(MOVED, Box::new(from.clone()), Box::new(to.clone()));
    let back = Mover::new(MOVED, Box::new(to.clone()), Box::new(from.clone()));
    let refusal = |mut mover: Mover| {
        let error = mover.step().unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Invalid);
        error.to_string()
    };
    let due = old.now().unwrap() + SECOND;
    let timer = |number: u128, place: Place| {
        let id = TimerId::from_bits(number << 64).at(place);
        NewTimer { name: Some("taken".to_owned()), ..NewTimer::new(id, "mail", due) }
    };
    let (moved, stays) = (timer(1, MOVED), timer(2, STAYS));
    old.insert(std::slice::from_ref(&moved)).unwrap();
    new.insert(std::slice::from_ref(&stays)).unwrap();
    let error = refusal(mover());
    assert!(error.contains(&moved.id.to_string()) && error.contains("`taken`"), "{error}");
    assert_eq!(old.timers(&TimerQuery::new()).unwrap().len(), 1);
    new.cancel(stays.id).unwrap();

    let rule = Ok(Rule::new(Schedule::every(SECOND), Policies::default()));
    let row = ScheduleRow::new(ScheduleId::from_bits(1).at(MOVED), "twice", "mail", rule, None);
    let other = ScheduleRow { id: ScheduleId::from_bits(2).at(MOVED), ..row.clone() };
    assert!(old.adopt(&row).unwrap() && new.adopt(&other).unwrap());
    let error = refusal(mover());
    assert!(error.contains("another schedule `twice`"), "{error}");
    new.change(&removal(&other)).unwrap();

    // It is held and taken, and its record is pruned.
    let row = Timer::new(moved.clone());
    let away = sent(row.clone()).unwrap();
    new.transfer(Transfer::Hold, std::slice::from_ref(&away)).unwrap();
    let error = refusal(back);
    assert!(error.contains("an earlier move to the old store is not ended"), "{error}");
    old.transfer(Transfer::Surrender, &[row]).unwrap();
    old.prune(Time::NEVER, 10).unwrap();
    let error = refusal(mover());
    assert!(error.contains(&moved.id.to_string()) && error.contains("no record"), "{error}");
    assert_eq!(new.timers(&TimerQuery::new()).unwrap(), [away]);
    assert_eq!(new.cancel(moved.id).unwrap(), TimerUpdate::Done);
    assert_eq!(mover().step().unwrap(), Progress::Done);
    assert_eq!(new.timers(&TimerQuery::new()).unwrap(), []);

    // One that a client of the new store has cancelled stays so.
    let again = timer(3, MOVED);
    old.insert(std::slice::from_ref(&again)).unwrap();
    let row = Timer::new(again.clone());
    let away = sent(row.clone()).unwrap();
    new.transfer(Transfer::Hold, &[away]).unwrap();
    old.transfer(Transfer::Surrender, &[row]).unwrap();
    new.cancel(again.id).unwrap();
    assert_eq!(mover().step().unwrap(), Progress::Done);
    let record = new.records(&RecordQuery::new().timer(again.id)).unwrap().remove(0);
    assert_eq!(record.reason, Some(Reason::Cancelled));
    assert_eq!(new.timers(&TimerQuery::new()).unwrap(), []);
}

#[test]
fn what_is_made_on_the_old_store_at_the_end_of_a_move_is_moved_too() {
    let [mut old, mut new] = two_stores();
    let row = schedule(&mut old);
    let due = old.now().unwrap() + SECOND * 60;
    let late = NewTimer::new(TimerId::from_bits(7 << 64).at(MOVED), "mail", due);
    let made = late.clone();
    let before = move |store: &mut Memory| drop(store.insert(std::slice::from_ref(&made)).unwrap());
    // As the schedule is removed from the old store.
    let from = Interrupted { store: old.clone(), method: "change", at: 1, before };
    let mut mover = Mover::new(MOVED, Box::new(from), Box::new(new.clone()));
    assert_eq!(mover.step().unwrap(), Progress::Waits(vec![late.id]));
    assert_eq!(mover.step().unwrap(), Progress::Done);
    assert_eq!(old.timers(&TimerQuery::new()).unwrap(), []);
    assert_eq!(new.timers(&TimerQuery::new()).unwrap()[0].new, late);
    assert_eq!(schedules(&mut new, MOVED).unwrap()[0].next, row.next);
}

#[test]
fn a_timer_that_the_old_store_has_and_has_recorded_is_named() {
    let [mut timers, mut records] = two_stores();
    let [_, new] = two_stores();
    let due = timers.now().unwrap() + SECOND;
    let twice = NewTimer::new(TimerId::from_bits(7 << 64).at(MOVED), "mail", due);
    for store in [&mut timers, &mut records] {
        store.insert(std::slice::from_ref(&twice)).unwrap();
    }
    records.cancel(twice.id).unwrap();
    let from = Apart { timers: timers.clone(), records };
    let mut mover = Mover::new(MOVED, Box::new(from), Box::new(new.clone()));
    for _ in 0..2 {
        let error = mover.step().unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Invalid);
        let error = error.to_string();
        assert!(error.contains(&twice.id.to_string()), "{error}");
        assert!(error.contains("cancel it on the old store"), "{error}");
    }
    timers.cancel(twice.id).unwrap();
    assert_eq!(mover.step().unwrap(), Progress::Done);
    assert_eq!(new.connect().unwrap().timers(&TimerQuery::new()).unwrap(), []);
}

#[test]
fn long_payloads_are_carried_in_small_parts() {
    let [mut old, new] = two_stores();
    let due = old.now().unwrap() + SECOND * 60;
    let payload = vec![7; BYTES / 4];
    for n in 1..=60 {
        let place = if n % 2 == 0 { MOVED } else { STAYS };
        let id = TimerId::from_bits(n << 64).at(place);
        let timer = NewTimer { payload: payload.clone(), ..NewTimer::new(id, "mail", due) };
        old.insert(&[timer]).unwrap();
    }
    let ((from, read), (to, sent)) = (Noted::around(&old), Noted::around(&new));
    assert_eq!(Mover::new(MOVED, from, to).step().unwrap(), Progress::Done);
    assert_eq!(new.connect().unwrap().timers(&TimerQuery::new()).unwrap().len(), 30);
    for calls in [read, sent] {
        let calls = calls.lock().unwrap();
        let most = calls.iter().map(|(_, bytes)| *bytes).max().unwrap();
        assert!((BYTES / 2..=BYTES).contains(&most), "{most} bytes");
    }
}

#[test]
fn only_names_that_are_in_the_way_are_looked_up() {
    let [mut old, mut new] = two_stores();
    let due = old.now().unwrap() + SECOND * 60;
    let named = |number: u128, name: usize| {
        let id = TimerId::from_bits(number << 64).at(MOVED);
        NewTimer { name: Some(format!("name-{name}")), ..NewTimer::new(id, "mail", due) }
    };
    let timers: Vec<_> = (0..40).map(|n| named(1 + n as u128, n)).collect();
    old.insert(&timers).unwrap();
    let away: Vec<_> = timers.iter().filter_map(|new| sent(Timer::new(new.clone()))).collect();
    assert_eq!(new.transfer(Transfer::Hold, &away).unwrap().len(), 40);
    // Since an earlier mover held them, two have ended, and others have their names.
    let mut others = Vec::new();
    for n in [3, 30] {
        assert_eq!(old.cancel(timers[n].id).unwrap(), TimerUpdate::Done);
        others.push(named(100 + n as u128, n));
    }
    old.insert(&others).unwrap();
    let (from, calls) = Noted::around(&old);
    assert_eq!(Mover::new(MOVED, from, Box::new(new.clone())).step().unwrap(), Progress::Done);
    let calls = calls.lock().unwrap();
    assert_eq!(calls.iter().filter(|(name, _)| *name == "records").count(), 2);
    let moved = new.timers(&TimerQuery::new()).unwrap();
    assert_eq!(moved.len(), 40);
    assert!(others.iter().all(|other| moved.iter().any(|timer| timer.new == *other)));
}
