//! One timer's way from its insert to its record.

use std::slice::from_ref;
use std::time::Duration;

use super::{Bench, LONG, MOMENT, Rig, done, join, join_again, kinds, retry, scan};
use crate::id::{Shards, TimerId};
use crate::policy::Retry;
use crate::record::{Outcome, Reason};
use crate::store::{
    Amendment, End, Finished, How, Inserted, Named, NewTimer, Reschedule, Scan, Timer, TimerUpdate,
};
use crate::time::{LONGEST_PAUSE, Time};

pub(super) fn a_claim_is_never_early(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.insert(MOMENT);
    let due = bench.row(id).unwrap().new.due;
    loop {
        let claimed = bench.store.claim(bench.lease, &[id]).unwrap();
        if let [timer] = &claimed.timers[..] {
            assert!(claimed.now >= due && timer.new.due == due);
            break;
        }
        assert!(claimed.now < due, "due at {due}, not claimed at {}", claimed.now);
        bench.pass(MOMENT / 4);
    }
}

pub(super) fn a_timer_is_claimed_once(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.running();
    assert_eq!(bench.claim(id), None);
    let other = join(&mut *bench.store, LONG).lease;
    assert_eq!(bench.store.claim(other, &[id]).unwrap().timers, []);
    assert_eq!(bench.row(id).unwrap().running, Some(bench.lease));
}

pub(super) fn a_claim_returns_what_was_inserted(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut timers = [bench.timer(Duration::ZERO), bench.timer(Duration::ZERO)];
    timers[0].name = Some("sn\u{f6}w 'quoted' \\ \"so\"".to_owned());
    timers[1].payload = Vec::new();
    for timer in &mut timers {
        timer.due = bench.now() + MOMENT * 10;
        timer.scheduled_for = Time::from_micros(-1);
    }
    bench.store.insert(&timers).unwrap();
    bench.pass(MOMENT * 11);
    let mut ids = timers.each_ref().map(|timer| timer.id);
    ids.sort();
    let claimed = bench.store.claim(bench.lease, &ids).unwrap();
    timers.sort_by_key(|timer| (timer.due, timer.id));
    let found: Vec<&NewTimer> = claimed.timers.iter().map(|timer| &timer.new).collect();
    assert_eq!(found, timers.iter().collect::<Vec<_>>());
    for timer in &claimed.timers {
        assert_eq!((timer.attempt, timer.failures), (1, 0));
        assert_eq!(timer.running, Some(bench.lease));
    }
}

pub(super) fn a_due_time_in_the_past_becomes_now(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut timer = bench.timer(Duration::ZERO);
    let wished = timer.due - LONG;
    (timer.due, timer.scheduled_for) = (wished, wished);
    let before = bench.now();
    bench.store.insert(from_ref(&timer)).unwrap();
    let row = bench.row(timer.id).unwrap();
    assert!(row.new.due >= before && row.new.due <= bench.now());
    assert_eq!(row.new.scheduled_for, wished);
    assert!(bench.claim(timer.id).is_some());
}

pub(super) fn an_insert_that_is_repeated_makes_no_second_timer(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let timer = bench.timer(LONG);
    let exists = Inserted::Exists(timer.id);
    let twice = [timer.clone(), timer.clone()];
    assert_eq!(bench.store.insert(&twice).unwrap(), [Inserted::Created, exists]);
    assert_eq!(bench.store.insert(from_ref(&timer)).unwrap(), [exists]);
    assert_eq!(bench.pending(), [timer.id]);
}

pub(super) fn a_recorded_timer_is_not_inserted_again(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let timer = bench.timer(Duration::ZERO);
    bench.store.insert(from_ref(&timer)).unwrap();
    assert!(bench.claim(timer.id).is_some());
    assert_eq!(bench.finish(timer.id, 1, done()), Finished::Accepted);
    let again = bench.store.insert(from_ref(&timer)).unwrap();
    assert_eq!(again, [Inserted::Exists(timer.id)]);
    assert_eq!(bench.pending(), []);
}

