//! Nodes on one thread and a virtual clock, with the store in memory.

mod idle;
mod picky;
mod zones;

use std::collections::BTreeSet;
use std::future::Future as _;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_core::Stream as _;
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

use super::planner::{REFUSALS, TOGETHER};
use super::{
    EndError, Fire, MainLoop, NOTICE, Next, Options, Shared, Stats, Stopping, Worker, begin, call,
};
use crate::client::{self, RunNow, Wanted};
use crate::error::StoreErrorKind;
use crate::id::{NodeId, Shards, TimerId};
use crate::policy::Retry;
use crate::schedule::Schedule;
use crate::store::{Memory, NewTimer, Notification, ScheduleQuery, Store as _, TimerQuery};
use picky::Picky;

const TICK: Duration = Duration::from_millis(100);

struct Node {
    shared: Arc<Shared>,
    main_loop: MainLoop,
    store: Picky,
}

impl Node {
    fn new(timer: &Timer, store: &Memory) -> Self {
        Self::with(Options::default(), timer, store)
    }

    fn with(options: Options, timer: &Timer, store: &Memory) -> Self {
        let shared = Shared::new(options, timer.clone());
        Self { main_loop: MainLoop::new(&shared), shared, store: Picky::new(store) }
    }

    fn step(&mut self) {
        self.main_loop.step(&mut self.store);
        while let Next::Call(job) = begin(&self.shared) {
            call(&self.shared, job, &mut self.store);
        }
    }
}

/// Fires that wait point to nodes, and nodes to fires.
impl Drop for Node {
    fn drop(&mut self) {
        self.shared.stop(Stopping::Now);
    }
}

fn next(worker: &mut Worker) -> Option<Fire> {
    let mut cx = Context::from_waker(Waker::noop());
    match Pin::new(worker).poll_next(&mut cx) {
        Poll::Ready(fire) => fire,
        Poll::Pending => None,
    }
}

/// Completes all attempts that the worker yields.
fn complete_all(worker: &mut Worker) -> Vec<TimerId> {
    let complete = |fire: Fire| {
        let id = fire.id();
        drop(fire.complete());
        id
    };
    std::iter::from_fn(|| next(worker)).map(complete).collect()
}

fn world() -> (VirtualClock, Timer, Memory) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    let memory = Memory::new(&timer);
    (clock, timer, memory)
}

/// A node in a world of its own, and its worker for mails, which is yielded so many at once.
fn lone(options: Options, prefetch: usize) -> (VirtualClock, Memory, Node, Worker) {
    let (clock, timer, store) = world();
    let node = Node::with(options, &timer, &store);
    let mails = Worker::new(&node.shared, "mail", prefetch);
    (clock, store, node, mails)
}

fn insert(store: &mut Memory, kind: &str, count: usize) -> BTreeSet<TimerId> {
    let now = store.now().unwrap();
    let new = |_| NewTimer { retry: Retry::NEVER, ..NewTimer::new(TimerId::new(now), kind, now) };
    let timers: Vec<NewTimer> = (0..count).map(new).collect();
    store.insert(&timers).unwrap();
    timers.iter().map(|timer| timer.id).collect()
}

#[test]
fn nodes_of_different_kinds_leave_nothing_to_each_other() {
    let (clock, timer, mut store) = world();
    let mut nodes = [(); 3].map(|()| Node::new(&timer, &store));
    let mut mails = Worker::new(&nodes[0].shared, "mail", 1_000);
    let mut bills = Worker::new(&nodes[1].shared, "bill", 1_000);
    // The third has no worker.
    settle(&clock, &mut nodes);
    let mut left = insert(&mut store, "mail", 200);
    left.append(&mut insert(&mut store, "bill", 200));
    let Options { grace, scan, .. } = Options::default();
    for _ in 0..(grace + scan).div_duration_f64(TICK) as u32 + 1 {
        clock.advance(TICK);
        nodes.iter_mut().for_each(Node::step);
        for id in [&mut mails, &mut bills].into_iter().flat_map(complete_all) {
            left.remove(&id);
        }
    }
    assert!(left.is_empty(), "{} timers were not attempted", left.len());
}

/// Nodes whose shards are the same in each run.
fn group(count: usize, options: &Options, timer: &Timer, store: &Memory) -> Vec<Node> {
    let options = |bits| Options { node: NodeId::from_bits(bits), ..options.clone() };
    (1..).take(count).map(|bits| Node::with(options(bits), timer, store)).collect()
}

/// Steps nodes until they know of each other, and have had their first full scan.
fn settle(clock: &VirtualClock, nodes: &mut [Node]) {
    for _ in 0..30 {
        nodes.iter_mut().for_each(Node::step);
        clock.advance(TICK);
    }
}

/// Inserts timers that are due one after the other, evenly over `span` from now on.
fn insert_over(store: &mut Memory, count: u32, span: Duration) -> BTreeSet<TimerId> {
    let now = store.now().unwrap();
    let new = |place| NewTimer::new(TimerId::new(now), "mail", now + span * place / count);
    let timers: Vec<NewTimer> = (0..count).map(new).collect();
    store.insert(&timers).unwrap();
    timers.iter().map(|timer| timer.id).collect()
}

