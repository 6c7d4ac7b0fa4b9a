//! A mover that is killed at each of its calls, between two stores whose nodes run on.
//!
//! Before each call of the mover both stores' nodes take a step, and time passes: what is true of a
//! timer when it is read need not be when it is written.

mod schedules;
mod stores;
mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tourbillon::Timer as Clock;
use tourbillon::virtual_time::VirtualClock;

use super::schedules::schedules;
use super::{Mover, Progress};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Lease, NodeId, Place, ScheduleId, Shards, TimerId};
use crate::plan::{Rows, Step, plan};
use crate::policy::{Missed, Overlap, Policies, Retry};
use crate::record::{Outcome, Reason};
use crate::rule::Rule;
use crate::schedule::Schedule;
use crate::store::transfer::receive;
use crate::store::{
    Change, End, Finished, How, Inserted, Memory, NewTimer, RecordQuery, Result, Scan, ScheduleRow,
    Store, Timer, TimerQuery, TimerUpdate, forward,
};
use crate::time::Time;

/// Time between two steps of the nodes.
const STEP: Duration = Duration::from_millis(250);

const SECOND: Duration = Duration::from_secs(1);

/// The place that is moved, and one that stays.
const MOVED: Place = Place::new(512).unwrap();
const STAYS: Place = Place::new(513).unwrap();

/// Fate of the mover's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// All are carried out.
    None,
    /// Call that it is killed before.
    Before(usize),
    /// Call that it is killed after.
    After(usize),
    /// The answer to this call is lost, and it is not killed.
    Lost(usize),
}

/// A store's node, and what runs there.
struct Node {
    store: Memory,
    lease: Lease,
    /// Timers that run, and when each ends.
    running: Vec<(Timer, Time)>,
}

/// State of a timer that was seen to run.
#[derive(Clone, Debug, Default)]
struct Seen {
    attempts: u32,
    failures: u32,
    detail: String,
    has_ended: bool,
}

/// Two stores, a node on each, and the mover's connections.
struct World {
    clock: VirtualClock,
    /// The old store's, and the new one's.
    nodes: [Node; 2],
    seen: BTreeMap<TimerId, Seen>,
    /// Timers of the lane and of the queue, by the lane or the schedule, that have not ended.
    lines: BTreeMap<String, BTreeSet<(Time, TimerId)>>,
    /// Occurrences that have started, by schedule.
    occurrences: BTreeMap<ScheduleId, Vec<Time>>,
    calls: usize,
    cut: Cut,
    is_dead: bool,
}

/// A connection of the mover.
struct Connection {
    store: Memory,
    world: Arc<Mutex<World>>,
}

impl Connection {
    fn pass<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        let mut world = self.world.lock().unwrap();
        let failed = |kind| Err(StoreError::new(kind, name));
        if world.is_dead {
            return failed(StoreErrorKind::Unavailable);
        }
        world.step();
        world.calls += 1;
        let call = world.calls;
        match world.cut {
            Cut::Before(at) if at == call => {
                world.is_dead = true;
                failed(StoreErrorKind::Unavailable)
            }
            Cut::After(at) | Cut::Lost(at) if at == call => {
                world.is_dead = world.cut == Cut::After(at);
                work(&mut self.store).and(failed(StoreErrorKind::Uncertain))
            }
            _ => work(&mut self.store),
        }
    }
}

impl Store for Connection {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self { store: self.store.clone(), world: self.world.clone() }))
    }

    forward! { self.pass;
        now join beat leave maintain nodes insert scan held claim finish cancel reschedule amend
        confirm find timers schedule schedules upcoming change advance backfill insert_occurrence
        records failing overview promote prune transfer shift adopt
    }
}

impl Node {
    fn new(clock: &Clock) -> Self {
        let mut store = Memory::new(clock);
        let lease = Lease { node: NodeId::new(), epoch: 1 };
        store.join(lease, SECOND * 10).unwrap().unwrap();
        Self { store, lease, running: Vec::new() }
    }
}

impl World {
    fn begin(cut: Cut) -> Arc<Mutex<Self>> {
        let clock = VirtualClock::new();
        let timer = Clock::builder().virtual_clock(&clock).build().unwrap();
        let nodes = [Node::new(&timer), Node::new(&timer)];
        let (seen, lines, occurrences) = Default::default();
        let world = Self { clock, nodes, seen, lines, occurrences, calls: 0, cut, is_dead: false };
        Arc::new(Mutex::new(world))
    }

    fn now(&mut self) -> Time {
        self.nodes[0].store.now().unwrap()
    }

