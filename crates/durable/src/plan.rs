//! Plans: the timers and records of a schedule, as pure functions of the schedule and the time.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::id::{ScheduleId, TimerId};
use crate::policy::{Missed, Overlap, Policies};
use crate::record::{Outcome, Reason};
use crate::rule::Rule;
use crate::schedule::Schedule;
use crate::store::{Advance, NewTimer, ScheduleRow, Skip, Unfinished, Wall};
use crate::time::Time;

/// Most occurrences of one transaction.
const BATCH: usize = 500;

/// The most that catching up counts to.
const COUNTED: u64 = 10_000;

/// Changes to a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Its next occurrence afterwards.
    pub(crate) next: Option<Time>,
    /// The occurrences that are to run, each with when it is due.
    pub(crate) run: Vec<(Time, Time)>,
    /// The occurrences that are not to, and why.
    pub(crate) skip: Vec<(Time, Reason)>,
    /// True if it holds only while nothing of the schedule is unfinished.
    pub(crate) only_idle: bool,
}

/// Next step for a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This, and then ask again.
    Advance(Plan),
    /// Nothing before this time.
    Wait(Time),
}

/// Plans the occurrences of a schedule from `next` on, at `now`; they are neither timers nor
/// recorded yet. Occurrences until `ahead` from now become timers already, unless something may
/// still change them.
pub(crate) fn plan(
    schedule: &Schedule,
    policies: &Policies,
    id: ScheduleId,
    next: Time,
    occupied: Unfinished,
    now: Time,
    ahead: Duration,
) -> Step {
    let mut missed = policies.missed;
    if let Missed::CatchUp { max_count, .. } = &mut missed {
        *max_count = COUNTED.min(*max_count);
    }
    let end = now + ahead;
    let mut found: Vec<Time> = schedule.all_from(Some(next)).take(BATCH + 1).collect();
    let due = due(schedule, missed, &found, now);
    // An occurrence past the window only shows that the one before it is the last.
    let within = found.iter().take_while(|at| **at <= end).count();
    found.truncate(within + 1);
    // If there are more than were looked for, none of a batch runs, whatever the newest is.
    let is_on_time = due.last().is_some_and(|last| now.since(*last) <= policies.on_time_within);
    let mut later = due.len() as u64;

    let mut plan = Plan { next: Some(next), run: Vec::new(), skip: Vec::new(), only_idle: false };
    let mut line = Line { policies, id, occupied };
    for (place, at) in found.iter().enumerate().take(within.min(BATCH)) {
        let is_excluded = schedule.excludes(*at);
        if *at > now {
            // It is recorded once it is due: until then the window may be changed.
            if is_excluded || !line.take_coming(*at, &mut plan) {
                break;
            }
        } else if is_excluded {
            plan.skip.push((*at, Reason::Excluded));
        } else {
            later -= 1;
            if missed.runs(later, now.since(*at), is_on_time) {
                line.take_due(*at, &mut plan);
            } else {
                plan.skip.push((*at, reason(missed)));
            }
        }
        plan.next = found.get(place + 1).copied();
    }
    match plan.next {
        Some(same) if same == next => Step::Wait(if next > end { next - ahead } else { next }),
        _ => Step::Advance(plan),
    }
}

/// Returns the due occurrences among those found and, if all are due, among as many further ones as
/// the policy counts. An excluded one was not missed, and makes no other late.
fn due(schedule: &Schedule, missed: Missed, found: &[Time], now: Time) -> Vec<Time> {
    let is_due = |at: &Time| *at <= now;
    let mut due: Vec<Time> = found.iter().copied().take_while(is_due).collect();
    if due.len() > BATCH {
        let counted = match missed {
            Missed::CatchUp { max_count, .. } => max_count as usize,
            Missed::Skip | Missed::Coalesce => 0,
        };
        let later = schedule.occurrences(due[BATCH]).take_while(is_due);
        due.extend(later.take(counted + 1));
    }
    due.retain(|at| !schedule.excludes(*at));
    due
}

/// Returns the reason recorded for occurrences that the policy skips.
fn reason(missed: Missed) -> Reason {
    match missed {
        Missed::Coalesce => Reason::Coalesced,
        Missed::Skip | Missed::CatchUp { .. } => Reason::Missed,
    }
}

/// The occurrences of one schedule that run, one after the other or side by side.
struct Line<'a> {
    policies: &'a Policies,
    id: ScheduleId,
    /// Occurrences in the database, and the plan's own.
    occupied: Unfinished,
}

impl Line<'_> {
    fn is_idle(&self) -> bool {
        self.occupied.unfinished == 0 && self.occupied.queued == 0
    }

    fn run(&mut self, at: Time, plan: &mut Plan) {
        self.occupied.unfinished += 1;
        plan.run.push((at, at + jitter(self.policies.jitter, self.id, at)));
    }

    /// Takes a future occurrence, unless its fate is still open.
    fn take_coming(&mut self, at: Time, plan: &mut Plan) -> bool {
        if self.policies.overlap != Overlap::Allow {
            // A transaction for the due occurrences comes first: it may make the schedule busy.
            if !self.is_idle() {
                return false;
            }
            plan.only_idle = true;
        }
        self.run(at, plan);
        true
    }

    fn take_due(&mut self, at: Time, plan: &mut Plan) {
        match self.policies.overlap {
            Overlap::Allow => self.run(at, plan),
            Overlap::Skip | Overlap::Queue { .. } if self.is_idle() => {
                plan.only_idle = true;
                self.run(at, plan);
            }
            Overlap::Queue { at_most } if self.occupied.queued < at_most.max(1) => {
                self.occupied.queued += 1;
                plan.run.push((at, Time::NEVER));
            }
            Overlap::Skip | Overlap::Queue { .. } => plan.skip.push((at, Reason::Overlap)),
        }
    }
}

