//! [`Rescuer`]: rescues timers of dead nodes, and advances queues and lanes.

use std::time::Instant;

use super::shared::Shared;
use crate::id::Shards;
use crate::store::{Result, Store};
use crate::trace;

/// Most lanes that are promoted in one call.
const LANES: usize = 1_000;

/// Periods between two runs of a node that is not the first of those that live.
const OTHERS: u32 = 3;

/// Part of a node that maintains the tables on behalf of all nodes.
#[derive(Debug)]
pub(crate) struct Rescuer {
    next: Instant,
}

impl Rescuer {
    pub(crate) fn new(now: Instant) -> Self {
        Self { next: now }
    }

    /// Maintains the tables if that is due or requested, until `until` at most. Returns when it is
    /// due next.
    pub(crate) fn run(&mut self, node: &Shared, store: &mut dyn Store, until: Instant) -> Instant {
        let now = node.now();
        let mut state = node.lock();
        let is_requested = std::mem::take(&mut state.requests.maintain);
        let lanes = std::mem::take(&mut state.lanes);
        let periods = if state.is_first { 1 } else { OTHERS };
        drop(state);
        if let Err(error) = promote(node, store, lanes) {
            node.report("promote", &error);
        }
        if is_requested || self.next <= now {
            self.next = now + node.options.maintenance_interval * periods;
            if let Err(error) = self.maintain(node, store, until) {
                node.report("maintain", &error);
            }
        }
        self.next
    }

    fn maintain(&mut self, node: &Shared, store: &mut dyn Store, until: Instant) -> Result<()> {
        loop {
            let done = store.maintain()?;
            node.counters.orphans.add(done.orphans);
            if done.orphans + done.promoted > 0 {
                trace::maintained(done.nodes, done.orphans, done.promoted);
                node.lock().requests.scan_all = true;
            }
            if !done.more {
                return Ok(());
            }
            if node.now() >= until {
                self.next = until;
                return Ok(());
            }
        }
    }
}

/// Promotes lanes whose timers have ended or were made here. This node claims the fronts, also
/// those of other nodes' shards. If it has no worker or no room for them, others are notified. If a
/// call fails, the lanes wait for the next maintenance.
fn promote(node: &Shared, store: &mut dyn Store, mut lanes: Vec<String>) -> Result<()> {
    lanes.sort_unstable();
    lanes.dedup();
    let mut others = 0;
    for part in lanes.chunks(LANES) {
        for front in store.promote(part)? {
            if !node.expect(front.id, &front.kind, front.due) {
                others |= 1 << front.id.shard();
            }
        }
    }
    if others != 0 {
        store.notify(Shards::from_mask(others))?;
    }
    Ok(())
}