    fn old(&mut self) -> &mut Memory {
        &mut self.nodes[0].store
    }

    fn new_store(&mut self) -> &mut Memory {
        &mut self.nodes[1].store
    }

    /// Lets time pass, and has each node do all that nodes do.
    fn step(&mut self) {
        self.clock.advance(STEP);
        let now = self.now();
        for n in 0..2 {
            let lease = self.nodes[n].lease;
            self.nodes[n].store.beat(lease, SECOND * 10).unwrap().unwrap();
            self.end(n, now);
            self.nodes[n].store.maintain().unwrap();
            self.plan(n, now);
            self.claim(n, now);
        }
    }

    fn end(&mut self, n: usize, now: Time) {
        let (over, running) = std::mem::take(&mut self.nodes[n].running)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, ends)| *ends <= now);
        self.nodes[n].running = running;
        for (timer, _) in over {
            let (id, attempt) = (timer.new.id, timer.attempt);
            let seen = self.seen.get_mut(&id).unwrap();
            let how = match &timer.new.payload[..] {
                b"dies" => How::Done(Outcome::Dead, Some(Reason::Failed), String::new()),
                b"hands back" if attempt < 3 => How::HandBack,
                b"retries" if attempt < 4 => {
                    seen.failures += 1;
                    seen.detail = format!("failed at attempt {attempt}");
                    How::Retry(SECOND * 2, seen.detail.clone())
                }
                _ => How::Done(Outcome::Succeeded, None, String::new()),
            };
            seen.has_ended = matches!(how, How::Done(..));
            if seen.has_ended {
                if let Some(line) = line(&timer).and_then(|line| self.lines.get_mut(&line)) {
                    line.remove(&(timer.new.scheduled_for, id));
                }
            }
            let (store, lease) = (&mut self.nodes[n].store, self.nodes[n].lease);
            let finished = store.finish(lease, &[End { timer: id, attempt, how }]).unwrap();
            assert_eq!(finished, [Finished::Accepted]);
        }
    }

    fn plan(&mut self, n: usize, now: Time) {
        let store = &mut self.nodes[n].store;
        for (row, occupied) in store.upcoming(SECOND * 3, Shards::ALL, 100).unwrap().schedules {
            let Rule { schedule, policies } = row.rule.clone().unwrap();
            let Some(next) = row.next else { continue };
            let step = plan(&schedule, &policies, row.id, next, occupied, now, SECOND * 3);
            if let Step::Advance(planned) = step {
                let rows = Rows::new(&planned, &row, &policies);
                store.advance(&rows.advance(&row)).unwrap();
            }
        }
    }

    fn claim(&mut self, n: usize, now: Time) {
        let kinds = ["mail".to_owned()];
        let scan = Scan {
            ahead: Duration::ZERO,
            back: None,
            shards: Shards::ALL,
            grace: None,
            kinds: &kinds,
            kind_limit: 3,
        };
        let (store, lease) = (&mut self.nodes[n].store, self.nodes[n].lease);
        let mut ids: Vec<_> =
            store.scan(&scan).unwrap().timers.iter().map(|found| found.id).collect();
        ids.sort();
        for timer in store.claim(lease, &ids).unwrap().timers {
            self.check_start(&timer);
            let spans = 1 + (timer.new.id.bits() >> 20) as u32 % 5;
            self.nodes[n].running.push((timer, now + STEP * spans));
        }
    }

    /// Checks a timer that starts, by all that was seen of it on either store.
    fn check_start(&mut self, timer: &Timer) {
        let id = timer.new.id;
        let is_running = |node: &Node| node.running.iter().any(|(other, _)| other.new.id == id);
        assert!(!self.nodes.iter().any(is_running), "{id} runs twice");
        let seen = self.seen.entry(id).or_default();
        assert!(!seen.has_ended, "{id} runs again");
        seen.attempts += 1;
        let found = (timer.attempt, timer.failures, &timer.detail);
        assert_eq!(found, (seen.attempts, seen.failures, &seen.detail), "{id}");
        if let Some(schedule) = timer.new.schedule.filter(|_| timer.attempt == 1) {
            self.occurrences.entry(schedule).or_default().push(timer.new.scheduled_for);
        }
        if let Some(line) = line(timer) {
            let waiting = self.lines.get(&line);
            let first = waiting.and_then(BTreeSet::first);
            let place = (timer.new.scheduled_for, id);
            // Of a queue what was there first is not known beforehand.
            assert!(timer.new.lane.is_none() || first == Some(&place), "{id} is not the first");
            let is_of_line = |other: &Timer| self::line(other).as_ref() == Some(&line);
            let others = self.nodes.iter().flat_map(|node| &node.running);
            assert_eq!(others.filter(|(other, _)| is_of_line(other)).count(), 0, "{line}");
        }
    }
}

