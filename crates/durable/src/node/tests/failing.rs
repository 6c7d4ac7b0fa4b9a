//! Schedules that are disabled, as their last runs were dead.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use tourbillon::virtual_time::VirtualClock;

use super::{Next, Node, TICK, begin, call, next, world};
use crate::client::{self, Revival, RunNow, ScheduleUpdate, Wanted};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::Lease;
use crate::node::Worker;
use crate::policy::{Policies, Retry};
use crate::record::{Outcome, Reason};
use crate::schedule::Schedule;
use crate::store::{
    Advance, Advanced, Beat, Change, Changed, Memory, RecordQuery, Result, ScheduleQuery,
    ScheduleRow, State, Store, TimerQuery, forward,
};
use crate::time::Time;

/// Makes a schedule of this name that is disabled after so many dead runs; never after 0.
fn upsert(store: &mut Memory, name: &str, seconds: u64, runs: u32) {
    let (retry, disable_after) = (Retry::NEVER, NonZeroU32::new(runs));
    let wanted = Wanted {
        name: name.to_owned(),
        kind: "tick".to_owned(),
        schedule: Schedule::every(Duration::from_secs(seconds)),
        policies: Policies { retry, disable_after, ..Policies::default() },
        lane: None,
        payload: Vec::new(),
        enabled: None,
        expect: None,
    };
    client::upsert(store, &wanted).unwrap();
}

fn row(store: &mut Memory, name: &str) -> ScheduleRow {
    store.schedule(name).unwrap().1.unwrap()
}

/// Lets a node work for so many seconds. Each attempt succeeds if `succeeds` says so, and is the
/// last one otherwise. Returns when they were claimed.
fn work(
    clock: &VirtualClock,
    node: &mut Node,
    ticks: &mut Worker,
    seconds: u32,
    mut succeeds: impl FnMut() -> bool,
) -> Vec<Time> {
    let mut claimed = Vec::new();
    for _ in 0..Duration::from_secs(u64::from(seconds)).div_duration_f64(TICK) as u32 {
        node.step();
        while let Some(fire) = next(ticks) {
            claimed.push(fire.claimed());
            drop(if succeeds() { fire.complete() } else { fire.give_up("no such table") });
        }
        node.step();
        clock.advance(TICK);
    }
    claimed
}

#[test]
fn a_schedule_whose_last_runs_were_dead_is_disabled_before_the_next() {
    let (clock, timer, mut store) = world();
    let mut node = Node::new(&timer, &store);
    let mut ticks = Worker::new(&node.shared, "tick", 9);
    upsert(&mut store, "t", 10, 2);
    for round in 1..=2 {
        let runs = work(&clock, &mut node, &mut ticks, 25, || false).len();
        assert_eq!(runs, 2, "round {round}");
        // The next is five seconds away.
        assert!(row(&mut store, "t").enabled);
        assert!(work(&clock, &mut node, &mut ticks, 35, || false).is_empty());
        let disabled = row(&mut store, "t");
        assert_eq!((disabled.enabled, disabled.failing, disabled.next), (false, true, None));
        assert_eq!(store.timers(&TimerQuery::new()).unwrap(), []);
        assert_eq!(node.shared.counters.snapshot().disabled, round);
        // Another disable changes nothing, and enabling begins to count anew.
        let again = client::stop(&mut store, "t", Reason::Disabled).unwrap();
        assert_eq!((again, row(&mut store, "t").failing), (ScheduleUpdate::Unchanged, true));
        client::enable(&mut store, "t").unwrap();
        assert!(!row(&mut store, "t").failing);
    }
}

#[test]
fn a_schedule_stays_enabled_as_long_as_one_of_its_last_runs_succeeds() {
    let (clock, timer, mut store) = world();
    let mut node = Node::new(&timer, &store);
    let mut ticks = Worker::new(&node.shared, "tick", 9);
    upsert(&mut store, "t", 10, 2);
    let mut runs = 0;
    let every_other = || {
        runs += 1;
        runs % 2 == 0
    };
    assert_eq!(work(&clock, &mut node, &mut ticks, 85, every_other).len(), 8);
    assert!(row(&mut store, "t").enabled);
}

