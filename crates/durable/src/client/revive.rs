//! Dead timers, made again.

use super::queue::Notifiable;
use super::run_now::{RunNow, insert_occurrence};
use super::schedules::{Tried, attempt};
use super::{Client, insert_all, repeat};
use crate::id::TimerId;
use crate::record::{Outcome, Record};
use crate::store::{Inserted, NewTimer, RecordQuery, Result, Store, TimerQuery};

/// Result of [`Client::revive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revival {
    /// The timer is made again; its new id.
    Done(TimerId),
    /// The timer is not over, or it did not end so.
    NotDead,
    /// The timer is not known, or its record has no payload.
    Gone,
    /// Its schedule is disabled.
    Disabled,
    /// Its schedule was removed, which takes it back for good.
    Removed,
    /// Another of its schedule is unfinished, and must not be overlapped.
    Busy,
}

impl From<RunNow> for Revival {
    fn from(ran: RunNow) -> Self {
        match ran {
            RunNow::Done(timer) => Self::Done(timer),
            RunNow::Busy => Self::Busy,
            RunNow::Disabled => Self::Disabled,
            RunNow::Gone => Self::Gone,
        }
    }
}

impl Client {
    /// Makes a [dead](Outcome::Dead) timer again, with its payload, due now.
    ///
    /// If the dead timer belonged to a schedule, the new timer is an occurrence of that schedule,
    /// scheduled for now and subject to its overlap policy; a schedule that is disabled or was
    /// removed gets none. If it belonged to none, the new timer has its name, unless another timer
    /// has it. The dead timer keeps its record, and can be revived once: a repeat makes nothing,
    /// and answers with the same id, [`TimerId::of_revival`], even if the new timer is over.
    ///
    /// # Errors
    ///
    /// If the error is [`Uncertain`](crate::StoreErrorKind::Uncertain), it may be made. It can be
    /// repeated.
    pub async fn revive(&self, timer: TimerId) -> Result<Revival> {
        let (revived, made) = self.call(move |store| revive(store, timer)).await?;
        if let Some(timer) = made {
            self.notify(Notifiable::Made(timer));
        }
        Ok(revived)
    }
}

/// Makes a dead timer again. With the answer comes the timer, if this call made it.
pub(crate) fn revive(store: &mut dyn Store, dead: TimerId) -> Result<(Revival, Option<NewTimer>)> {
    attempt(|| {
        let Some(record) = store.records(&RecordQuery::new().timer(dead))?.pop() else {
            let is_there = !store.timers(&TimerQuery::new().timer(dead))?.is_empty();
            let revived = if is_there { Revival::NotDead } else { Revival::Gone };
            return Ok(Tried::Done((revived, None)));
        };
        if record.outcome != Outcome::Dead {
            return Ok(Tried::Done((Revival::NotDead, None)));
        }
        let Record {
            schedule, name, kind, lane, payload: Some(payload), retry: Some(retry), ..
        } = record
        else {
            return Ok(Tried::Done((Revival::Gone, None)));
        };
        let (now, row) = store.schedule(name.as_deref().unwrap_or_default())?;
        let row = row.filter(|row| Some(row.id) == schedule);
        if schedule.is_some() && row.is_none() {
            return Ok(Tried::Done((Revival::Removed, None)));
        }
        let mut timer = NewTimer {
            id: TimerId::of_revival(dead),
            schedule: row.as_ref().map(|row| row.id),
            name,
            kind,
            scheduled_for: now,
            due: now,
            payload,
            retry,
            has_queue: false,
            lane: row.as_ref().map_or(lane, |row| row.lane.clone()),
        };
        match row {
            Some(row) => {
                Ok(insert_occurrence(store, &row, timer)?.map(|(ran, made)| (ran.into(), made)))
            }
            None => {
                let inserted = repeat(|| insert_all(store, std::slice::from_ref(&timer)))?;
                if matches!(inserted[..], [Inserted::Exists(other)] if other != timer.id) {
                    timer.name = None;
                    repeat(|| insert_all(store, std::slice::from_ref(&timer)))?;
                }
                Ok(Tried::Done((Revival::Done(timer.id), Some(timer))))
            }
        }
    })
}
