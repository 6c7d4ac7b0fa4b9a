//! Schedules, and how they become timers and records.

use std::time::Duration;

use super::{Bench, LONG, MOMENT, Rig, advance, change, done, join_again, retry};
use crate::id::{ScheduleId, Shards, TimerId};
use crate::policy::{Missed, Overlap, Policies, Retry};
use crate::record::{Outcome, Reason};
use crate::rule::Rule;
use crate::schedule::{Excluded, Schedule};
use crate::store::{
    Advance, Advanced, Change, Changed, Filled, Finished, How, ManualRun, NewOccurrence, NewTimer,
    Past, ScheduleQuery, ScheduleRow, Skip, TimerQuery, TimerUpdate, Unfinished, UpcomingQuery,
};
use crate::time::Time;

const SECOND: Duration = Duration::from_secs(1);

fn skip(scheduled_for: Time, reason: Reason) -> Skip {
    let outcome = Outcome::Skipped;
    Skip { id: TimerId::new(scheduled_for), scheduled_for, outcome, reason }
}

/// A schedule with one occurrence in the table: due now, and not claimed.
fn with_occurrence(bench: &mut Bench<'_>) -> (ScheduleRow, TimerId) {
    let mut row = bench.scheduled("nightly", Duration::ZERO);
    let at = row.next.unwrap();
    let timer = bench.occurrence(&row, at, at);
    let timers = [timer];
    bench.advance(&row, at + SECOND, &timers);
    row.next = Some(at + SECOND);
    (row, timers[0].id)
}

pub(super) fn a_change_needs_the_version_it_was_made_for(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("nightly", LONG);
    let found = bench.store.schedule("nightly").unwrap().1;
    assert_eq!(found.as_ref(), Some(&row));
    let other = ScheduleRow { payload: vec![8], enabled: false, next: None, ..row.clone() };
    let mut set = |expect| bench.store.change(&Change { expect, ..change(&other) }).unwrap();
    assert_eq!(
        (set(None), set(Some(2)), set(Some(0))),
        (Changed::Stale, Changed::Stale, Changed::Stale)
    );
    assert_eq!(set(Some(1)), Changed::Done { claimed: Vec::new() });
    assert_eq!(set(Some(1)), Changed::Stale);
    let found = bench.store.schedule("nightly").unwrap().1.unwrap();
    assert_eq!(found, ScheduleRow { version: 2, ..other });
    assert_eq!(bench.store.schedule("daily").unwrap().1, None);
}

pub(super) fn new_schedules_are_made_together(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let old = bench.scheduled("old", LONG);
    let names = ["zulu", "old", "alpha", "zulu"];
    let rows = names.map(|name| bench.schedule(name, LONG));
    let lane = Some("north".to_owned());
    let last = ScheduleRow { lane, enabled: false, next: None, ..bench.schedule("last", LONG) };
    let rows: Vec<ScheduleRow> = rows.into_iter().chain([last]).collect();
    assert_eq!(bench.store.create_schedules(&rows).unwrap(), [true, false, true, false, true]);
    for (name, row) in [("zulu", &rows[0]), ("old", &old), ("alpha", &rows[2]), ("last", &rows[4])]
    {
        assert_eq!(bench.store.schedule(name).unwrap().1.as_ref(), Some(row));
    }
    assert_eq!(bench.store.create_schedules(&rows).unwrap(), [false; 5]);
}

pub(super) fn an_advance_needs_the_schedule_as_it_was_read(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("nightly", Duration::ZERO);
    let at = row.next.unwrap();
    let good = advance(&row, at + SECOND);
    for bad in [
        Advance { version: 2, ..good },
        Advance { from: at + SECOND, ..good },
        Advance { schedule: ScheduleId::from_bits(3), ..good },
    ] {
        assert_eq!(bench.store.advance(&bad).unwrap(), Advanced::Stale);
    }
    assert_eq!(bench.store.advance(&good).unwrap(), Advanced::Done);
    assert_eq!(bench.store.advance(&good).unwrap(), Advanced::Stale);
    let found = bench.store.schedule("nightly").unwrap().1.unwrap();
    assert_eq!((found.next, found.version), (Some(at + SECOND), 1));
}

