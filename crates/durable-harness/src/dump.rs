//! The final tables, as lines of a log.

use tourbillon_durable::store::{RecordQuery, TimerQuery};
use tourbillon_durable::{Outcome, Reason, Store};

use crate::Result;
use crate::log::{Ended, Line, Log};

/// Rows that are read at a time.
const PAGE: u32 = 1_000;

/// Writes all timers and records to the log.
pub(crate) fn dump(store: &mut dyn Store, log: &Log) -> Result<()> {
    each_timer(store, |line| log.write(&line))?;
    let mut query = RecordQuery::new().limit(PAGE);
    loop {
        let records = store.records(&query)?;
        let Some(last) = records.last() else { return Ok(()) };
        query = query.after(last.recorded, last.timer);
        for record in records {
            let ended = ended(record.outcome, record.reason)?;
            log.write(&Line::Record {
                timer: record.timer,
                scheduled: record.schedule.is_some(),
                name: record.name.unwrap_or_else(|| "-".to_owned()),
                scheduled_for: record.scheduled_for,
                attempts: record.attempts,
                ended,
                node: record.node,
                recorded: record.recorded,
            });
        }
    }
}

/// Calls `f` with each timer's line.
pub(crate) fn each_timer(store: &mut dyn Store, mut f: impl FnMut(Line)) -> Result<()> {
    let mut query = TimerQuery::new().limit(PAGE);
    loop {
        let timers = store.timers(&query)?;
        let Some(last) = timers.last() else { return Ok(()) };
        query = query.after(last.new.due, last.new.id);
        for timer in timers {
            f(Line::Timer {
                timer: timer.new.id,
                name: timer.new.name.unwrap_or_else(|| "-".to_owned()),
                scheduled: timer.new.schedule.is_some(),
                scheduled_for: timer.new.scheduled_for,
                due: timer.new.due,
                attempt: timer.attempt,
            });
        }
    }
}

/// Returns how an occurrence has ended.
fn ended(outcome: Outcome, reason: Option<Reason>) -> Result<Ended> {
    Ok(match (outcome, reason) {
        (Outcome::Succeeded, None) => Ended::Succeeded,
        (Outcome::Dead, Some(Reason::Failed)) => Ended::Dead,
        (Outcome::Dead, Some(Reason::GivenUp)) => Ended::GivenUp,
        (Outcome::Skipped, Some(Reason::Missed | Reason::Coalesced)) => Ended::Missed,
        (Outcome::Skipped, Some(Reason::Overlap)) => Ended::Overlap,
        (Outcome::Cancelled, Some(Reason::Cancelled)) => Ended::Cancelled,
        (
            Outcome::Cancelled,
            Some(Reason::Disabled | Reason::Paused | Reason::Replaced | Reason::Removed),
        ) => Ended::TimerUpdate,
        (outcome, reason) => return Err(format!("{outcome} because of {reason:?}?").into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_makes_no_sense_is_refused() {
        ended(Outcome::Succeeded, Some(Reason::Failed)).unwrap_err();
        ended(Outcome::Dead, Some(Reason::Paused)).unwrap_err();
        ended(Outcome::Dead, None).unwrap_err();
    }
}
