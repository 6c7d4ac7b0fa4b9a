//! Lists: their rows, order and pages.

use std::time::Duration;

use super::{Bench, LONG, MOMENT, Rig, done, join_again};
use crate::id::TimerId;
use crate::record::{Outcome, Reason};
use crate::store::{
    Count, How, NewTimer, NodeInfo, OverviewOf, RecordQuery, ScheduleQuery, State, TimerQuery,
    TimerUpdate,
};
use crate::time::Time;

/// Names in their order: some begin alike, and one has the wildcards of a pattern.
const NAMES: [&str; 6] = ["a", "b/1", "b/2", "b/\u{10ffff}", "b0", "c%_"];

/// Timers with a name of their own that starts so.
fn named(prefix: &str) -> TimerQuery {
    TimerQuery::new().by_name(prefix, None)
}

fn timers(bench: &mut Bench<'_>, query: &TimerQuery) -> Vec<TimerId> {
    bench.store.timers(query).unwrap().iter().map(|timer| timer.new.id).collect()
}

fn schedules(bench: &mut Bench<'_>, query: &ScheduleQuery) -> Vec<String> {
    bench.store.schedules(query).unwrap().into_iter().map(|row| row.name).collect()
}

fn records(bench: &mut Bench<'_>, query: &RecordQuery) -> Vec<TimerId> {
    bench.store.records(query).unwrap().iter().map(|record| record.timer).collect()
}

pub(super) fn timers_come_in_pages(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let later = bench.timer(LONG);
    let same = [later.clone(), NewTimer { id: TimerId::from_bits(7), ..later.clone() }];
    bench.store.insert(&same).unwrap();
    let [last, sooner] = [LONG * 2, Duration::ZERO].map(|ahead| bench.insert(ahead));
    bench.pass(MOMENT);
    let running = bench.running();
    let expected = [sooner, running, TimerId::from_bits(7), later.id, last];
    for query in [TimerQuery::new(), TimerQuery::new().kind("mail")] {
        let mut query = query.limit(2);
        let mut found = Vec::new();
        loop {
            let page = bench.store.timers(&query).unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= 2);
            query = query.after(last.new.due, last.new.id);
            found.extend(page.iter().map(|timer| timer.new.id));
        }
        assert_eq!(found, expected);
    }
    assert_eq!(timers(&mut bench, &TimerQuery::new().kind("bill")), []);
}

pub(super) fn timers_are_found_by_what_they_are(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let running = bench.running();
    let bill = NewTimer { kind: "bill".to_owned(), ..bench.timer(LONG) };
    bench.store.insert(std::slice::from_ref(&bill)).unwrap();
    let mail = bench.insert(LONG * 2);
    let pending = TimerQuery::new().state(State::Pending);
    let runs = TimerQuery::new().state(State::Running);
    assert_eq!(timers(&mut bench, &runs), [running]);
    assert_eq!(timers(&mut bench, &pending), [bill.id, mail]);
    assert_eq!(timers(&mut bench, &pending.kind("mail")), [mail]);
    assert_eq!(timers(&mut bench, &runs.clone().kind("mail")), [running]);
    assert_eq!(timers(&mut bench, &runs.kind("bill")), []);
    let one = TimerQuery::new().timer(mail);
    assert_eq!(timers(&mut bench, &one), [mail]);
    assert_eq!(timers(&mut bench, &one.kind("bill")), []);
    assert_eq!(timers(&mut bench, &TimerQuery::new().limit(0)), []);

    // From the one moment, and until before the other.
    let last = bench.row(mail).unwrap().new.due;
    assert_eq!(timers(&mut bench, &TimerQuery::new().since(bill.due).until(last)), [bill.id]);
    assert_eq!(timers(&mut bench, &TimerQuery::new().kind("mail").since(last)), [mail]);
    assert_eq!(timers(&mut bench, &TimerQuery::new().until(bill.due)), [running]);
}