/// Returns the lane or the queue that a timer is in.
fn line(timer: &Timer) -> Option<String> {
    let queue = timer.new.schedule.filter(|_| timer.new.has_queue);
    timer.new.lane.clone().or_else(|| queue.map(|schedule| schedule.to_string()))
}

/// Timers and schedules of a place before it is moved.
struct Before {
    /// Timers that run once.
    once: Vec<TimerId>,
    /// Timers that are to be the same afterwards.
    same: Vec<Timer>,
    /// Schedules as they were made.
    schedules: Vec<ScheduleRow>,
    cancelled: TimerId,
}

/// Fills the old store, and lets its node run for a while.
fn fill(world: &mut World) -> Before {
    let now = world.now();
    let mut number = 0x5000_0000_0000_u128;
    let mut timer = |payload: &str, due: Time, place: Place| {
        number += 0x0013_0000;
        let id = TimerId::from_bits(number + number / 7 % 64).at(place);
        let retry = Retry::new(9, SECOND, SECOND);
        let payload = payload.as_bytes().to_vec();
        NewTimer { payload, retry, ..NewTimer::new(id, "mail", due) }
    };
    let mut timers = Vec::new();
    for n in 0..12 {
        let due = now + SECOND * n * 2;
        timers.push(timer("", due, MOVED));
        timers.push(timer("retries", due, MOVED));
        timers.push(timer("", due, STAYS));
        let payload = ["", "retries", "hands back"][n as usize % 3];
        let in_lane = timer(payload, due, MOVED);
        timers.push(NewTimer { lane: Some("a lane".to_owned()), ..in_lane });
    }
    timers.push(timer("dies", now + SECOND, MOVED));
    timers.push(timer("dies", now + SECOND * 20, MOVED));
    timers.push(NewTimer { name: Some("named".to_owned()), ..timer("", now + SECOND * 12, MOVED) });
    let once = timers.iter().map(|timer| timer.id).collect();
    let late = NewTimer { name: Some("late".to_owned()), ..timer("", now + SECOND * 9_999, MOVED) };
    let held = timer("", Time::NEVER, MOVED);
    let held_in_lane =
        NewTimer { lane: Some("a lane".to_owned()), ..timer("", Time::NEVER, MOVED) };
    let cancelled = timer("", now + SECOND * 15, MOVED);
    let same = [late.clone(), held.clone(), held_in_lane.clone()];
    timers.extend([late, held, held_in_lane, cancelled.clone()]);
    for timer in &timers {
        assert_eq!(world.old().insert(std::slice::from_ref(timer)).unwrap(), [Inserted::Created]);
        if let Some(lane) = timer.lane.clone().filter(|_| timer.due < Time::NEVER) {
            let place = (timer.scheduled_for, timer.id);
            world.lines.entry(lane).or_default().insert(place);
        }
    }
    world.old().reschedule(same[0].id, same[0].due, None, None).unwrap();
    assert_eq!(world.old().cancel(cancelled.id).unwrap(), TimerUpdate::Done);

    let mut rows = Vec::new();
    for (n, (name, overlap)) in [
        ("often", Overlap::Allow),
        ("queued", Overlap::Queue { at_most: 100 }),
        ("off", Overlap::Allow),
        ("paused", Overlap::Allow),
    ]
    .into_iter()
    .enumerate()
    {
        let missed = Missed::CatchUp { max_count: 10_000, max_age: Duration::MAX };
        let policies = Policies { overlap, missed, ..Policies::default() };
        let every = Schedule::every(if n == 1 { SECOND } else { SECOND * 3 });
        let next = every.next_of_all(now + SECOND);
        let id = ScheduleId::from_bits(0x77 + ((n as u128) << 40)).at(MOVED);
        let row = ScheduleRow::new(id, name, "mail", Ok(Rule::new(every, policies)), next);
        let mut row = ScheduleRow { enabled: name != "off", ..row };
        if name == "paused" {
            (row.next, row.paused) = (Some(now + SECOND * 5_000), Some(now + SECOND * 5_000));
        }
        for version in [None, Some(1)] {
            let change =
                Change { name, expect: version, row: Some(&row), withdraw: None, skipped: &[] };
            world.old().change(&change).unwrap();
        }
        rows.push(ScheduleRow { version: 2, ..row });
    }
    (0..22).for_each(|_| world.step());
    let old = world.old();
    let same = same.map(|new| old.timers(&TimerQuery::new().timer(new.id)).unwrap().remove(0));
    assert!(!world.nodes[0].running.is_empty(), "nothing runs as the move begins");
    Before { once, same: same.to_vec(), schedules: rows, cancelled: cancelled.id }
}

