//! [`Planner`]: turns the next occurrences of schedules into timers and records.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::shared::Shared;
use super::zones::{self, Standing};
use crate::error::StoreErrorKind;
use crate::id::{ScheduleId, Shards};
use crate::plan::{Plan, Rows, Step, plan};
use crate::store::{Advance, Advanced, Result, ScheduleRow, Store, Unfinished, UpcomingQuery};
use crate::time::Time;
use crate::trace;

/// Schedules that are read at a time.
const SCHEDULES: u32 = 500;

/// Schedules that are advanced together.
pub(super) const TOGETHER: usize = 50;

/// Rows that are written together; the last schedule may write more.
const ROWS: usize = 500;

/// Schedules that the store may refuse to advance before a look ends.
pub(super) const REFUSALS: usize = 10;

/// Most transactions of one run for one schedule.
const STEPS: usize = 20;

/// Part of a node that advances schedules.
#[derive(Debug)]
pub(crate) struct Planner {
    next: Instant,
    /// Time from which on the schedules of others are looked at.
    others_from: Instant,
    /// End of the help for other nodes: some schedules were not advanced by theirs.
    helps_until: Instant,
    /// Schedules that the store refused to advance. They come after all others.
    stuck: BTreeSet<ScheduleId>,
    /// Number of refusals in this look.
    refusals: usize,
    /// Time since the first occurrence that this run found due.
    behind: Duration,
}