#[test]
fn a_run_of_now_and_one_that_is_made_again_count() {
    let (clock, timer, mut store) = world();
    let mut node = Node::new(&timer, &store);
    let mut ticks = Worker::new(&node.shared, "tick", 9);
    upsert(&mut store, "t", 100, 2);
    let runs = |store: &mut Memory| store.records(&RecordQuery::new()).unwrap();
    let run_now = |store: &mut Memory| {
        let (made, _) = client::run_now(store, "t").unwrap();
        assert!(matches!(made, RunNow::Done(_)), "{made:?}");
    };
    // Two that are dead, and one of them again, which succeeds: it is the last.
    for _ in 0..2 {
        run_now(&mut store);
        assert_eq!(work(&clock, &mut node, &mut ticks, 1, || false).len(), 1);
    }
    let dead = runs(&mut store)[1].timer;
    let (made, _) = client::revive(&mut store, dead).unwrap();
    assert!(matches!(made, Revival::Done(_)), "{made:?}");
    assert_eq!(work(&clock, &mut node, &mut ticks, 1, || true).len(), 1);
    work(&clock, &mut node, &mut ticks, 100, || true);
    assert!(row(&mut store, "t").enabled);
    // Two of now that are dead, between two of its own times.
    for _ in 0..2 {
        run_now(&mut store);
        assert_eq!(work(&clock, &mut node, &mut ticks, 1, || false).len(), 1);
    }
    assert!(work(&clock, &mut node, &mut ticks, 100, || false).is_empty());
    assert!(row(&mut store, "t").failing);
}

#[test]
fn what_is_pending_of_a_failing_schedule_is_taken_back() {
    let (clock, timer, mut store) = world();
    let mut node = Node::new(&timer, &store);
    upsert(&mut store, "t", 1, 1);
    // Nobody takes what is due.
    for _ in 0..50 {
        node.step();
        clock.advance(TICK);
    }
    let pending = store.timers(&TimerQuery::new()).unwrap();
    let now = store.now().unwrap();
    let due = pending.iter().filter(|timer| timer.new.due <= now).count();
    assert!(due > 3 && due < pending.len(), "{due} of {} are due", pending.len());
    let mut ticks = Worker::new(&node.shared, "tick", 1);
    for _ in 0..100 {
        node.step();
        if let Some(fire) = next(&mut ticks) {
            drop(fire.give_up("no such table"));
        }
        node.step();
        clock.advance(TICK);
    }
    assert_eq!(store.timers(&TimerQuery::new()).unwrap(), []);
    let records = store.records(&RecordQuery::new()).unwrap();
    let now = store.now().unwrap();
    assert!(records.iter().all(|record| record.scheduled_for <= now), "{records:?}");
    let taken = |record: &&crate::Record| record.outcome == Outcome::Cancelled;
    let taken: Vec<_> = records.iter().filter(taken).collect();
    assert!(!taken.is_empty());
    assert!(taken.iter().all(|record| record.reason == Some(Reason::Disabled)), "{taken:?}");
}

/// Makes a schedule `t` of each second, whose first run is dead, and lets an hour pass before the
/// node sees that. Returns the time then.
fn fail_before_an_hour(
    clock: &VirtualClock,
    node: &mut Node,
    ticks: &mut Worker,
    store: &mut Memory,
) -> Time {
    upsert(store, "t", 1, 1);
    while store.records(&RecordQuery::new().outcome(Outcome::Dead)).unwrap().is_empty() {
        clock.advance(TICK);
        node.step();
        if let Some(fire) = next(ticks) {
            drop(fire.give_up("no such table"));
            node.step();
        }
    }
    assert!(row(store, "t").enabled);
    clock.advance(Duration::from_secs(3_600));
    store.now().unwrap()
}

#[test]
fn a_long_backlog_of_a_failing_schedule_is_recorded() {
    let (clock, timer, mut store) = world();
    let mut node = Node::new(&timer, &store);
    let mut ticks = Worker::new(&node.shared, "tick", 9);
    let now = fail_before_an_hour(&clock, &mut node, &mut ticks, &mut store);
    for _ in 0..300 {
        node.step();
        clock.advance(TICK);
    }
    assert!(row(&mut store, "t").failing);
    // What the node had claimed before runs still.
    let running = TimerQuery::new().state(State::Running);
    assert!(last_in_a_row(&mut store, &running) >= seconds(now));
}