#[test]
fn nodes_claim_the_timers_of_their_own_shards_and_none_of_others() {
    for count in 2..=3 {
        let (clock, timer, mut store) = world();
        let mut nodes = group(count, &Options::default(), &timer, &store);
        let mut workers: Vec<Worker> =
            nodes.iter().map(|node| Worker::new(&node.shared, "mail", 1_000)).collect();
        settle(&clock, &mut nodes);
        // Longer than two full scans.
        let mut left = insert_over(&mut store, 3_000, Duration::from_secs(12));
        for step in 0..1_300 {
            // Now one is the first to ask, and now another.
            nodes.rotate_left(step % count);
            workers.rotate_left(step % count);
            for (node, worker) in nodes.iter_mut().zip(&mut workers) {
                node.step();
                let own = node.shared.lock().shards;
                for id in complete_all(worker) {
                    assert!(own.contains(id.shard()), "{own:?} and shard {}", id.shard());
                    left.remove(&id);
                }
            }
            clock.advance(TICK / 10);
        }
        assert!(left.is_empty(), "{} timers were not attempted", left.len());
        for node in &nodes {
            let stats = node.shared.counters.snapshot();
            assert!(stats.claimed > 3_000 / 5, "{stats:?}");
            assert_eq!(stats.refused, 0, "another node was asked for what it had");
            assert!(stats.lateness_max <= TICK / 10, "{stats:?}");
        }
    }
}

#[test]
fn a_node_that_stands_still_is_helped_once_its_timers_are_late() {
    let (clock, timer, mut store) = world();
    // It is not suspected for longer than this takes.
    let seldom = Duration::from_secs(10);
    let options = Options { heartbeat: seldom, lease: seldom * 10, ..Options::default() };
    let mut nodes = group(2, &options, &timer, &store);
    let mut workers = [0, 1].map(|at| Worker::new(&nodes[at].shared, "mail", 1_000));
    for _ in 0..3 {
        nodes.iter_mut().for_each(Node::step);
        clock.advance(seldom);
    }
    nodes.iter_mut().for_each(Node::step);
    let mut left = insert_over(&mut store, 200, TICK * 5);
    let [node, still] = &mut nodes[..] else { unreachable!() };
    for _ in 0..(TICK * 5 + options.grace + options.scan).div_duration_f64(TICK) as u32 + 1 {
        node.step();
        complete_all(&mut workers[0]).iter().for_each(|id| _ = left.remove(id));
        clock.advance(TICK);
    }
    assert!(left.is_empty(), "{} timers were not attempted", left.len());
    let stats = node.shared.counters.snapshot();
    assert!(stats.lateness_max >= options.grace, "{stats:?}");
    assert_ne!(node.shared.lock().shards, Shards::ALL);
    // Its intended claims belong to others by now, or are over.
    still.step();
    assert_eq!(complete_all(&mut workers[1]), []);
}

#[test]
fn shards_that_no_node_has_are_served_by_all() {
    let (clock, timer, mut store) = world();
    let seldom = Duration::from_secs(60);
    let options = || Options { heartbeat: seldom, lease: seldom * 3, ..Options::default() };
    let mut nodes = [(); 3].map(|()| Node::with(options(), &timer, &store));
    let mut workers = [0, 1, 2].map(|at| Worker::new(&nodes[at].shared, "mail", 1_000));
    nodes.iter_mut().for_each(Node::step);
    // None of them believes that any shard is its own.
    nodes.iter().for_each(|node| node.shared.lock().shards = Shards::NONE);
    let mut left = insert_over(&mut store, 600, Duration::from_secs(3));
    for _ in 0..60 {
        clock.advance(TICK);
        for (node, worker) in nodes.iter_mut().zip(&mut workers) {
            node.step();
            complete_all(worker).iter().for_each(|id| _ = left.remove(id));
        }
    }
    assert!(left.is_empty(), "{} timers were not attempted", left.len());
}

/// A node that knows of timers due one after the other, this far apart, from the next moment on.
/// Returns its counts once all are over.
fn claim_one_after_the_other(count: u32, apart: Duration) -> Stats {
    let (clock, mut store, mut node, mut mails) = lone(Options::default(), 1_000);
    let mut left = insert_over(&mut store, count, apart * count);
    let moment = Duration::from_micros(100);
    while !left.is_empty() {
        node.step();
        complete_all(&mut mails).iter().for_each(|id| _ = left.remove(id));
        clock.advance(moment);
    }
    let stats = node.shared.counters.snapshot();
    let Options { claim_linger, .. } = Options::default();
    assert!(stats.lateness_max <= claim_linger + moment, "{stats:?}");
    stats
}

#[test]
fn timers_that_are_due_one_after_the_other_share_claims() {
    let stats = claim_one_after_the_other(1_000, Duration::from_micros(100));
    // One each two milliseconds, rather than one each tenth of one.
    assert!((45..60).contains(&stats.calls), "{stats:?}");
}

#[test]
fn timers_that_nodes_share_are_no_later_than_those_of_one() {
    const TIMERS: u32 = 3_000;
    let moment = Duration::from_micros(100);
    for (count, apart) in [(2, moment), (2, moment * 5), (3, moment), (3, moment * 5)] {
        let (clock, timer, mut store) = world();
        let mut nodes = group(count, &Options::default(), &timer, &store);
        let mut workers: Vec<Worker> =
            nodes.iter().map(|node| Worker::new(&node.shared, "mail", 1_000)).collect();
        settle(&clock, &mut nodes);
        let mut left = insert_over(&mut store, TIMERS, apart * TIMERS);
        while !left.is_empty() {
            for (node, worker) in nodes.iter_mut().zip(&mut workers) {
                node.step();
                complete_all(worker).iter().for_each(|id| _ = left.remove(id));
            }
            clock.advance(moment);
        }
        for node in nodes {
            let stats = node.shared.counters.snapshot();
            assert!(stats.lateness_max <= Options::default().claim_linger + moment, "{stats:?}");
            assert!(stats.claimed > u64::from(TIMERS) / 6, "each has its part: {stats:?}");
        }
    }
}