pub(super) fn an_advance_inserts_and_records(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("nightly", Duration::ZERO);
    let at = row.next.unwrap();
    let (first, second) = (at + SECOND, at + SECOND * 2);
    let timer = bench.occurrence(&row, second, second + LONG);
    let late = bench.occurrence(&row, at - SECOND, at - SECOND);
    let (timers, skipped) = ([timer, late], [skip(first, Reason::Missed)]);
    let full = Advance { timers: &timers, skipped: &skipped, ..advance(&row, at + SECOND * 3) };
    let before = bench.now();
    assert_eq!(bench.store.advance(&full).unwrap(), Advanced::Done);
    let found = bench.row(timers[0].id).unwrap();
    assert_eq!((&found.new, found.attempt), (&timers[0], 0));
    assert!(bench.row(timers[1].id).unwrap().new.due >= before);
    let records = bench.records();
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!((record.scheduled_for, record.timer), (first, skipped[0].id));
    assert_eq!((record.outcome, record.reason), (Outcome::Skipped, Some(Reason::Missed)));
    assert_eq!((record.schedule, record.name.as_deref()), (Some(row.id), Some("nightly")));
    assert_eq!((&record.kind[..], record.attempts, record.node), ("bill", 0, None));
}

pub(super) fn an_advance_makes_no_occurrence_twice(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (mut row, id) = with_occurrence(&mut bench);
    let at = row.next.unwrap() - SECOND;
    let (again, skips) = (bench.occurrence(&row, at, at), [skip(at, Reason::Missed)]);
    let again = [again];
    for _ in 0..2 {
        let next = row.next.unwrap() + SECOND;
        let repeated = Advance { timers: &again, skipped: &skips, ..advance(&row, next) };
        assert_eq!(bench.store.advance(&repeated).unwrap(), Advanced::Done);
        row.next = Some(next);
        assert_eq!(bench.row(again[0].id), None);
        if bench.claim(id).is_some() {
            assert_eq!(bench.records(), []);
            assert_eq!(bench.finish(id, 1, done()), Finished::Accepted);
        }
    }
    assert_eq!(bench.records().len(), 1);
}

pub(super) fn a_batch_of_advances_is_answered_in_its_order(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (busy, id) = with_occurrence(&mut bench);
    let names = ["one", "stale", "other", "last"];
    let rows = names.map(|name| bench.scheduled(name, Duration::ZERO));
    let timers = rows.each_ref().map(|row| {
        let at = row.next.unwrap();
        [bench.occurrence(row, at, at)]
    });
    let all = |row: usize| {
        let next = rows[row].next.unwrap() + SECOND;
        Advance { timers: &timers[row], only_idle: row == 2, ..advance(&rows[row], next) }
    };
    let next = busy.next.unwrap();
    let batch = [
        all(0),
        Advance { version: 7, ..all(1) },
        Advance { only_idle: true, ..advance(&busy, next + SECOND) },
        all(2),
        all(3),
    ];
    let mut answers = Vec::new();
    while answers.len() < batch.len() {
        let more = bench.store.advance_batch(&batch[answers.len()..]).unwrap();
        assert!(!more.is_empty());
        answers.extend(more);
    }
    use Advanced::{Busy, Done, Stale};
    assert_eq!(answers, [Done, Stale, Busy, Done, Done]);
    for (row, timer) in [0, 2, 3].map(|row| (&rows[row], &timers[row][0])) {
        assert_eq!(bench.row(timer.id).unwrap().new.schedule, Some(row.id));
        let moved = bench.store.schedule(&row.name).unwrap().1.unwrap();
        assert_eq!(moved.next, Some(row.next.unwrap() + SECOND));
    }
    assert_eq!(bench.row(timers[1][0].id), None);
    assert_eq!(bench.store.schedule("stale").unwrap().1.unwrap().next, rows[1].next);
    assert_eq!(bench.store.schedule("nightly").unwrap().1.unwrap().next, Some(next));
    assert!(bench.claim(id).is_some());
}

pub(super) fn an_advance_waits_for_what_is_unfinished(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (row, id) = with_occurrence(&mut bench);
    let next = row.next.unwrap();
    let idle = Advance { only_idle: true, ..advance(&row, next + SECOND) };
    assert_eq!(bench.store.advance(&idle).unwrap(), Advanced::Busy);
    assert!(bench.claim(id).is_some());
    assert_eq!(bench.store.advance(&idle).unwrap(), Advanced::Busy);
    assert_eq!(bench.finish(id, 1, retry(LONG)), Finished::Accepted);
    assert_eq!(bench.store.advance(&idle).unwrap(), Advanced::Busy);
    assert_eq!(bench.store.schedule("nightly").unwrap().1.unwrap().next, Some(next));
    assert_eq!(bench.store.cancel(id).unwrap(), TimerUpdate::Done);
    assert_eq!(bench.store.advance(&idle).unwrap(), Advanced::Done);
}

