//! Timers and schedules on their way from one store to another.

use std::slice::from_ref;
use std::time::Duration;

use super::{Bench, LONG, MOMENT, Rig, done, retry};
use crate::id::TimerId;
use crate::record::{Outcome, Reason};
use crate::store::transfer::{receive, sent};
use crate::store::{
    Amendment, Change, Changed, How, Inserted, NewTimer, RecordQuery, ScheduleQuery, ScheduleRow,
    Timer, TimerQuery, TimerUpdate, Transfer,
};
use crate::time::Time;

/// The year 2100, which no clock of a test shows.
const FAR: Time = Time::from_micros(4_102_444_800_000_000);

impl Bench<'_> {
    fn transfer(&mut self, step: Transfer, timer: &Timer) -> bool {
        let applies = self.store.transfer(step, from_ref(timer)).unwrap();
        assert!(applies.is_empty() || applies == [timer.new.id]);
        !applies.is_empty()
    }

    /// A timer as another store may have it, which has failed once.
    fn tried(&mut self, due: Time) -> Timer {
        let new = NewTimer { scheduled_for: due, due, ..self.timer(LONG) };
        let detail = "no answer".to_owned();
        Timer { attempt: 3, failures: 1, detail, version: 4, ..Timer::new(new) }
    }

    fn reason(&mut self, id: TimerId) -> Option<Reason> {
        self.store.records(&RecordQuery::new().timer(id)).unwrap().pop()?.reason
    }
}

pub(super) fn a_timer_is_held_and_released_as_it_was(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    for due in [FAR, Time::NEVER] {
        let timer = bench.tried(due);
        let away = sent(timer.clone()).unwrap();
        for _ in 0..2 {
            assert!(bench.transfer(Transfer::Hold, &away));
            assert_eq!(bench.row(timer.new.id).as_ref(), Some(&away));
        }
        assert!(!bench.transfer(Transfer::Surrender, &away), "it is not from here");
        assert!(bench.transfer(Transfer::Release, &away));
        assert_eq!(bench.row(timer.new.id).as_ref(), Some(&timer));
        // Nothing of it is away any more.
        for step in [Transfer::Hold, Transfer::Release, Transfer::Drop] {
            assert!(!bench.transfer(step, &away), "{step:?}");
            assert_eq!(bench.row(timer.new.id).as_ref(), Some(&timer));
        }
    }
    // What was due meanwhile is due now, and its next attempt is the next.
    let late = bench.tried(Time::from_micros(0));
    let away = sent(late.clone()).unwrap();
    assert!(bench.transfer(Transfer::Hold, &away));
    let before = bench.now();
    assert!(bench.transfer(Transfer::Release, &away));
    let claimed = bench.claim(late.new.id).unwrap();
    assert!(claimed.new.due >= before);
    assert_eq!((claimed.attempt, claimed.failures, &*claimed.detail), (4, 1, "no answer"));
    assert_eq!(claimed.new, NewTimer { due: claimed.new.due, ..late.new });
    assert!(!bench.transfer(Transfer::Hold, &away), "it runs");
    assert_eq!(bench.store.transfer(Transfer::Hold, &[]).unwrap(), []);
}

pub(super) fn a_timer_that_is_away_is_as_it_was_read_last(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let first = sent(bench.tried(FAR)).unwrap();
    assert!(bench.transfer(Transfer::Hold, &first));
    let attempt = Timer { attempt: 4, detail: "later".to_owned(), ..first.clone() };
    let version = Timer { version: 5, ..attempt.clone() };
    for later in [&attempt, &version] {
        assert!(bench.transfer(Transfer::Hold, later));
        assert_eq!(bench.row(first.new.id).as_ref(), Some(later));
        assert!(bench.transfer(Transfer::Hold, &first));
        assert_eq!(bench.row(first.new.id).as_ref(), Some(later));
    }
    let other = Timer { new: NewTimer { due: FAR, ..first.new.clone() }, ..first.clone() };
    assert!(!bench.transfer(Transfer::Drop, &other));
    assert!(bench.transfer(Transfer::Drop, &first));
    assert_eq!((bench.row(first.new.id), bench.records()), (None, vec![]));
}