#[test]
fn a_timer_that_is_due_a_while_after_the_last_claim_waits_for_no_other() {
    let stats = claim_one_after_the_other(100, Duration::from_millis(3));
    assert!(stats.lateness_max <= Duration::from_micros(100), "{stats:?}");
}

#[test]
fn a_timer_that_is_late_waits_for_no_other() {
    let (clock, mut store, mut node, mut mails) = lone(Options::default(), 1);
    let mut left = insert(&mut store, "mail", 100);
    clock.advance(Options::default().claim_linger);
    for _ in 0..100 {
        node.step();
        complete_all(&mut mails).iter().for_each(|id| _ = left.remove(id));
    }
    assert!(left.is_empty(), "{} timers were not attempted", left.len());
}

/// Makes so many schedules that have an occurrence each second.
fn schedules(store: &mut Memory, count: u32) {
    for number in 0..count {
        let each_second = Schedule::every(Duration::from_secs(1));
        let wanted = Wanted::new(&number.to_string(), "tick", each_second);
        client::upsert(store, &wanted).unwrap();
    }
}

#[test]
fn schedules_are_advanced_together_and_those_that_are_refused_hold_up_none() {
    let (clock, timer, mut store) = world();
    let mut node = Node::new(&timer, &store);
    node.step();
    schedules(&mut store, 120);
    let mut run = |node: &mut Node, ticks| {
        for _ in 0..ticks {
            clock.advance(TICK);
            node.step();
        }
        store.schedules(&ScheduleQuery::new()).unwrap()
    };
    let before = run(&mut node, 30);
    assert_eq!(node.store.batches.iter().max(), Some(&TOGETHER));
    // More than one look passes over.
    let stuck = before.iter().step_by(4).map(|row| row.id);
    node.store.stuck = stuck.collect();
    assert!(node.store.stuck.len() > 2 * REFUSALS);
    let between = run(&mut node, 80);
    let after = run(&mut node, 30);
    for (before, after) in before.iter().zip(&after) {
        let is_stuck = node.store.stuck.contains(&after.id);
        assert_eq!(before.next == after.next, is_stuck, "{}", after.name);
    }
    assert!(between.iter().zip(&after).all(|(between, after)| {
        between.next < after.next || node.store.stuck.contains(&after.id)
    }));
    node.store.stuck.clear();
    let freed = run(&mut node, 30);
    assert!(after.iter().zip(&freed).all(|(after, freed)| after.next < freed.next));
}

#[test]
fn a_planner_that_falls_behind_says_so_and_why_it_skips() {
    let (clock, timer, mut store) = world();
    let mut node = Node::new(&timer, &store);
    node.step();
    schedules(&mut store, 2);
    clock.advance(Duration::from_secs(2));
    node.step();
    clock.advance(Duration::from_secs(1));
    node.step();
    assert_eq!(node.shared.counters.snapshot().planner_behind, Duration::ZERO);
    // Longer than an occurrence may be late, and than the lease.
    clock.advance(Duration::from_secs(100));
    node.step();
    let stats = node.shared.counters.snapshot();
    // Some seconds ahead of the last look were made.
    assert!((90..100).contains(&stats.planner_behind.as_secs()), "{stats:?}");
    assert!(stats.skipped > 0 && stats.skipped == stats.skipped_coalesced, "{stats:?}");
    clock.advance(Duration::from_secs(1));
    node.step();
    assert_eq!(node.shared.counters.snapshot().planner_behind, Duration::ZERO);
}

#[test]
fn a_lane_is_promoted_once_the_store_answers_again() {
    let (_clock, timer, store) = world();
    let mut node = Node::new(&timer, &store);
    node.step();
    let mut db = store.clone();
    let now = db.now().unwrap();
    let lane = Some("north".to_owned());
    let waiting = NewTimer { lane, ..NewTimer::new(TimerId::new(now), "t", now) };
    db.insert(std::slice::from_ref(&waiting)).unwrap();
    let mut due = || db.timers(&TimerQuery::new()).unwrap()[0].new.due;
    node.store.is_down = true;
    node.shared.continue_lanes(waiting.lane);
    let next = node.main_loop.step(&mut node.store);
    assert_eq!((due(), next <= timer.now() + Options::default().pause), (crate::Time::NEVER, true));
    node.store.is_down = false;
    node.step();
    assert_eq!(due(), now);
}

#[test]
fn a_node_leaves_the_schedules_of_others_to_them() {
    let (clock, timer, mut store) = world();
    let mut nodes = group(2, &Options::default(), &timer, &store);
    settle(&clock, &mut nodes);
    schedules(&mut store, 40);
    let mut known = BTreeSet::new();
    // Longer than it takes until each has looked at all schedules.
    for step in 0..250 {
        nodes.rotate_left(step % 2);
        for node in &mut nodes {
            node.step();
            let own = node.shared.lock().shards;
            for planned in store.timers(&TimerQuery::new().limit(u32::MAX)).unwrap() {
                let shard = planned.new.schedule.unwrap().shard();
                let is_known = !known.insert(planned.new.id);
                assert!(is_known || own.contains(shard), "{own:?} and shard {shard}");
            }
        }
        clock.advance(TICK);
    }
    assert!(known.len() >= 40 * 25, "{} occurrences", known.len());
}