pub(super) fn a_disabled_schedule_does_not_advance(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("nightly", Duration::ZERO);
    let off = ScheduleRow { enabled: false, ..row.clone() };
    let changed = bench.store.change(&change(&off)).unwrap();
    assert_eq!(changed, Changed::Done { claimed: Vec::new() });
    let off = bench.store.schedule("nightly").unwrap().1.unwrap();
    assert_eq!(off.version, 2);
    let next = row.next.unwrap() + SECOND;
    assert_eq!(bench.store.advance(&advance(&off, next)).unwrap(), Advanced::Stale);
    assert_eq!(bench.store.upcoming(&UpcomingQuery::new(LONG, 9)).unwrap().schedules, []);
}

pub(super) fn a_change_renews_what_was_never_claimed(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (row, running) = with_occurrence(&mut bench);
    let at = row.next.unwrap();
    let timers = [1, 2, 3].map(|number| bench.occurrence(&row, at + SECOND * number, at - SECOND));
    let [pending, retried, queued] = timers.each_ref().map(|timer| timer.id);
    bench.advance(&row, at + SECOND * 4, &timers);
    assert!(bench.claim(retried).is_some());
    assert_eq!(bench.finish(retried, 1, retry(LONG)), Finished::Accepted);
    assert!(bench.claim(running).is_some());
    let other = bench.insert(LONG);
    let before = [running, retried, other].map(|id| bench.row(id).unwrap());

    let policies = Policies {
        retry: Retry::new(7, SECOND, LONG),
        overlap: Overlap::Queue { at_most: 3 },
        ..row.rule().unwrap().policies
    };
    let schedule = row.rule().unwrap().schedule.clone();
    let rule = Ok(Rule::new(schedule, policies));
    let new = ScheduleRow { payload: vec![8, 9], rule, next: Some(at + SECOND * 4), ..row };
    let Changed::Done { mut claimed } = bench.store.change(&change(&new)).unwrap() else {
        panic!("it was as it was read")
    };
    claimed.sort_unstable();
    let mut expected = [(running, 1), (retried, 1)];
    expected.sort_unstable();
    assert_eq!(claimed, expected);
    assert_eq!([running, retried, other].map(|id| bench.row(id).unwrap()), before);
    for (id, of) in [(pending, &timers[0]), (queued, &timers[2])] {
        let found = bench.row(id).unwrap();
        let values = (&found.new.payload[..], found.new.retry, found.new.has_queue);
        assert_eq!(values, (&[8, 9][..], Retry::new(7, SECOND, LONG), true));
        assert_eq!((found.new.scheduled_for, found.version), (of.scheduled_for, 2));
    }
    assert_eq!(bench.claim(pending).unwrap().new.payload, [8, 9]);
    // What has the values already keeps its version.
    let again = ScheduleRow { version: 2, ..new };
    bench.store.change(&change(&again)).unwrap();
    assert_eq!(bench.row(queued).unwrap().version, 2);
}

pub(super) fn a_withdrawal_takes_back_what_is_pending(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (row, due) = with_occurrence(&mut bench);
    let later = row.next.unwrap() + LONG;
    let queued_for = row.next.unwrap() - SECOND - Duration::from_micros(1);
    let timers =
        [bench.occurrence(&row, later, later), bench.occurrence(&row, queued_for, Time::NEVER)];
    bench.advance(&row, later + SECOND, &timers);
    let other = bench.insert(Duration::ZERO);

    let skips = [skip(later + LONG, Reason::Disabled), skip(queued_for, Reason::Disabled)];
    let off = ScheduleRow { enabled: false, ..row.clone() };
    let withdraw = Some(Reason::Disabled);
    let off = Change { withdraw, skipped: &skips, ..change(&off) };
    let changed = bench.store.change(&off).unwrap();
    assert_eq!(changed, Changed::Done { claimed: Vec::new() });
    assert_eq!(bench.pending(), [other]);
    assert_eq!(bench.claim(due), None);
    let mut records = bench.records();
    records.sort_by_key(|record| record.scheduled_for);
    let ends: Vec<_> = records.iter().map(|record| (record.timer, record.outcome)).collect();
    let cancelled = Outcome::Cancelled;
    let expected = [(timers[1].id, cancelled), (due, cancelled), (skips[0].id, Outcome::Skipped)];
    assert_eq!(ends, expected);
    assert!(records.iter().all(|record| record.reason == withdraw));
}