fn seconds(time: Time) -> i64 {
    time.as_micros() / 1_000_000
}

/// Checks that each second has one occurrence, which is recorded or one of these timers. Returns
/// the last.
fn last_in_a_row(store: &mut Memory, timers: &TimerQuery) -> i64 {
    let records = store.records(&RecordQuery::new().limit(u32::MAX)).unwrap();
    let recorded = records.iter().map(|record| record.scheduled_for);
    let timers = store.timers(&timers.clone().limit(u32::MAX)).unwrap();
    let timers = timers.iter().map(|timer| timer.new.scheduled_for);
    let all: Vec<i64> = recorded.chain(timers).map(seconds).collect();
    let times: BTreeSet<i64> = all.iter().copied().collect();
    assert_eq!(times.len(), all.len());
    let (first, last) = (times.first().unwrap(), times.last().unwrap());
    assert_eq!(last - first, all.len() as i64 - 1);
    *last
}

#[test]
fn enabling_a_schedule_whose_backlog_is_being_recorded_loses_none_of_it() {
    let (clock, timer, mut store) = world();
    let mut node = Node::new(&timer, &store);
    let mut ticks = Worker::new(&node.shared, "tick", 9);
    let now = fail_before_an_hour(&clock, &mut node, &mut ticks, &mut store);
    while !row(&mut store, "t").failing {
        node.step();
        clock.advance(TICK);
    }
    let begun = row(&mut store, "t");
    assert!(begun.enabled && begun.next.is_some_and(|next| next < now), "{begun:?}");
    client::enable(&mut store, "t").unwrap();
    let enabled = row(&mut store, "t");
    assert!(enabled.enabled && !enabled.failing);
    work(&clock, &mut node, &mut ticks, 9, || true);
    assert!(last_in_a_row(&mut store, &TimerQuery::new()) >= seconds(now) + 8);
}

#[test]
fn a_look_at_schedules_asks_once_for_those_that_can_fail() {
    let (clock, timer, mut store) = world();
    let mut node = Node::new(&timer, &store);
    super::schedules(&mut store, 40);
    for _ in 0..50 {
        node.step();
        clock.advance(TICK);
    }
    assert!(node.shared.counters.snapshot().planned > 40);
    assert_eq!(node.store.asked, 0, "no schedule has the policy");
    for number in 0..40 {
        upsert(&mut store, &format!("may fail {number}"), 1, 1);
    }
    let mut looks = 0;
    for _ in 0..50 {
        let before = node.store.asked;
        node.step();
        looks += u32::from(node.store.asked > before);
        clock.advance(TICK);
    }
    assert!(looks > 0);
    assert_eq!(node.store.asked, looks, "one call is for all");
}

#[test]
fn a_store_that_does_not_say_which_schedules_are_failing_stops_no_others() {
    let (clock, timer, mut store) = world();
    let mut node = Node::new(&timer, &store);
    let mut ticks = Worker::new(&node.shared, "tick", 200);
    for number in 0..110 {
        upsert(&mut store, &format!("may fail {number}"), 1, 1);
    }
    node.store.is_silent = true;
    let runs = work(&clock, &mut node, &mut ticks, 10, || false).len();
    assert!(runs > 110 * 5, "{runs} runs");
    assert_eq!(node.shared.counters.snapshot().disabled, 0);
    // Once it answers, all of them are found.
    node.store.is_silent = false;
    work(&clock, &mut node, &mut ticks, 10, || false);
    assert_eq!(node.shared.counters.snapshot().disabled, 110);
}

/// A store in which other transactions have locked some schedules, so that they are not changed.
struct Locked {
    memory: Memory,
    names: Vec<&'static str>,
    /// Number of changes that were refused.
    refused: u32,
    /// Clock by which a change waits for [`WAIT`] before it is refused, if it does.
    clock: Option<VirtualClock>,
    /// True after a change that waited, until there was a beat.
    has_waited: bool,
    /// Number of advances in between.
    late: u32,
}

