//! Rows and their types; and the history.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Row, params};

use super::Tx;
use crate::id::{Lease, NodeId, ScheduleId, TimerId};
use crate::record::{Outcome, Reason, Record};
use crate::store::{Filter, NewTimer, ScheduleRow, Timer};
use crate::time::Time;

macro_rules! blob {
    ($($id:ident)*) => {$(
        impl ToSql for $id {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.bits().to_be_bytes().to_vec().into())
            }
        }

        impl FromSql for $id {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                <[u8; 16]>::column_result(value).map(|bytes| {
                    Self::from_bits(u128::from_be_bytes(bytes))
                })
            }
        }
    )*};
}

blob!(TimerId ScheduleId NodeId);

impl ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_micros().into())
    }
}

impl FromSql for Time {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(Self::from_micros)
    }
}

/// The columns that [`timer`] reads.
pub(super) const TIMER: &str = "id, schedule, name, kind, scheduled_for, due, payload, retry, \
     attempt, failures, owner, epoch";

pub(super) fn timer(row: &Row<'_>) -> rusqlite::Result<Timer> {
    let new = NewTimer {
        id: row.get(0)?,
        schedule: row.get(1)?,
        name: row.get(2)?,
        kind: row.get(3)?,
        scheduled_for: row.get(4)?,
        due: row.get(5)?,
        payload: row.get(6)?,
        retry: row.get(7)?,
    };
    let owner: Option<NodeId> = row.get(10)?;
    let running = match owner {
        Some(node) => Some(Lease { node, epoch: row.get(11)? }),
        None => None,
    };
    Ok(Timer { new, attempt: row.get(8)?, failures: row.get(9)?, running })
}

/// The columns that [`schedule`] reads.
pub(super) const SCHEDULE: &str = "id, name, kind, spec, policies, payload, enabled, version, next";

pub(super) fn schedule(row: &Row<'_>) -> rusqlite::Result<ScheduleRow> {
    Ok(ScheduleRow {
        id: row.get(0)?,
        name: row.get(1)?,
        kind: row.get(2)?,
        spec: row.get(3)?,
        policies: row.get(4)?,
        payload: row.get(5)?,
        enabled: row.get(6)?,
        version: row.get(7)?,
        next: row.get(8)?,
    })
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let (outcome, reason): (i16, Option<i16>) = (row.get(7)?, row.get(8)?);
    let unknown = |code| rusqlite::Error::IntegralValueOutOfRange(7, i64::from(code));
    Ok(Record {
        timer: row.get(0)?,
        schedule: row.get(1)?,
        name: row.get(2)?,
        kind: row.get(3)?,
        scheduled_for: row.get(4)?,
        attempts: row.get(5)?,
        failures: row.get(6)?,
        outcome: Outcome::from_code(outcome).ok_or_else(|| unknown(outcome))?,
        reason: reason.and_then(Reason::from_code),
        detail: row.get(9)?,
        node: row.get(10)?,
        recorded: row.get(11)?,
    })
}

/// Records what becomes of a timer that is about to be deleted.
pub(super) fn record_timer(
    tx: &Tx<'_>,
    timer: TimerId,
    outcome: Outcome,
    reason: Option<Reason>,
    detail: &str,
) -> rusqlite::Result<()> {
    let dead = outcome == Outcome::Dead;
    let mut insert = tx.tx.prepare_cached(
        "INSERT INTO tourbillon_history
         SELECT ?, id, schedule, name, kind, scheduled_for, attempt, failures + ?, ?, ?, ?, owner
         FROM tourbillon_timer WHERE id = ?",
    )?;
    let reason = reason.map(Reason::code);
    insert.execute(params![tx.now, dead, outcome.code(), reason, detail, timer])?;
    Ok(())
}

pub(super) fn records(tx: &Tx<'_>, filter: &Filter) -> rusqlite::Result<Vec<Record>> {
    let (recorded, after) =
        filter.after_record.unwrap_or((Time::from_micros(i64::MIN), TimerId::from_bits(0)));
    let mut select = tx.tx.prepare_cached(
        "SELECT timer, schedule, name, kind, scheduled_for, attempts, failures, outcome, reason,
             detail, node, recorded
         FROM tourbillon_history
         WHERE (recorded, timer) > (?1, ?2)
             AND (?3 IS NULL OR kind = ?3) AND (?4 IS NULL OR name = ?4)
             AND (?5 IS NULL OR schedule = ?5) AND (?6 IS NULL OR timer = ?6)
         ORDER BY recorded, timer LIMIT ?7",
    )?;
    let Filter { kind, name, schedule, timer, .. } = filter;
    let found = select.query_map(
        params![recorded, after, kind, name, schedule, timer, filter.limit() as i64],
        record,
    )?;
    found.collect()
}

pub(super) fn prune(tx: &Tx<'_>, before: Time, limit: u32) -> rusqlite::Result<u64> {
    let mut delete = tx.tx.prepare_cached(
        "DELETE FROM tourbillon_history WHERE (recorded, timer) IN (
             SELECT recorded, timer FROM tourbillon_history WHERE recorded < ? LIMIT ?)",
    )?;
    Ok(delete.execute(params![before, limit])? as u64)
}
