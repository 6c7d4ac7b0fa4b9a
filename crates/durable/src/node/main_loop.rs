//! [`MainLoop`]: the thread that runs a node's parts.

use std::sync::Arc;
use std::time::Instant;

use super::auditor::Auditor;
use super::heartbeat::Heartbeat;
use super::planner::Planner;
use super::rescuer::Rescuer;
use super::scanner::Scanner;
use super::shared::{Shared, Stopping, Vital};
use super::zones::Zones;
use crate::store::{Pulse, Store};
use crate::trace;

/// Parts of a node that share one thread and one connection, one call after the other.
///
/// Each part says when it is to run again. A part that makes many calls stops when the heartbeat is
/// due.
#[derive(Debug)]
pub(crate) struct MainLoop {
    node: Arc<Shared>,
    heartbeat: Heartbeat,
    rescuer: Rescuer,
    planner: Planner,
    zones: Zones,
    scanner: Scanner,
    auditor: Auditor,
}

impl MainLoop {
    pub(crate) fn new(node: &Arc<Shared>) -> Self {
        let now = node.now();
        Self {
            node: node.clone(),
            heartbeat: Heartbeat::new(now),
            rescuer: Rescuer::new(now),
            planner: Planner::new(now),
            zones: Zones::new(now),
            scanner: Scanner::new(now),
            auditor: Auditor::new(now),
        }
    }

    /// Runs until the node ends, and then gives its lease up.
    pub(crate) fn run(mut self, mut store: Box<dyn Store>) {
        let node = self.node.clone();
        let _vital = Vital(&node);
        while !node.lock().is_over() {
            let next = self.step(&mut *store);
            node.counters.lock_timeouts.add(store.lock_timeouts());
            node.main.wait(&node.timer, Some(next));
        }
        let lease = node.lock().lease;
        if let Some(lease) = lease {
            if let Err(error) = store.leave(lease) {
                trace::store_failed("leave", &error);
            }
        }
        trace::stopped(node.options.node);
        let mut state = node.lock();
        state.lose_lease();
        let kinds = std::mem::take(&mut state.kinds);
        drop(state);
        drop(kinds);
    }

    /// Runs the parts that are due. Returns when one is due next.
    pub(crate) fn step(&mut self, store: &mut dyn Store) -> Instant {
        self.pulse(store);
        let node = &*self.node;
        let beat = self.heartbeat.run(node, store);
        let state = node.lock();
        let (has_lease, stopping) = (state.lease.is_some(), state.stopping);
        drop(state);
        let mut next = beat;
        // A node that waits for its handlers keeps its part of the schedules and of the queues.
        if has_lease && stopping != Stopping::Now {
            next = next.min(self.rescuer.run(node, store, beat));
            next = next.min(self.zones.run(node, store, beat));
            next = next.min(self.planner.run(node, store, beat));
        }
        if has_lease && stopping == Stopping::No {
            next = next.min(self.scanner.run(node, store));
            next = next.min(self.auditor.run(node, store));
        }
        next
    }

    /// Renews the lease by the call that scans, if both are due, and asks by it whether others have
    /// work. A part without work begins a period anew, like after a look.
    fn pulse(&mut self, store: &mut dyn Store) {
        let node = &*self.node;
        let now = node.now();
        let state = node.lock();
        let lease = state.lease.filter(|_| state.stopping == Stopping::No);
        // Attempts are work, so there would be no other answer.
        let asks_for_work = state.held.is_empty();
        drop(state);
        let Some(lease) = lease.filter(|_| self.heartbeat.is_due(now)) else { return };
        let (span, ahead) = (node.options.lease, node.options.horizon());
        let shards = self.planner.shards(node, now);
        let pulse = Pulse { lease, span, shards, ahead, asks_for_work };
        let Some(pulsed) = self.scanner.pulse(node, store, pulse) else { return };
        self.heartbeat.take(node, lease, pulsed.beat.as_ref(), now);
        if !pulsed.is_upcoming {
            self.planner.pass(node, now);
        }
        if !pulsed.has_work {
            self.rescuer.pass(node, now);
            self.auditor.pass(node, now);
        }
    }
}
