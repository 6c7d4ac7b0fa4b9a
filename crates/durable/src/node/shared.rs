//! [`Shared`]: the common state of a node's threads, fires and workers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};

use super::cache::{Cache, Reach};
use super::clock::DbClock;
use super::fire::{EndError, Fire};
use super::notifier::Notifier;
use super::options::Options;
use super::stats::Counters;
use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Lease, Shards, TimerId};
use crate::store::{End, Finished, NewTimer, Notification};
use crate::time::Time;
use crate::trace;

/// A node.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    /// Its clock is the node's, and counts suspend.
    pub(crate) timer: tourbillon::Timer,
    /// Notifier of the main loop.
    pub(crate) main: Notifier,
    pub(crate) claimers: Vec<Notifier>,
    pub(crate) counters: Counters,
    state: Mutex<NodeState>,
}

/// A thread that the node needs: if it panics, the node ends, and others take over its attempts.
#[derive(Debug)]
pub(crate) struct Vital<'a>(pub(crate) &'a Shared);

impl Drop for Vital<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            guarded(|| self.0.stop(Stopping::Now));
        }
    }
}

/// Runs foreign code (wakers) with no lock held. A panic ends there.
///
/// The payload is leaked: dropping it would be foreign code once more.
pub(crate) fn guarded(foreign: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(foreign)).map_err(std::mem::forget);
}

/// State behind the node's one lock, under which no store is called.
#[derive(Debug)]
pub(crate) struct NodeState {
    /// Current lease, if any.
    pub(crate) lease: Option<Lease>,
    /// End of the certain part of the lease.
    pub(crate) trusted_until: Instant,
    pub(crate) clock: DbClock,
    /// Shards whose timers this node claims as soon as they are due; it claims others once they are
    /// late.
    pub(crate) shards: Shards,
    /// True if this node is the first living one. It maintains the tables more often than the
    /// others.
    pub(crate) is_first: bool,
    /// Kinds that there are workers for, by numbers that are not used again.
    pub(crate) kinds: BTreeMap<u32, Kind>,
    pub(crate) next_kind: u32,
    /// Attempts under the present lease whose end the store has not answered.
    pub(crate) held: HashMap<TimerId, u32>,
    pub(crate) outbox: VecDeque<Ending>,
    /// Ends that a claimer has taken and the store has not answered.
    pub(crate) ending: usize,
    /// Start of the last claim, unless that was full.
    pub(crate) last_claim: Option<Instant>,
    pub(crate) requests: Requests,
    /// Lanes that may need another front, for the rescuer.
    pub(crate) lanes: Vec<String>,
    pub(crate) stopping: Stopping,
    /// Claimers that run.
    pub(crate) claiming: usize,
    /// Error that ended the node.
    pub(crate) failure: Option<StoreError>,
}

/// Requests to the parts of the main loop; each part takes its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requests {
    /// Request to the auditor.
    pub(crate) audit: bool,
    /// Request to the scanner to read from the beginning.
    pub(crate) scan_all: bool,
    /// Request to the rescuer.
    pub(crate) maintain: bool,
    /// Request to the planner.
    pub(crate) plan: bool,
    /// Shards into which others have inserted timers that are due soon, for the scanner.
    pub(crate) notified: Shards,
}

impl Requests {
    /// Requests the work that the next occurrence of the same schedule may wait for.
    pub(crate) fn after_end(&mut self) {
        self.maintain = true;
        self.plan = true;
    }
}

/// Progress of a node toward its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stopping {
    /// The node does not stop.
    No,
    /// The node claims no timers, and waits for the attempts that it holds.
    Draining,
    /// The node sends the ends that there are.
    Now,
}

/// Kind of handler that a worker serves.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) cache: Cache,
    /// Attempts that may still be held.
    pub(crate) room: usize,
    pub(crate) fires: Sender<Fire>,
    /// The worker's end of it, to empty it when the node ends.
    pub(crate) waiting: Receiver<Fire>,
}

