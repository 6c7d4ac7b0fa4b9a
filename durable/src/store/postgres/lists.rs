//! Lists: timers and records by what they are of. Put together by what is asked for, so that each
//! is answered from the index that it has.

use std::fmt::Write;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::link::{Answer, Failure, Query, Session};
use super::timers::{columns, timer};
use super::values::{Id, Stamp};
use crate::error::{StoreError, StoreErrorKind};
use crate::record::{Outcome, Reason, Record};
use crate::store::{Filter, Timer};
use crate::time::Time;

/// A statement and its parameters.
pub(super) struct List<'a> {
    sql: String,
    params: Vec<&'a (dyn ToSql + Sync)>,
}

impl<'a> List<'a> {
    pub(super) fn new(select: &str) -> Self {
        Self { sql: format!("{select} WHERE true"), params: Vec::new() }
    }

    /// Adds a condition; `$` in it stands for `value`.
    pub(super) fn only(&mut self, condition: &str, value: Option<&'a (impl ToSql + Sync)>) {
        if let Some(value) = value {
            self.params.push(value);
            let place = format!("${}", self.params.len());
            let _ = write!(self.sql, " AND {}", condition.replace('$', &place));
        }
    }

    pub(super) async fn read(
        mut self,
        session: &Session,
        order: &str,
        limit: &'a i64,
    ) -> Answer<Vec<Row>> {
        self.params.push(limit);
        let _ = write!(self.sql, " ORDER BY {order} LIMIT ${}", self.params.len());
        session.read_once(&self.sql, &self.params).await
    }
}

pub(super) async fn timers(session: &Session, filter: &Filter) -> Answer<Vec<Timer>> {
    let schedule = filter.schedule.map(Id::from);
    let (id, after) = (filter.timer.map(Id::from), filter.after.map(Id));
    let limit = filter.limit() as i64;
    let mut list = List::new(concat!("SELECT ", columns!(), " FROM tourbillon.timer"));
    list.only("kind = $", filter.kind.as_ref());
    list.only("name = $", filter.name.as_ref());
    list.only("schedule = $", schedule.as_ref());
    list.only("id = $", id.as_ref());
    list.only("id > $", after.as_ref());
    list.read(session, "id", &limit).await?.iter().map(|row| timer(row, 0)).collect()
}

const RECORDS: &str = "
    SELECT timer, schedule, name, kind, scheduled_for, attempts, failures, outcome, reason, detail,
           node, recorded
    FROM tourbillon.history";

pub(super) async fn records(session: &Session, filter: &Filter) -> Answer<Vec<Record>> {
    let schedule = filter.schedule.map(Id::from);
    let id = filter.timer.map(Id::from);
    let after = filter.after_record.map(|(time, id)| (Stamp(time), Id::from(id)));
    let limit = filter.limit() as i64;
    let mut list = List::new(RECORDS);
    list.only("kind = $", filter.kind.as_ref());
    list.only("name = $", filter.name.as_ref());
    list.only("schedule = $", schedule.as_ref());
    list.only("timer = $", id.as_ref());
    if let Some((time, id)) = &after {
        list.params.extend([time as &(dyn ToSql + Sync), id]);
        let last = list.params.len();
        let _ = write!(list.sql, " AND (recorded, timer) > (${}, ${last})", last - 1);
    }
    list.read(session, "recorded, timer", &limit).await?.iter().map(record).collect()
}

fn record(row: &Row) -> Answer<Record> {
    let schedule: Option<Id> = row.try_get(1)?;
    let node: Option<Id> = row.try_get(10)?;
    let (Stamp(scheduled_for), Stamp(recorded)) = (row.try_get(4)?, row.try_get(11)?);
    let outcome = Outcome::from_code(row.try_get(7)?).ok_or_else(unknown)?;
    let reason = match row.try_get(8)? {
        None => None,
        Some(code) => Some(Reason::from_code(code).ok_or_else(unknown)?),
    };
    Ok(Record {
        timer: row.try_get::<_, Id>(0)?.into(),
        schedule: schedule.map(Into::into),
        name: row.try_get(2)?,
        kind: row.try_get(3)?,
        scheduled_for,
        attempts: row.try_get::<_, i32>(5)?.unsigned_abs(),
        failures: row.try_get::<_, i32>(6)?.unsigned_abs(),
        outcome,
        reason,
        detail: row.try_get(9)?,
        node: node.map(Into::into),
        recorded,
    })
}

fn unknown() -> Failure {
    let why = "a record has an outcome or a reason that this build does not know";
    Failure::Other(StoreError::new(StoreErrorKind::Schema, why))
}

const PRUNE: &str = "
    DELETE FROM tourbillon.history
    WHERE timer = ANY(ARRAY(
        SELECT timer FROM tourbillon.history WHERE recorded < $1 ORDER BY recorded, timer LIMIT $2
    ))
    RETURNING timer";

/// How many records one statement deletes: the server gives a statement a few seconds.
pub(super) const PRUNED: u32 = 5_000;

/// Epochs of nodes that have not been seen for two days.
const FORGET: &str = "
    DELETE FROM tourbillon.identity AS i
    WHERE seen < now() - interval '2 days'
        AND NOT EXISTS (SELECT FROM tourbillon.node AS n WHERE n.id = i.id)";

pub(super) async fn prune(session: &mut Session, before: Time, limit: u32) -> Answer<u64> {
    session.write(FORGET, &[]).await?;
    let pruned = session.write(PRUNE, &[&Stamp(before), &i64::from(limit)]).await?;
    Ok(pruned.len() as u64)
}
