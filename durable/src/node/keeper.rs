//! [`Keeper`]: beats, scans, and turns schedules into timers; one call after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cache::Reach;
use super::shards;
use super::shared::{Ending, Shared, Stopping, Vital};
use crate::canary::{Bug, seeded};
use crate::id::{Lease, Shards, TimerId};
use crate::plan::{Rows, Step, plan};
use crate::policy::Policies;
use crate::schedule::Schedule;
use crate::store::{Advanced, Beat, End, How, Occupied, Result, Scan, ScheduleRow, Store};
use crate::time::Time;
use crate::trace;

/// Span within which notices are merged: an insert within it after a notice sends none. It is also
/// the shortest period at which a node reads because of notices.
pub(crate) const NOTICE: Duration = Duration::from_millis(50);

/// Schedules that are read at a time.
const SCHEDULES: u32 = 500;

/// Most transactions of one look for one schedule.
const STEPS: usize = 20;

/// The thread that keeps a node alive and its caches filled.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    shards: Shards,
    /// The last under which it joined, or tried to.
    epoch: u64,
    /// True if this node looks after orphans and queues more often than the others.
    is_first: bool,
    /// Periods in which there was a scan.
    scans: u32,
    /// True if the last scan has found something new or left nothing, or a period has begun.
    has_progress: bool,
    /// When it reads what it was told of.
    next_told: Option<Instant>,
    /// When it last did.
    last_told: Option<Instant>,
    /// True if it was notified since.
    is_told: bool,
    /// Looks made.
    looks: u32,
    next_beat: Instant,
    next_scan: Instant,
    next_look: Instant,
    next_tend: Instant,
}

