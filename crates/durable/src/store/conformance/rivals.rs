//! Several connections at once.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use super::{Bench, LONG, MOMENT, Rig, advance, change, done, insist, join};
use crate::id::{Lease, Shards, TimerId};
use crate::record::Reason;
use crate::store::{
    Advance, Advanced, Change, End, Inserted, ManualRun, NewOccurrence, NewTimer, Notification,
    Reschedule, ScheduleRow, Store, Timer, TimerQuery, TimerUpdate,
};
use crate::time::Time;

const RIVALS: usize = 3;

/// Runs `work` on as many threads as there are rivals, each with its number and a connection.
fn race<T: Send>(bench: &Bench<'_>, work: impl Fn(usize, &mut dyn Store) -> T + Sync) -> Vec<T> {
    let stores: Vec<_> = (0..RIVALS).map(|_| bench.rig.store()).collect();
    let (start, work) = (Barrier::new(RIVALS), &work);
    thread::scope(|scope| {
        let run = |(n, mut store): (usize, Box<dyn Store>)| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                work(n, &mut *store)
            })
        };
        let threads: Vec<_> = stores.into_iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub(super) fn rivals_claim_each_timer_once(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let timers: Vec<NewTimer> = (0..60).map(|_| bench.timer(Duration::ZERO)).collect();
    bench.store.insert(&timers).unwrap();
    let mut ids: Vec<TimerId> = timers.iter().map(|timer| timer.id).collect();
    ids.sort();
    let claims = race(&bench, |_, store| {
        let lease = join(store, LONG).lease;
        let mut claimed = Vec::new();
        // Locked timers may be left out, and are asked for again.
        for _ in 0..3 {
            for part in ids.chunks(7) {
                claimed.extend(insist(|| store.claim(lease, part)).timers);
            }
        }
        claimed
    });
    let claims: Vec<_> = claims.into_iter().flatten().collect();
    assert!(claims.iter().all(|timer| timer.attempt == 1));
    let mut claimed: Vec<TimerId> = claims.iter().map(|timer| timer.new.id).collect();
    claimed.sort();
    assert_eq!(claimed, ids);
}

pub(super) fn rivals_advance_a_schedule_once(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("nightly", Duration::ZERO);
    for n in 0..10 {
        let from = row.next.unwrap() + Duration::from_secs(n);
        let timers: Vec<_> = (0..RIVALS).map(|_| [bench.occurrence(&row, from, from)]).collect();
        let moved = advance(&row, from + Duration::from_secs(1));
        let advanced = race(&bench, |rival, store| {
            insist(|| store.advance(&Advance { from, timers: &timers[rival], ..moved }))
        });
        let won = advanced.iter().filter(|answer| **answer == Advanced::Done).count();
        assert_eq!(won, 1, "{advanced:?}");
    }
    let query = TimerQuery::new().name("nightly");
    assert_eq!(bench.store.timers(&query).unwrap().len(), 10);
}

/// Advances all of these, each by its occurrence, and returns the answers.
fn advance_all(
    store: &mut dyn Store,
    rows: &[ScheduleRow],
    timers: &[[NewTimer; 1]],
) -> Vec<Advanced> {
    let all: Vec<_> = rows
        .iter()
        .zip(timers)
        .map(|(row, timers)| {
            let only_idle = row.name.ends_with("idle");
            Advance { timers, only_idle, ..advance(row, row.next.unwrap() + MOMENT) }
        })
        .collect();
    let mut answers = Vec::new();
    while answers.len() < all.len() {
        answers.extend(insist(|| store.advance_batch(&all[answers.len()..])));
    }
    answers
}

/// Lane of some of the schedules that are advanced.
const LANE: &str = "lane";

/// Does something else with a schedule: runs it now, puts it once more as it was read so that what
/// was advanced comes again, promotes the lane, or claims its timers and ends them.
fn meddle(
    store: &mut dyn Store,
    lease: Lease,
    (row, extra): (&ScheduleRow, &NewTimer),
    which: usize,
) {
    match which % 4 {
        0 => {
            let version = row.version;
            let occurrence = NewOccurrence { timer: extra, version, queue: Some(0) };
            insist(|| store.insert_occurrence(&occurrence));
        }
        1 => {
            let again = Change { withdraw: Some(Reason::Replaced), ..change(row) };
            insist(|| store.change(&again));
        }
        2 => _ = insist(|| store.promote(&[LANE.to_owned()])),
        _ => {
            let found = store.timers(&TimerQuery::new().name(&row.name)).unwrap();
            let mut ids: Vec<_> = found.iter().map(|timer| timer.new.id).collect();
            ids.sort();
            let claimed = insist(|| store.claim(lease, &ids)).timers;
            let end = |timer: &Timer| {
                let (timer, attempt) = (timer.new.id, timer.attempt);
                End { timer, attempt, how: done() }
            };
            let ends: Vec<End> = claimed.iter().map(end).collect();
            insist(|| store.finish(lease, &ends));
        }
    }
}