/// Returns two nodes that share the shards. A node that stands still is not suspected for a minute.
fn two_that_share(clock: &VirtualClock, timer: &Timer, store: &Memory) -> Vec<Node> {
    let seldom = Duration::from_secs(60);
    let options = Options { heartbeat: seldom, lease: seldom * 10, ..Options::default() };
    let mut nodes = group(2, &options, timer, store);
    nodes.iter_mut().for_each(Node::step);
    clock.advance(seldom);
    nodes.iter_mut().for_each(Node::step);
    nodes
}

#[test]
fn the_schedules_of_a_node_that_stands_still_are_advanced_by_others() {
    let (clock, timer, mut store) = world();
    let mut nodes = two_that_share(&clock, &timer, &store);
    assert_ne!(nodes[0].shared.lock().shards, Shards::ALL);
    schedules(&mut store, 40);
    let Options { full_every, schedule_interval, .. } = Options::default();
    for _ in 0..(schedule_interval * full_every).div_duration_f64(TICK) as u32 + 1 {
        clock.advance(TICK);
        nodes[0].step();
    }
    // From then on in time.
    for _ in 0..(schedule_interval * full_every).div_duration_f64(TICK) as u32 {
        let (now, query) = (store.now().unwrap(), ScheduleQuery::new());
        let all = store.schedules(&query).unwrap();
        assert_eq!(all.len(), 40);
        let late = all.iter().filter(|row| row.next.is_none_or(|next| next <= now)).count();
        assert_eq!(late, 0, "at {now}");
        clock.advance(TICK);
        nodes[0].step();
    }
}

/// Time from a moment at which something is there to be found, until a node that runs its parts
/// each two seconds has done it.
fn time_of_a_slow_node(
    clock: &VirtualClock,
    node: &mut Node,
    mut is_done: impl FnMut(&mut Node) -> bool,
) -> Duration {
    const STEP: Duration = Duration::from_secs(2);
    let mut time = Duration::ZERO;
    while !is_done(node) {
        clock.advance(STEP);
        node.step();
        time += STEP;
        assert!(time < Duration::from_secs(600), "nobody does it");
    }
    time
}

#[test]
fn a_slow_node_looks_at_the_schedules_of_others_as_often() {
    let (clock, timer, mut store) = world();
    let mut nodes = two_that_share(&clock, &timer, &store);
    schedules(&mut store, 40);
    // Later than their first occurrences, which come within a second.
    let later = store.now().unwrap() + Duration::from_secs(2);
    let is_done = |_: &mut Node| {
        let all = store.schedules(&ScheduleQuery::new()).unwrap();
        all.iter().all(|row| row.next.is_some_and(|next| next > later))
    };
    let time = time_of_a_slow_node(&clock, &mut nodes[0], is_done);
    let Options { full_every, schedule_interval, .. } = Options::default();
    assert!(time <= schedule_interval * (full_every + 2), "{time:?}");
}

#[test]
fn a_slow_node_reads_from_the_beginning_as_often() {
    let (clock, mut store, mut node, mut mails) = lone(Options::default(), 1_000);
    settle(&clock, std::slice::from_mut(&mut node));
    let mut left = insert(&mut store, "mail", 10);
    let Options { back, scan, full_every, .. } = Options::default();
    // Scans but for those from the beginning leave it out from now on.
    clock.advance(back + TICK);
    let is_done = |_: &mut Node| {
        complete_all(&mut mails).iter().for_each(|id| _ = left.remove(id));
        left.is_empty()
    };
    let time = time_of_a_slow_node(&clock, &mut node, is_done);
    assert!(time <= scan * full_every + Duration::from_secs(2), "{time:?}");
}

/// Returns the number of timers, due one after the other and not announced, that a node does not
/// find where scans from the beginning fail after as long as a call of a store may take. So many
/// are due before.
fn left_where_full_scans_fail(backlog: usize) -> usize {
    let (clock, timer, mut store) = world();
    insert(&mut store, "mail", backlog);
    clock.advance(Duration::from_secs(100));
    let scan = Options::default().scan;
    let mut node = Node::with(Options { scan, ..small() }, &timer, &store);
    let mut mails = Worker::new(&node.shared, "mail", 1_000);
    settle(&clock, std::slice::from_mut(&mut node));
    complete_all(&mut mails);
    node.store.failing = Some((clock.clone(), Duration::from_secs(5)));
    node.shared.request(|requests| requests.scan_all = true);
    let mut left = insert_over(&mut store, 300, Duration::from_secs(60));
    for _ in 0..60 {
        clock.advance(scan);
        node.step();
        complete_all(&mut mails).iter().for_each(|id| _ = left.remove(id));
    }
    left.len()
}

#[test]
fn where_scans_from_the_beginning_fail_what_is_due_soon_is_found() {
    assert_eq!([0, 2_000].map(left_where_full_scans_fail), [0, 0]);
}

#[test]
fn a_node_that_becomes_the_first_maintains_the_tables_as_often_as_the_first() {
    let (clock, timer, mut store) = world();
    let mut nodes = group(2, &Options::default(), &timer, &store);
    settle(&clock, &mut nodes);
    let Options { maintenance_interval, .. } = Options::default();
    // The second maintains them, and then the first stands still.
    let second = &mut nodes[1];
    second.shared.request(|requests| requests.maintain = true);
    second.step();
    assert!(!second.shared.lock().is_first);
    clock.advance(maintenance_interval);
    // Nobody takes it, so there is work.
    insert(&mut store, "mail", 1);
    second.store.maintaining = Some((clock.clone(), TICK));
    let before = clock.now();
    second.step();
    assert!(clock.now() > before, "nobody maintains the tables");
}