pub(super) fn timers_are_found_by_how_their_names_start(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut all = Vec::new();
    for (n, name) in NAMES.iter().enumerate() {
        // Their names are not in the order that they are due in.
        let ahead = LONG * (NAMES.len() - n) as u32;
        all.push(NewTimer { name: Some((*name).to_owned()), ..bench.timer(ahead) });
    }
    bench.store.insert(&all).unwrap();
    bench.insert(Duration::ZERO);
    let row = bench.scheduled("b/3", Duration::ZERO);
    let of_schedule = bench.occurrence(&row, Time::from_micros(1), Time::from_micros(1));
    bench.store.insert(&[of_schedule]).unwrap();

    let ids: Vec<TimerId> = all.iter().map(|new| new.id).collect();
    assert_eq!(timers(&mut bench, &named("b/")), ids[1..4]);
    assert_eq!(timers(&mut bench, &named("")), ids);
    assert_eq!(timers(&mut bench, &named("c%")), ids[5..]);
    assert_eq!(timers(&mut bench, &named("b%")), []);
    assert_eq!(timers(&mut bench, &named("b/\u{10ffff}")), ids[3..4]);
    let page = named("b").limit(2);
    assert_eq!(timers(&mut bench, &page), ids[1..3]);
    let page = page.by_name("b", Some(NAMES[2].to_owned()));
    assert_eq!(timers(&mut bench, &page), ids[3..5]);
    assert_eq!(timers(&mut bench, &named("b/").until(all[1].due)), ids[2..4]);
    assert_eq!(timers(&mut bench, &named("b/").kind("bill")), []);
}

pub(super) fn timers_are_found_by_the_name_of_their_schedule(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = bench.scheduled("one", LONG);
    let now = bench.now();
    let later = bench.occurrence(&row, now + LONG * 3, now + LONG * 3);
    let sooner = bench.occurrence(&row, now + LONG, now + LONG);
    let own = NewTimer { name: Some("one".to_owned()), ..bench.timer(LONG * 2) };
    let other = NewTimer { name: Some("two".to_owned()), ..bench.timer(LONG) };
    bench.store.insert(&[later.clone(), sooner.clone(), own.clone(), other.clone()]).unwrap();
    let name = TimerQuery::new().name("one");
    assert_eq!(timers(&mut bench, &name), [sooner.id, own.id, later.id]);
    assert_eq!(timers(&mut bench, &name.kind("bill")), [sooner.id, later.id]);
    assert_eq!(timers(&mut bench, &TimerQuery::new().name("three")), []);
}

pub(super) fn timers_that_run_or_are_held_come_in_the_order_of_names(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut all = Vec::new();
    for name in NAMES.iter().rev() {
        all.push(NewTimer { name: Some((*name).to_owned()), ..bench.timer(Duration::ZERO) });
        let held = Some(format!("{name}/held"));
        all.push(NewTimer { name: held, due: Time::NEVER, ..bench.timer(LONG) });
    }
    bench.store.insert(&all).unwrap();
    bench.pass(MOMENT);
    for due in all.iter().step_by(2).skip(1) {
        bench.claim(due.id).unwrap();
    }
    let of = |bench: &mut Bench<'_>, query: &TimerQuery| -> Vec<String> {
        let timers = bench.store.timers(query).unwrap();
        timers.into_iter().filter_map(|timer| timer.new.name).collect()
    };
    let running = named("").kind("mail").state(State::Running);
    assert_eq!(of(&mut bench, &running), NAMES[..5]);
    let page = named("b").kind("mail").state(State::Running).limit(2);
    assert_eq!(of(&mut bench, &page), NAMES[1..3]);
    let page = page.by_name("b", Some(NAMES[2].to_owned()));
    assert_eq!(of(&mut bench, &page), NAMES[3..5]);
    let mut names = NAMES.map(|name| format!("{name}/held"));
    names.sort_unstable();
    let held = named("").kind("mail").since(Time::NEVER);
    assert_eq!(of(&mut bench, &held), names);
    assert_eq!(of(&mut bench, &held.by_name("", Some(names[3].clone()))), names[4..]);
    assert_eq!(of(&mut bench, &named("").kind("bill").since(Time::NEVER)), [""; 0]);
}