pub(super) fn rivals_advance_schedules_together(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let lease = bench.lease;
    let names: Vec<String> = (0..6).flat_map(|n| [format!("{n}"), format!("{n} idle")]).collect();
    for (number, name) in names.iter().enumerate() {
        let lane = (number % 4 < 2).then(|| LANE.to_owned());
        let row = ScheduleRow { lane, ..bench.schedule(name, Duration::ZERO) };
        bench.put(&row);
    }
    for round in 0..8 {
        let read = |name: &String| bench.store.schedule(name).unwrap().1.unwrap();
        let rows: Vec<ScheduleRow> = names.iter().map(read).collect();
        let mut occurrence = |row: &ScheduleRow| {
            let at = row.next.unwrap();
            bench.occurrence(row, at, row.lane.as_ref().map_or(at, |_| Time::NEVER))
        };
        let extra: Vec<NewTimer> = rows.iter().map(&mut occurrence).collect();
        let timer = |row: &ScheduleRow| {
            let id = TimerId::of_occurrence(row.id, row.next.unwrap());
            [NewTimer { id, ..occurrence(row) }]
        };
        let timers: Vec<_> = rows.iter().map(timer).collect();
        let answers = race(&bench, |rival, store| {
            if rival < 2 {
                return advance_all(store, &rows, &timers);
            }
            for (number, row) in rows.iter().enumerate() {
                meddle(store, lease, (row, &extra[number]), number + round);
            }
            Vec::new()
        });
        for (first, second) in answers[0].iter().zip(&answers[1]) {
            assert_ne!((first, second), (&Advanced::Done, &Advanced::Done));
        }
    }
    let mut seen = BTreeSet::new();
    let timers = bench.store.timers(&TimerQuery::new()).unwrap();
    for name in names.iter().filter(|name| name.ends_with("idle")) {
        let of_it = timers.iter().filter(|timer| timer.new.name.as_ref() == Some(name));
        assert!(of_it.count() <= 1, "{name} overlaps");
    }
    let fronts = timers.iter().filter(|timer| timer.new.lane.is_some());
    assert!(fronts.filter(|timer| timer.new.due < Time::NEVER).count() <= 1);
    let timers = timers.into_iter().map(|timer| (timer.new.schedule, timer.new.scheduled_for));
    let records = bench.records().into_iter().map(|record| (record.schedule, record.scheduled_for));
    for occurrence in timers.chain(records) {
        assert!(seen.insert(occurrence), "{occurrence:?} is there twice");
    }
}

pub(super) fn rivals_make_one_occurrence_of_now(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    for n in 0..10 {
        let row = bench.scheduled(&format!("nightly {n}"), LONG);
        let timer = |_| bench.occurrence(&row, row.next.unwrap(), row.next.unwrap());
        let timers: Vec<NewTimer> = (0..RIVALS).map(timer).collect();
        let made = race(&bench, |rival, store| {
            let occurrence = NewOccurrence { timer: &timers[rival], version: 1, queue: Some(0) };
            insist(|| store.insert_occurrence(&occurrence))
        });
        let is_done = |one: &&ManualRun| matches!(one, ManualRun::Done { .. });
        let is_busy = |one: &&ManualRun| **one == ManualRun::Busy;
        let counts = (made.iter().filter(is_done).count(), made.iter().filter(is_busy).count());
        assert_eq!(counts, (1, RIVALS - 1), "{made:?}");
    }
}

pub(super) fn a_cancel_and_a_claim_do_not_both_win(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let ids: Vec<TimerId> = (0..20).map(|_| bench.insert(Duration::ZERO)).collect();
    let (lease, ids) = (bench.lease, &ids);
    let won = race(&bench, |rival, store| -> Vec<TimerId> {
        let claims =
            |store: &mut dyn Store, id| !insist(|| store.claim(lease, &[id])).timers.is_empty();
        let cancels = |store: &mut dyn Store, id| insist(|| store.cancel(id)) == TimerUpdate::Done;
        let wins = |id: &TimerId| match rival {
            0 => claims(store, *id),
            _ => cancels(store, *id),
        };
        ids.iter().copied().filter(wins).collect()
    });
    let mut won: Vec<TimerId> = won.into_iter().flatten().collect();
    won.sort();
    let count = won.len();
    won.dedup();
    assert_eq!(won.len(), count, "a timer was both cancelled and claimed");
    let records = bench.records().len();
    let left = bench.store.timers(&crate::store::TimerQuery::new()).unwrap();
    assert_eq!(records + left.len(), ids.len());
}