pub(super) fn a_withdrawal_names_what_runs(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (row, id) = with_occurrence(&mut bench);
    assert!(bench.claim(id).is_some());
    let withdraw = Some(Reason::Replaced);
    let changed = bench.store.change(&Change { withdraw, ..change(&row) }).unwrap();
    assert_eq!(changed, Changed::Done { claimed: vec![(id, 1)] });
    assert_eq!(bench.finish(id, 1, done()), Finished::Accepted);
}

pub(super) fn a_withdrawal_records_what_was_attempted(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (row, _) = with_occurrence(&mut bench);
    let (at, later) = (row.next.unwrap(), row.next.unwrap() + LONG);
    let timers = [bench.occurrence(&row, later, at - SECOND)];
    let id = timers[0].id;
    bench.advance(&row, at + SECOND, &timers);
    assert!(bench.claim(id).is_some());
    let rain = How::Retry(LONG, "rain".to_owned());
    assert_eq!(bench.finish(id, 1, rain), Finished::Accepted);
    let withdraw = Some(Reason::Replaced);
    bench.store.change(&Change { withdraw, ..change(&row) }).unwrap();
    let records = bench.records();
    let record = records.iter().find(|record| record.timer == id).unwrap();
    assert_eq!((record.attempts, &record.detail[..]), (1, "rain"));
}

pub(super) fn what_runs_when_its_schedule_stops_does_not_run_again(rig: &dyn Rig) {
    let ways = [How::HandBack, retry(Duration::ZERO), How::Postpone(Duration::ZERO, None)];
    let mut bench = Bench::new(rig);
    for (number, how) in ways.into_iter().enumerate() {
        let row = bench.scheduled(&format!("nightly {number}"), Duration::ZERO);
        let at = row.next.unwrap();
        let timers = [bench.occurrence(&row, at, at)];
        let id = timers[0].id;
        bench.advance(&row, at + LONG, &timers);
        assert!(bench.claim(id).is_some());
        let off = ScheduleRow { enabled: false, next: None, ..row.clone() };
        let withdraw = Some(Reason::Disabled);
        let changed = bench.store.change(&Change { withdraw, ..change(&off) }).unwrap();
        assert_eq!(changed, Changed::Done { claimed: vec![(id, 1)] });
        // Also if the schedule continues meanwhile.
        let on = ScheduleRow { version: 2, next: Some(at + LONG), ..row };
        bench.store.change(&change(&on)).unwrap();
        bench.pass(MOMENT);

        assert_eq!(bench.finish(id, 1, how), Finished::Accepted);
        bench.pass(MOMENT);
        assert_eq!(bench.scan(SECOND, None).timers, []);
        assert_eq!(bench.claim(id), None);
        bench.store.maintain().unwrap();
        assert_eq!(bench.row(id), None);
        let records = bench.records();
        let record = records.iter().find(|record| record.timer == id).unwrap();
        let ended = (record.outcome, record.reason, record.attempts);
        assert_eq!(ended, (Outcome::Cancelled, withdraw, 1));
    }
}

pub(super) fn an_orphan_of_a_stopped_schedule_does_not_run_again(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (row, id) = with_occurrence(&mut bench);
    assert!(bench.claim(id).is_some());
    let removal = Change { row: None, withdraw: Some(Reason::Removed), ..change(&row) };
    bench.store.change(&removal).unwrap();
    bench.store.leave(bench.lease).unwrap();
    bench.lease = join_again(&mut *bench.store, bench.lease, LONG);
    assert_eq!(bench.claim(id), None);
    bench.store.maintain().unwrap();
    assert_eq!(bench.records()[0].reason, Some(Reason::Removed));
}

/// An occurrence of `row`, to be made now.
fn extra(bench: &mut Bench<'_>, row: &ScheduleRow) -> NewTimer {
    let id = TimerId::new(bench.now());
    NewTimer { id, ..bench.occurrence(row, Time::NEVER, Time::NEVER) }
}

fn insert_occurrence(bench: &mut Bench<'_>, timer: &NewTimer, queue: Option<u32>) -> ManualRun {
    bench.store.insert_occurrence(&NewOccurrence { timer, version: 1, queue }).unwrap()
}

