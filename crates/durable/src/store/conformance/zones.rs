//! Schedules in zones with new rules, and schedules that cannot be read.

use std::time::Duration;

use super::{Bench, LONG, Rig, advance};
use crate::client::{self, ScheduleUpdate, Upsert, Wanted};
use crate::id::{ScheduleId, TimerId};
use crate::policy::{Policies, Retry};
use crate::record::{Outcome, Reason};
use crate::rule::Rule;
use crate::schedule::Schedule;
use crate::store::{
    Advance, Advanced, ManualRun, NewOccurrence, ScheduleQuery, ScheduleRow, TimerQuery,
    UpcomingQuery, Wall, ZonedQuery,
};
use crate::time::Time;

const HOUR: Duration = Duration::from_secs(3_600);

const DAY: Duration = Duration::from_secs(86_400);

/// Rules of clocks an hour ahead of Tokyo's.
fn ahead() -> Wall {
    "1999a 36000".parse().unwrap()
}

/// Nine o'clock in Tokyo, more than a day from now.
fn nine(bench: &mut Bench<'_>) -> (Schedule, Time) {
    let mornings = Schedule::cron("0 9 * * *", "Asia/Tokyo").unwrap();
    let at = mornings.next_after(bench.now() + DAY).unwrap();
    (mornings, at)
}

/// A schedule for nine o'clock, as it was made when the clocks were an hour ahead: it comes an hour
/// before the time that is returned.
fn moved(bench: &mut Bench<'_>, name: &str) -> (ScheduleRow, Time) {
    let (mornings, at) = nine(bench);
    let rule = Ok(Rule::new(mornings, Policies { retry: Retry::NEVER, ..Policies::default() }));
    let row = ScheduleRow::new(ScheduleId::new(bench.now()), name, "bill", rule, None);
    let row = ScheduleRow { next: Some(at - HOUR), wall: Some(ahead()), payload: vec![7], ..row };
    bench.put(&row);
    (row, at)
}

fn found(bench: &mut Bench<'_>, name: &str) -> ScheduleRow {
    bench.store.schedule(name).unwrap().1.unwrap()
}

pub(super) fn a_schedule_keeps_the_rules_that_made_its_next_time(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (row, at) = moved(&mut bench, "nine");
    assert_eq!(found(&mut bench, "nine"), row);
    let wall: Wall = "2025b 32400".parse().unwrap();
    let advance = Advance { wall: Some(&wall), ..advance(&row, at) };
    assert_eq!(bench.store.advance(&advance).unwrap(), Advanced::Done);
    let stored = found(&mut bench, "nine");
    assert_eq!((stored.next, stored.wall.as_ref()), (Some(at), Some(&wall)));
    let listed = bench.store.schedules(&ScheduleQuery::new()).unwrap();
    assert_eq!(listed, [stored]);
    let without = Advance { from: at, next: Some(at + DAY), wall: None, ..advance };
    assert_eq!(bench.store.advance(&without).unwrap(), Advanced::Done);
    assert_eq!(found(&mut bench, "nine").wall, None);
}

pub(super) fn a_next_time_moves_with_the_rules_of_its_zone(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (row, at) = moved(&mut bench, "nine");
    for other in [
        ScheduleRow { version: 2, ..row.clone() },
        ScheduleRow { next: Some(at), ..row.clone() },
        ScheduleRow { id: ScheduleId::from_bits(3), ..row.clone() },
    ] {
        assert_eq!(bench.store.rezone(&other).unwrap(), Advanced::Stale);
        assert_eq!(found(&mut bench, "nine"), row);
    }
    assert_eq!(bench.store.rezone(&row).unwrap(), Advanced::Done);
    let now = found(&mut bench, "nine");
    assert_eq!(now, ScheduleRow { next: Some(at), wall: now.wall.clone(), ..row.clone() });
    assert_eq!(now.wall.map(|wall| wall.offset_s()), Some(32_400));
    assert_eq!(bench.store.rezone(&row).unwrap(), Advanced::Stale);

    // A pause stays as it is: its schedule is next at nine by the new rules, but after its end.
    let until = at + HOUR / 2;
    let behind: Wall = "1999a 28800".parse().unwrap();
    let paused = ScheduleRow {
        id: ScheduleId::new(until),
        name: "paused".to_owned(),
        next: Some(at + HOUR),
        wall: Some(behind),
        paused: Some(until),
        ..row
    };
    bench.put(&paused);
    assert_eq!(bench.store.rezone(&paused).unwrap(), Advanced::Done);
    let moved = found(&mut bench, "paused");
    assert_eq!((moved.next, moved.paused), (Some(at + DAY), Some(until)));
}

