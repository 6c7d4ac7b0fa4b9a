//! Nodes on one thread and a virtual clock, with the store in memory.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream as _;
use tourbillon::{Timer, VirtualClock};

use super::{Keeper, Next, Options, Shared, Stopping, begin, call};
use crate::id::TimerId;
use crate::policy::Retry;
use crate::store::{Memory, NewTimer, Store as _};
use crate::worker::Worker;

const TICK: Duration = Duration::from_millis(100);

struct Node {
    shared: Arc<Shared>,
    keeper: Keeper,
    store: Memory,
}

impl Node {
    fn new(timer: &Timer, store: &Memory) -> Self {
        let shared = Shared::new(Options::default(), timer.clone());
        Self { keeper: Keeper::new(&shared), shared, store: store.clone() }
    }

    fn step(&mut self) {
        self.keeper.step(&mut self.store);
        while let Next::Call(job) = begin(&self.shared) {
            call(&self.shared, job, &mut self.store);
        }
    }
}

/// Completes what the worker yields.
fn complete_all(worker: &mut Worker) -> Vec<TimerId> {
    let mut cx = Context::from_waker(Waker::noop());
    let mut done = Vec::new();
    while let Poll::Ready(Some(fire)) = Pin::new(&mut *worker).poll_next(&mut cx) {
        done.push(fire.id());
        drop(fire.complete());
    }
    done
}

fn world() -> (VirtualClock, Timer, Memory) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    let memory = Memory::new(&timer);
    (clock, timer, memory)
}

fn insert(store: &mut Memory, kind: &str, count: usize) -> BTreeSet<TimerId> {
    let now = store.now().unwrap();
    let new = |_| NewTimer {
        id: TimerId::new(now),
        schedule: None,
        name: None,
        kind: kind.to_owned(),
        scheduled_for: now,
        due: now,
        payload: Vec::new(),
        retry: Retry::NEVER.to_string(),
    };
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
    // The third has no worker. Each knows of the others, and has had its first full scan.
    for _ in 0..30 {
        nodes.iter_mut().for_each(Node::step);
        clock.advance(TICK);
    }
    let mut left = insert(&mut store, "mail", 200);
    left.append(&mut insert(&mut store, "bill", 200));
    for _ in 0..60 {
        clock.advance(TICK);
        nodes.iter_mut().for_each(Node::step);
        for id in [&mut mails, &mut bills].into_iter().flat_map(complete_all) {
            left.remove(&id);
        }
    }
    assert!(left.is_empty(), "{} timers were not attempted", left.len());
    for node in &nodes {
        node.shared.stop(Stopping::Now);
    }
}