pub(super) fn an_occurrence_of_now_is_made_once(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("nightly", LONG);
    let [one, two] = [(); 2].map(|()| extra(&mut bench, &row));
    let before = bench.now();
    for timer in [&one, &two] {
        let ManualRun::Done { due } = insert_occurrence(&mut bench, timer, None) else { panic!() };
        let found = bench.row(timer.id).unwrap().new;
        assert!(due >= before && due <= bench.now());
        assert_eq!(found, NewTimer { due, scheduled_for: found.scheduled_for, ..timer.clone() });
        assert!(found.scheduled_for <= due && found.scheduled_for >= before - SECOND);
        assert_eq!(insert_occurrence(&mut bench, timer, None), ManualRun::Exists);
    }
    assert!(bench.claim(one.id).is_some());
    assert_eq!(bench.finish(one.id, 1, done()), Finished::Accepted);
    assert_eq!(insert_occurrence(&mut bench, &one, None), ManualRun::Exists);
    assert_eq!((bench.records().len(), bench.row(one.id)), (1, None));
    assert_eq!(bench.store.schedule("nightly").unwrap().1, Some(row));
}

pub(super) fn an_occurrence_of_now_needs_the_schedule_as_it_was_read(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("nightly", LONG);
    let timer = extra(&mut bench, &row);
    let good = NewOccurrence { timer: &timer, version: 1, queue: None };
    let other = NewTimer { schedule: Some(ScheduleId::from_bits(3)), ..timer.clone() };
    for bad in [NewOccurrence { version: 2, ..good }, NewOccurrence { timer: &other, ..good }] {
        assert_eq!(bench.store.insert_occurrence(&bad).unwrap(), ManualRun::Stale);
    }
    let off = ScheduleRow { enabled: false, ..row };
    bench.store.change(&change(&off)).unwrap();
    for version in [1, 2] {
        assert_eq!(
            bench.store.insert_occurrence(&NewOccurrence { version, ..good }).unwrap(),
            ManualRun::Stale
        );
    }
    assert_eq!(bench.pending(), []);
}

pub(super) fn an_occurrence_of_now_waits_or_is_refused(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("nightly", LONG);
    let [first, second, third] = [(); 3].map(|()| extra(&mut bench, &row));
    assert!(matches!(insert_occurrence(&mut bench, &first, Some(0)), ManualRun::Done { .. }));
    assert_eq!(insert_occurrence(&mut bench, &second, Some(0)), ManualRun::Busy);
    assert!(bench.claim(first.id).is_some());
    assert_eq!(insert_occurrence(&mut bench, &second, Some(0)), ManualRun::Busy);
    assert_eq!(
        insert_occurrence(&mut bench, &second, Some(1)),
        ManualRun::Done { due: Time::NEVER }
    );
    assert_eq!(insert_occurrence(&mut bench, &third, Some(1)), ManualRun::Busy);
    assert_eq!(bench.claim(second.id), None);
    assert_eq!(bench.finish(first.id, 1, done()), Finished::Accepted);
    assert_eq!(insert_occurrence(&mut bench, &third, Some(0)), ManualRun::Busy);
    assert_eq!(bench.store.maintain().unwrap().promoted, 1);
    assert!(bench.claim(second.id).is_some());
    assert!(matches!(insert_occurrence(&mut bench, &third, None), ManualRun::Done { .. }));
}

pub(super) fn an_occurrence_of_now_is_taken_back(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("nightly", LONG);
    let [one, two] = [(); 2].map(|()| extra(&mut bench, &row));
    for timer in [&one, &two] {
        assert!(matches!(insert_occurrence(&mut bench, timer, Some(1)), ManualRun::Done { .. }));
    }
    let off = ScheduleRow { enabled: false, ..row };
    let withdraw = Some(Reason::Disabled);
    bench.store.change(&Change { withdraw, ..change(&off) }).unwrap();
    assert_eq!((bench.claim(one.id), bench.pending()), (None, Vec::new()));
    let records = bench.records();
    let mut found: Vec<TimerId> = records.iter().map(|record| record.timer).collect();
    let mut expected = [one.id, two.id];
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert!(records.iter().all(|record| record.reason == withdraw));
}