/// Longer than from one beat to the next.
const WAIT: Duration = Duration::from_secs(3);

impl Locked {
    fn new(store: &Memory, names: Vec<&'static str>) -> Self {
        let memory = store.clone();
        Self { memory, names, refused: 0, clock: None, has_waited: false, late: 0 }
    }

    fn pass<T>(
        &mut self,
        _name: &'static str,
        call: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        call(&mut self.memory)
    }
}

impl Store for Locked {
    fn connect(&self) -> Result<Box<dyn Store>> {
        self.memory.connect()
    }

    fn change(&mut self, change: &Change<'_>) -> Result<Changed> {
        if self.names.contains(&change.name) {
            self.refused += 1;
            if let Some(clock) = &self.clock {
                clock.advance(WAIT);
                self.has_waited = true;
            }
            return Err(StoreError::new(StoreErrorKind::Conflict, "it is locked"));
        }
        self.memory.change(change)
    }

    fn beat(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        self.has_waited = false;
        self.memory.beat(lease, span)
    }

    fn advance(&mut self, advance: &Advance<'_>) -> Result<Advanced> {
        self.late += u32::from(self.has_waited);
        self.memory.advance(advance)
    }

    forward! { self.pass;
        now join leave maintain nodes insert scan held claim finish cancel reschedule amend
        confirm find timers schedule schedules upcoming backfill insert_occurrence records
        failing overview promote prune
    }
}

#[test]
fn schedules_that_cannot_be_disabled_stop_no_others() {
    let (clock, timer, mut store) = world();
    let Node { mut main_loop, shared, .. } = Node::new(&timer, &store);
    let mut ticks = Worker::new(&shared, "tick", 200);
    for name in ["locked", "locked too", "free"] {
        upsert(&mut store, name, 1, 1);
    }
    for number in 0..10 {
        upsert(&mut store, &format!("other {number}"), 1, 0);
    }
    let names = vec!["locked", "locked too"];
    let mut locked = Locked::new(&store, names);
    let mut work = |locked: &mut Locked, seconds: u32| {
        let mut runs = 0;
        for _ in 0..seconds * 10 {
            main_loop.step(locked);
            while let Some(fire) = next(&mut ticks) {
                runs += 1;
                drop(fire.give_up("no such table"));
            }
            while let Next::Call(job) = begin(&shared) {
                call(&shared, job, locked);
            }
            clock.advance(TICK);
        }
        runs
    };
    let runs = work(&mut locked, 60);
    assert!(runs > 10 * 55, "{runs} runs");
    // A change may wait for a lock, so few are tried; each of the schedules has its turn.
    assert!((2..=10).contains(&locked.refused), "{} changes", locked.refused);
    assert!(!row(&mut store, "free").enabled);
    for name in std::mem::take(&mut locked.names) {
        assert!(row(&mut store, name).enabled);
    }
    work(&mut locked, 20);
    let enabled = store.schedules(&ScheduleQuery::new()).unwrap();
    assert_eq!(enabled.iter().filter(|row| row.enabled).count(), 10);
    assert_eq!(shared.counters.snapshot().disabled, 3);
}

#[test]
fn a_change_that_has_waited_for_a_lock_is_followed_by_a_beat() {
    let (clock, timer, mut store) = world();
    let Node { mut main_loop, shared, .. } = Node::new(&timer, &store);
    let mut ticks = Worker::new(&shared, "tick", 200);
    upsert(&mut store, "locked", 1, 1);
    for number in 0..10 {
        upsert(&mut store, &format!("other {number}"), 1, 0);
    }
    let clock_of = Some(clock.clone());
    let mut locked = Locked { clock: clock_of, ..Locked::new(&store, vec!["locked"]) };
    for _ in 0..100 {
        main_loop.step(&mut locked);
        while let Some(fire) = next(&mut ticks) {
            drop(fire.give_up("no such table"));
        }
        while let Next::Call(job) = begin(&shared) {
            call(&shared, job, &mut locked);
        }
        clock.advance(TICK);
    }
    assert!(locked.refused > 0);
    assert_eq!(locked.late, 0);
}