impl Keeper {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let now = shared.now();
        Self {
            shared: shared.clone(),
            shards: Shards::ALL,
            epoch: 0,
            is_first: true,
            scans: 0,
            has_progress: false,
            next_told: None,
            last_told: None,
            is_told: false,
            looks: 0,
            next_beat: now,
            next_scan: now,
            next_look: now,
            next_tend: now,
        }
    }

    /// Goes on until the node ends, and then gives up its life.
    pub(crate) fn run(mut self, mut store: Box<dyn Store>) {
        let shared = self.shared.clone();
        let _vital = Vital(&shared);
        while !self.is_over() {
            let next = self.step(&mut *store);
            shared.keeper.wait(&shared.timer, Some(next));
        }
        let lease = self.shared.lock().lease;
        if let Some(lease) = lease {
            if let Err(error) = store.leave(lease) {
                trace::store_failed("leave", &error);
            }
        }
        trace::stopped(self.shared.options.node);
        let mut state = self.shared.lock();
        state.lose_lease();
        let kinds = std::mem::take(&mut state.kinds);
        drop(state);
        drop(kinds);
    }

    fn is_over(&self) -> bool {
        let state = self.shared.lock();
        state.stopping != Stopping::No && state.claiming == 0
    }

    /// Does what is due, and returns when something is next.
    pub(crate) fn step(&mut self, store: &mut dyn Store) -> Instant {
        let shared = self.shared.clone();
        if self.next_beat <= shared.now() {
            self.next_beat = shared.now() + shared.options.beat;
            let beaten = self.beat(store);
            self.settle("beat", beaten);
        }
        let lease = shared.lock().lease;
        let Some(lease) = lease else { return self.next_beat };

        let asks = std::mem::take(&mut shared.lock().asks);
        let stopping = shared.lock().stopping;
        // A node that waits for its handlers keeps its part of the schedules and of the queues.
        let (is_stopping, is_ending) = (stopping != Stopping::No, stopping == Stopping::Now);
        let now = shared.now();
        if !is_ending && (asks.tend || self.next_tend <= now) {
            let span = if self.is_first { 1 } else { 3 };
            self.next_tend = now + shared.options.tend * span;
            let tended = self.tend(store);
            self.settle("tend", tended);
        }
        if !is_ending && (asks.look || self.next_look <= now) {
            self.next_look = now + shared.options.look;
            let looked = self.look(store);
            self.settle("look", looked);
        }
        let scan_all = asks.scan_all || std::mem::take(&mut shared.lock().asks.scan_all);
        if !is_stopping && (scan_all || self.next_scan <= now) {
            self.next_scan = now + shared.options.scan;
            let is_full = self.scans % shared.options.full_every == 0;
            self.scans = self.scans.wrapping_add(1);
            self.allow_backlogs();
            let reach = if is_full || scan_all { Reach::All } else { Reach::Recent };
            let is_blind = seeded(Bug::NotifyTrusted);
            let scanned = if is_blind { Ok(()) } else { self.scan(store, reach) };
            let audited = scanned.and_then(|()| {
                if (asks.audit || is_full) && !seeded(Bug::AuditLeftOut) {
                    self.audit(store, lease)
                } else {
                    Ok(())
                }
            });
            if audited.is_err() && asks.audit {
                shared.lock().asks.audit = true;
            }
            if audited.is_err() && scan_all {
                shared.lock().asks.scan_all = true;
            }
            self.settle("scan", audited);
        } else if asks.audit {
            shared.lock().asks.audit = true;
        }
        if asks.told.mask() & self.shards.mask() != 0 {
            self.is_told = true;
            let soonest = self.last_told.map_or(now, |last| last + NOTICE);
            self.next_told = Some(soonest.max(now));
        }
        if !is_stopping && self.next_told.is_some_and(|next| next <= now) {
            self.last_told = Some(now);
            // A notice stands for what is put there a little later, too.
            self.next_told = std::mem::take(&mut self.is_told).then(|| now + NOTICE);
            let scanned = self.scan(store, Reach::Recent);
            self.settle("scan", scanned);
        }
        if let Some(reach) = self.backlog().filter(|_| !is_stopping) {
            let scanned = self.scan(store, reach);
            self.settle("scan", scanned);
        }
        let next = self.next_beat.min(self.next_look).min(self.next_tend);
        match stopping {
            Stopping::No if self.backlog().is_some() => shared.now(),
            Stopping::No => next.min(self.next_scan).min(self.next_told.unwrap_or(next)),
            Stopping::Draining => next,
            Stopping::Now => self.next_beat,
        }
    }

    fn settle(&mut self, what: &str, answer: Result<()>) {
        if let Err(error) = answer {
            self.shared.counters.store_errors.add(1);
            trace::store_failed(what, &error);
            if self.shared.lock().lease.is_none() {
                self.next_beat = self.shared.now() + self.shared.options.pause;
            }
        }
    }

    /// Moves the end of the node's life, or begins another.
    fn beat(&mut self, store: &mut dyn Store) -> Result<()> {
        let shared = self.shared.clone();
        let options = &shared.options;
        let lease = shared.lock().lease;
        let mut sent = shared.now();
        let mut beat = match lease {
            Some(lease) => store.beat(lease, options.lease)?,
            None => None,
        };
        if beat.is_none() {
            if let Some(lease) = lease {
                trace::lease_lost(lease);
                shared.counters.leases_lost.add(1);
                shared.lock().lose_lease();
            }
            if shared.lock().stopping != Stopping::No {
                return Ok(());
            }
            sent = shared.now();
            self.epoch += 1;
            let lease = Lease { node: options.node, epoch: self.epoch };
            beat = store.join(lease, options.lease)?;
        }
        if let Some(beat) = beat {
            self.take_beat(&beat, sent);
        }
        Ok(())
    }

    fn take_beat(&mut self, beat: &Beat, sent: Instant) {
        let shared = &self.shared;
        let received = shared.now();
        let options = &shared.options;
        let Beat { lease, now, ref nodes } = *beat;
        let shards = shards::of(lease.node, nodes, now, options.patience());
        let is_living = |(_, last): &&_| now.since(*last) <= options.patience();
        let first = nodes.iter().filter(is_living).map(|(node, _)| *node).min();
        self.is_first = first.is_none_or(|first| first >= lease.node);
        let mut state = shared.lock();
        state.clock.sample(sent, received, now);
        state.lease = Some(lease);
        state.trusted_until = sent + options.trust();
        if shards != self.shards {
            self.shards = shards;
            // Others may have left something behind in what is new here.
            state.asks.scan_all = true;
            state.asks.look = true;
        }
        drop(state);
        shared.ring_claimers();
    }

    fn tend(&mut self, store: &mut dyn Store) -> Result<()> {
        loop {
            let tended = store.tend()?;
            let shared = &self.shared;
            shared.counters.orphans.add(tended.orphans);
            if tended.orphans + tended.promoted > 0 {
                trace::maintained(tended.nodes, tended.orphans, tended.promoted);
                shared.lock().asks.scan_all = true;
            }
            if !tended.more {
                return Ok(());
            }
            // A beat comes first; the rest follows it at once.
            if shared.now() >= self.next_beat {
                self.next_tend = self.next_beat;
                return Ok(());
            }
        }
    }

    /// Lets each kind that knows of less than half its share read what scans have left of it.
    fn allow_backlogs(&mut self) {
        let mut state = self.shared.lock();
        let half = state.share(&self.shared.options) / 2;
        state.kinds.values_mut().for_each(|kind| kind.cache.allow(half));
        self.has_progress = true;
    }

    /// Returns what is to be read before the next period: what scans have left, as long as they
    /// make progress.
    fn backlog(&self) -> Option<Reach> {
        self.shared.lock().wants().filter(|_| self.has_progress)
    }

    /// Reads what is due soon into the caches of those kinds that have room for it.
    ///
    /// The caches remember what does not fit: it is read from the beginning as soon as there is
    /// room, first of the node's own shards. The node that has a shard may not serve the kind of
    /// what is in it, so all shards are read too: then two nodes may ask for the same timer, and
    /// one is refused.
    fn scan(&mut self, store: &mut dyn Store, reach: Reach) -> Result<()> {
        self.has_progress = false;
        let shared = &self.shared;
        let options = &shared.options;
        let mut state = shared.lock();
        let share = state.share(options);
        let (mut names, mut begun) = (Vec::new(), Vec::new());
        for (number, kind) in &mut state.kinds {
            if let Some(scan) = kind.cache.begin_scan(reach) {
                names.push(kind.name.clone());
                begun.push((*number, scan, false));
            }
        }
        drop(state);
        if names.is_empty() {
            return Ok(());
        }
        let most = (share.div_ceil(2) * names.len()).min(options.known / 2);
        let is_recent = reach == Reach::Recent || seeded(Bug::CursorForSet);
        let scan = Scan {
            ahead: options.window,
            back: is_recent.then_some(options.back),
            shards: if reach == Reach::All { Shards::ALL } else { self.shards },
            kinds: &names,
            limit: u32::try_from(most).unwrap_or(u32::MAX),
        };
        let sent = shared.now();
        let window = store.scan(&scan)?;
        shared.counters.scans.add(1);
        let received = shared.now();
        let mut state = shared.lock();
        state.clock.sample(sent, received, window.now);
        let state = &mut *state;
        for waiting in &window.timers {
            let Some((number, scan, is_full)) = begun.get_mut(waiting.kind as usize) else {
                continue;
            };
            let Some(kind) = state.kinds.get_mut(number) else { continue };
            *is_full |= kind.cache.len() >= share;
            if !*is_full && !state.held.contains_key(&waiting.id) {
                self.has_progress |= kind.cache.take(*scan, waiting.id, waiting.due);
            }
        }
        let is_cut = window.timers.len() >= most;
        self.has_progress |= !is_cut;
        for (number, scan, is_full) in &begun {
            if let Some(kind) = state.kinds.get_mut(number) {
                kind.cache.end_scan(*scan, reach, is_cut || *is_full);
            }
        }
        shared.ring_claimers();
        Ok(())
    }

    /// Hands back what runs under the lease and is known to nobody here: the answer to its claim
    /// was lost, or that to its end.
    fn audit(&mut self, store: &mut dyn Store, lease: Lease) -> Result<()> {
        let running = store.held(lease)?;
        let shared = &self.shared;
        let now = shared.now();
        let mut state = shared.lock();
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
        shared.ring_claimers();
        Ok(())
    }

    /// Turns what comes soon into timers and records; now and then that of all shards, as the node
    /// that has a shard may be slow.
    fn look(&mut self, store: &mut dyn Store) -> Result<()> {
        let shared = self.shared.clone();
        let ahead = shared.options.horizon();
        let sent = shared.now();
        let is_full = self.looks % shared.options.full_every == 0;
        self.looks = self.looks.wrapping_add(1);
        let shards = if is_full { Shards::ALL } else { self.shards };
        let upcoming = store.upcoming(ahead, shards, SCHEDULES)?;
        shared.lock().clock.sample(sent, shared.now(), upcoming.now);
        let has_more = upcoming.schedules.len() == SCHEDULES as usize;
        let mut has_moved = false;
        for (row, occupied) in upcoming.schedules {
            has_moved |= self.advance(store, row, occupied, upcoming.now)?;
            if shared.now() >= self.next_beat {
                self.next_look = self.next_beat;
                return Ok(());
            }
        }
        if has_more && has_moved {
            self.next_look = shared.now();
        }
        Ok(())
    }

    /// Takes one schedule as far as it goes. Returns whether it went.
    fn advance(
        &mut self,
        store: &mut dyn Store,
        mut row: ScheduleRow,
        mut occupied: Occupied,
        now: Time,
    ) -> Result<bool> {
        let (spec, policies) = (row.spec.parse::<Schedule>(), row.policies.parse::<Policies>());
        let (Ok(schedule), Ok(policies)) = (spec, policies) else {
            // Written by a later version. It waits for a node of that version.
            self.shared.counters.not_understood.add(1);
            trace::not_understood(&row.name);
            return Ok(false);
        };
        let ahead = self.shared.options.horizon();
        for step in 0..STEPS {
            let Some(next) = row.next else { return Ok(step > 0) };
            match plan(&schedule, &policies, row.id, next, occupied, now, ahead) {
                Step::Wait(until) => {
                    self.wake_at(until);
                    return Ok(step > 0);
                }
                Step::Advance(planned) => {
                    let rows = Rows::new(&planned, &row, &policies);
                    match store.advance(&rows.advance(&row))? {
                        Advanced::Done => {}
                        Advanced::Stale | Advanced::Busy => {
                            // It changed since it was read, and may be next sooner than the next
                            // look.
                            self.next_look = self.shared.now();
                            return Ok(step > 0);
                        }
                    }
                    self.shared.counters.count_plan(&planned);
                    for timer in rows.timers() {
                        if timer.due == Time::NEVER {
                            occupied.queued += 1;
                        } else {
                            occupied.unfinished += 1;
                        }
                        if self.shards.contains(timer.id.shard()) {
                            self.shared.expect(timer.id, &timer.kind, timer.due);
                        }
                    }
                    row.next = planned.next;
                    if self.shared.now() >= self.next_beat {
                        return Ok(true);
                    }
                }
            }
        }
        self.next_look = self.shared.now();
        Ok(true)
    }

    /// Looks at the schedules again at `db`, if that is sooner.
    fn wake_at(&mut self, db: Time) {
        if let Some(when) = self.shared.lock().clock.when(db) {
            self.next_look = self.next_look.min(when);
        }
    }
}