/// Backfills occurrences of `row`, so many seconds ago, and returns the answer.
fn backfill(bench: &mut Bench<'_>, row: &ScheduleRow, ago: &[u32], limit: u32) -> Filled {
    let base = row.next.unwrap();
    let due = Time::from_micros(0);
    let timer = |ago: &u32| bench.occurrence(row, base - SECOND * *ago, due);
    let timers: Vec<_> = ago.iter().map(timer).collect();
    let past = Past { schedule: row.id, version: row.version, timers: &timers, limit };
    bench.store.backfill(&past).unwrap()
}

pub(super) fn a_backfill_makes_what_is_missing_once(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("nightly", LONG);
    let other = bench.scheduled("other", LONG);
    let ago = |ago: u32| row.next.unwrap() - SECOND * ago;
    let skip = |ago: u32, outcome, reason| Skip {
        id: TimerId::new(row.next.unwrap()),
        scheduled_for: row.next.unwrap() - SECOND * ago,
        outcome,
        reason,
    };
    let skipped = [
        skip(1_005, Outcome::Skipped, Reason::Missed),
        skip(1_004, Outcome::Cancelled, Reason::Disabled),
    ];
    bench.store.change(&Change { skipped: &skipped, ..change(&row) }).unwrap();
    let row = ScheduleRow { version: 2, ..row };
    let made = |made, existed| Filled::Done { made, existed };
    // Skipped occurrences are made; cancelled ones are not.
    let five = [1_005, 1_004, 1_003, 1_002, 1_001];
    assert_eq!(backfill(&mut bench, &row, &five, 2), made(2, 1));
    assert_eq!(backfill(&mut bench, &row, &five, 9), made(2, 3));
    assert_eq!(backfill(&mut bench, &row, &five, 9), made(0, 5));
    assert_eq!(backfill(&mut bench, &row, &five, 0), made(0, 0));
    assert_eq!(backfill(&mut bench, &other, &five[..1], 9), made(1, 0));
    let records = bench.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].scheduled_for, ago(1_004));
    // They are due, and finished occurrences are not made again.
    let timers = bench.store.timers(&TimerQuery::new().name("nightly")).unwrap();
    let mut times: Vec<Time> = timers.iter().map(|timer| timer.new.scheduled_for).collect();
    times.sort();
    assert_eq!(times, [1_005, 1_003, 1_002, 1_001].map(ago));
    for timer in timers {
        let claimed = bench.claim(timer.new.id).unwrap();
        assert_eq!((claimed.attempt, claimed.new.payload), (1, vec![7]));
        assert_eq!(bench.finish(timer.new.id, 1, done()), Finished::Accepted);
    }
    assert_eq!(backfill(&mut bench, &row, &five, 9), made(0, 5));
}

pub(super) fn a_backfill_needs_the_schedule_as_it_was_read(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("nightly", LONG);
    let later = ScheduleRow { version: 2, ..row.clone() };
    assert_eq!(backfill(&mut bench, &later, &[1_000], 9), Filled::Stale);
    let gone = ScheduleRow { id: ScheduleId::from_bits(9), ..row.clone() };
    assert_eq!(backfill(&mut bench, &gone, &[1_000], 9), Filled::Stale);
    let off = ScheduleRow { enabled: false, ..row };
    bench.store.change(&change(&off)).unwrap();
    let off = ScheduleRow { version: 2, ..off };
    assert_eq!(backfill(&mut bench, &off, &[1_000], 9), Filled::Stale);
    assert_eq!((bench.pending(), bench.records()), (vec![], vec![]));
}

pub(super) fn a_backfilled_occurrence_waits_for_those_before_it(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("nightly", LONG);
    let now = bench.now();
    let timers = [9, 8].map(|ago| bench.occurrence(&row, now - SECOND * ago, Time::NEVER));
    let past = Past { schedule: row.id, version: 1, timers: &timers, limit: 9 };
    let filled = bench.store.backfill(&past).unwrap();
    assert_eq!(filled, Filled::Done { made: 2, existed: 0 });
    for timer in &timers {
        assert_eq!(bench.claim(timer.id), None);
        assert_eq!(bench.store.maintain().unwrap().promoted, 1);
        assert!(bench.claim(timer.id).is_some());
        assert_eq!(bench.store.maintain().unwrap().promoted, 0);
        assert_eq!(bench.finish(timer.id, 1, done()), Finished::Accepted);
    }
}