#[test]
fn after_a_full_claim_the_next_waits_for_nothing() {
    let options = Options { batch: 10, ..Options::default() };
    let (clock, mut store, mut node, mut mails) = lone(options, 1_000);
    node.main_loop.step(&mut node.store);
    let ids = insert(&mut store, "mail", 25);
    let now = store.now().unwrap();
    ids.iter().for_each(|id| assert!(node.shared.expect(*id, "mail", now)));
    // Two full batches at one moment; the third waits for the timers that are due next.
    for _ in 0..2 {
        let Next::Call(job) = begin(&node.shared) else { panic!("a claim waits") };
        call(&node.shared, job, &mut node.store);
    }
    let Next::Call(job) = begin(&node.shared) else { panic!("a claim waits") };
    call(&node.shared, job, &mut node.store);
    assert_eq!(complete_all(&mut mails).len(), 25);
    let ids = insert(&mut store, "mail", 1);
    ids.iter().for_each(|id| assert!(node.shared.expect(*id, "mail", now)));
    let wait = node.shared.lock().next_claim(&Options::default(), clock.now()).unwrap();
    assert_eq!(wait, clock.now() + Options::default().claim_linger);
}

/// Knows of few, and reads seldom.
fn small() -> Options {
    let scan = Duration::from_secs(60);
    Options { cache_capacity: 100, batch: 10, scan, lease: scan * 10, ..Options::default() }
}

#[test]
fn a_backlog_is_read_as_soon_as_there_is_room() {
    let (clock, timer, mut store) = world();
    let mut left = insert(&mut store, "mail", 2_000);
    // Long ago: no scan reads it but those from the beginning.
    clock.advance(Duration::from_secs(100));
    let mut node = Node::with(small(), &timer, &store);
    let mut mails = Worker::new(&node.shared, "mail", 1_000);
    let _bills = Worker::new(&node.shared, "bill", 1);
    for _ in 0..100 {
        node.step();
        complete_all(&mut mails).iter().for_each(|id| _ = left.remove(id));
        clock.advance(Duration::from_millis(5));
    }
    assert!(left.is_empty(), "{} timers were not attempted", left.len());
    // Half a share at a time, and a few when it is almost over.
    let scans = node.shared.counters.snapshot().scans;
    assert!(scans <= 2_000 / 25 + 10, "{scans} scans");
}

#[test]
fn a_scan_of_many_kinds_reads_a_part_of_each() {
    let (clock, timer, mut store) = world();
    let mut node = Node::with(small(), &timer, &store);
    let kinds: Vec<_> = (0..20).map(|n| format!("kind {n}")).collect();
    let mut workers: Vec<_> =
        kinds.iter().map(|kind| Worker::new(&node.shared, kind, 1_000)).collect();
    for kind in &kinds {
        insert(&mut store, kind, 40);
        clock.advance(Duration::from_secs(1));
    }
    node.main_loop.step(&mut node.store);
    // Half of the caches' capacity, in equal parts.
    let cached = |node: &Node| -> Vec<_> {
        node.shared.lock().kinds.values().map(|kind| kind.cache.len()).collect()
    };
    assert_eq!(cached(&node), [2; 20]);
    let mut left = 20 * 40;
    for _ in 0..100 {
        node.step();
        assert!(cached(&node).iter().sum::<usize>() <= 100);
        left -= workers.iter_mut().map(|worker| complete_all(worker).len()).sum::<usize>();
        clock.advance(Duration::from_millis(5));
    }
    assert_eq!(left, 0);
}

#[test]
fn a_kind_of_which_a_scan_found_all_is_not_read_again_for_the_backlog_of_another() {
    let (clock, timer, mut store) = world();
    insert(&mut store, "mail", 2_000);
    clock.advance(Duration::from_secs(100));
    let mut node = Node::with(small(), &timer, &store);
    let _workers = ["mail", "bill"].map(|kind| Worker::new(&node.shared, kind, 1_000));
    node.main_loop.step(&mut node.store);
    let wants =
        node.shared.lock().kinds.values().map(|kind| kind.cache.wants()).collect::<Vec<_>>();
    assert_eq!((wants, node.shared.counters.snapshot().scans), (vec![None, None], 1));
}

/// Claims one batch at a time and reads in short periods while a backlog is drained.
fn drain(options: Options, claims_in_a_period: u32) {
    let (clock, timer, mut store) = world();
    let count = 2_000;
    insert(&mut store, "mail", count);
    clock.advance(Duration::from_secs(100));
    let (batch, period) = (options.batch, options.scan);
    let mut node = Node::with(options, &timer, &store);
    let mut mails = Worker::new(&node.shared, "mail", count);
    let mut left = count;
    while left > 0 {
        node.main_loop.step(&mut node.store);
        let Next::Call(job) = begin(&node.shared) else {
            panic!("nothing is claimed, and {left} timers are due")
        };
        call(&node.shared, job, &mut node.store);
        let claimed = complete_all(&mut mails).len();
        assert_eq!(claimed, batch.min(left));
        left -= claimed;
        clock.advance(period / claims_in_a_period);
    }
    // It reads half a share at a time, and the rest of it in each period.
    let scans = node.shared.counters.snapshot().scans as usize;
    let periods = count.div_ceil(batch * claims_in_a_period as usize);
    assert!(scans <= count / 25 + periods * 2 + 10, "{scans} scans in {periods} periods");
}

