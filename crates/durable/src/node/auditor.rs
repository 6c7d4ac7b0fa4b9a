//! [`Auditor`]: hands back attempts that run under the lease but are unknown to the node.

use std::time::Instant;

use super::shared::{Ending, Shared};
use crate::id::{Lease, TimerId};
use crate::store::{End, Held, How, Result, Store};
use crate::time::Time;

/// Part of a node that compares its running attempts in the database with those in its memory.
#[derive(Debug)]
pub(crate) struct Auditor {
    next: Instant,
    /// Lease of an audit under way, and the place to continue after.
    rest: Option<(Lease, (Time, TimerId))>,
}

impl Auditor {
    pub(crate) fn new(now: Instant) -> Self {
        Self { next: now, rest: None }
    }

    /// Audits if that is due or requested: one part, so that other calls have their turn between
    /// parts. Returns when it is due next.
    pub(crate) fn run(&mut self, node: &Shared, store: &mut dyn Store) -> Instant {
        let now = node.now();
        let mut state = node.lock();
        let Some(lease) = state.lease else { return self.next };
        let rest = self.rest.take().filter(|(of, _)| *of == lease).map(|(_, place)| place);
        // A request while an audit is under way is one for another from the beginning.
        let is_requested = rest.is_none() && std::mem::take(&mut state.requests.audit);
        drop(state);
        if rest.is_none() && !is_requested && self.next > now {
            return self.next;
        }
        if rest.is_none() {
            self.pass(node, now);
        }
        match audit(node, store, lease, rest) {
            Ok(rest) => self.rest = rest.map(|place| (lease, place)),
            Err(error) => {
                node.report("held", &error);
                self.next = now + node.options.scan;
            }
        }
        if self.rest.is_some() || node.lock().requests.audit { now } else { self.next }
    }

    /// Begins a period at `now`: a scan has said that nothing runs.
    pub(crate) fn pass(&mut self, node: &Shared, now: Instant) {
        self.next = now + node.options.scan * node.options.full_every;
    }
}

/// Hands back the attempts that run under the lease and are unknown here: the answer to their claim
/// was lost, or that to their end. Returns where the next part begins.
fn audit(
    node: &Shared,
    store: &mut dyn Store,
    lease: Lease,
    after: Option<(Time, TimerId)>,
) -> Result<Option<(Time, TimerId)>> {
    let Held { timers: running, rest, .. } = store.held(lease, after)?;
    let now = node.now();
    let mut state = node.lock();
    if state.lease != Some(lease) {
        return Ok(None);
    }
    let is_known = |id: TimerId, attempt: u32| {
        state.held.get(&id).is_some_and(|held| *held == attempt)
            || state.kinds.values().any(|kind| kind.cache.is_claiming(id))
    };
    let unknown: Vec<(TimerId, u32)> =
        running.into_iter().filter(|(id, attempt)| !is_known(*id, *attempt)).collect();
    for (timer, attempt) in unknown {
        let end = End { timer, attempt, how: How::HandBack };
        let (since, reply, is_awaited, lane, kind) = (now, None, false, None, None);
        state.outbox.push_back(Ending { lease, end, since, reply, is_awaited, lane, kind });
    }
    drop(state);
    node.notify_claimers();
    Ok(rest)
}