pub(super) fn a_name_is_taken_while_its_timer_is_there(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut named = |name: Option<&str>| {
        let mut timer = bench.timer(Duration::ZERO);
        timer.name = name.map(str::to_owned);
        timer
    };
    let [first, second, third] = [Some("a"), Some("a"), Some("b")].map(&mut named);
    let timers = [first.clone(), second.clone(), third.clone(), named(None), named(None)];
    let inserted = bench.store.insert(&timers).unwrap();
    let exists = Inserted::Exists(first.id);
    let created = Inserted::Created;
    assert_eq!(inserted, [created, exists, created, created, created]);
    assert_eq!(bench.store.find("a").unwrap().unwrap().new.id, first.id);

    assert!(bench.claim(first.id).is_some());
    assert_eq!(bench.store.insert(from_ref(&second)).unwrap(), [exists]);
    assert_eq!(bench.finish(first.id, 1, done()), Finished::Accepted);
    assert_eq!(bench.store.find("a").unwrap(), None);
    assert_eq!(bench.store.insert(&[second]).unwrap(), [created]);
}

pub(super) fn a_look_after_an_insert_sees_it(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let daily = bench.scheduled("daily", LONG);
    let mut named =
        |name: &str| NewTimer { name: Some(name.to_owned()), ..bench.timer(Duration::ZERO) };
    let [first, second, both, last] = ["a", "a", "daily", "z"].map(&mut named);
    let before = bench.now();
    let mut look = |timers: &[NewTimer], names: &[&str]| {
        let (inserted, now, found) = bench.store.insert_and_look(timers, names).unwrap();
        assert!(now >= before);
        let ids = |one: Named| (one.schedule.map(|row| row.id), one.timer.map(|one| one.new.id));
        (inserted, found.into_iter().map(ids).collect::<Vec<_>>())
    };
    let (created, exists) = (Inserted::Created, Inserted::Exists(first.id));
    let timers = [first.clone(), second, both.clone()];
    let (inserted, found) = look(&timers, &["daily", "", "a", "none", "a"]);
    assert_eq!(inserted, [created, exists, created]);
    let (a, none) = ((None, Some(first.id)), (None, None));
    assert_eq!(found, [(Some(daily.id), Some(both.id)), none, a, none, a]);
    // With nothing in the way.
    let (inserted, found) = look(from_ref(&last), &["z", "a"]);
    assert_eq!((inserted, found), (vec![created], vec![(None, Some(last.id)), a]));
}

pub(super) fn a_scan_finds_what_is_due_in_order(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let [third, first, second] = [3, 1, 2].map(|n| bench.insert(LONG * n));
    let later = bench.insert(LONG * 9);
    let window = bench.scan(LONG * 4, None);
    let found: Vec<TimerId> = window.timers.iter().map(|waiting| waiting.id).collect();
    assert_eq!(found, [first, second, third]);
    for waiting in &window.timers {
        assert_eq!(waiting.due, bench.row(waiting.id).unwrap().new.due);
    }
    let now = bench.now();
    assert!(window.now <= now && now.since(window.now) < LONG);
    assert_eq!(bench.scan(LONG * 10, None).timers[3].id, later);
}

pub(super) fn a_scan_keeps_to_kinds_shards_and_limit(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut timers: Vec<NewTimer> = (0..6).map(|n| bench.timer(LONG + MOMENT * n)).collect();
    for (n, timer) in timers.iter_mut().enumerate() {
        timer.id = TimerId::from_bits(timer.id.bits() / 64 * 64 + n as u128);
        timer.kind = ["mail", "bill", "other"][n / 2].to_owned();
    }
    bench.store.insert(&timers).unwrap();
    let kinds = kinds();
    let scan = Scan { ahead: LONG * 2, ..scan(&kinds, 9) };
    let mut found = |scan: Scan<'_>| -> Vec<(TimerId, u32)> {
        let timers = bench.store.scan(&scan).unwrap().timers;
        timers.iter().map(|waiting| (waiting.id, waiting.kind)).collect()
    };
    let at = |n: usize| (timers[n].id, n as u32 / 2);
    assert_eq!(found(scan), [at(0), at(1), at(2), at(3)]);
    assert_eq!(found(Scan { kind_limit: 1, ..scan }), [at(0), at(2)]);
    assert_eq!(found(Scan { shards: Shards::from_mask(0b100_1010), ..scan }), [at(1), at(3)]);
    let reversed = [kinds[1].clone(), kinds[0].clone()];
    let first = [(timers[0].id, 1), (timers[2].id, 0)];
    assert_eq!(found(Scan { kinds: &reversed, kind_limit: 1, ..scan }), first);
    let second = Shards::from_mask(0b10_1010);
    assert_eq!(found(Scan { shards: second, kind_limit: 1, ..scan }), [at(1), at(3)]);
    assert_eq!(found(Scan { kind_limit: 0, ..scan }), []);
    assert_eq!(found(Scan { kinds: &[], ..scan }), []);
    assert_eq!(found(Scan { shards: Shards::NONE, ..scan }), []);
}