pub(super) fn names_are_looked_up_together(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let named = |name: &str, timer| NewTimer { name: Some(name.to_owned()), ..timer };
    let [waits, both, first, second] =
        ["waits", "both", "over", "over"].map(|name| named(name, bench.timer(Duration::ZERO)));
    let row = bench.scheduled("both", LONG);
    let other = bench.scheduled("repeats", LONG);
    // Two of one name, one after the other.
    for timer in [&first, &second] {
        bench.store.insert(std::slice::from_ref(timer)).unwrap();
        bench.pass(MOMENT);
        bench.claim(timer.id).unwrap();
        bench.finish(timer.id, 1, done());
    }
    // An occurrence shows its schedule's name, but has none itself.
    let occurrence = bench.occurrence(&other, Time::from_micros(1), Time::from_micros(1));
    bench.store.insert(&[waits.clone(), both.clone(), occurrence]).unwrap();

    let before = bench.now();
    let names = ["repeats", "over", "none", "both", "waits", "over"];
    let (now, found) = bench.store.named(&names).unwrap();
    assert!(before <= now && now <= bench.now());
    let seen = found.into_iter().map(|named| {
        let schedule = named.schedule.map(|row| row.id);
        let timer = named.timer.map(|timer| timer.new.id);
        (schedule, timer, named.record.map(|record| record.timer))
    });
    let over = (None, None, Some(second.id));
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            (Some(other.id), None, None),
            over,
            (None, None, None),
            (Some(row.id), Some(both.id), None),
            (None, Some(waits.id), None),
            over,
        ]
    );
    assert_eq!(bench.store.named(&[]).unwrap().1, []);
}

/// Makes a schedule of each name; every other is disabled.
fn make_schedules(bench: &mut Bench<'_>) {
    for (n, name) in NAMES.iter().enumerate().rev() {
        bench.switched(name, n % 2 == 0);
    }
}

pub(super) fn schedules_come_in_pages(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    make_schedules(&mut bench);
    for query in
        [ScheduleQuery::new(), ScheduleQuery::new().kind("bill"), ScheduleQuery::new().prefix("")]
    {
        let mut query = query.limit(2);
        let mut found = Vec::new();
        loop {
            let page = schedules(&mut bench, &query);
            assert!(page.len() <= 2);
            let Some(last) = page.last() else { break };
            query = query.after(last);
            found.extend(page);
        }
        assert_eq!(found, NAMES);
    }
}

pub(super) fn schedules_are_found_by_what_they_are(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    make_schedules(&mut bench);
    assert_eq!(schedules(&mut bench, &ScheduleQuery::new().kind("mail")), [""; 0]);
    assert_eq!(schedules(&mut bench, &ScheduleQuery::new().limit(0)), [""; 0]);
    for all in [ScheduleQuery::new(), ScheduleQuery::new().kind("bill")] {
        let starts = all.clone().prefix("b/");
        assert_eq!(schedules(&mut bench, &starts), NAMES[1..4]);
        assert_eq!(schedules(&mut bench, &starts.enabled(false)), [NAMES[1], NAMES[3]]);
        let enabled = all.clone().enabled(true);
        assert_eq!(schedules(&mut bench, &enabled), [NAMES[0], NAMES[2], NAMES[4]]);
        let named = all.name("b0");
        assert_eq!(schedules(&mut bench, &named), ["b0"]);
        assert_eq!(schedules(&mut bench, &named.enabled(false)), [""; 0]);
    }
}

