//! Values as SQLite keeps them, and rows as they come back.

use std::time::Duration;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Result, Row};

use crate::id::{Lease, NodeId, ScheduleId, TimerId};
use crate::policy::Retry;
use crate::record::{Outcome, Reason, Record};
use crate::rule::Rule;
use crate::store::{NewTimer, ScheduleRow, Timer};
use crate::time::Time;

/// A blob of 16 bytes, the highest first: blobs and ids sort alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id([u8; 16]);

impl ToSql for Id {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(&self.0)))
    }
}

impl FromSql for Id {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes = value.as_blob()?;
        bytes.try_into().map(Self).map_err(|_| FromSqlError::InvalidType)
    }
}

macro_rules! id {
    ($($name:ident)*) => {
        $(
            impl From<$name> for Id {
                fn from(id: $name) -> Self {
                    Self(id.bits().to_be_bytes())
                }
            }

            impl From<Id> for $name {
                fn from(id: Id) -> Self {
                    Self::from_bits(u128::from_be_bytes(id.0))
                }
            }
        )*
    };
}

id!(TimerId ScheduleId NodeId);

impl From<u128> for Id {
    fn from(bits: u128) -> Self {
        Self(bits.to_be_bytes())
    }
}

/// Microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(pub(super) Time);

impl ToSql for Stamp {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.0.as_micros().into())
    }
}

impl FromSql for Stamp {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Time::from_micros).map(Self)
    }
}

/// A count that SQLite keeps signed; none gets so high that it does not fit.
pub(super) fn big(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A lease as two columns.
pub(super) fn parts(lease: Lease) -> (Id, i64) {
    (lease.node.into(), big(lease.epoch))
}

/// A span as SQLite keeps it: in microseconds, rounded up.
pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

fn span(row: &Row<'_>, column: usize) -> Result<Duration> {
    count(row, column).map(Duration::from_micros)
}

/// The columns of a timer, as [`timer`] reads them.
macro_rules! timer_columns {
    () => {
        "id, schedule, name, kind, scheduled_for, due, payload, retry_attempts, retry_first, \
         retry_longest, has_queue, attempt, failures, node, epoch, detail, version, lane"
    };
}
pub(super) use timer_columns;

pub(super) fn timer(row: &Row<'_>) -> Result<Timer> {
    let node: Option<Id> = row.get(13)?;
    let running = match node {
        Some(node) => Some(Lease { node: node.into(), epoch: count(row, 14)? }),
        None => None,
    };
    let new = NewTimer {
        id: row.get::<_, Id>(0)?.into(),
        schedule: row.get::<_, Option<Id>>(1)?.map(ScheduleId::from),
        name: row.get(2)?,
        kind: row.get(3)?,
        scheduled_for: row.get::<_, Stamp>(4)?.0,
        due: row.get::<_, Stamp>(5)?.0,
        payload: row.get(6)?,
        retry: Retry::new(row.get(7)?, span(row, 8)?, span(row, 9)?),
        has_queue: row.get(10)?,
        lane: row.get(17)?,
    };
    let (attempt, failures, detail) = (row.get(11)?, row.get(12)?, row.get(15)?);
    Ok(Timer { new, attempt, failures, detail, running, version: count(row, 16)? })
}

/// The columns of a schedule, as [`schedule`] reads them.
macro_rules! schedule_columns {
    () => {
        "id, name, kind, spec, policies, payload, enabled, version, next, paused, lane, wall"
    };
}
pub(super) use schedule_columns;

pub(super) fn schedule(row: &Row<'_>) -> Result<ScheduleRow> {
    let (schedule, policies): (String, String) = (row.get(3)?, row.get(4)?);
    Ok(ScheduleRow {
        id: row.get::<_, Id>(0)?.into(),
        name: row.get(1)?,
        kind: row.get(2)?,
        rule: Rule::from_text(&schedule, &policies),
        payload: row.get(5)?,
        enabled: row.get(6)?,
        version: count(row, 7)?,
        next: row.get::<_, Option<Stamp>>(8)?.map(|stamp| stamp.0),
        paused: row.get::<_, Option<Stamp>>(9)?.map(|stamp| stamp.0),
        lane: row.get(10)?,
        wall: row.get::<_, Option<String>>(11)?.and_then(|wall| wall.parse().ok()),
    })
}

/// The columns of a record, as [`record`] reads them.
macro_rules! record_columns {
    () => {
        "timer, schedule, name, kind, scheduled_for, attempts, failures, outcome, reason, detail, \
         node, recorded, payload, retry_attempts, retry_first, retry_longest, lane"
    };
}
pub(super) use record_columns;

pub(super) fn record(row: &Row<'_>) -> Result<Record> {
    let attempts: Option<u32> = row.get(13)?;
    Ok(Record {
        timer: row.get::<_, Id>(0)?.into(),
        schedule: row.get::<_, Option<Id>>(1)?.map(ScheduleId::from),
        name: row.get(2)?,
        kind: row.get(3)?,
        scheduled_for: row.get::<_, Stamp>(4)?.0,
        attempts: row.get(5)?,
        failures: row.get(6)?,
        outcome: outcome(row, 7)?,
        reason: reason(row, 8)?,
        detail: row.get(9)?,
        payload: row.get(12)?,
        retry: match attempts {
            Some(attempts) => Some(Retry::new(attempts, span(row, 14)?, span(row, 15)?)),
            None => None,
        },
        lane: row.get(16)?,
        node: row.get::<_, Option<Id>>(10)?.map(NodeId::from),
        recorded: row.get::<_, Stamp>(11)?.0,
    })
}

pub(super) fn outcome(row: &Row<'_>, column: usize) -> Result<Outcome> {
    known(row.get(column)?, column, Outcome::from_code)
}

pub(super) fn reason(row: &Row<'_>, column: usize) -> Result<Option<Reason>> {
    let code: Option<i16> = row.get(column)?;
    code.map(|code| known(code, column, Reason::from_code)).transpose()
}

/// Reads a code. An unknown code, which a later build may have written, is an error.
fn known<T>(code: i16, column: usize, from: impl Fn(i16) -> Option<T>) -> Result<T> {
    from(code).ok_or(rusqlite::Error::IntegralValueOutOfRange(column, code.into()))
}

pub(super) fn count(row: &Row<'_>, column: usize) -> Result<u64> {
    Ok(row.get::<_, i64>(column)?.unsigned_abs())
}