pub(super) fn a_scan_reads_what_is_late_in_other_shards(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut of_shard = |shard: u128, delay: Duration| {
        let mut timer = bench.timer(delay);
        timer.id = TimerId::from_bits(timer.id.bits() / 64 * 64 + shard);
        bench.store.insert(std::slice::from_ref(&timer)).unwrap();
        timer.id
    };
    let late = of_shard(1, Duration::ZERO);
    let (own, early) = (of_shard(0, LONG), of_shard(1, LONG));
    bench.pass(MOMENT * 2);
    let kinds = kinds();
    let (ahead, shards, grace) = (LONG * 2, Shards::from_mask(1), Some(MOMENT));
    let scan = Scan { ahead, shards, grace, ..scan(&kinds, 9) };
    let mut found = |scan: Scan<'_>| -> Vec<TimerId> {
        let timers = bench.store.scan(&scan).unwrap().timers;
        timers.iter().map(|waiting| waiting.id).collect()
    };
    assert_eq!(found(scan), [late, own]);
    assert_eq!(found(Scan { kind_limit: 1, ..scan }), [late]);
    assert_eq!(found(Scan { grace: Some(LONG), ..scan }), [own]);
    assert_eq!(found(Scan { grace: None, ..scan }), [own]);
    assert_eq!(found(Scan { back: Some(MOMENT), ..scan }), [own]);
    assert_eq!(found(Scan { shards: Shards::NONE, ..scan }), [late]);
    let all = found(Scan { shards: Shards::ALL, ..scan });
    assert!(all.len() == 3 && all.contains(&early), "{all:?}");
}

pub(super) fn a_scan_with_a_floor_leaves_out_what_is_long_due(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let old = bench.insert(Duration::ZERO);
    bench.pass(MOMENT * 2);
    let new = bench.insert(LONG);
    let ids = |window: crate::store::Window| -> Vec<TimerId> {
        window.timers.iter().map(|waiting| waiting.id).collect()
    };
    assert_eq!(ids(bench.scan(LONG * 2, Some(MOMENT))), [new]);
    assert_eq!(ids(bench.scan(LONG * 2, Some(LONG))), [old, new]);
    assert_eq!(ids(bench.scan(LONG * 2, None)), [old, new]);
}

pub(super) fn a_scan_leaves_out_what_runs(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (running, pending) = (bench.running(), bench.insert(Duration::ZERO));
    assert!(bench.row(running).is_some());
    assert_eq!(bench.pending(), [pending]);
}

pub(super) fn a_finish_ends_the_timer_with_one_record(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (good, bad) = (bench.running(), bench.running());
    let before = bench.now();
    assert_eq!(bench.finish(good, 1, done()), Finished::Accepted);
    let dead = How::Done(Outcome::Dead, Some(Reason::Failed), "it rained".to_owned());
    assert_eq!(bench.finish(bad, 1, dead), Finished::Accepted);
    assert_eq!((bench.row(good), bench.row(bad)), (None, None));
    let records = bench.records();
    assert_eq!(records.len(), 2);
    for record in &records {
        let is_good = record.timer == good;
        assert_eq!((record.attempts, record.failures), (1, u32::from(!is_good)));
        let outcome = if is_good { Outcome::Succeeded } else { Outcome::Dead };
        assert_eq!((record.outcome, record.reason.is_none()), (outcome, is_good));
        assert_eq!(record.detail, if is_good { "" } else { "it rained" });
        assert_eq!((record.node, &record.kind[..]), (Some(bench.lease.node), "mail"));
        assert!(record.recorded >= before);
    }
}