pub(super) fn a_schedule_keeps_until_when_it_is_paused(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let now = bench.now();
    for (n, paused) in [None, Some(now + LONG)].into_iter().enumerate() {
        let name = format!("schedule {n}");
        let row = ScheduleRow { paused, ..bench.schedule(&name, LONG) };
        bench.put(&row);
        assert_eq!(bench.store.schedule(&name).unwrap().1, Some(row.clone()));
        let other = ScheduleRow { paused: Some(now), ..row };
        bench.store.change(&change(&other)).unwrap();
        let other = ScheduleRow { version: 2, ..other };
        assert_eq!(bench.store.schedule(&name).unwrap().1, Some(other.clone()));
        let listed = bench.store.schedules(&ScheduleQuery::new().name(&name)).unwrap();
        assert_eq!(listed, [other]);
    }
}

pub(super) fn upcoming_keeps_to_time_shards_and_limit(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let rows = [3, 1, 2].map(|n| bench.scheduled(&n.to_string(), LONG * n));
    let mut never = bench.schedule("never", LONG);
    never.next = None;
    bench.put(&never);
    let mut names = |ahead: Duration, shards: Shards, limit: u32| -> String {
        let found = bench
            .store
            .upcoming(&UpcomingQuery { shards, ..UpcomingQuery::new(ahead, limit) })
            .unwrap()
            .schedules;
        found.iter().map(|(row, _)| &row.name[..]).collect()
    };
    assert_eq!(names(LONG * 9, Shards::ALL, 9), "123");
    assert_eq!(names(LONG * 9, Shards::ALL, 2), "12");
    assert_eq!(names(LONG * 2, Shards::ALL, 9), "12");
    assert_eq!(names(MOMENT, Shards::ALL, 9), "");
    let without = |row: &ScheduleRow| Shards::from_mask(!(1 << row.id.shard()));
    assert!(!names(LONG * 9, without(&rows[0]), 9).contains('3'));
    let found = bench.store.upcoming(&UpcomingQuery::new(LONG * 9, 9)).unwrap().schedules;
    assert_eq!(found[2].0, rows[0]);
}

pub(super) fn upcoming_counts_what_occupies_a_schedule(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (mut row, id) = with_occurrence(&mut bench);
    let idle = bench.scheduled("idle", Duration::ZERO);
    let at = row.next.unwrap();
    let timers = [1, 2].map(|n| bench.occurrence(&row, at + SECOND * n, Time::NEVER));
    row.next = Some(at);
    bench.advance(&row, at + SECOND * 3, &timers);
    let mut occupied = |wanted: ScheduleId| {
        let found = bench.store.upcoming(&UpcomingQuery::new(LONG, 9)).unwrap().schedules;
        found.iter().find(|(row, _)| row.id == wanted).unwrap().1
    };
    assert_eq!(occupied(row.id), Unfinished { unfinished: 1, queued: 2 });
    assert_eq!(occupied(idle.id), Unfinished::default());
    assert!(bench.claim(id).is_some());
    assert_eq!(bench.finish(id, 1, done()), Finished::Accepted);
    let found = bench.store.upcoming(&UpcomingQuery::new(LONG, 9)).unwrap().schedules;
    assert!(found.iter().any(|(_, of)| *of == Unfinished { unfinished: 0, queued: 2 }));
}

pub(super) fn a_queued_timer_is_claimed_after_those_before_it(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (row, first) = with_occurrence(&mut bench);
    let at = row.next.unwrap();
    let timers = [2, 1].map(|n| bench.occurrence(&row, at + SECOND * n, Time::NEVER));
    let [third, second] = [timers[0].id, timers[1].id];
    bench.advance(&row, at + SECOND * 3, &timers);

    assert_eq!(bench.store.maintain().unwrap().promoted, 0);
    assert!(bench.claim(first).is_some());
    assert_eq!(bench.store.maintain().unwrap().promoted, 0);
    assert_eq!(bench.finish(first, 1, retry(LONG)), Finished::Accepted);
    assert_eq!(bench.store.maintain().unwrap().promoted, 0);
    assert_eq!((bench.claim(second), bench.claim(third)), (None, None));
    assert_eq!(bench.store.cancel(first).unwrap(), TimerUpdate::Done);

    let before = bench.now();
    assert_eq!(bench.store.maintain().unwrap().promoted, 1);
    assert_eq!(bench.store.maintain().unwrap().promoted, 0);
    assert!(bench.row(second).unwrap().new.due >= before);
    assert_eq!(bench.claim(third), None);
    let claimed = bench.claim(second).unwrap();
    assert_eq!(claimed.new.scheduled_for, at + SECOND);
    assert_eq!(bench.finish(second, 1, done()), Finished::Accepted);
    assert_eq!(bench.store.maintain().unwrap().promoted, 1);
    assert!(bench.claim(third).is_some());
}

