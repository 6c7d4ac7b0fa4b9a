//! What died, made again.

use super::schedules::{Tried, attempt};
use super::{Client, Request, insert_all};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::TimerId;
use crate::plan::room;
use crate::policy::Policies;
use crate::record::{Outcome, Record};
use crate::store::{Filter, NewTimer, Occur, Occurred, Result, ScheduleRow, Store};

/// What became of [`Client::revive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revived {
    /// It is made again; the new timer's id.
    Done(TimerId),
    /// It is not over, or it did not end so.
    NotDead,
    /// It is not known, or of before records kept payloads.
    Gone,
    /// Its schedule is disabled.
    Disabled,
    /// Another of its schedule is unfinished, and must not be overlapped.
    Busy,
}

impl Client {
    /// Makes a [dead](Outcome::Dead) timer again, with its payload, due now.
    ///
    /// If its schedule is there, the new timer is an occurrence of it, scheduled for now, which its
    /// overlap policy applies to; a disabled schedule gets none. Otherwise it belongs to no
    /// schedule, and has no name. What died keeps its record, and can be made again once: a repeat
    /// makes nothing, and answers with the same id.
    ///
    /// # Errors
    ///
    /// If the error is [`Uncertain`](StoreErrorKind::Uncertain), it may be made. It can be
    /// repeated.
    pub async fn revive(&self, timer: TimerId) -> Result<Revived> {
        let (revived, made) = self.call(move |store| revive(store, timer)).await?;
        if let Some(timer) = made {
            self.send(Request::Made(timer));
        }
        Ok(revived)
    }
}

/// Makes a dead timer again. With the answer comes the timer, if this call made it.
pub(crate) fn revive(store: &mut dyn Store, dead: TimerId) -> Result<(Revived, Option<NewTimer>)> {
    attempt(|| {
        let filter = Filter { timer: Some(dead), ..Filter::default() };
        let Some(record) = store.records(&filter)?.pop() else {
            let is_there = !store.timers(&filter)?.is_empty();
            let revived = if is_there { Revived::NotDead } else { Revived::Gone };
            return Ok(Tried::Done((revived, None)));
        };
        if record.outcome != Outcome::Dead {
            return Ok(Tried::Done((Revived::NotDead, None)));
        }
        let Record { schedule, name, kind, payload: Some(payload), retry: Some(retry), .. } =
            record
        else {
            return Ok(Tried::Done((Revived::Gone, None)));
        };
        let (now, row) = store.schedule(name.as_deref().unwrap_or_default())?;
        let row = row.filter(|row| Some(row.id) == schedule);
        let timer = NewTimer {
            id: TimerId::of_revival(dead),
            schedule: row.as_ref().map(|row| row.id),
            name: row.as_ref().map(|row| row.name.clone()),
            kind,
            scheduled_for: now,
            due: now,
            payload,
            retry,
        };
        match row {
            Some(row) => of_schedule(store, &row, timer),
            None => {
                insert_all(store, std::slice::from_ref(&timer))?;
                Ok(Tried::Done((Revived::Done(timer.id), Some(timer))))
            }
        }
    })
}

fn of_schedule(
    store: &mut dyn Store,
    row: &ScheduleRow,
    timer: NewTimer,
) -> Result<Tried<(Revived, Option<NewTimer>)>> {
    if !row.enabled {
        return Ok(Tried::Done((Revived::Disabled, None)));
    }
    let policies: Policies =
        row.policies.parse().map_err(|error| StoreError::new(StoreErrorKind::Invalid, error))?;
    let (version, queue) = (row.version, room(policies.overlap));
    let done = Revived::Done(timer.id);
    Ok(match store.occur(&Occur { timer: &timer, version, queue })? {
        Occurred::Done { due } => Tried::Done((done, Some(NewTimer { due, ..timer }))),
        Occurred::Exists => Tried::Done((done, None)),
        Occurred::Stale => Tried::Stale,
        Occurred::Busy => Tried::Done((Revived::Busy, None)),
    })
}