pub(super) fn a_finish_is_fenced_by_its_attempt(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.running();
    assert_eq!(bench.finish(id, 1, How::HandBack), Finished::Accepted);
    assert_eq!(bench.finish(id, 1, done()), Finished::Fenced);
    assert_eq!(bench.claim(id).unwrap().attempt, 2);
    let again = [retry(Duration::ZERO), How::Postpone(Duration::ZERO, None), How::HandBack];
    for how in again.into_iter().chain([done()]) {
        assert_eq!(bench.finish(id, 1, how), Finished::Fenced);
    }
    assert_eq!(bench.finish(id, 2, done()), Finished::Accepted);
    assert_eq!(bench.finish(TimerId::from_bits(5), 1, done()), Finished::Fenced);
    assert_eq!(bench.records().len(), 1);
}

pub(super) fn a_finish_is_fenced_by_its_epoch(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.running();
    let old = bench.lease;
    let other = join(&mut *bench.store, LONG).lease;
    bench.lease = join_again(&mut *bench.store, old, LONG);
    assert!(bench.lease.epoch > old.epoch);
    assert_eq!(bench.finish(id, 1, done()), Finished::Fenced);
    bench.lease = other;
    assert_eq!(bench.finish(id, 1, done()), Finished::Fenced);
    assert_eq!(bench.records(), []);
}

pub(super) fn a_repeated_finish_is_accepted_again(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.running();
    assert_eq!(bench.finish(id, 1, done()), Finished::Accepted);
    assert_eq!(bench.finish(id, 1, done()), Finished::Accepted);
    assert_eq!(bench.finish(id, 2, done()), Finished::Fenced);
    assert_eq!(bench.finish(id, 1, How::HandBack), Finished::Fenced);
    let other = How::Done(Outcome::Dead, Some(Reason::GivenUp), String::new());
    assert_eq!(bench.finish(id, 1, other), Finished::Fenced);
    bench.lease = join(&mut *bench.store, LONG).lease;
    assert_eq!(bench.finish(id, 1, done()), Finished::Fenced);
    assert_eq!(bench.records().len(), 1);
}

pub(super) fn another_attempt_is_due_after_its_pause(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    for (how, failures) in [(retry(MOMENT), 1), (How::Postpone(MOMENT, None), 0)] {
        let id = bench.running();
        let (before, scheduled_for) = (bench.now(), bench.row(id).unwrap().new.scheduled_for);
        assert_eq!(bench.finish(id, 1, how.clone()), Finished::Accepted);
        let row = bench.row(id).unwrap();
        assert!(row.new.due >= before + MOMENT && row.new.due <= bench.now() + MOMENT, "{how:?}");
        assert_eq!((row.running, row.attempt, row.failures), (None, 1, failures), "{how:?}");
        assert_eq!(row.new.scheduled_for, scheduled_for, "{how:?}");
        assert_eq!(bench.finish(id, 1, how), Finished::Fenced);
        bench.pass(MOMENT * 2);
        let again = bench.claim(id).unwrap();
        assert_eq!((again.attempt, again.failures), (2, failures));
        assert_eq!(bench.records(), []);
    }
}

pub(super) fn a_postponed_timer_is_amended_once_and_due_as_that_says(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.running();
    let waits = How::Postpone(LONG, Some("waits".to_owned()));
    assert_eq!(bench.finish(id, 1, waits), Finished::Accepted);
    let row = bench.row(id).unwrap();
    assert_eq!((&*row.detail, row.failures, row.version), ("waits", 0, 1));
    let amend = |bench: &mut Bench, version, pause, detail| {
        let amendment = Amendment { timer: id, attempt: 1, version, pause, detail };
        bench.store.amend(&amendment).unwrap()
    };
    assert_eq!(amend(&mut bench, 1, LONG, "waits more"), TimerUpdate::Done);
    assert_eq!(amend(&mut bench, 1, Duration::ZERO, "late"), TimerUpdate::Stale);
    assert_eq!(bench.row(id).unwrap().detail, "waits more");
    assert!(bench.claim(id).is_none());
    assert_eq!(amend(&mut bench, 2, Duration::ZERO, "now"), TimerUpdate::Done);
    let claimed = bench.claim(id).unwrap();
    assert_eq!((&*claimed.detail, claimed.attempt, claimed.failures), ("now", 2, 0));
    // Without a text, that of the timer stays.
    assert_eq!(bench.finish(id, 2, How::Postpone(LONG, None)), Finished::Accepted);
    assert_eq!(bench.row(id).unwrap().detail, "now");
}