pub(super) fn records_come_newest_first(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let kinds = ["mail", "bill", "mail", "call", "bill"];
    let all: Vec<_> = kinds.iter().map(|kind| bench.ended(kind, Some("one"), done())).collect();
    let of = |wanted: &str| -> Vec<TimerId> {
        let those = kinds.iter().zip(&all).filter(|(kind, _)| **kind == wanted);
        those.map(|(_, (_, id))| *id).collect()
    };
    let every: Vec<TimerId> = all.iter().map(|(_, id)| *id).collect();
    let cases = [
        (RecordQuery::new(), every.clone()),
        (RecordQuery::new().name("one"), every),
        (RecordQuery::new().kind("mail"), of("mail")),
        (RecordQuery::new().kind("bill"), of("bill")),
    ];
    for (all, mut expected) in cases {
        for newest_first in [false, true] {
            let all = all.clone();
            let query = if newest_first { all.newest_first() } else { all };
            let found = bench.records_in_pages(query.clone());
            let found: Vec<_> = found.iter().map(|record| record.timer).collect();
            assert_eq!(found, expected, "{query:?}");
            expected.reverse();
        }
    }
}

pub(super) fn records_are_found_by_how_they_ended_and_when(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let dead = || How::Done(Outcome::Dead, Some(Reason::Failed), String::new());
    let (first, one) = bench.ended("mail", Some("a/1"), done());
    let (second, two) = bench.ended("mail", Some("a/2"), dead());
    let (third, three) = bench.ended("bill", Some("a/2"), dead());
    let four = bench.insert(LONG);
    assert_eq!(bench.store.cancel(four).unwrap(), TimerUpdate::Done);

    let (all, mail) = (RecordQuery::new, || RecordQuery::new().kind("mail"));
    for (query, expected) in [
        (all().outcome(Outcome::Dead), vec![two, three]),
        (mail().outcome(Outcome::Dead), vec![two]),
        (mail().outcome(Outcome::Succeeded), vec![one]),
        (all().outcome(Outcome::Succeeded), vec![one]),
        (all().outcome(Outcome::Cancelled), vec![four]),
        (mail().outcome(Outcome::Skipped), vec![]),
        (all().timer(one).outcome(Outcome::Dead), vec![]),
        (all().name("a/1").outcome(Outcome::Dead), vec![]),
        (mail().name("a/2"), vec![two]),
        (all().timer(two), vec![two]),
        (all().since(second).until(third), vec![two]),
        (mail().since(first).until(third), vec![one, two]),
        (mail().until(third).outcome(Outcome::Dead), vec![two]),
        (all().since(third).newest_first(), vec![four, three]),
        (all().limit(0), vec![]),
    ] {
        assert_eq!(records(&mut bench, &query), expected, "{query:?}");
    }
}

pub(super) fn pruned_records_are_gone(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    bench.ended("mail", None, done());
    let before = bench.now();
    bench.pass(MOMENT);
    let (_, kept) = bench.ended("mail", None, done());
    bench.store.prune(before, 1_000).unwrap();
    assert_eq!(records(&mut bench, &RecordQuery::new()), [kept]);
}

fn overview(bench: &mut Bench<'_>, kinds: &[&str], most: u32) -> crate::store::Overview {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    bench.store.overview(&OverviewOf { kinds, most }).unwrap()
}

fn whole(count: u64) -> Count {
    Count { count, is_cut: false }
}

/// Timers of two kinds: one running, three due, and later ones.
fn fill(bench: &mut Bench<'_>) -> Time {
    let oldest = bench.timer(Duration::ZERO);
    bench.store.insert(std::slice::from_ref(&oldest)).unwrap();
    bench.pass(MOMENT);
    bench.running();
    let minute = Duration::from_secs(60);
    let mut all = Vec::new();
    for (kind, ahead) in [
        ("mail", Duration::ZERO),
        ("bill", Duration::ZERO),
        ("mail", minute * 5 + minute / 2),
        ("bill", minute * 5 + minute / 2),
        ("bill", minute * 59 + minute / 2),
        ("bill", minute * 62),
        ("call", Duration::ZERO),
        ("call", minute),
    ] {
        all.push(NewTimer { kind: kind.to_owned(), ..bench.timer(ahead) });
    }
    all.push(NewTimer { due: Time::NEVER, ..bench.timer(LONG) });
    bench.store.insert(&all).unwrap();
    bench.pass(MOMENT);
    bench.row(oldest.id).unwrap().new.due
}