pub(super) fn rivals_insert_a_name_once(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    for n in 0..10 {
        let timers: Vec<NewTimer> = (0..RIVALS)
            .map(|_| NewTimer { name: Some(format!("name {n}")), ..bench.timer(LONG) })
            .collect();
        let inserted =
            race(&bench, |rival, store| insist(|| store.insert(&timers[rival..=rival]))[0]);
        let first = bench.store.find(&format!("name {n}")).unwrap().unwrap().new.id;
        for (timer, answer) in timers.iter().zip(inserted) {
            let expected =
                if timer.id == first { Inserted::Created } else { Inserted::Exists(first) };
            assert_eq!(answer, expected);
        }
    }
}

pub(super) fn rivals_of_both_kinds_see_each_other(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    for n in 0..20 {
        let names: Vec<_> = (0..RIVALS).map(|rival| format!("name {n} {rival}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let timers: Vec<NewTimer> = names
            .iter()
            .map(|name| NewTimer { name: Some((*name).to_owned()), ..bench.timer(LONG) })
            .collect();
        let rows: Vec<_> = names.iter().map(|name| bench.schedule(name, LONG)).collect();
        // The last makes a schedule of the name of each other's timer.
        let seen = race(&bench, |rival, store| match rival + 1 {
            RIVALS => {
                assert!(insist(|| store.create_schedules(&rows)).iter().all(|made| *made));
                let (_, found) = insist(|| store.named(&names));
                found.iter().map(|named| named.timer.is_some()).collect::<Vec<_>>()
            }
            _ => {
                let (timer, name) = (&timers[rival..=rival], &names[rival..=rival]);
                let (inserted, _, found) = insist(|| store.insert_and_look(timer, name));
                assert_eq!(inserted, [Inserted::Created]);
                vec![found[0].schedule.is_some()]
            }
        });
        for rival in 0..RIVALS - 1 {
            assert!(seen[rival][0] || seen[RIVALS - 1][rival], "{seen:?}");
        }
    }
}

pub(super) fn rivals_reschedule_a_version_once(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    for _ in 0..10 {
        let id = bench.insert(LONG);
        let to = bench.now() + LONG;
        let answers = race(&bench, |rival, store| {
            let payload = [rival as u8];
            insist(|| {
                store.reschedule(&Reschedule {
                    payload: Some(&payload),
                    expect: Some(1),
                    ..Reschedule::new(id, to)
                })
            })
        });
        let won: Vec<_> = (0..RIVALS).filter(|n| answers[*n] == TimerUpdate::Done).collect();
        let lost = answers.iter().filter(|answer| **answer == TimerUpdate::Stale).count();
        assert_eq!((won.len(), lost), (1, RIVALS - 1), "{answers:?}");
        let row = bench.row(id).unwrap();
        assert_eq!((row.new.payload, row.version), (vec![won[0] as u8], 2));
    }
}

pub(super) fn a_listener_hears_what_another_connection_tells(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let notified = Shards::from_mask(1 << 63 | 5);
    let (send, heard) = mpsc::channel();
    let hear = move |notice| _ = send.send(notice);
    let listening = bench.store.listen(Arc::new(hear)).unwrap();
    let mut other = rig.store();
    assert_eq!(other.notify(notified).unwrap(), listening.is_some());
    let Some(listening) = listening else { return };
    // A notice from before it listened may be lost; all shards stand for it.
    let notice = loop {
        match heard.recv_timeout(MOMENT) {
            Ok(notice) if notice == Notification::Due(Shards::ALL) => {}
            Ok(notice) => break notice,
            Err(_) => assert!(other.notify(notified).unwrap()),
        }
    };
    assert_eq!(notice, Notification::Due(notified));
    drop(listening);
    assert!(other.notify(notified).unwrap());
    // It ends, and so does its callback.
    while heard.recv_timeout(LONG).is_ok() {}
    bench.insert(Duration::ZERO);
}

pub(super) fn rivals_promote_one_front(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    for n in 0..10 {
        let lanes = vec![format!("lane {n}"), format!("other {n}")];
        let now = bench.now();
        let timer = |bench: &mut Bench<'_>, lane: &str, ago: u32| {
            let at = now - Duration::from_secs(ago.into());
            let lane = Some(lane.to_owned());
            NewTimer { scheduled_for: at, due: at, lane, ..bench.timer(LONG) }
        };
        let timers: Vec<Vec<_>> = (1..=RIVALS as u32)
            .map(|ago| lanes.iter().map(|lane| timer(&mut bench, lane, ago)).collect())
            .collect();
        let claimed = race(&bench, |rival, store| {
            let lease = join(store, LONG).lease;
            insist(|| store.insert(&timers[rival]));
            let fronts = insist(|| store.promote(&lanes));
            let mut fronts: Vec<_> = fronts.iter().map(|front| front.id).collect();
            fronts.sort();
            insist(|| store.claim(lease, &fronts)).timers
        });
        for lane in &lanes {
            let claimed = claimed.iter().flatten();
            let running = claimed.filter(|timer| timer.new.lane.as_ref() == Some(lane));
            assert_eq!(running.count(), 1, "{lane}");
        }
    }
}