pub(super) fn an_amended_timer_is_not_due_before_it_is_scheduled_for(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let timer = bench.timer(LONG);
    bench.store.insert(std::slice::from_ref(&timer)).unwrap();
    let mut amend = |version, pause| {
        let detail = "paid";
        let amendment = Amendment { timer: timer.id, attempt: 0, version, pause, detail };
        assert_eq!(bench.store.amend(&amendment).unwrap(), TimerUpdate::Done);
        bench.row(timer.id).unwrap().new.due
    };
    assert_eq!(amend(1, Duration::ZERO), timer.scheduled_for);
    assert!(amend(2, LONG * 2) > timer.scheduled_for + LONG / 2);
    // A held timer stays held.
    let held = bench.reschedule(timer.id, Time::NEVER);
    assert_eq!(held, TimerUpdate::Done);
    let amendment = Amendment { timer: timer.id, attempt: 0, version: 4, pause: LONG, detail: "" };
    assert_eq!(bench.store.amend(&amendment).unwrap(), TimerUpdate::Done);
    assert_eq!(bench.row(timer.id).unwrap().new.due, Time::NEVER);
}

pub(super) fn a_timer_that_is_postponed_for_ever_is_given_another_time(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let for_ever = || Some("waits".to_owned());
    for how in [How::Postpone(Duration::MAX, for_ever()), retry(Duration::MAX)] {
        let id = bench.running();
        let before = bench.now();
        assert_eq!(bench.finish(id, 1, how), Finished::Accepted);
        let due = bench.row(id).unwrap().new.due;
        assert!(due >= before + LONGEST_PAUSE && due <= bench.now() + LONGEST_PAUSE, "{due}");
        let detail = "waits more";
        let amendment =
            Amendment { timer: id, attempt: 1, version: 1, pause: Duration::MAX, detail };
        assert_eq!(bench.store.amend(&amendment).unwrap(), TimerUpdate::Done);
        let due = bench.row(id).unwrap().new.due;
        assert!(due >= before + LONGEST_PAUSE && due <= bench.now() + LONGEST_PAUSE, "{due}");
        let done = bench.replace(Reschedule { expect: Some(2), ..Reschedule::new(id, before) });
        assert_eq!(done, TimerUpdate::Done);
        assert_eq!(bench.claim(id).unwrap().attempt, 2);
    }
}

pub(super) fn what_waits_in_a_queue_or_a_lane_keeps_waiting_when_it_is_amended(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.schedule("queued", LONG);
    let now = bench.now();
    let first = bench.occurrence(&row, now, now);
    let queued = bench.occurrence(&row, now + MOMENT, Time::NEVER);
    let front = NewTimer { lane: Some("a lane".to_owned()), ..bench.timer(Duration::ZERO) };
    let behind = NewTimer { lane: Some("a lane".to_owned()), ..bench.timer(MOMENT) };
    bench.store.insert(&[first, queued.clone(), front, behind.clone()]).unwrap();
    bench.store.promote(&["a lane".to_owned()]).unwrap();
    for id in [queued.id, behind.id] {
        let detail = "still waits";
        let amendment =
            Amendment { timer: id, attempt: 0, version: 1, pause: Duration::ZERO, detail };
        assert_eq!(bench.row(id).unwrap().new.due, Time::NEVER);
        assert_eq!(bench.store.amend(&amendment).unwrap(), TimerUpdate::Done);
        let row = bench.row(id).unwrap();
        assert_eq!((row.new.due, &*row.detail), (Time::NEVER, detail));
        assert!(bench.claim(id).is_none());
    }
}