pub(super) fn what_is_recorded_or_whose_name_is_taken_is_not_held(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut timer = bench.tried(FAR);
    timer.new.name = Some("taken".to_owned());
    let away = sent(timer.clone()).unwrap();
    let mut rival = bench.timer(LONG);
    rival.name = Some("taken".to_owned());
    assert_eq!(bench.store.insert(from_ref(&rival)).unwrap(), [Inserted::Created]);
    assert!(!bench.transfer(Transfer::Hold, &away));
    assert_eq!(bench.store.find("taken").unwrap().unwrap().new.id, rival.id);
    assert_eq!(bench.store.cancel(rival.id).unwrap(), TimerUpdate::Done);
    assert!(bench.transfer(Transfer::Hold, &away));
    assert_eq!(bench.store.cancel(timer.new.id).unwrap(), TimerUpdate::Done);
    assert!(!bench.transfer(Transfer::Hold, &away), "it is cancelled here");
    // One that was moved from here comes back, and its record goes.
    let here = bench.timer(LONG);
    bench.store.insert(from_ref(&here)).unwrap();
    let here = bench.row(here.id).unwrap();
    assert!(!bench.transfer(Transfer::Moved, &here));
    assert!(bench.transfer(Transfer::Surrender, &here));
    assert!(bench.transfer(Transfer::Moved, &here));
    assert_eq!(bench.store.insert(from_ref(&here.new)).unwrap(), [Inserted::Exists(here.new.id)]);
    let away = sent(here.clone()).unwrap();
    assert!(bench.transfer(Transfer::Hold, &away));
    assert!(!bench.transfer(Transfer::Moved, &here));
    assert!(bench.transfer(Transfer::Release, &away));
    assert_eq!(bench.row(here.new.id), Some(here));
}

pub(super) fn a_timer_is_surrendered_as_it_was_read(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.insert(Duration::ZERO);
    let read = bench.row(id).unwrap();
    bench.claim(id).unwrap();
    assert!(!bench.transfer(Transfer::Surrender, &read), "it runs");
    bench.finish(id, 1, retry(LONG));
    assert!(!bench.transfer(Transfer::Surrender, &read), "it ran");
    let read = bench.row(id).unwrap();
    assert_eq!(bench.store.reschedule(id, FAR, None, None).unwrap(), TimerUpdate::Done);
    assert!(!bench.transfer(Transfer::Surrender, &read), "it was changed");
    let read = bench.row(id).unwrap();
    assert_eq!(bench.records(), []);
    assert!(bench.transfer(Transfer::Surrender, &read));
    assert!(!bench.transfer(Transfer::Surrender, &read), "it is gone");
    let records = bench.records();
    let [record] = &records[..] else { panic!("{records:?}") };
    let found = (record.timer, record.outcome, record.reason, record.attempts, record.failures);
    assert_eq!(found, (id, Outcome::Cancelled, Some(Reason::Moved), 1, 1));
    assert_eq!(bench.claim(id), None);
}

pub(super) fn what_is_stopped_is_not_surrendered(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("stopped", LONG);
    let now = bench.now();
    let new = bench.occurrence(&row, now, now);
    bench.store.insert(from_ref(&new)).unwrap();
    bench.claim(new.id).unwrap();
    let off = ScheduleRow { enabled: false, next: None, ..row.clone() };
    let withdraw = Some(Reason::Disabled);
    let change =
        Change { name: &row.name, expect: Some(1), row: Some(&off), withdraw, skipped: &[] };
    assert!(matches!(bench.store.change(&change).unwrap(), Changed::Done { .. }));
    bench.finish(new.id, 1, How::HandBack);
    let read = bench.row(new.id).unwrap();
    assert!(!bench.transfer(Transfer::Surrender, &read));
    assert_eq!(bench.store.maintain().unwrap().stopped, 1);
    assert_eq!(bench.reason(new.id), Some(Reason::Disabled));
}