/// An attempt's end on its way to the store.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) lease: Lease,
    pub(crate) end: End,
    pub(crate) since: Instant,
    pub(crate) reply: Option<Sender<Result<(), EndError>>>,
    /// True if an occurrence of its schedule may wait for it.
    pub(crate) is_awaited: bool,
    /// Lane whose next timer waits for it.
    pub(crate) lane: Option<String>,
    /// The number of its kind.
    pub(crate) kind: Option<u32>,
}

impl Shared {
    pub(crate) fn new(options: Options, timer: tourbillon::Timer) -> Arc<Self> {
        let now = timer.now();
        let state = NodeState {
            lease: None,
            trusted_until: now,
            clock: DbClock::default(),
            shards: Shards::ALL,
            is_first: true,
            kinds: BTreeMap::new(),
            next_kind: 0,
            held: HashMap::new(),
            outbox: VecDeque::new(),
            ending: 0,
            last_claim: None,
            requests: Requests::default(),
            lanes: Vec::new(),
            stopping: Stopping::No,
            claiming: options.connections,
            failure: None,
        };
        let claimers = (0..options.connections).map(|_| Notifier::default()).collect();
        Arc::new(Self {
            options,
            timer,
            main: Notifier::default(),
            claimers,
            counters: Counters::default(),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Instant {
        self.timer.now()
    }

    /// Notifies the claimers, which then look for work.
    pub(crate) fn notify_claimers(&self) {
        self.claimers.iter().for_each(Notifier::notify);
    }

    /// Sends an attempt's end on its way, which makes room for another of its kind.
    pub(crate) fn end(&self, ending: Ending) {
        let mut state = self.lock();
        // Others do not change when a claimer has something to do.
        let mut is_first = state.outbox.is_empty() || state.stopping != Stopping::No;
        let kind = ending.kind;
        if let Some(kind) = kind.and_then(|kind| state.kinds.get_mut(&kind)) {
            is_first |= kind.room == 0;
            kind.room += 1;
        }
        if state.claiming == 0 {
            // The node has ended. Its wakers are called with no lock held.
            drop(state);
            return drop(ending);
        }
        state.outbox.push_back(ending);
        drop(state);
        if is_first {
            self.notify_claimers();
        }
    }

    /// Takes note of an end that a transaction of the caller's has brought about.
    pub(crate) fn note_committed(&self, end: &End, kind: u32, of: &NewTimer) {
        let mut state = self.lock();
        if let Some(kind) = state.kinds.get_mut(&kind) {
            kind.room += 1;
        }
        state.forget(end);
        drop(state);
        self.counters.count_end(&end.how, Finished::Accepted);
        if of.has_queue {
            self.request(Requests::after_end);
        }
        self.continue_lanes(of.lane.clone());
        self.notify_claimers();
    }

    /// Returns whether an attempt under `lease` may start.
    pub(crate) fn trusts(&self, lease: Lease) -> bool {
        let state = self.lock();
        state.trusts(lease, self.now())
    }

    /// Takes note of a timer that a client of this process has inserted. Returns whether it did: a
    /// scan finds it later if the node knows of enough.
    pub(crate) fn expect(&self, id: TimerId, kind: &str, due: Time) -> bool {
        let mut state = self.lock();
        let Some(now) = state.clock.at(self.now()) else { return false };
        if due > now + self.options.look_ahead || state.stopping != Stopping::No {
            return false;
        }
        let share = state.share(&self.options);
        let mut kinds = state.kinds.values_mut().filter(|kind| kind.cache.len() < share);
        if let Some(kind) = kinds.find(|known| known.name == kind) {
            let is_first = kind.cache.first().is_none_or(|first| due < first);
            kind.cache.put(id, due);
            drop(state);
            if is_first {
                self.notify_claimers();
            }
            return true;
        }
        false
    }

    /// Notes that others have inserted timers into shards, or that no notice arrives for now.
    pub(crate) fn hear(&self, notice: Notification) {
        let shards = match notice {
            Notification::Due(shards) => shards,
            Notification::Deaf => return self.counters.deaf.add(1),
        };
        self.request(|requests| {
            requests.notified = Shards::from_mask(requests.notified.mask() | shards.mask());
        });
    }

    /// Counts and traces a call of the store that failed. Ends the node if no other will succeed.
    pub(crate) fn report(&self, call: &str, error: &StoreError) {
        self.counters.store_errors.add(1);
        trace::store_failed(call, error);
        if error.kind() == StoreErrorKind::Gone {
            self.lock().failure.get_or_insert(error.copy());
            self.stop(Stopping::Now);
        }
    }

    /// Asks the rescuer to promote these lanes.
    pub(crate) fn continue_lanes(&self, lanes: impl IntoIterator<Item = String>) {
        let mut state = self.lock();
        let known = state.lanes.len();
        state.lanes.extend(lanes);
        if state.lanes.len() > known {
            drop(state);
            self.main.notify();
        }
    }

    /// Sets requests by `set`, and notifies the main loop.
    pub(crate) fn request(&self, set: impl FnOnce(&mut Requests)) {
        set(&mut self.lock().requests);
        self.main.notify();
    }

    /// Ends the node, or ends it sooner.
    pub(crate) fn stop(&self, how: Stopping) {
        let mut state = self.lock();
        state.stopping = state.stopping.max(how);
        let mut waiting = Vec::new();
        for kind in state.kinds.values_mut() {
            kind.cache.clear();
            waiting.push(kind.waiting.clone());
        }
        drop(state);
        for fires in waiting {
            fires.close();
            while fires.try_recv().is_ok() {}
        }
        self.main.notify();
        self.notify_claimers();
    }
}

impl NodeState {
    pub(crate) fn trusts(&self, lease: Lease, now: Instant) -> bool {
        self.lease == Some(lease) && now < self.trusted_until
    }

    /// Holds the attempt of this end no longer.
    pub(crate) fn forget(&mut self, end: &End) {
        if self.held.get(&end.timer) == Some(&end.attempt) {
            self.held.remove(&end.timer);
        }
    }

    /// Returns how many timers each kind may have in its cache: an equal part, or half of the room
    /// that others leave.
    pub(crate) fn share(&self, options: &Options) -> usize {
        let known = self.kinds.values().map(|kind| kind.cache.len()).sum();
        let free = options.cache_capacity.saturating_sub(known);
        (options.cache_capacity / self.kinds.len().max(1)).max(free / 2).max(1)
    }

    /// Lets each kind with less than half its share read its backlog.
    pub(crate) fn allow_backlogs(&mut self, options: &Options) {
        let half = self.share(options) / 2;
        self.kinds.values_mut().for_each(|kind| kind.cache.allow(half));
    }

    /// Returns whether the node stops and its claimers have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.stopping != Stopping::No && self.claiming == 0
    }

    /// Returns the reach of the scanner's next read, over all kinds.
    pub(crate) fn wants(&self) -> Option<Reach> {
        self.kinds.values().filter_map(|kind| kind.cache.wants()).min()
    }

    /// Notes that the node's life has ended: others own its attempts.
    pub(crate) fn lose_lease(&mut self) {
        self.lease = None;
        self.held.clear();
    }

    /// When the claimers have something to do: the first timer that is due and has room, and the
    /// first end that has waited long enough for one.
    pub(crate) fn next_claim(&self, options: &Options, now: Instant) -> Option<Instant> {
        let ends = self.outbox.front().map(|ending| ending.since + options.finish_linger);
        let has_lease = self.lease.is_some() && now < self.trusted_until;
        let can_claim = has_lease && self.stopping == Stopping::No;
        let kinds = self.kinds.values().filter(|kind| can_claim && kind.room > 0);
        let due = kinds.filter_map(|kind| kind.cache.first()).min();
        let due = due.map(|due| self.claim_from(due, options.claim_linger));
        let due = due.and_then(|due| self.clock.when(due));
        match (ends, due) {
            (Some(ends), Some(due)) => Some(ends.min(due)),
            (one, other) => one.or(other),
        }
    }

    /// Returns when a claim begins whose first timer is due at `due`: then, or `linger` after the
    /// start of the last claim, but no later than `linger` after `due`.
    fn claim_from(&self, due: Time, linger: Duration) -> Time {
        match self.last_claim.and_then(|last| self.clock.at(last)) {
            Some(last) => due.max(last.min(due) + linger),
            None => due,
        }
    }
}