pub(super) fn what_runs_or_was_claimed_since_is_not_amended(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.running();
    let amend = |bench: &mut Bench, attempt| {
        let detail = "late";
        let amendment = Amendment { timer: id, attempt, version: 1, pause: LONG, detail };
        bench.store.amend(&amendment).unwrap()
    };
    assert_eq!(amend(&mut bench, 1), TimerUpdate::Running { attempt: 1 });
    assert_eq!(bench.finish(id, 1, retry(Duration::ZERO)), Finished::Accepted);
    assert_eq!(bench.claim(id).unwrap().attempt, 2);
    assert_eq!(bench.finish(id, 2, How::Postpone(LONG, None)), Finished::Accepted);
    let before = bench.row(id).unwrap();
    assert_eq!(amend(&mut bench, 1), TimerUpdate::Stale);
    assert_eq!(bench.row(id).unwrap(), before);
    assert_eq!(amend(&mut bench, 2), TimerUpdate::Done);
    assert_eq!(bench.store.cancel(id).unwrap(), TimerUpdate::Done);
    assert_eq!(amend(&mut bench, 2), TimerUpdate::Gone);
    assert_eq!(bench.records()[0].detail, "late");
}

pub(super) fn a_handed_back_timer_is_due_at_once(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.running();
    let due = bench.row(id).unwrap().new.due;
    assert_eq!(bench.finish(id, 1, How::HandBack), Finished::Accepted);
    let row = bench.row(id).unwrap();
    assert_eq!((row.new.due, row.running, row.attempt, row.failures), (due, None, 1, 0));
    assert_eq!(bench.claim(id).unwrap().attempt, 2);
}

pub(super) fn a_finish_and_a_claim_go_together(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (old, new) = (bench.running(), bench.insert(Duration::ZERO));
    let ends = [End { timer: old, attempt: 1, how: done() }];
    let (finished, claimed) = bench.finish_and_claim(&ends, &[new]);
    assert_eq!(finished, [Finished::Accepted]);
    assert_eq!(claimed.timers.len(), 1);
    assert_eq!((claimed.timers[0].new.id, claimed.timers[0].attempt), (new, 1));
    assert_eq!(bench.records().len(), 1);
    let (finished, claimed) = bench.finish_and_claim(&[], &[]);
    assert!(finished.is_empty() && claimed.timers.is_empty());
}

pub(super) fn a_cancelled_timer_is_never_claimed(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.insert(Duration::ZERO);
    assert_eq!(bench.store.cancel(id).unwrap(), TimerUpdate::Done);
    assert_eq!((bench.claim(id), bench.row(id)), (None, None));
    assert_eq!(bench.store.cancel(id).unwrap(), TimerUpdate::Gone);
    let records = bench.records();
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!((record.outcome, record.reason), (Outcome::Cancelled, Some(Reason::Cancelled)));
    assert_eq!((record.timer, record.attempts, record.node), (id, 0, None));
}

pub(super) fn a_running_timer_is_not_cancelled(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.running();
    let running = TimerUpdate::Running { attempt: 1 };
    assert_eq!(bench.store.cancel(id).unwrap(), running);
    let to = bench.now() + LONG;
    assert_eq!(bench.reschedule(id, to), running);
    assert_eq!(bench.finish(id, 1, retry(LONG)), Finished::Accepted);
    assert_eq!(bench.store.cancel(id).unwrap(), TimerUpdate::Done);
}

pub(super) fn a_rescheduled_timer_keeps_to_its_new_time(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.insert(Duration::ZERO);
    let to = bench.now() + LONG;
    assert_eq!(bench.reschedule(id, to), TimerUpdate::Done);
    let row = bench.row(id).unwrap();
    assert_eq!((row.new.due, row.new.scheduled_for), (to, to));
    assert_eq!(bench.claim(id), None);
    assert_eq!(bench.scan(LONG / 2, None).timers, []);

    let (past, before) = (to - LONG * 2, bench.now());
    assert_eq!(bench.reschedule(id, past), TimerUpdate::Done);
    let row = bench.row(id).unwrap();
    assert!(row.new.due >= before && row.new.scheduled_for == past);
    assert!(bench.claim(id).is_some());
    assert_eq!(bench.reschedule(TimerId::from_bits(5), to), TimerUpdate::Gone);
}