pub(super) fn what_is_to_come_moves_along_and_what_has_come_stays(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (row, at) = moved(&mut bench, "nine");
    let now = bench.now();
    let coming = bench.occurrence(&row, at - HOUR, at - HOUR);
    let due = bench.occurrence(&row, now, now);
    // It was claimed, and waits for its second attempt.
    let begun = bench.occurrence(&row, at - HOUR * 2, now);
    let timers = [coming, due, begun];
    let next = at - HOUR + DAY;
    let wall = ahead();
    let advance = Advance { wall: Some(&wall), timers: &timers, ..advance(&row, next) };
    assert_eq!(bench.store.advance(&advance).unwrap(), Advanced::Done);
    let extra = bench.occurrence(&row, Time::NEVER, Time::NEVER);
    let run_now = NewOccurrence { timer: &extra, version: 1, queue: None };
    assert!(matches!(bench.store.insert_occurrence(&run_now).unwrap(), ManualRun::Done { .. }));
    assert!(bench.claim(timers[2].id).is_some());
    bench.finish(timers[2].id, 1, super::retry(LONG));

    let read = found(&mut bench, "nine");
    assert_eq!(bench.store.rezone(&read).unwrap(), Advanced::Done);
    assert_eq!(found(&mut bench, "nine").next, Some(at));
    let left = bench.store.timers(&TimerQuery::new()).unwrap();
    let mut left: Vec<TimerId> = left.iter().map(|timer| timer.new.id).collect();
    left.sort_unstable();
    let mut expected = [timers[1].id, timers[2].id, extra.id];
    expected.sort_unstable();
    assert_eq!(left, expected);
    assert_eq!(bench.records(), []);
}

pub(super) fn schedules_of_zones_come_in_pages(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut rows = ["a", "b", "c"].map(|name| moved(&mut bench, name).0);
    bench.scheduled("every", LONG);
    let (mornings, at) = nine(&mut bench);
    let rule = Ok(Rule::new(mornings, Policies::default()));
    let off = ScheduleRow::new(ScheduleId::new(at), "off", "bill", rule, Some(at));
    bench.put(&ScheduleRow { enabled: false, ..off });
    let other: Wall = "1999b 0".parse().unwrap();
    let of_other = ScheduleRow { wall: Some(other), name: "d".to_owned(), ..rows[2].clone() };
    let of_other = ScheduleRow { id: ScheduleId::from_bits(u128::MAX), ..of_other };
    bench.put(&of_other);
    rows.sort_by_key(|row| row.id);
    let without = |row: &ScheduleRow| ScheduleRow { payload: Vec::new(), ..row.clone() };
    let [first, second, third] = rows.each_ref().map(without);
    let last = without(&of_other);
    let mut page = |after: Option<&ScheduleRow>, but: Option<&str>, limit| {
        let after = after.map(|row| row.id);
        bench.store.zoned(&ZonedQuery { after, but: but.map(str::to_owned), limit }).unwrap()
    };
    assert_eq!(page(None, None, 2), [first.clone(), second.clone()]);
    assert_eq!(page(Some(&second), None, 9), [third.clone(), last.clone()]);
    assert_eq!(page(None, Some("1999a"), 9), std::slice::from_ref(&last));
    assert_eq!(page(None, Some("1999b"), 9), [first, second, third]);
    assert_eq!(page(None, Some("1999"), 9).len(), 4);
    assert_eq!(page(Some(&last), None, 9), []);
}

pub(super) fn upcoming_goes_on_after_a_schedule(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let rows = [1, 2, 3, 4].map(|n| bench.scheduled(&n.to_string(), LONG * (n / 2)));
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| (row.next, row.id));
    let mut query = UpcomingQuery::new(LONG * 9, 3);
    for expected in [&rows[..3], &rows[3..], &[]] {
        let page = bench.store.upcoming(&query).unwrap().schedules;
        let found: Vec<_> = page.iter().map(|(row, _)| row.clone()).collect();
        assert_eq!(found, expected);
        query.after = found.last().map(|row| (row.next.unwrap(), row.id)).or(query.after);
    }
}

/// Makes a schedule, due now, whose zone no machine has.
fn unreadable(bench: &mut Bench<'_>, name: &str) -> ScheduleRow {
    let now = bench.now();
    let rule = Rule::from_text("cron Mars/Olympus 0 9 * * *", &Policies::default().to_string());
    let row = ScheduleRow::new(ScheduleId::new(now), name, "bill", rule, Some(now));
    bench.put(&row);
    row
}

pub(super) fn a_schedule_that_cannot_be_read_can_be_stopped(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let done = ScheduleUpdate::Done { running: Vec::new() };
    let read = unreadable(&mut bench, "read");
    let why = read.rule.as_ref().unwrap_err().to_string();
    assert!(why.ends_with("time zone: `Mars/Olympus` is not known"), "{why}");
    assert_eq!(client::stop(&mut *bench.store, "read", Reason::Disabled).unwrap(), done);
    let stopped = found(&mut bench, "read");
    assert_eq!((stopped.enabled, stopped.next, &stopped.rule), (false, None, &read.rule));
    let records = bench.records();
    assert_eq!(records.len(), 1);
    assert_eq!(
        (records[0].outcome, records[0].reason),
        (Outcome::Cancelled, Some(Reason::Disabled))
    );
    assert_eq!(records[0].scheduled_for, read.next.unwrap());

    unreadable(&mut bench, "removed");
    assert_eq!(client::stop(&mut *bench.store, "removed", Reason::Removed).unwrap(), done);
    assert_eq!(bench.store.schedule("removed").unwrap().1, None);

    unreadable(&mut bench, "paused");
    let until = bench.now() + LONG;
    assert_eq!(client::pause(&mut *bench.store, "paused", until).unwrap(), done);
    let paused = found(&mut bench, "paused");
    assert_eq!((paused.paused, paused.next, paused.wall), (Some(until), Some(until), None));

    unreadable(&mut bench, "put");
    let wanted = Wanted::new("put", "bill", nine(&mut bench).0);
    let changed = client::upsert(&mut *bench.store, &wanted).unwrap();
    assert!(matches!(changed, Upsert::Changed { .. }), "{changed:?}");
    assert!(found(&mut bench, "put").rule.is_ok());
}
