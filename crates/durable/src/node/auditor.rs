//! [`Auditor`]: hands back what runs under the lease and the node does not know.

use std::time::Instant;

use super::shared::{Ending, Shared};
use crate::id::{Lease, TimerId};
use crate::store::{End, How, Result, Store};

/// Part of a node that compares what runs in the database with what the node holds.
#[derive(Debug)]
pub(crate) struct Auditor {
    next: Instant,
}

impl Auditor {
    pub(crate) fn new(now: Instant) -> Self {
        Self { next: now }
    }

    /// Audits if that is due or requested. Returns when it is due next.
    pub(crate) fn run(&mut self, node: &Shared, store: &mut dyn Store) -> Instant {
        let now = node.now();
        let mut state = node.lock();
        let Some(lease) = state.lease else { return self.next };
        let is_requested = std::mem::take(&mut state.requests.audit);
        drop(state);
        if is_requested || self.next <= now {
            self.next = now + node.options.scan * node.options.full_every;
            if let Err(error) = audit(node, store, lease) {
                node.report("held", &error);
                self.next = now + node.options.scan;
            }
        }
        self.next
    }
}

/// Hands back the attempts that run under the lease and are unknown here: the answer to their claim
/// was lost, or that to their end.
fn audit(node: &Shared, store: &mut dyn Store, lease: Lease) -> Result<()> {
    let running = store.held(lease)?;
    let now = node.now();
    let mut state = node.lock();
    if state.lease != Some(lease) {
        return Ok(());
    }
    let is_known = |id: TimerId, attempt: u32| {
        state.held.get(&id).is_some_and(|held| *held == attempt)
            || state.kinds.values().any(|kind| kind.cache.is_claiming(id))
    };
    let unknown: Vec<(TimerId, u32)> =
        running.into_iter().filter(|(id, attempt)| !is_known(*id, *attempt)).collect();
    for (timer, attempt) in unknown {
        let end = End { timer, attempt, how: How::HandBack };
        let (reply, is_awaited, kind) = (None, false, None);
        state.outbox.push_back(Ending { lease, end, since: now, reply, is_awaited, kind });
    }
    drop(state);
    node.notify_claimers();
    Ok(())
}