pub(super) fn a_replaced_timer_has_its_new_payload(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.insert(LONG);
    let (to, payload) = (bench.now() + LONG * 2, Some(&b"other"[..]));
    assert_eq!(bench.replace(Reschedule { payload, ..Reschedule::new(id, to) }), TimerUpdate::Done);
    let row = bench.row(id).unwrap();
    assert_eq!((row.new.due, &row.new.payload[..]), (to, &b"other"[..]));
    assert_eq!(bench.reschedule(id, to), TimerUpdate::Done);
    assert_eq!(bench.row(id).unwrap().new.payload, b"other");

    let now = bench.now();
    assert_eq!(
        bench.replace(Reschedule { payload: Some(&[]), ..Reschedule::new(id, now) }),
        TimerUpdate::Done
    );
    assert!(bench.claim(id).unwrap().new.payload.is_empty());
    let running = TimerUpdate::Running { attempt: 1 };
    assert_eq!(bench.replace(Reschedule { payload, ..Reschedule::new(id, to) }), running);
    assert!(bench.row(id).unwrap().new.payload.is_empty());
}

pub(super) fn a_reschedule_needs_the_version_it_was_made_for(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.insert(LONG);
    let (to, other) = (bench.now() + LONG * 2, bench.now() + LONG * 3);
    let version = |bench: &mut Bench<'_>| bench.row(id).unwrap().version;
    assert_eq!(version(&mut bench), 1);
    let payload = Some(&b"other"[..]);
    assert_eq!(
        bench.replace(Reschedule { payload, expect: Some(2), ..Reschedule::new(id, to) }),
        TimerUpdate::Stale
    );
    assert_eq!(
        bench.replace(Reschedule { payload, expect: Some(1), ..Reschedule::new(id, to) }),
        TimerUpdate::Done
    );
    assert_eq!(
        bench.replace(Reschedule { expect: Some(1), ..Reschedule::new(id, other) }),
        TimerUpdate::Stale
    );
    let row = bench.row(id).unwrap();
    assert_eq!((row.new.due, &row.new.payload[..], row.version), (to, &b"other"[..], 2));

    // A call without an expected version counts too; attempts do not.
    let now = bench.now();
    assert_eq!(bench.reschedule(id, now), TimerUpdate::Done);
    assert_eq!(bench.claim(id).unwrap().version, 3);
    assert_eq!(
        bench.replace(Reschedule { expect: Some(2), ..Reschedule::new(id, to) }),
        TimerUpdate::Stale
    );
    let running = TimerUpdate::Running { attempt: 1 };
    assert_eq!(bench.replace(Reschedule { expect: Some(3), ..Reschedule::new(id, to) }), running);
    assert_eq!(bench.finish(id, 1, retry(LONG)), Finished::Accepted);
    assert_eq!(version(&mut bench), 3);
    let mut after = |attempt| {
        let rest = Reschedule::new(id, to);
        bench.replace(Reschedule { expect: Some(3), attempt, ..rest })
    };
    assert_eq!([after(Some(0)), after(Some(2))], [TimerUpdate::Stale; 2]);
    assert_eq!([after(Some(1)), after(Some(1))], [TimerUpdate::Done, TimerUpdate::Stale]);
    assert_eq!(bench.store.cancel(id).unwrap(), TimerUpdate::Done);
    assert_eq!(
        bench.replace(Reschedule { expect: Some(4), ..Reschedule::new(id, to) }),
        TimerUpdate::Gone
    );
}

