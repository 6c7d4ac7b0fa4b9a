//! Schedules in zones with new rules, and schedules beyond what a node can read.

use std::slice::from_mut;

use tourbillon_cron::ZoneData;

use super::*;
use crate::Time;
use crate::id::ScheduleId;
use crate::policy::Policies;
use crate::rule::Rule;
use crate::store::{Change, RecordQuery, ScheduleRow};

const MINUTE: Duration = Duration::from_secs(60);

/// Offset of Tokyo's clocks, which are never changed.
const TOKYO_S: i64 = 9 * 3_600;

/// A schedule that comes once in a day, eight minutes from now, and that time. Its next time is
/// still as clocks had it that were so far ahead of Tokyo's, by these data.
fn computed(store: &mut Memory, ahead_s: i64, data: &str) -> Time {
    let now = store.now().unwrap();
    let minute_s = (now.as_micros() / 60_000_000 + 8) * 60;
    let local = (minute_s + TOKYO_S) % 86_400;
    let daily = format!("{} {} * * *", local % 3_600 / 60, local / 3_600);
    let daily = Schedule::cron(&daily, "Asia/Tokyo").unwrap();
    let at = Time::from_micros(minute_s * 1_000_000);
    assert_eq!(daily.next_after(now), Some(at));
    let rule = Ok(Rule::new(daily, Policies { retry: Retry::NEVER, ..Policies::default() }));
    let row = ScheduleRow::new(ScheduleId::new(now), "daily", "tick", rule, None);
    let next = Time::from_micros((minute_s - ahead_s) * 1_000_000);
    let wall = format!("{data} {}", TOKYO_S + ahead_s).parse().unwrap();
    make(store, ScheduleRow { next: Some(next), wall: Some(wall), ..row });
    at
}

fn make(store: &mut Memory, row: ScheduleRow) {
    assert_eq!(store.create_schedules(&[row]).unwrap(), [true]);
}

/// Runs nodes for sixteen minutes. Returns when each occurrence was claimed, and what it was
/// scheduled for.
fn claimed(clock: &VirtualClock, nodes: &mut [Node], store: &mut Memory) -> Vec<(Time, Time)> {
    let mut ticks: Vec<_> =
        nodes.iter().map(|node| Worker::new(&node.shared, "tick", 10)).collect();
    let mut claimed = Vec::new();
    for _ in 0..(MINUTE * 16).div_duration_f64(TICK) as u32 {
        for (node, ticks) in nodes.iter_mut().zip(&mut ticks) {
            node.step();
            while let Some(fire) = next(ticks) {
                claimed.push((store.now().unwrap(), fire.scheduled_for()));
                drop(fire.complete());
            }
            node.step();
        }
        clock.advance(TICK);
    }
    claimed
}

#[test]
fn an_occurrence_runs_once_at_its_time_on_the_wall_by_the_new_rules() {
    for ahead_s in [300, -300] {
        let (clock, timer, mut store) = world();
        let at = computed(&mut store, ahead_s, "1999a");
        let mut nodes = [Node::new(&timer, &store), Node::new(&timer, &store)];
        let [(when, scheduled_for)] = claimed(&clock, &mut nodes, &mut store)[..] else {
            panic!("it does not run once");
        };
        assert_eq!(scheduled_for, at);
        assert!((at..at + Duration::from_secs(1)).contains(&when), "{when} for {at}");
        let rezoned = nodes.iter().map(|node| node.shared.counters.snapshot().rezoned);
        assert_eq!(rezoned.sum::<u64>(), 1);
        let row = store.schedule("daily").unwrap().1.unwrap();
        assert_eq!(row.wall.unwrap().data(), ZoneData::current().version().unwrap_or_default());
    }
}

#[test]
fn a_node_with_older_data_leaves_a_schedule_to_those_with_newer_while_they_live() {
    let (clock, timer, mut store) = world();
    let at = computed(&mut store, 300, "9999z");
    let by_newer = at - Duration::from_secs(300);
    let Options { full_every, schedule_interval, .. } = Options::default();
    let patience = schedule_interval * full_every * 2;
    let mut node = Node::new(&timer, &store);
    while store.now().unwrap() < by_newer + patience - TICK {
        node.step();
        assert_eq!(store.schedule("daily").unwrap().1.unwrap().next, Some(by_newer));
        clock.advance(TICK);
    }
    // None has come. It is not lost.
    let [(when, scheduled_for)] = claimed(&clock, from_mut(&mut node), &mut store)[..] else {
        panic!("it does not run once");
    };
    assert_eq!(scheduled_for, at);
    assert!(when >= at, "{when} for {at}");
}

#[test]
fn a_schedule_that_another_process_writes_by_older_data_is_found_within_the_hour() {
    let (clock, timer, mut store) = world();
    let mut node = Node::new(&timer, &store);
    node.step();
    let now = store.now().unwrap();
    let nine = Schedule::cron("0 9 * * *", "Asia/Tokyo").unwrap();
    let at = nine.next_after(now + MINUTE * 60 * 3).unwrap();
    let row = ScheduleRow::new(
        ScheduleId::new(now),
        "nine",
        "tick",
        Ok(Rule::new(nine, Policies::default())),
        None,
    );
    let wall = "1999a 28800".parse().unwrap();
    make(&mut store, ScheduleRow { next: Some(at + MINUTE * 60), wall: Some(wall), ..row });
    let mut next = || store.schedule("nine").unwrap().1.unwrap().next;
    node.step();
    assert_eq!(next(), Some(at + MINUTE * 60));
    for _ in 0..61 {
        clock.advance(MINUTE);
        // The lease ends with each minute, and the node joins again.
        node.step();
        node.step();
    }
    assert_eq!(next(), Some(at));
}

#[test]
fn schedules_that_a_node_cannot_read_hold_up_no_other() {
    let (clock, timer, mut store) = world();
    let now = store.now().unwrap();
    // More than are read at a time, and all are due before the other.
    for number in 0..600 {
        let policies = Policies::default().to_string();
        let rule = Rule::from_text("cron Mars/Olympus 0 9 * * *", &policies);
        let name = format!("unreadable {number}");
        let id = ScheduleId::new(now);
        make(&mut store, ScheduleRow::new(id, name, "tick", rule, Some(now - MINUTE)));
    }
    schedules(&mut store, 1);
    let mut node = Node::new(&timer, &store);
    for _ in 0..50 {
        node.step();
        clock.advance(TICK);
    }
    let row = store.schedule("0").unwrap().1.unwrap();
    assert!(row.next > Some(store.now().unwrap()), "it does not go on");
    assert!(node.shared.counters.snapshot().not_understood >= 600);
}

#[test]
fn a_pause_that_began_on_a_node_without_the_zone_ends_with_the_next_occurrence() {
    let (clock, timer, mut store) = world();
    let at = computed(&mut store, 0, "1999a");
    let row = store.schedule("daily").unwrap().1.unwrap();
    let until = at - Duration::from_secs(30);
    let paused = ScheduleRow { paused: Some(until), next: Some(until), wall: None, ..row };
    let change =
        Change { name: "daily", expect: Some(1), row: Some(&paused), withdraw: None, skipped: &[] };
    store.change(&change).unwrap();
    let mut node = Node::new(&timer, &store);
    let ran = claimed(&clock, from_mut(&mut node), &mut store);
    assert_eq!(ran.iter().map(|(_, scheduled_for)| *scheduled_for).collect::<Vec<_>>(), [at]);
    assert_eq!(store.records(&RecordQuery::new()).unwrap().len(), 1);
}
