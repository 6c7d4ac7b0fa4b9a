//! What a schedule leaves behind that stops, or is given other times: records.

use super::{ScheduleRow, Skip};
use crate::id::{ScheduleId, TimerId};
use crate::record::{Outcome, Reason};
use crate::schedule::Schedule;
use crate::time::Time;
use crate::trace;

/// Most occurrences of one transaction.
pub(crate) const BATCH: usize = 500;

/// Records of occurrences that never were timers.
pub(crate) fn skips(skipped: &[(Time, Reason)], schedule: ScheduleId) -> Vec<Skip> {
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

/// The occurrences from `next` until `now` that are to be recorded when a schedule changes, at most
/// a batch of them, and the first that is left. Those that are excluded have that reason.
pub(crate) fn backlog(
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

/// Returns how many ends of a schedule's attempts decide whether it is paused, the newest first;
/// `None` if it is not to be.
pub(super) fn deaths_to_pause(row: &ScheduleRow) -> Option<u32> {
    let rule = row.rule.as_ref().ok().filter(|_| row.enabled)?;
    rule.policies.pause_after.map(|deaths| deaths.max(1))
}

/// Returns a schedule that is paused until it is enabled, and the records of what was due. `None`
/// if that is too much for one transaction: then the node that plans is far behind, and a later
/// death pauses the schedule.
pub(super) fn paused(row: &ScheduleRow, now: Time) -> Option<(ScheduleRow, Vec<Skip>)> {
    let schedule = &row.rule.as_ref().ok()?.schedule;
    let (due, rest) = backlog(schedule, row.next, now, Reason::Paused);
    if rest.is_some_and(|rest| rest <= now) {
        return None;
    }
    trace::paused(&row.name);
    let paused = Some(Time::NEVER);
    let row = ScheduleRow { enabled: false, next: None, paused, ..row.clone() };
    let skipped = skips(&due, row.id);
    Some((row, skipped))
}