#[test]
fn a_period_that_ends_within_a_backlog_does_not_interrupt_it() {
    for claims_in_a_period in 1..=7 {
        drain(Options { scan: TICK, ..small() }, claims_in_a_period);
    }
}

#[test]
fn a_scan_that_finds_only_what_waits_is_repeated_when_that_is_claimed() {
    let (clock, timer, mut store) = world();
    insert(&mut store, "mail", 200);
    clock.advance(Duration::from_secs(100));
    let mut node = Node::with(Options { scan: TICK, ..small() }, &timer, &store);
    let mut mails = Worker::new(&node.shared, "mail", 50);
    let scans = |node: &Node| node.shared.counters.snapshot().scans;
    let step = |node: &mut Node| node.main_loop.step(&mut node.store);
    step(&mut node);
    // In the next period there is room for half a share, and only waiting timers are found.
    clock.advance(TICK);
    let before = scans(&node);
    (0..10).for_each(|_| _ = step(&mut node));
    assert_eq!(scans(&node), before + 1);
    while let Next::Call(job) = begin(&node.shared) {
        call(&node.shared, job, &mut node.store);
    }
    complete_all(&mut mails);
    assert_eq!(node.shared.lock().kinds.values().map(|kind| kind.cache.len()).sum::<usize>(), 0);
    step(&mut node);
    assert!(scans(&node) > before + 1);
}

#[test]
fn a_backlog_in_the_shards_of_others_is_read_as_soon_as_there_is_room() {
    let (clock, timer, mut store) = world();
    let mut node = Node::with(small(), &timer, &store);
    let mut other = Node::with(small(), &timer, &store);
    let mut mails = Worker::new(&node.shared, "mail", 1_000);
    let _bills = Worker::new(&other.shared, "bill", 1_000);
    // They know of each other, and have had their first full scan.
    for _ in 0..30 {
        node.step();
        other.step();
        clock.advance(TICK);
    }
    let mut left = insert(&mut store, "mail", 2_000);
    clock.advance(Duration::from_secs(100));
    node.shared.request(|requests| requests.scan_all = true);
    for _ in 0..100 {
        node.step();
        other.step();
        complete_all(&mut mails).iter().for_each(|id| _ = left.remove(id));
        clock.advance(Duration::from_millis(5));
    }
    assert!(left.is_empty(), "{} timers were not attempted", left.len());
}

#[test]
fn a_backlog_of_one_kind_holds_up_no_other() {
    let (clock, timer, mut store) = world();
    insert(&mut store, "mail", 2_000);
    clock.advance(TICK);
    let bills = insert(&mut store, "bill", 30);
    clock.advance(Duration::from_secs(100));
    let mut node = Node::with(small(), &timer, &store);
    // Nobody takes the mails.
    let _mails = Worker::new(&node.shared, "mail", 1);
    let mut worker = Worker::new(&node.shared, "bill", 100);
    (0..4).for_each(|_| node.step());
    assert_eq!(complete_all(&mut worker), Vec::from_iter(bills));
    (0..4).for_each(|_| node.step());
    let scans = node.shared.counters.snapshot().scans;
    (0..100).for_each(|_| node.step());
    assert_eq!(node.shared.counters.snapshot().scans, scans, "nothing more is read");
}

#[test]
fn a_node_that_drains_looks_after_orphans() {
    let (clock, timer, mut store) = world();
    let (mut slow, mut dead) = (Node::new(&timer, &store), Node::new(&timer, &store));
    let mut mails = Worker::new(&slow.shared, "mail", 1);
    let mut bills = Worker::new(&dead.shared, "bill", 1);
    insert(&mut store, "mail", 1);
    // As many as it takes for one to be in a shard of its node.
    insert(&mut store, "bill", 100);
    slow.step();
    dead.step();
    let held = next(&mut mails);
    assert!(held.is_some() && next(&mut bills).is_some());
    slow.shared.stop(Stopping::Draining);
    for _ in 0..300 {
        clock.advance(TICK);
        slow.step();
    }
    assert_eq!(slow.shared.counters.snapshot().orphans, 1);
    drop(held);
}

/// Sends what there is to be sent, without a scan between. Returns the number of calls.
fn send(node: &mut Node) -> usize {
    let mut calls = 0;
    while let Next::Call(job) = begin(&node.shared) {
        call(&node.shared, job, &mut node.store);
        calls += 1;
        assert!(calls < 10, "it claims the same again and again");
    }
    calls
}

#[test]
fn a_dropped_attempt_is_followed_by_another_at_once() {
    let (clock, mut store, mut node, mut mails) = lone(Options::default(), 1);
    insert(&mut store, "mail", 1);
    node.step();
    drop(next(&mut mails).unwrap());
    clock.advance(Options::default().finish_linger);
    send(&mut node);
    let fire = next(&mut mails).expect("it waits for a scan");
    assert_eq!((fire.attempt(), fire.failures()), (2, 0));
}

/// An occurrence was taken back, and made again for another kind.
#[test]
fn what_is_found_to_be_of_another_kind_is_left_to_that() {
    let (clock, mut store, mut node, mut mails) = lone(Options::default(), 1);
    node.step();
    let now = store.now().unwrap();
    let bill = NewTimer::new(TimerId::new(now), "bill", now);
    store.insert(std::slice::from_ref(&bill)).unwrap();
    assert!(node.shared.expect(bill.id, "mail", now));
    send(&mut node);
    clock.advance(Options::default().finish_linger);
    assert_eq!(send(&mut node), 1);
    clock.advance(TICK);
    assert_eq!(send(&mut node), 0);
    assert_eq!(store.timers(&TimerQuery::new()).unwrap()[0].running, None);
    // There is room for another.
    insert(&mut store, "mail", 1);
    node.shared.request(|requests| requests.scan_all = true);
    node.step();
    assert!(next(&mut mails).is_some());
}

