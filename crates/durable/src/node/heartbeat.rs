//! [`Heartbeat`]: keeps the node's lease, and sees which nodes live.

use std::time::Instant;

use super::shards;
use super::shared::{Shared, Stopping};
use crate::id::Lease;
use crate::store::{Beat, Result, Store};
use crate::trace;

/// Part of a node that renews its lease, and joins again when the lease is lost.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// Last epoch of the node's joins, successful or not.
    epoch: u64,
    next: Instant,
}

impl Heartbeat {
    pub(crate) fn new(now: Instant) -> Self {
        Self { epoch: 0, next: now }
    }

    /// Renews the lease if that is due. Returns when it is due next.
    pub(crate) fn run(&mut self, node: &Shared, store: &mut dyn Store) -> Instant {
        let now = node.now();
        if self.next <= now {
            self.next = now + node.options.heartbeat;
            if let Err(error) = self.beat(node, store) {
                node.report("beat", &error);
                if node.lock().lease.is_none() {
                    self.next = node.now() + node.options.pause;
                }
            }
        }
        self.next
    }

    /// Returns whether the lease is to be renewed.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// Takes the answer to a beat that a scan has made, sent at `sent`. A lost lease leaves the
    /// heartbeat due.
    pub(crate) fn take(&mut self, node: &Shared, lease: Lease, beat: Option<&Beat>, sent: Instant) {
        match beat {
            Some(beat) => {
                self.next = sent + node.options.heartbeat;
                note_beat(node, beat, sent);
            }
            None => lose(node, lease),
        }
    }

    /// Renews the lease, or joins under the next epoch.
    fn beat(&mut self, node: &Shared, store: &mut dyn Store) -> Result<()> {
        let options = &node.options;
        let lease = node.lock().lease;
        let mut sent = node.now();
        let mut beat = match lease {
            Some(lease) => store.beat(lease, options.lease)?,
            None => None,
        };
        if beat.is_none() {
            if let Some(lease) = lease {
                lose(node, lease);
            }
            if node.lock().stopping != Stopping::No {
                return Ok(());
            }
            sent = node.now();
            self.epoch += 1;
            let lease = Lease { node: options.node, epoch: self.epoch };
            beat = store.join(lease, options.lease)?;
        }
        if let Some(beat) = beat {
            note_beat(node, &beat, sent);
        }
        Ok(())
    }
}

fn lose(node: &Shared, lease: Lease) {
    trace::lease_lost(lease);
    node.counters.leases_lost.add(1);
    node.lock().lose_lease();
}

/// Notes an answer to a call made at `sent`: the lease, and the part of this node among the others.
fn note_beat(node: &Shared, beat: &Beat, sent: Instant) {
    let received = node.now();
    let options = &node.options;
    let Beat { lease, now, ref nodes } = *beat;
    let shards = shards::of(lease.node, nodes, now, options.patience());
    let is_living = |(_, last): &&_| now.since(*last) <= options.patience();
    let first = nodes.iter().filter(is_living).map(|(node, _)| *node).min();
    let mut state = node.lock();
    state.clock.sample(sent, received, now);
    state.lease = Some(lease);
    state.trusted_until = sent + options.trust();
    state.is_first = first.is_none_or(|first| first >= lease.node);
    if shards != state.shards {
        state.shards = shards;
        // Timers in lost shards are not claimed here, unless they are found to be late.
        state.kinds.values_mut().for_each(|kind| kind.cache.keep(shards));
        // Others may have left timers behind in the new shards.
        state.requests.scan_all = true;
        state.requests.plan = true;
    }
    drop(state);
    node.notify_claimers();
}