pub(super) fn an_overview_counts_what_there_is(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let oldest = fill(&mut bench);
    make_schedules(&mut bench);
    let dead = || How::Done(Outcome::Dead, Some(Reason::Failed), String::new());
    for (kind, how) in [("mail", done()), ("mail", dead()), ("bill", done()), ("call", done())] {
        bench.ended(kind, None, how);
    }
    let before = bench.now();
    let found = overview(&mut bench, &["mail", "bill"], 1_000);
    let hour = Duration::from_secs(3_600);
    assert!(found.now >= before && found.now <= bench.now());
    assert_eq!((found.overdue, found.running), (whole(3), whole(1)));
    assert_eq!(found.oldest_due, Some(oldest));
    let mut minutes = vec![0; 60];
    (minutes[5], minutes[59]) = (2, 1);
    assert_eq!((found.next_hour, found.next_hour_until), (minutes, found.now + hour));
    assert_eq!((found.enabled, found.disabled), (whole(3), whole(3)));
    assert_eq!(found.outcomes, [(Outcome::Succeeded, 2), (Outcome::Dead, 1)]);
    assert_eq!(found.outcomes_since, found.now - hour);

    let mail = overview(&mut bench, &["mail"], 1_000);
    assert_eq!((mail.overdue, mail.enabled), (whole(2), whole(0)));
    assert_eq!(mail.outcomes, [(Outcome::Succeeded, 1), (Outcome::Dead, 1)]);
    let none = overview(&mut bench, &[], 1_000);
    assert_eq!((none.overdue, none.oldest_due, none.outcomes), (whole(0), None, Vec::new()));
}

pub(super) fn an_overview_says_where_it_stopped(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    fill(&mut bench);
    make_schedules(&mut bench);
    bench.ended("bill", None, done());
    let (last, _) = bench.ended("bill", None, done());
    let found = overview(&mut bench, &["bill"], 1);
    let cut = Count { count: 1, is_cut: true };
    assert_eq!((found.overdue.count, found.overdue.is_cut), (1, true));
    assert_eq!(found.running, Count { count: 0, is_cut: true });
    assert_eq!((found.enabled, found.disabled), (cut, cut));
    assert_eq!(found.next_hour.iter().sum::<u64>(), 1);
    assert_eq!(found.next_hour[5], 1);
    let minute = Duration::from_secs(60);
    assert!(found.next_hour_until > found.now + minute * 5);
    assert!(found.next_hour_until < found.now + minute * 6);
    assert_eq!((found.outcomes, found.outcomes_since), (vec![(Outcome::Succeeded, 1)], last));
    // Each kind has its part.
    let found = overview(&mut bench, &["mail", "bill"], 8);
    assert_eq!((found.overdue, found.next_hour[5]), (whole(3), 2));
    assert!(!found.running.is_cut);
}

pub(super) fn nodes_says_who_lives_and_how_long(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let first = bench.lease;
    let second = super::join(&mut *bench.store, LONG).lease;
    let second = join_again(&mut *bench.store, second, LONG * 2);
    let beats = bench.store.beat(first, LONG).unwrap().unwrap();
    let beat =
        |lease: crate::id::Lease| beats.nodes.iter().find(|(id, _)| *id == lease.node).unwrap().1;
    let mut expected = [(first, LONG), (second, LONG * 2)].map(|(lease, span)| NodeInfo {
        id: lease.node,
        epoch: lease.epoch,
        beat: beat(lease),
        expires: beat(lease) + span,
    });
    expected.sort_by_key(|node| node.id);
    assert_eq!(bench.store.nodes().unwrap(), expected);
    bench.store.leave(first).unwrap();
    bench.store.leave(second).unwrap();
    assert_eq!(bench.store.nodes().unwrap(), []);
}
