//! Calls of nodes without anything to do, and work that comes to them.

use std::collections::BTreeMap;
use std::time::Instant;

use super::*;
use crate::id::Lease;
use crate::store::{Result, Store};

const SECOND: Duration = Duration::from_secs(1);

/// A store that counts its calls.
struct Counted(Memory, BTreeMap<&'static str, u32>);

impl Counted {
    fn pass<T>(
        &mut self,
        name: &'static str,
        call: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        *self.1.entry(name).or_default() += 1;
        call(&mut self.0)
    }
}

impl crate::store::Sealed for Counted {}

impl Store for Counted {
    fn connect(&self) -> Result<Box<dyn Store>> {
        self.0.connect()
    }

    crate::forward! { self.pass;
        now join beat leave maintain nodes insert scan held claim finish cancel reschedule confirm
        find timers amend schedule schedules upcoming zoned rezone change advance advance_batch
        backfill insert_occurrence records overview prune promote
    }
}

/// Nodes that are stepped whenever one of them has something to do.
struct Idle {
    clock: VirtualClock,
    memory: Memory,
    nodes: Vec<(Arc<Shared>, MainLoop, Counted)>,
    workers: Vec<Worker>,
}

impl Idle {
    /// Has run for a while.
    fn new(nodes: u128, kinds: &[&str]) -> Self {
        let (clock, timer, memory) = world();
        let node = |bits| {
            let options = Options { node: NodeId::from_bits(bits), ..Options::default() };
            let shared = Shared::new(options, timer.clone());
            (shared.clone(), MainLoop::new(&shared), Counted(memory.clone(), BTreeMap::new()))
        };
        let nodes: Vec<_> = (1..=nodes).map(node).collect();
        let workers = nodes.iter().flat_map(|(shared, ..)| {
            kinds.iter().map(|kind| Worker::new(shared, kind, 10)).collect::<Vec<_>>()
        });
        let mut idle = Self { workers: workers.collect(), clock, memory, nodes };
        assert!(idle.run(SECOND * 20).is_none());
        idle.nodes.iter_mut().for_each(|(.., store)| store.1.clear());
        idle
    }

    /// Lets the nodes run until they hand out an attempt, for `span` at most.
    fn run(&mut self, span: Duration) -> Option<Fire> {
        let end = self.clock.now() + span;
        for _ in 0..10_000 {
            let steps: Vec<Instant> = self.nodes.iter_mut().map(step).collect();
            if let Some(fire) = self.workers.iter_mut().find_map(next) {
                return Some(fire);
            }
            let next = steps.into_iter().min().unwrap().min(end);
            self.clock.advance(next.saturating_duration_since(self.clock.now()));
            if next == end {
                return None;
            }
        }
        panic!("a node has something to do at each moment");
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|(shared, ..)| shared.stop(Stopping::Now));
    }
}

/// Returns when the node has something to do next.
fn step((shared, main_loop, store): &mut (Arc<Shared>, MainLoop, Counted)) -> Instant {
    let next = main_loop.step(store);
    loop {
        match begin(shared) {
            Next::Call(job) => assert!(call(shared, job, store)),
            Next::Wait(Some(until)) => return next.min(until),
            Next::Wait(None) | Next::End => return next,
        }
    }
}

#[test]
fn an_idle_node_makes_two_calls_a_second() {
    for count in 1..=3 {
        let mut idle = Idle::new(count, &["mail", "bill"]);
        assert!(idle.run(SECOND * 60).is_none());
        for (.., store) in &idle.nodes {
            assert_eq!(store.1, BTreeMap::from([("scan", 120)]), "one of {count}");
        }
    }
}

#[test]
fn an_idle_node_without_a_worker_makes_one_call_a_second() {
    let mut idle = Idle::new(1, &[]);
    assert!(idle.run(SECOND * 60).is_none());
    assert_eq!(idle.nodes[0].2.1, BTreeMap::from([("scan", 60)]));
}

/// A moment in the periods of nodes, and work that comes then.
fn comes_at_any_moment(mut come: impl FnMut(&mut Idle), most: Duration) {
    for moment in 0..23 {
        let mut idle = Idle::new(1 + moment % 2, &["mail"]);
        assert!(idle.run(Duration::from_millis(90) * u32::try_from(moment).unwrap()).is_none());
        come(&mut idle);
        // The last step is a moment before the end.
        assert!(idle.run(most + TICK / 10).is_some(), "not within {most:?}");
    }
}

#[test]
fn a_timer_whose_notice_is_lost_starts_within_the_period_of_a_scan() {
    comes_at_any_moment(|idle| _ = insert(&mut idle.memory, "mail", 1), Options::default().scan);
}

#[test]
fn a_schedule_that_comes_to_an_idle_node_is_in_time() {
    let span = SECOND * 2;
    let come = |idle: &mut Idle| {
        let wanted = Wanted::new("news", "mail", Schedule::every(span));
        client::upsert(&mut idle.memory, &wanted).unwrap();
    };
    comes_at_any_moment(come, span);
}

#[test]
fn a_lane_that_nobody_promotes_starts_within_the_period_of_maintenance() {
    let come = |idle: &mut Idle| {
        let now = idle.memory.now().unwrap();
        let lane = Some("north".to_owned());
        let new = NewTimer { lane, ..NewTimer::new(TimerId::new(now), "mail", now) };
        idle.memory.insert(&[new]).unwrap();
    };
    comes_at_any_moment(come, Options::default().maintenance_interval);
}

#[test]
fn what_a_dead_node_ran_starts_within_the_period_of_maintenance() {
    let life = SECOND * 4;
    let come = |idle: &mut Idle| {
        let lease = Lease { node: NodeId::from_bits(99), epoch: 1 };
        idle.memory.join(lease, life).unwrap().unwrap();
        let ids = Vec::from_iter(insert(&mut idle.memory, "mail", 1));
        assert_eq!(idle.memory.claim(lease, &ids).unwrap().timers.len(), 1);
    };
    comes_at_any_moment(come, life + Options::default().maintenance_interval);
}

#[test]
fn a_claim_without_an_answer_is_handed_back_by_an_audit_and_starts_by_a_scan_of_all() {
    let come = |idle: &mut Idle| {
        let ids = Vec::from_iter(insert(&mut idle.memory, "mail", 1));
        let lease = idle.nodes[0].0.lock().lease.unwrap();
        assert_eq!(idle.memory.claim(lease, &ids).unwrap().timers.len(), 1);
    };
    let Options { scan, full_every, .. } = Options::default();
    comes_at_any_moment(come, scan * full_every * 2);
}
