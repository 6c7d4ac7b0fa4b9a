//! Plans: the timers and records of a schedule, as pure functions of the schedule and the time.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::id::{ScheduleId, TimerId};
use crate::policy::{Missed, Overlap, Policies, Retry};
use crate::record::{Outcome, Reason};
use crate::schedule::Schedule;
use crate::store::{Advance, NewTimer, ScheduleRow, Skip, Unfinished};
use crate::time::Time;

/// Most occurrences of one transaction.
const BATCH: usize = 500;

/// Marks a timer whose schedule has a queue.
const QUEUED: &str = ";queued";

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

/// Returns what is to be done at `now` about a schedule whose occurrences from `next` on are
/// neither timers nor recorded. Occurrences that come until `ahead` from now become timers already,
/// if nothing can change that.
pub(crate) fn plan(
    schedule: &Schedule,
    policies: &Policies,
    id: ScheduleId,
    next: Time,
    occupied: Unfinished,
    now: Time,
    ahead: Duration,
) -> Step {
    let counted = match policies.missed {
        Missed::CatchUp { max_count, .. } => max_count.min(COUNTED) as usize,
        Missed::Skip | Missed::Coalesce => 0,
    };
    let end = now + ahead;
    let all = std::iter::successors(Some(next), |last| schedule.next_after(*last));
    let mut found: Vec<Time> = all.take(BATCH + counted + 1).collect();
    // What lies past the window tells only that what is before it is the last.
    let within = found.iter().take_while(|at| **at <= end).count();
    found.truncate(within + 1);
    let due = found.iter().take_while(|at| **at <= now).count();

    let mut plan = Plan { next: Some(next), run: Vec::new(), skip: Vec::new(), only_idle: false };
    let mut line = Line { policies, id, occupied };
    for (place, at) in found.iter().enumerate().take(within.min(BATCH)) {
        if *at > now {
            if !line.take_coming(*at, &mut plan) {
                break;
            }
        } else {
            match missed(policies, *at, now, due - place - 1, counted) {
                Some(reason) => plan.skip.push((*at, reason)),
                None => line.take_due(*at, &mut plan),
            }
        }
        plan.next = found.get(place + 1).copied();
    }
    match plan.next {
        Some(same) if same == next => Step::Wait(if next > end { next - ahead } else { next }),
        _ => Step::Advance(plan),
    }
}

/// Returns the reason for which an occurrence of the past that `later` others follow until now does
/// not run, if there is one.
fn missed(
    policies: &Policies,
    at: Time,
    now: Time,
    later: usize,
    counted: usize,
) -> Option<Reason> {
    let is_on_time = later == 0 && now.since(at) <= policies.on_time_within;
    if is_on_time {
        return None;
    }
    match policies.missed {
        Missed::Skip => Some(Reason::Missed),
        Missed::Coalesce => (later > 0).then_some(Reason::Coalesced),
        Missed::CatchUp { max_age, .. } => {
            (later >= counted || now.since(at) > max_age).then_some(Reason::Missed)
        }
    }
}

/// The occurrences of one schedule that run, one after the other or side by side.
struct Line<'a> {
    policies: &'a Policies,
    id: ScheduleId,
    /// Occurrences in the database, and those that the plan adds.
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

    /// Takes an occurrence of the future, unless what becomes of it is open.
    fn take_coming(&mut self, at: Time, plan: &mut Plan) -> bool {
        if self.policies.overlap != Overlap::Allow {
            // A transaction for what is due already comes first, as that may make it busy.
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
    let mixed = TimerId::of_occurrence(id, at).bits() as u64 >> 6;
    Duration::from_micros(mixed % most.saturating_add(1))
}

/// The rows that a plan writes.
#[derive(Debug)]
pub(crate) struct Rows {
    from: Time,
    next: Option<Time>,
    only_idle: bool,
    timers: Vec<NewTimer>,
    skipped: Vec<Skip>,
}

impl Rows {
    /// The rows of `plan` for the schedule in `row`.
    pub(crate) fn new(plan: &Plan, row: &ScheduleRow, policies: &Policies) -> Self {
        let timer = |(at, due): &(Time, Time)| NewTimer {
            id: TimerId::of_occurrence(row.id, *at),
            schedule: Some(row.id),
            name: Some(row.name.clone()),
            kind: row.kind.clone(),
            scheduled_for: *at,
            due: *due,
            payload: row.payload.clone(),
            retry: retry_text(policies),
        };
        Self {
            from: row.next.unwrap_or(Time::NEVER),
            next: plan.next,
            only_idle: plan.only_idle,
            timers: plan.run.iter().map(timer).collect(),
            skipped: skips(&plan.skip, row.id, Outcome::Skipped),
        }
    }

    /// Returns what a store is asked to write.
    pub(crate) fn advance<'a>(&'a self, row: &ScheduleRow) -> Advance<'a> {
        Advance {
            schedule: row.id,
            version: row.version,
            from: self.from,
            next: self.next,
            timers: &self.timers,
            skipped: &self.skipped,
            only_idle: self.only_idle,
        }
    }

    /// The timers that are to be inserted.
    pub(crate) fn timers(&self) -> &[NewTimer] {
        &self.timers
    }
}

/// Returns what the timers of a schedule carry along: how they are tried again, and whether others
/// may wait for their end.
pub(crate) fn retry_text(policies: &Policies) -> String {
    match policies.overlap {
        Overlap::Queue { .. } => format!("{}{QUEUED}", policies.retry),
        Overlap::Allow | Overlap::Skip => policies.retry.to_string(),
    }
}

/// Returns how many occurrences may wait for one that is unfinished; `None` if they need not.
pub(crate) fn room(overlap: Overlap) -> Option<u32> {
    match overlap {
        Overlap::Allow => None,
        Overlap::Skip => Some(0),
        Overlap::Queue { at_most } => Some(at_most.max(1)),
    }
}

/// Returns how a timer is tried again.
pub(crate) fn retry_of(text: &str) -> Retry {
    text.strip_suffix(QUEUED).unwrap_or(text).parse().unwrap_or_default()
}

/// Returns whether others may wait for a timer's end.
pub(crate) fn is_queued(text: &str) -> bool {
    text.ends_with(QUEUED)
}

/// Records of occurrences that never were timers.
pub(crate) fn skips(
    skipped: &[(Time, Reason)],
    schedule: ScheduleId,
    outcome: Outcome,
) -> Vec<Skip> {
    let skip = |(at, reason): &(Time, Reason)| Skip {
        id: TimerId::of_occurrence(schedule, *at),
        scheduled_for: *at,
        outcome,
        reason: *reason,
    };
    skipped.iter().map(skip).collect()
}

/// The occurrences from `next` until `now` that are to be recorded when a schedule changes, at most
/// a batch of them, and the first that is left.
pub(crate) fn backlog(
    schedule: &Schedule,
    next: Option<Time>,
    now: Time,
    reason: Reason,
) -> (Vec<(Time, Reason)>, Option<Time>) {
    let mut all = std::iter::successors(next, |last| schedule.next_after(*last)).peekable();
    let mut found = Vec::new();
    while found.len() < BATCH {
        match all.next_if(|at| *at <= now) {
            Some(at) => found.push((at, reason)),
            None => break,
        }
    }
    (found, all.next())
}