pub(super) fn what_is_away_is_not_run(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.schedule("queued", LONG);
    let (mut timers, now) = (Vec::new(), bench.now());
    for n in 0..2 {
        let at = now - MOMENT * n;
        let new = NewTimer { scheduled_for: at, due: at, ..bench.timer(LONG) };
        let lane = Some("a lane".to_owned());
        let queued = NewTimer { has_queue: true, ..bench.occurrence(&row, at, Time::NEVER) };
        timers.push(NewTimer { lane: lane.clone(), due: Time::NEVER, ..new.clone() });
        timers.push(NewTimer { id: TimerId::new(at), lane, ..new.clone() });
        timers.push(NewTimer { id: TimerId::new(at), ..new });
        timers.push(queued);
    }
    let away: Vec<_> = timers.into_iter().filter_map(|new| sent(Timer::new(new))).collect();
    let mut ids: Vec<_> = away.iter().map(|timer| timer.new.id).collect();
    assert_eq!(bench.store.transfer(Transfer::Hold, &away).unwrap().len(), ids.len());
    // The lane and the queue belong to what is on this store.
    let here = NewTimer { lane: Some("a lane".to_owned()), ..bench.timer(Duration::ZERO) };
    bench.store.insert(from_ref(&here)).unwrap();
    let promoted = bench.store.promote(&["a lane".to_owned()]).unwrap();
    assert_eq!(promoted.iter().map(|front| front.id).collect::<Vec<_>>(), [here.id]);
    assert_eq!(bench.store.maintain().unwrap().promoted, 0);
    assert_eq!(bench.pending(), [here.id]);
    ids.sort();
    assert_eq!(bench.store.claim(bench.lease, &ids).unwrap().timers, []);
    // Released, they are in the lane, which has a front, and in the queue.
    assert_eq!(bench.store.transfer(Transfer::Release, &away).unwrap().len(), ids.len());
    for timer in &away {
        let row = bench.row(timer.new.id).unwrap();
        let waits = row.new.lane.is_some() || row.new.has_queue;
        assert_eq!(row.new.due == Time::NEVER, waits, "{row:?}");
        assert!(row.new.lane.is_none_or(|lane| lane == "a lane"));
    }
    // The first of the queue has its turn; the front of the lane lets an earlier one pass.
    assert_eq!(bench.store.maintain().unwrap().promoted, 2);
}

pub(super) fn a_client_finds_and_cancels_a_timer_that_is_away(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut timer = bench.tried(FAR);
    timer.new.name = Some("away".to_owned());
    let away = sent(timer.clone()).unwrap();
    assert!(bench.transfer(Transfer::Hold, &away));
    assert_eq!(bench.store.find("away").unwrap().as_ref(), Some(&away));
    assert_eq!(bench.store.timers(&TimerQuery::new()).unwrap(), from_ref(&away));
    assert_eq!(receive(away.new.due), Some(FAR));
    assert_eq!(bench.store.insert(from_ref(&timer.new)).unwrap(), [Inserted::Exists(timer.new.id)]);
    assert_eq!(bench.store.cancel(timer.new.id).unwrap(), TimerUpdate::Done);
    for step in [Transfer::Release, Transfer::Drop, Transfer::Hold] {
        assert!(!bench.transfer(step, &away), "{step:?}");
    }
    assert_eq!(bench.reason(timer.new.id), Some(Reason::Cancelled));
    assert_eq!(bench.row(timer.new.id), None);
}

pub(super) fn a_timer_that_is_away_is_neither_rescheduled_nor_amended(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    for due in [FAR, Time::NEVER] {
        let timer = bench.tried(due);
        let away = sent(timer.clone()).unwrap();
        assert!(bench.transfer(Transfer::Hold, &away));
        let (id, now) = (timer.new.id, bench.now());
        for expect in [None, Some(timer.version), Some(timer.version + 1)] {
            let changed = bench.store.reschedule(id, now, Some(b"other"), expect).unwrap();
            assert_eq!(changed, TimerUpdate::Gone, "{expect:?}");
        }
        let Timer { attempt, version, .. } = timer;
        let amendment =
            Amendment { timer: id, attempt, version, pause: Duration::ZERO, detail: "other" };
        assert_eq!(bench.store.amend(&amendment).unwrap(), TimerUpdate::Gone);
        assert_eq!(bench.row(id).as_ref(), Some(&away));
        assert!(bench.transfer(Transfer::Release, &away));
        let done = bench.store.reschedule(id, now, None, Some(timer.version)).unwrap();
        assert_eq!(done, TimerUpdate::Done);
        assert!(bench.claim(id).is_some());
    }
    // One that is in a lane is away in another one.
    let mut waits = bench.tried(Time::NEVER);
    waits.new.lane = Some("a lane".to_owned());
    let away = sent(waits.clone()).unwrap();
    assert!(bench.transfer(Transfer::Hold, &away));
    let changed = bench.store.reschedule(waits.new.id, FAR, None, None).unwrap();
    assert_eq!((changed, bench.row(waits.new.id)), (TimerUpdate::Gone, Some(away)));
}