#[test]
fn a_node_that_drains_waits_for_an_absent_database_until_its_lease_may_have_ended() {
    for is_over in [false, true] {
        let (clock, mut store, mut node, mut mails) = lone(Options::default(), 1);
        insert(&mut store, "mail", 1);
        node.step();
        // The attempt runs on, or its end does not arrive.
        let mut fire = next(&mut mails);
        let ended = fire.take_if(|_| is_over).map(Fire::complete);
        clock.advance(Options::default().finish_linger);
        node.store.is_down = true;
        node.shared.stop(Stopping::Draining);
        let end = node.shared.lock().trusted_until;
        loop {
            node.main_loop.step(&mut node.store);
            match begin(&node.shared) {
                Next::Call(job) => assert!(!call(&node.shared, job, &mut node.store)),
                Next::Wait(until) => assert!(until.is_some_and(|until| until <= end)),
                Next::End => break,
            }
            assert!(clock.now() < end);
            clock.advance(TICK);
        }
        assert!(clock.now() >= end);
        drop((fire, ended));
    }
}

#[test]
fn a_node_beats_between_two_calls_that_look_after_orphans() {
    let (clock, timer, store) = world();
    let mut node = Node::new(&timer, &store);
    node.step();
    node.store.maintaining = Some((clock.clone(), TICK));
    clock.advance(TICK * 3);
    for _ in 0..100 {
        let before = clock.now();
        node.shared.request(|requests| requests.maintain = true);
        node.step();
        assert!(clock.now() - before <= Options::default().heartbeat + TICK);
        clock.advance(TICK);
    }
    assert_eq!(node.shared.counters.snapshot().leases_lost, 0);
}

#[test]
fn an_audit_hands_back_what_is_in_any_part_of_a_long_answer() {
    let (clock, timer, mut store) = world();
    let mut nodes = [Node::new(&timer, &store)];
    settle(&clock, &mut nodes);
    // Claims whose answers were lost.
    let mut left = insert(&mut store, "mail", 250);
    let ids: Vec<TimerId> = left.iter().copied().collect();
    let lease = nodes[0].shared.lock().lease.unwrap();
    assert_eq!(store.claim(lease, &ids).unwrap().timers.len(), 250);
    let mut mails = Worker::new(&nodes[0].shared, "mail", 1_000);
    let Options { scan, full_every, .. } = Options::default();
    for _ in 0..(scan * full_every + scan).div_duration_f64(TICK) as u32 + 5 {
        clock.advance(TICK);
        nodes.iter_mut().for_each(Node::step);
        complete_all(&mut mails).iter().for_each(|id| _ = left.remove(id));
    }
    assert!(left.is_empty(), "{} timers were not handed back", left.len());
}

#[test]
fn an_end_that_the_store_refuses_holds_up_no_other() {
    let (clock, mut store, mut node, mut mails) = lone(Options::default(), 9);
    let ids = insert(&mut store, "mail", 3);
    node.step();
    node.store.refused = ids.first().copied();
    let ends: Vec<_> =
        std::iter::from_fn(|| next(&mut mails)).map(|fire| (fire.id(), fire.complete())).collect();
    assert_eq!(ends.len(), 3);
    clock.advance(TICK);
    node.step();
    for (id, ended) in ends {
        let expected = if Some(id) == node.store.refused { Err(EndError::Refused) } else { Ok(()) };
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(pin!(ended).poll(&mut cx), Poll::Ready(expected));
    }
    // The attempt is handed back, and another one's end is taken.
    node.store.refused = None;
    for _ in 0..100 {
        clock.advance(TICK);
        node.step();
        complete_all(&mut mails);
    }
    assert_eq!(node.shared.counters.snapshot().succeeded, 3);
}

/// A waker that needs the node's lock, and panics.
struct Rude(Arc<Shared>);

impl Wake for Rude {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock());
        panic!("a waker panics");
    }
}

#[test]
fn a_waker_is_called_with_no_lock_held_and_may_panic() {
    let (clock, mut store, mut node, mut mails) = lone(Options::default(), 1);
    insert(&mut store, "mail", 1);
    node.step();
    let mut ended = Box::pin(next(&mut mails).unwrap().complete());
    let rude = Waker::from(Arc::new(Rude(node.shared.clone())));
    assert!(ended.as_mut().poll(&mut Context::from_waker(&rude)).is_pending());
    clock.advance(TICK);
    node.step();
    assert_eq!(node.shared.counters.snapshot().succeeded, 1);
    // The channel does not survive its waker's panic; the node does.
    std::mem::forget(ended);
}

#[test]
fn a_store_that_panics_ends_its_node() {
    let (_clock, mut store, mut node, mut mails) = lone(Options::default(), 1);
    insert(&mut store, "mail", 1);
    node.main_loop.step(&mut node.store);
    node.store.panics = true;
    let shared = node.shared.clone();
    let store = std::mem::replace(&mut node.store, Picky::new(&store));
    let claimer = move || super::claimer::run(&shared, 0, Box::new(store));
    assert!(std::thread::spawn(claimer).join().is_err());
    assert_eq!(node.shared.lock().stopping, Stopping::Now);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(Pin::new(&mut mails).poll_next(&mut cx), Poll::Ready(None)));
}

