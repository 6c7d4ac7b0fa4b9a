//! [`Rescuer`]: rescues timers of dead nodes, and advances queues and lanes.

use std::time::Instant;

use super::scanner::SOON;
use super::shared::Shared;
use crate::id::Shards;
use crate::store::{Result, Store};
use crate::trace;

/// Most lanes that are promoted in one call.
pub(crate) const LANES: usize = 1_000;

/// Periods between two runs of a node that is not the first living one.
const OTHERS: u32 = 3;

/// Part of a node that maintains the tables on behalf of all nodes.
#[derive(Debug)]
pub(crate) struct Rescuer {
    next: Instant,
    /// Time of the last maintenance.
    last: Option<Instant>,
}

impl Rescuer {
    pub(crate) fn new(now: Instant) -> Self {
        Self { next: now, last: None }
    }

    /// Maintains the tables if that is due or requested, until `until` at most. Returns when it is
    /// due next.
    pub(crate) fn run(&mut self, node: &Shared, store: &mut dyn Store, until: Instant) -> Instant {
        let now = node.now();
        let mut state = node.lock();
        let is_requested = std::mem::take(&mut state.requests.maintain);
        let mut lanes = std::mem::take(&mut state.lanes);
        let is_first = state.is_first;
        drop(state);
        let period = node.options.maintenance_interval;
        if let Some(last) = self.last.filter(|_| is_first) {
            // It may have become the first since.
            self.next = self.next.min(last + period);
        }
        let promoted = promote(node, store, &mut lanes, until);
        let mut again = None;
        if !lanes.is_empty() {
            node.lock().lanes.append(&mut lanes);
            again = Some(if promoted.is_ok() { until } else { now + node.options.pause });
        }
        if let Err(error) = promoted {
            node.report("promote", &error);
        }
        if is_requested || self.next <= now {
            self.pass(node, now);
            if let Err(error) = self.maintain(node, store, until) {
                node.report("maintain", &error);
            }
        }
        again.map_or(self.next, |again| self.next.min(again))
    }

    /// Begins a period at `now`: a scan has said that there is nothing to do.
    pub(crate) fn pass(&mut self, node: &Shared, now: Instant) {
        let periods = if node.lock().is_first { 1 } else { OTHERS };
        self.last = Some(now);
        self.next = now + node.options.maintenance_interval * periods;
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

/// Promotes lanes whose timers have ended or were made here, at most until `until`, and removes
/// finished lanes from `lanes`. This node claims the fronts, even in other nodes' shards. If it has
/// no worker or no room for a front that is due soon, it notifies other nodes.
fn promote(
    node: &Shared,
    store: &mut dyn Store,
    lanes: &mut Vec<String>,
    until: Instant,
) -> Result<()> {
    lanes.sort_unstable();
    lanes.dedup();
    let (mut others, mut result) = (0, Ok(()));
    while !lanes.is_empty() && result.is_ok() {
        let rest = lanes.len().saturating_sub(LANES);
        match store.promote(&lanes[rest..]) {
            Ok(fronts) => {
                lanes.truncate(rest);
                let now = node.lock().clock.at(node.now());
                for front in fronts {
                    let is_soon = now.is_none_or(|now| front.due <= now + SOON);
                    if !node.expect(front.id, &front.kind, front.due) && is_soon {
                        others |= 1 << front.id.shard();
                    }
                }
            }
            Err(error) => result = Err(error),
        }
        if node.now() >= until {
            break;
        }
    }
    if others != 0 {
        let notified = store.notify(Shards::from_mask(others));
        result = result.and(notified.map(|_| ()));
    }
    result
}