/// Returns how much later than scheduled an occurrence is due: the same on every node.
fn jitter(most: Duration, id: ScheduleId, at: Time) -> Duration {
    let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
    if most == 0 {
        return Duration::ZERO;
    }
    // The lowest bits are the shard and the place.
    let mixed = TimerId::of_occurrence(id, at).bits() as u64 >> 16;
    Duration::from_micros(mixed % most.saturating_add(1))
}

/// The rows that a plan writes.
#[derive(Debug)]
pub(crate) struct Rows {
    from: Time,
    next: Option<Time>,
    wall: Option<Wall>,
    only_idle: bool,
    timers: Vec<NewTimer>,
    skipped: Vec<Skip>,
}

impl Rows {
    /// The rows of `plan` for the schedule in `row`, which has this rule.
    pub(crate) fn new(plan: &Plan, row: &ScheduleRow, rule: &Rule) -> Self {
        let timer = |(at, due): &(Time, Time)| NewTimer {
            due: *due,
            ..NewTimer::occurrence(row, &rule.policies, *at)
        };
        Self {
            from: row.next.unwrap_or(Time::NEVER),
            next: plan.next,
            wall: plan.next.and_then(|next| rule.schedule.wall(next)),
            only_idle: plan.only_idle,
            timers: plan.run.iter().map(timer).collect(),
            skipped: skips(&plan.skip, row.id),
        }
    }

    /// Returns the request to a store.
    pub(crate) fn advance<'a>(&'a self, row: &ScheduleRow) -> Advance<'a> {
        Advance {
            schedule: row.id,
            version: row.version,
            from: self.from,
            next: self.next,
            wall: self.wall.as_ref(),
            timers: &self.timers,
            skipped: &self.skipped,
            only_idle: self.only_idle,
        }
    }

    /// Returns the row that the schedule in `row` becomes.
    pub(crate) fn after(self, row: ScheduleRow) -> ScheduleRow {
        ScheduleRow { next: self.next, wall: self.wall, ..row }
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.timers.len() + self.skipped.len()
    }

    /// The timers that are to be inserted.
    pub(crate) fn timers(&self) -> &[NewTimer] {
        &self.timers
    }
}

/// Returns how many occurrences may wait while another is unfinished; `None` if they need not wait.
pub(crate) fn room(overlap: Overlap) -> Option<u32> {
    match overlap {
        Overlap::Allow => None,
        Overlap::Skip => Some(0),
        Overlap::Queue { at_most } => Some(at_most.max(1)),
    }
}

/// Records of occurrences that never were timers.
fn skips(skipped: &[(Time, Reason)], schedule: ScheduleId) -> Vec<Skip> {
    let skip = |(at, reason): &(Time, Reason)| Skip {
        id: TimerId::of_occurrence(schedule, *at),
        scheduled_for: *at,
        outcome: outcome(*reason),
        reason: *reason,
    };
    skipped.iter().map(skip).collect()
}

/// Returns the outcome of an occurrence that never was a timer, by its reason.
fn outcome(reason: Reason) -> Outcome {
    match reason {
        Reason::Missed | Reason::Coalesced | Reason::Overlap | Reason::Excluded => Outcome::Skipped,
        _ => Outcome::Cancelled,
    }
}

/// Returns the records for the occurrences from `next` until `now` when a schedule changes, at most
/// a batch of them, and the first occurrence that is left. Excluded ones are recorded as such.
fn backlog(
    schedule: &Schedule,
    next: Option<Time>,
    now: Time,
    reason: Reason,
) -> (Vec<(Time, Reason)>, Option<Time>) {
    let mut all = schedule.all_from(next).peekable();
    let reason = |at: Time| if schedule.excludes(at) { Reason::Excluded } else { reason };
    let mut found = Vec::new();
    while found.len() < BATCH {
        match all.next_if(|at| *at <= now) {
            Some(at) => found.push((at, reason(at))),
            None => break,
        }
    }
    (found, all.next())
}

/// Returns the records of occurrences of `old` that were due until `now`, when the schedule stops
/// for `reason`. If one transaction cannot record them all, it also returns the row for the time in
/// between. Of a schedule that cannot be read, it is the next occurrence alone: stopping needs no
/// rule.
pub(crate) fn stop(
    old: &ScheduleRow,
    now: Time,
    reason: Reason,
) -> (Vec<Skip>, Option<ScheduleRow>) {
    let (due, rest) = match &old.rule {
        Ok(rule) => backlog(&rule.schedule, old.next, now, reason),
        Err(_) => {
            let due = old.next.filter(|next| *next <= now);
            (due.map(|next| (next, reason)).into_iter().collect(), None)
        }
    };
    let first = rest.filter(|rest| *rest <= now);
    (skips(&due, old.id), first.map(|rest| old.clone().with_next(Some(rest))))
}