/// Connects a mover to the world's stores.
fn mover(world: &Arc<Mutex<World>>) -> Mover {
    let connect = |n: usize| -> Box<dyn Store> {
        let store = world.lock().unwrap().nodes[n].store.clone();
        Box::new(Connection { store, world: world.clone() })
    };
    Mover::new(MOVED, connect(0), connect(1))
}

/// Moves a place, with another mover once the first was killed. Returns how many calls the first
/// made.
fn run(cut: Cut) -> usize {
    let world = World::begin(cut);
    let before = fill(&mut world.lock().unwrap());
    let mut first = mover(&world);
    let mut calls = None;
    loop {
        match first.step() {
            Ok(Progress::Done) => break,
            Ok(Progress::Waits(_)) => world.lock().unwrap().step(),
            Err(error) => {
                assert_ne!(error.kind(), StoreErrorKind::Invalid, "{error}");
                let mut world_now = world.lock().unwrap();
                assert_eq!(calls.replace(world_now.calls), None, "{error}");
                let was_killed = std::mem::take(&mut world_now.is_dead);
                drop(world_now);
                if was_killed {
                    first = mover(&world);
                }
            }
        }
    }
    let calls = calls.unwrap_or(world.lock().unwrap().calls);
    check_end(&mut world.lock().unwrap(), &before);
    calls
}

fn check_end(world: &mut World, before: &Before) {
    let rows = schedules(world.new_store(), MOVED).unwrap();
    assert_eq!(schedules(world.old(), MOVED).unwrap(), []);
    assert_eq!(rows.len(), before.schedules.len());
    for (row, old) in
        rows.iter().map(|row| (row, before.schedules.iter().find(|old| old.id == row.id)))
    {
        let old = old.unwrap();
        // Two of them occur all the time.
        let next = if matches!(&*old.name, "often" | "queued") { row.next } else { old.next };
        // It was put off, and put back.
        assert_eq!(*row, ScheduleRow { next, version: old.version + 2, ..old.clone() });
    }
    for timer in &before.same {
        let query = TimerQuery::new().timer(timer.new.id);
        assert_eq!(world.new_store().timers(&query).unwrap(), std::slice::from_ref(timer));
    }
    (0..400).for_each(|_| world.step());
    let end = world.now() - SECOND * 20;
    for id in &before.once {
        assert!(world.seen.get(id).is_some_and(|seen| seen.has_ended), "{id} did not run");
    }
    assert!(!world.seen.contains_key(&before.cancelled));
    let record = RecordQuery::new().timer(before.cancelled);
    assert_eq!(world.old().records(&record).unwrap()[0].reason, Some(Reason::Cancelled));
    for row in &before.schedules[..2] {
        let mut found = world.occurrences[&row.id].clone();
        assert!(row.name != "queued" || found.is_sorted(), "{found:?}");
        found.sort();
        let rule = row.rule.clone().unwrap();
        let expected = rule.schedule.occurrences_from(row.next.unwrap());
        let expected: Vec<_> = expected.take_while(|at| *at <= end).collect();
        found.retain(|at| *at <= end);
        assert_eq!(found, expected, "{}", row.name);
    }
    let left = world.old().timers(&TimerQuery::new()).unwrap();
    assert!(left.iter().all(|timer| timer.new.id.place() == STAYS), "{left:?}");
    let known = world.new_store().timers(&TimerQuery::new()).unwrap();
    assert!(known.iter().all(|timer| receive(timer.new.due).is_none()), "{known:?}");
}

#[test]
fn a_place_is_moved() {
    let calls = run(Cut::None);
    assert!(calls > 40, "{calls} calls");
}

#[test]
fn a_mover_that_is_killed_at_any_call_is_continued_by_another() {
    let mut call = 1;
    while run(Cut::Before(call)) == call {
        assert_eq!(run(Cut::After(call)), call);
        call += 1;
    }
    assert!(call > 40, "{call} calls");
}

#[test]
fn a_mover_whose_answer_is_lost_at_any_call_continues() {
    let mut call = 1;
    while run(Cut::Lost(call)) == call {
        call += 1;
    }
    assert!(call > 40, "{call} calls");
}