pub(super) fn an_occurrence_that_is_known_under_another_id_is_not_held(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("often", LONG);
    let now = bench.now();
    let new = bench.occurrence(&row, now, now);
    let twin = Timer::new(bench.occurrence(&row, now, now));
    let away = sent(twin.clone()).unwrap();
    assert_ne!(twin.new.id, new.id);
    bench.store.insert(from_ref(&new)).unwrap();
    assert!(!bench.transfer(Transfer::Hold, &away), "it is pending");
    bench.claim(new.id).unwrap();
    bench.finish(new.id, 1, done());
    assert!(!bench.transfer(Transfer::Hold, &away), "it has run");
    assert_eq!((bench.row(twin.new.id), bench.records().len()), (None, 1));
    // The next is another occurrence.
    let next = sent(Timer::new(bench.occurrence(&row, now + MOMENT, now))).unwrap();
    assert!(bench.transfer(Transfer::Hold, &next));
}

pub(super) fn a_front_that_comes_from_another_store_keeps_its_place(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let lane = Some("a lane".to_owned());
    let mut claimed = bench.tried(FAR);
    claimed.new.lane = lane.clone();
    let earlier = NewTimer { lane, ..bench.timer(Duration::ZERO) };
    let [claimed_away, earlier_away] =
        [claimed.clone(), Timer::new(earlier.clone())].map(|timer| sent(timer).unwrap());
    for away in [&claimed_away, &earlier_away] {
        assert!(bench.transfer(Transfer::Hold, away));
    }
    assert!(bench.transfer(Transfer::Release, &claimed_away));
    assert_eq!(bench.row(claimed.new.id).as_ref(), Some(&claimed));
    assert!(bench.transfer(Transfer::Release, &earlier_away));
    assert_eq!(bench.store.promote(&["a lane".to_owned()]).unwrap(), []);
    assert_eq!(bench.row(earlier.id).unwrap().new.due, Time::NEVER);
    // A second that was claimed, of another place, waits until the first has ended.
    let mut second = bench.tried(FAR);
    second.new.lane = claimed.new.lane.clone();
    let second = sent(second).unwrap();
    assert!(bench.transfer(Transfer::Hold, &second));
    assert!(bench.transfer(Transfer::Release, &second));
    assert_eq!(bench.row(second.new.id).unwrap().new.due, Time::NEVER);
}

pub(super) fn a_schedule_is_shifted_and_adopted_as_it_is(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("moved", LONG);
    let away = ScheduleRow { next: Some(FAR), version: row.version + 1, ..row.clone() };
    for other in [
        ScheduleRow { version: 2, ..row.clone() },
        ScheduleRow { next: Some(FAR + MOMENT), ..row.clone() },
        ScheduleRow { next: None, ..row.clone() },
    ] {
        assert!(!bench.store.shift(&other, FAR).unwrap());
    }
    assert!(bench.store.shift(&row, FAR).unwrap());
    assert_eq!(bench.store.schedule("moved").unwrap().1.as_ref(), Some(&away));
    assert!(!bench.store.shift(&row, FAR).unwrap());
    let late = Change {
        name: "moved",
        expect: Some(row.version),
        row: Some(&row),
        withdraw: Some(Reason::Disabled),
        skipped: &[],
    };
    assert_eq!(bench.store.change(&late).unwrap(), Changed::Stale);

    let other = bench.schedule("other", LONG);
    let off = ScheduleRow { enabled: false, paused: Some(FAR), version: 7, ..other.clone() };
    for (row, is_new) in [
        (&off, true),
        (&off, false),
        (&ScheduleRow { id: away.id, ..bench.schedule("third", LONG) }, false),
        (&ScheduleRow { name: "moved".to_owned(), ..bench.schedule("third", LONG) }, false),
    ] {
        assert_eq!(bench.store.adopt(row).unwrap(), is_new, "{row:?}");
    }
    let found = bench.store.schedules(&ScheduleQuery::new()).unwrap();
    assert_eq!(found, [away, off]);
}