pub(super) fn a_timer_is_held_until_it_is_given_a_time(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.insert(Duration::ZERO);
    assert_eq!(bench.reschedule(id, Time::NEVER), TimerUpdate::Done);
    let due = |row: Timer| (row.new.due, row.new.scheduled_for, row.running);
    let held = (Time::NEVER, Time::NEVER, None);
    for _ in 0..2 {
        assert_eq!(bench.claim(id), None);
        assert_eq!(bench.pending(), []);
        assert_eq!(bench.store.maintain().unwrap().promoted, 0);
        assert_eq!(bench.row(id).map(due), Some(held));
    }
    let now = bench.now();
    assert_eq!(bench.reschedule(id, now), TimerUpdate::Done);
    assert_eq!(bench.claim(id).unwrap().attempt, 1);

    // Also from the beginning.
    let timer = NewTimer { due: Time::NEVER, ..bench.timer(LONG) };
    assert_eq!(bench.store.insert(from_ref(&timer)).unwrap(), [Inserted::Created]);
    assert_eq!(bench.store.maintain().unwrap().promoted, 0);
    assert_eq!(bench.claim(timer.id), None);
    assert_eq!(bench.store.cancel(timer.id).unwrap(), TimerUpdate::Done);
}

pub(super) fn a_failed_attempt_leaves_its_detail(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.running();
    assert_eq!(bench.row(id).unwrap().detail, "");
    let mut attempt = 1;
    let mut end = |how: How| {
        assert_eq!(bench.finish(id, attempt, how), Finished::Accepted);
        attempt += 1;
        let claimed = bench.claim(id).unwrap();
        assert_eq!(bench.row(id).unwrap(), claimed);
        claimed.detail
    };
    let long = "sn\u{f6}w ".repeat(1_200);
    assert_eq!(end(How::Retry(Duration::ZERO, "rain".to_owned())), "rain");
    assert_eq!(end(How::HandBack), "rain");
    assert_eq!(end(How::Retry(Duration::ZERO, long.clone())), long);
    assert_eq!(end(How::Postpone(Duration::ZERO, None)), long);
    assert_eq!(end(retry(Duration::ZERO)), "");
    let done = How::Done(Outcome::Succeeded, None, "sun".to_owned());
    assert_eq!(bench.finish(id, 6, done), Finished::Accepted);
    assert_eq!(bench.records()[0].detail, "sun");
}

pub(super) fn a_cancelled_timer_records_what_its_attempts_left(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.running();
    let rain = How::Retry(LONG, "rain".to_owned());
    assert_eq!(bench.finish(id, 1, rain), Finished::Accepted);
    assert_eq!(bench.store.cancel(id).unwrap(), TimerUpdate::Done);
    let records = bench.records();
    assert_eq!((&records[0].detail[..], records[0].failures), ("rain", 1));
    assert_eq!((&records[0].payload, &records[0].retry), (&None, &None));
}

pub(super) fn the_dead_keep_what_it_takes_to_run_them_again(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (good, bad) = (bench.running(), bench.running());
    let retry = bench.row(bad).unwrap().new.retry;
    let next = bench.insert(Duration::ZERO);
    let dead = How::Done(Outcome::Dead, Some(Reason::GivenUp), String::new());
    let end = |timer, how| End { timer, attempt: 1, how };
    let ends = [end(good, done()), end(bad, dead)];
    let finished = bench.finish_and_claim(&ends, &[next]).0;
    assert_eq!(finished, [Finished::Accepted; 2]);
    for record in bench.records() {
        let is_dead = record.timer == bad;
        assert_eq!(record.payload, is_dead.then(|| vec![0, 1, 255]));
        assert_eq!(record.retry, is_dead.then_some(retry));
    }
}

pub(super) fn a_timer_keeps_how_it_is_retried(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let longest = Duration::from_secs(365 * 86_400 * 1_000);
    for retry in [
        Retry::NEVER,
        Retry::default(),
        Retry::new(0, Duration::from_micros(1), Duration::ZERO),
        Retry::new(i32::MAX as u32, Duration::from_micros(1_000_001), longest),
    ] {
        for has_queue in [false, true] {
            let timer = NewTimer { retry, has_queue, ..bench.timer(Duration::ZERO) };
            bench.store.insert(from_ref(&timer)).unwrap();
            let listed = bench.row(timer.id).unwrap().new;
            let claimed = bench.claim(timer.id).unwrap().new;
            for found in [listed, claimed] {
                assert_eq!((found.retry, found.has_queue), (retry, has_queue));
            }
        }
    }
}