impl Planner {
    pub(crate) fn new(now: Instant) -> Self {
        let (stuck, refusals, behind) = (BTreeSet::new(), 0, Duration::ZERO);
        Self { next: now, others_from: now, helps_until: now, stuck, refusals, behind }
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

    /// Advances the schedules of the node's shards. Now and then it looks at all shards, for
    /// schedules whose next time is so close that their node seems to be slow; once it finds some,
    /// it does so for a while in each period.
    fn advance_all(&mut self, node: &Shared, store: &mut dyn Store, until: Instant) -> Result<()> {
        let own = node.lock().shards;
        self.behind = Duration::ZERO;
        self.advance_of(node, store, own, node.options.horizon(), until)?;
        let now = node.now();
        if self.others_from <= now && now < until {
            let others = Shards::from_mask(!own.mask());
            let (period, seldom) = (node.options.schedule_interval, node.options.seldom());
            if self.advance_of(node, store, others, node.options.near(), until)? {
                self.helps_until = now + seldom;
            }
            self.others_from = now + if now < self.helps_until { period } else { seldom };
        }
        node.counters.set_behind(self.behind);
        Ok(())
    }

    /// Returns the shards that a run looks at.
    pub(crate) fn shards(&self, node: &Shared, now: Instant) -> Shards {
        if self.others_from <= now { Shards::ALL } else { node.lock().shards }
    }

    /// Begins a period at `now`: a scan has said that these shards have nothing to advance.
    pub(crate) fn pass(&mut self, node: &Shared, now: Instant) {
        self.next = now + node.options.schedule_interval;
        if self.others_from <= now {
            self.others_from = now + node.options.seldom();
        }
        node.counters.set_behind(Duration::ZERO);
    }

    /// Advances the schedules of `shards` whose next time is within `ahead`. Returns whether there
    /// were any.
    fn advance_of(
        &mut self,
        node: &Shared,
        store: &mut dyn Store,
        shards: Shards,
        ahead: Duration,
        until: Instant,
    ) -> Result<bool> {
        if shards == Shards::NONE {
            return Ok(false);
        }
        let mut query = UpcomingQuery { shards, ..UpcomingQuery::new(ahead, SCHEDULES) };
        let mut has_advanced = false;
        self.refusals = 0;
        loop {
            let sent = node.now();
            let upcoming = store.upcoming(&query)?;
            node.lock().clock.sample(sent, node.now(), upcoming.now);
            // A schedule that this version does not understand waits for another node.
            let readable = upcoming.schedules.iter().filter(|(row, _)| row.rule.is_ok());
            if let Some(first) = readable.filter_map(|(row, _)| row.next).min() {
                self.behind = self.behind.max(upcoming.now.since(first));
            }
            let mut others = upcoming.schedules;
            let last = others.get(SCHEDULES as usize - 1);
            query.after = last.and_then(|(row, _)| Some((row.next?, row.id)));
            others.sort_by_key(|(row, _)| self.stuck.contains(&row.id));
            while !others.is_empty() && self.refusals < REFUSALS {
                let later = others.split_off(others.len().min(TOGETHER));
                let first = std::mem::replace(&mut others, later);
                has_advanced |= self.advance(node, store, first, upcoming.now, until)?;
                if node.now() >= until {
                    self.next = until;
                    return Ok(has_advanced);
                }
            }
            // None of these advances here. Those behind them are not held up.
            if query.after.is_none() || has_advanced {
                break;
            }
        }
        if query.after.is_some() {
            self.next = node.now();
        }
        Ok(has_advanced)
    }

    /// Advances schedules as far as possible. Returns whether one advanced.
    fn advance(
        &mut self,
        node: &Shared,
        store: &mut dyn Store,
        read: Vec<(ScheduleRow, Unfinished)>,
        now: Time,
        until: Instant,
    ) -> Result<bool> {
        let (mut read, mut has_advanced) = (VecDeque::from(read), false);
        for _ in 0..STEPS {
            let mut advanced = VecDeque::new();
            while !read.is_empty() {
                let (mut planned, moved) = self.plan(node, &mut read, now);
                for row in moved {
                    if zones::rezone(node, store, &row)? {
                        self.next = node.now();
                    }
                }
                while !planned.is_empty() {
                    let answers = match advance_first(store, &planned) {
                        Err(error) if error.kind() == StoreErrorKind::Invalid => {
                            node.report("plan", &error);
                            self.stuck.insert(planned.remove(0).row.id);
                            self.refusals += 1;
                            if self.refusals == REFUSALS {
                                return Ok(has_advanced);
                            }
                            continue;
                        }
                        answers => answers?,
                    };
                    // At least one, so that this ends whatever a store returns.
                    let count = answers.len().clamp(1, planned.len());
                    for (done, answer) in planned.drain(..count).zip(&answers) {
                        let Planned { row, mut occupied, plan, rows } = done;
                        self.stuck.remove(&row.id);
                        if *answer != Advanced::Done {
                            // It changed since it was read, and may be next sooner than the next
                            // run.
                            self.next = node.now();
                            continue;
                        }
                        has_advanced = true;
                        node.counters.count_plan(&plan);
                        note_timers(node, &rows, &mut occupied);
                        advanced.push_back((rows.after(row), occupied));
                    }
                    if node.now() >= until {
                        return Ok(has_advanced);
                    }
                }
            }
            if advanced.is_empty() {
                return Ok(has_advanced);
            }
            read = advanced;
        }
        self.next = node.now();
        Ok(true)
    }

    /// Takes schedules until their next steps write [`ROWS`] rows together. Returns these steps,
    /// and the schedules that are to be moved before.
    fn plan(
        &mut self,
        node: &Shared,
        read: &mut VecDeque<(ScheduleRow, Unfinished)>,
        now: Time,
    ) -> (Vec<Planned>, Vec<ScheduleRow>) {
        let (mut planned, mut moved, mut written) = (Vec::new(), Vec::new(), 0);
        while written < ROWS {
            let Some((row, occupied)) = read.pop_front() else { break };
            match zones::standing(&row, now, node.options.seldom()) {
                Standing::Same => {}
                Standing::Moved => {
                    moved.push(row);
                    continue;
                }
                Standing::Theirs => continue,
            }
            if let Some(step) = self.step(node, row, occupied, now) {
                written += step.rows.len();
                planned.push(step);
            }
        }
        (planned, moved)
    }

    /// Returns the next step of a schedule, if it has one now.
    fn step(
        &mut self,
        node: &Shared,
        row: ScheduleRow,
        occupied: Unfinished,
        now: Time,
    ) -> Option<Planned> {
        let rule = match &row.rule {
            Ok(rule) => rule,
            Err(why) => {
                // Written by a later version, or for a zone that this node lacks. It waits for a
                // node that can read it.
                node.counters.not_understood.add(1);
                trace::not_understood(&row.name, why);
                return None;
            }
        };
        let ahead = node.options.horizon();
        match plan(&rule.schedule, &rule.policies, row.id, row.next?, occupied, now, ahead) {
            Step::Wait(until) => {
                self.wake_at(node, until);
                None
            }
            Step::Advance(plan) => {
                let rows = Rows::new(&plan, &row, rule);
                Some(Planned { row, occupied, plan, rows })
            }
        }
    }

    /// Runs again when the database's clock shows `db`, if that is sooner.
    fn wake_at(&mut self, node: &Shared, db: Time) {
        if let Some(when) = node.lock().clock.when(db) {
            self.next = self.next.min(when);
        }
    }
}

/// A schedule as it was read, and its plan.
#[derive(Debug)]
struct Planned {
    row: ScheduleRow,
    occupied: Unfinished,
    plan: Plan,
    rows: Rows,
}

/// Makes the first of these steps. Returns the store's answers, one at least. If it refuses
/// something, that is the very first.
fn advance_first(store: &mut dyn Store, planned: &[Planned]) -> Result<Vec<Advanced>> {
    let all: Vec<Advance<'_>> = planned.iter().map(|step| step.rows.advance(&step.row)).collect();
    match store.advance_batch(&all) {
        Err(error) if all.len() > 1 && error.kind() == StoreErrorKind::Invalid => {
            Ok(vec![store.advance(&all[0])?])
        }
        answers => answers,
    }
}

/// Counts inserted timers, and caches timers in the node's shards. A timer in a lane is cached once
/// it is the front.
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
