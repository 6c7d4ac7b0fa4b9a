//! [`Planner`]: turns what schedules have next into timers and records.

use std::time::{Duration, Instant};

use super::shared::Shared;
use crate::id::Shards;
use crate::plan::{Rows, Step, plan};
use crate::rule::Rule;
use crate::store::{Advanced, Result, ScheduleRow, Store, Unfinished};
use crate::time::Time;
use crate::trace;

/// Schedules that are read at a time.
const SCHEDULES: u32 = 500;

/// Most transactions of one run for one schedule.
const STEPS: usize = 20;

/// Part of a node that advances schedules.
#[derive(Debug)]
pub(crate) struct Planner {
    /// Number of runs.
    runs: u32,
    next: Instant,
}

impl Planner {
    pub(crate) fn new(now: Instant) -> Self {
        Self { runs: 0, next: now }
    }

    /// Advances schedules if that is due or requested, until `until` at most. Returns when it is
    /// due next.
    pub(crate) fn run(&mut self, node: &Shared, store: &mut dyn Store, until: Instant) -> Instant {
        let now = node.now();
        let is_requested = std::mem::take(&mut node.lock().requests.plan);
        if is_requested || self.next <= now {
            self.next = now + node.options.schedule_interval;
            if let Err(error) = self.advance_all(node, store, until) {
                node.report("plan", &error);
            }
        }
        self.next
    }

    /// Advances the schedules of the node's shards; now and then those of all shards which are next
    /// so soon that the node that has the shard seems to be slow.
    fn advance_all(&mut self, node: &Shared, store: &mut dyn Store, until: Instant) -> Result<()> {
        let own = node.lock().shards;
        self.advance_of(node, store, own, node.options.horizon(), until)?;
        if self.runs % node.options.full_every == 0 {
            if node.now() >= until {
                return Ok(());
            }
            let others = Shards::from_mask(!own.mask());
            self.advance_of(node, store, others, node.options.near(), until)?;
        }
        self.runs = self.runs.wrapping_add(1);
        Ok(())
    }

    /// Advances those schedules of `shards` which are next within `ahead`.
    fn advance_of(
        &mut self,
        node: &Shared,
        store: &mut dyn Store,
        shards: Shards,
        ahead: Duration,
        until: Instant,
    ) -> Result<()> {
        if shards == Shards::NONE {
            return Ok(());
        }
        let sent = node.now();
        let upcoming = store.upcoming(ahead, shards, SCHEDULES)?;
        node.lock().clock.sample(sent, node.now(), upcoming.now);
        let has_more = upcoming.schedules.len() == SCHEDULES as usize;
        let mut has_advanced = false;
        for (row, occupied) in upcoming.schedules {
            has_advanced |= self.advance(node, store, row, occupied, upcoming.now, until)?;
            if node.now() >= until {
                self.next = until;
                return Ok(());
            }
        }
        if has_more && has_advanced {
            self.next = node.now();
        }
        Ok(())
    }

    /// Advances one schedule as far as possible. Returns whether it advanced.
    fn advance(
        &mut self,
        node: &Shared,
        store: &mut dyn Store,
        mut row: ScheduleRow,
        mut occupied: Unfinished,
        now: Time,
        until: Instant,
    ) -> Result<bool> {
        let Ok(Rule { schedule, policies }) = row.rule.clone() else {
            // Written by a later version. It waits for a node of that version.
            node.counters.not_understood.add(1);
            trace::not_understood(&row.name);
            return Ok(false);
        };
        let ahead = node.options.horizon();
        for step in 0..STEPS {
            let Some(next) = row.next else { return Ok(step > 0) };
            let planned = match plan(&schedule, &policies, row.id, next, occupied, now, ahead) {
                Step::Wait(until) => {
                    self.wake_at(node, until);
                    return Ok(step > 0);
                }
                Step::Advance(planned) => planned,
            };
            let rows = Rows::new(&planned, &row, &policies);
            if store.advance(&rows.advance(&row))? != Advanced::Done {
                // It changed since it was read, and may be next sooner than the next run.
                self.next = node.now();
                return Ok(step > 0);
            }
            node.counters.count_plan(&planned);
            note_timers(node, &rows, &mut occupied);
            row.next = planned.next;
            if node.now() >= until {
                return Ok(true);
            }
        }
        self.next = node.now();
        Ok(true)
    }

    /// Runs again when the database's clock shows `db`, if that is sooner.
    fn wake_at(&mut self, node: &Shared, db: Time) {
        if let Some(when) = node.lock().clock.when(db) {
            self.next = self.next.min(when);
        }
    }
}

/// Counts the timers that were inserted, and caches those of the node's shards. Those of a lane are
/// cached once they are its front.
fn note_timers(node: &Shared, rows: &Rows, occupied: &mut Unfinished) {
    let shards = node.lock().shards;
    node.continue_lanes(rows.timers().first().and_then(|timer| timer.lane.clone()));
    for timer in rows.timers() {
        if timer.due == Time::NEVER {
            occupied.queued += 1;
        } else {
            occupied.unfinished += 1;
        }
        if timer.lane.is_none() && shards.contains(timer.id.shard()) {
            node.expect(timer.id, &timer.kind, timer.due);
        }
    }
}