#[test]
fn a_node_expects_no_more_than_it_may_know_of() {
    let (_clock, mut store, mut node, _mails) = lone(Options::default(), 1);
    node.step();
    let now = store.now().unwrap();
    let known = Options::default().cache_capacity;
    for _ in 0..known + 10 {
        node.shared.expect(TimerId::new(now), "mail", now);
    }
    let state = node.shared.lock();
    assert_eq!(state.kinds.values().map(|kind| kind.cache.len()).sum::<usize>(), known);
}

/// Another claimer may be in a long call then, and sleeps else until a scan or a beat.
#[test]
fn claimers_are_notified_of_what_they_have_to_do_sooner() {
    let (clock, timer, mut store) = world();
    let mut node = Node::new(&timer, &store);
    let shared = node.shared.clone();
    let mut mails = Worker::new(&shared, "mail", 3);
    let is_notified = || shared.claimers[0].take();
    let expect = |store: &mut Memory, after| {
        let due = store.now().unwrap() + after;
        assert!(shared.expect(TimerId::new(due), "mail", due));
    };
    insert(&mut store, "mail", 3);
    node.step();
    is_notified();

    // The third makes the first room, and the first is the first end.
    let fires: Vec<Fire> = std::iter::from_fn(|| next(&mut mails)).collect();
    assert_eq!(fires.len(), 3);
    let mut fires = fires.into_iter();
    let mut end = || drop(fires.next().unwrap().postpone(TICK));
    end();
    assert!(is_notified(), "an end");
    end();
    assert!(!is_notified(), "nothing that the first was not");

    // A retry that is expected again.
    clock.advance(TICK / 2);
    node.step();
    assert!(is_notified(), "two are pending again");

    expect(&mut store, TICK * 3);
    assert!(!is_notified(), "others are due before it");
    expect(&mut store, TICK / 10);
    assert!(is_notified(), "it is the first");

    // The attempts of a claimer that pauses.
    end();
    is_notified();
    clock.advance(Options::default().finish_linger);
    let Next::Call(job) = begin(&shared) else { panic!("an end is there to be sent") };
    node.store.is_down = true;
    assert!(!call(&shared, job, &mut node.store));
    assert!(is_notified(), "it is there again");
}

/// A node that reads seldom, has done so, and has a worker for mails.
fn notified() -> (VirtualClock, Memory, Node, Worker) {
    let scan = Duration::from_secs(60);
    let (clock, store, mut node, mails) = lone(Options { scan, ..Options::default() }, 1_000);
    node.step();
    (clock, store, node, mails)
}

#[test]
fn a_notice_is_read_at_once() {
    let (_clock, mut store, mut node, mut mails) = notified();
    let inserted = insert(&mut store, "mail", 3);
    node.step();
    assert_eq!(complete_all(&mut mails), []);
    node.shared.hear(Notification::Due(Shards::ALL));
    node.step();
    assert_eq!(complete_all(&mut mails).into_iter().collect::<BTreeSet<_>>(), inserted);
}

#[test]
fn a_notice_is_good_for_what_comes_a_little_later() {
    let (clock, mut store, mut node, mut mails) = notified();
    node.shared.hear(Notification::Due(Shards::ALL));
    node.step();
    clock.advance(NOTICE / 2);
    let inserted = insert(&mut store, "mail", 1);
    node.step();
    assert_eq!(complete_all(&mut mails), []);
    clock.advance(NOTICE / 2);
    node.step();
    assert_eq!(complete_all(&mut mails).into_iter().collect::<BTreeSet<_>>(), inserted);
}

#[test]
fn a_notice_of_other_shards_is_left_to_others() {
    let (_clock, mut store, mut node, mut mails) = notified();
    let before = node.shared.counters.snapshot().scans;
    insert(&mut store, "mail", 1);
    node.shared.hear(Notification::Due(Shards::NONE));
    node.step();
    assert_eq!((complete_all(&mut mails), node.shared.counters.snapshot().scans), (vec![], before));
}

#[test]
fn a_flood_of_notices_makes_few_scans() {
    let (clock, _store, mut node, _mails) = notified();
    let before = node.shared.counters.snapshot().scans;
    for _ in 0..1_000 {
        node.shared.hear(Notification::Due(Shards::ALL));
        node.step();
        clock.advance(Duration::from_millis(1));
    }
    let scans = node.shared.counters.snapshot().scans - before;
    assert!((15..=21).contains(&scans), "{scans} scans in a second");
    // Two more for the last of them, and then none.
    for _ in 0..2 {
        clock.advance(NOTICE);
        node.step();
    }
    let before = node.shared.counters.snapshot().scans;
    clock.advance(NOTICE * 3);
    node.step();
    assert_eq!(node.shared.counters.snapshot().scans, before);
}

#[test]
fn an_occurrence_of_now_is_made_once_though_answers_are_lost() {
    let (_, _, memory) = world();
    let mut store = Picky::new(&memory);
    let wanted = Wanted::new("t", "t", Schedule::every(TICK * 1_000_000));
    client::upsert(&mut store, &wanted).unwrap();
    store.lost = 2;
    let (ran, _) = client::run_now(&mut store, "t").unwrap();
    let timers = store.timers(&TimerQuery::new()).unwrap();
    assert_eq!((timers.len(), ran), (1, RunNow::Done(timers[0].new.id)));
    // One may be made when all are lost.
    store.lost = u32::MAX;
    let error = client::run_now(&mut store, "t").unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Uncertain);
    assert_eq!(store.timers(&TimerQuery::new()).unwrap().len(), 2);
}