pub(super) fn a_queued_timer_can_be_cancelled(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (row, _) = with_occurrence(&mut bench);
    let at = row.next.unwrap();
    let timers = [bench.occurrence(&row, at, Time::NEVER)];
    bench.advance(&row, at + SECOND, &timers);
    assert_eq!(bench.reschedule(timers[0].id, at), TimerUpdate::Gone);
    assert_eq!(bench.store.cancel(timers[0].id).unwrap(), TimerUpdate::Done);
    assert_eq!(bench.records().len(), 1);
}

pub(super) fn a_removed_schedule_is_gone(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (row, id) = with_occurrence(&mut bench);
    let removal = Change { row: None, withdraw: Some(Reason::Removed), ..change(&row) };
    assert_eq!(bench.store.change(&Change { expect: Some(7), ..removal }).unwrap(), Changed::Stale);
    assert!(matches!(bench.store.change(&removal).unwrap(), Changed::Done { .. }));
    assert_eq!(bench.store.schedule("nightly").unwrap().1, None);
    assert_eq!((bench.row(id), bench.pending()), (None, Vec::new()));
    assert_eq!(bench.records()[0].reason, Some(Reason::Removed));
    let next = row.next.unwrap() + SECOND;
    assert_eq!(bench.store.advance(&advance(&row, next)).unwrap(), Advanced::Stale);
    let again = bench.scheduled("nightly", LONG);
    assert_eq!(bench.store.schedule("nightly").unwrap().1, Some(again));
}

pub(super) fn a_schedule_keeps_its_rule(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let missed = Missed::CatchUp { max_count: 3, max_age: SECOND };
    let (on_time_within, jitter) = (Duration::from_nanos(1), SECOND);
    let policies = [
        Policies::default(),
        Policies {
            missed,
            on_time_within,
            overlap: Overlap::Queue { at_most: 5 },
            jitter,
            retry: Retry::NEVER,
        },
        Policies { missed: Missed::Skip, overlap: Overlap::Skip, ..Policies::default() },
        Policies::default(),
    ];
    let at = Time::from_micros;
    let times = [
        Schedule::cron("0 2 * * MON#1", "Europe/Berlin").unwrap(),
        Schedule::every(SECOND),
        Schedule::every_from(Duration::from_micros(1), at(-1)),
        Schedule::every(SECOND)
            .starting_at(at(-9))
            .ending_at(at(90_000_000))
            .excluding(at(1)..at(2), Excluded::Skip)
            .excluding(at(1)..at(9), Excluded::RunAtEnd),
    ];
    for (n, (times, policies)) in times.into_iter().zip(policies).enumerate() {
        let name = format!("rule {n}");
        let rule = Ok(Rule::new(times, policies));
        let row = ScheduleRow { rule, ..bench.schedule(&name, LONG) };
        bench.put(&row);
        assert_eq!(bench.store.schedule(&name).unwrap().1, Some(row));
    }
}

pub(super) fn a_rule_that_cannot_be_read_stops_no_other(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let rule = Rule::from_text("at dawn", "as ever");
    let strange = ScheduleRow { rule, ..bench.schedule("a strange one", Duration::ZERO) };
    bench.put(&strange);
    let other = bench.scheduled("another", Duration::ZERO);
    bench.pass(MOMENT);

    let upcoming = bench.store.upcoming(&UpcomingQuery::new(Duration::ZERO, 9)).unwrap().schedules;
    let mut found: Vec<ScheduleRow> = upcoming.into_iter().map(|(row, _)| row).collect();
    found.sort_by(|one, two| one.name.cmp(&two.name));
    assert_eq!(found, [strange.clone(), other.clone()]);
    let listed = bench.store.schedules(&ScheduleQuery::new()).unwrap();
    assert_eq!(listed, [strange.clone(), other]);
    let error = listed[0].rule().unwrap_err().to_string();
    assert!(error.contains("`a strange one` cannot be read: `at dawn` is not"), "{error}");

    // A change of something else leaves its texts as they are.
    let disabled = ScheduleRow { enabled: false, next: None, ..strange };
    bench.store.change(&change(&disabled)).unwrap();
    let found = bench.store.schedule(&disabled.name).unwrap().1.unwrap();
    assert_eq!(found, ScheduleRow { version: 2, ..disabled });
}
