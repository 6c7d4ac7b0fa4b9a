//! Lists: timers and records by what they are of. Put together by what is asked for, so that each
//! is answered from the index that it has.

use std::fmt::Write;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::link::{Answer, Failure, Query, Session};
use super::schedules::{schedule_columns, schedule_row};
use super::timers::{columns, retry, timer};
use super::values::{Id, Stamp};
use crate::error::{StoreError, StoreErrorKind};
use crate::record::{Outcome, Reason, Record};
use crate::store::query::prefix_end;
use crate::store::{RecordQuery, ScheduleQuery, ScheduleRow, State, Timer, TimerOrder, TimerQuery};
use crate::time::Time;

/// A statement and its parameters.
struct List<'a> {
    sql: String,
    params: Vec<&'a (dyn ToSql + Sync)>,
}

impl<'a> List<'a> {
    fn new(sql: String) -> Self {
        Self { sql, params: Vec::new() }
    }

    /// Adds a condition for an index; `?` in it stands for `value`.
    fn by(&mut self, condition: &str, value: Option<&'a (impl ToSql + Sync)>) {
        if let Some(value) = value {
            self.params.push(value);
            let place = format!("${}", self.params.len());
            let _ = write!(self.sql, " AND {}", condition.replace('?', &place));
        }
    }

    /// Adds a condition that is for no index.
    fn only(&mut self, condition: &str, value: Option<&'a (impl ToSql + Sync)>) {
        self.by(&format!("({condition}) IS TRUE"), value);
    }

    /// Adds one or the other.
    fn add(&mut self, is_by: bool, condition: &str, value: Option<&'a (impl ToSql + Sync)>) {
        if is_by { self.by(condition, value) } else { self.only(condition, value) }
    }

    /// Adds a condition on a time and an id, which `?, ?` in it stands for.
    fn after(&mut self, condition: &str, place: Option<&'a (Stamp, Id)>) {
        if let Some((time, id)) = place {
            self.params.extend([time as &(dyn ToSql + Sync), id]);
            let last = self.params.len();
            let places = format!("${}, ${last}", last - 1);
            let _ = write!(self.sql, " AND {}", condition.replace("?, ?", &places));
        }
    }

    async fn read(&self, session: &Session) -> Answer<Vec<Row>> {
        session.read_once(&self.sql, &self.params).await
    }
}

/// Condition that a timer has a name of its own, or that of its schedule.
const IS_NAMED: &str = "id = ANY(ARRAY(
    SELECT id FROM tourbillon.timer WHERE schedule IS NULL AND name = ?
    UNION ALL
    SELECT id FROM tourbillon.timer
    WHERE schedule = (SELECT id FROM tourbillon.schedule WHERE name = ?)
))";

pub(super) async fn timers(session: &Session, query: &TimerQuery) -> Answer<Vec<Timer>> {
    let schedule = query.schedule.map(Id::from);
    let id = query.timer.map(Id::from);
    let (since, until) = (query.since.map(Stamp), query.until.map(Stamp));
    let (after, names) = match &query.order {
        TimerOrder::Due { after } => (after.map(|(due, id)| (Stamp(due), Id::from(id))), None),
        TimerOrder::Name { prefix, after } => (None, Some((prefix, prefix_end(prefix), after))),
    };
    let is_by_name = names.is_some();
    let is_by_id = !is_by_name && (id.is_some() || query.name.is_some());
    let is_by_schedule = !is_by_name && !is_by_id && schedule.is_some();
    let is_by_due = !is_by_name && !is_by_id && !is_by_schedule;

    let columns = columns!();
    let mut list = List::new(format!("SELECT {columns} FROM tourbillon.timer WHERE true"));
    list.add(is_by_id, "id = ?", id.as_ref());
    list.add(is_by_id, IS_NAMED, query.name.as_ref());
    list.add(is_by_schedule, "schedule = ?", schedule.as_ref());
    match query.state {
        Some(State::Running) => list.sql += " AND node IS NOT NULL",
        Some(State::Pending) => list.sql += " AND node IS NULL",
        None => {}
    }
    // What runs was due.
    let runs = query.state == Some(State::Running);
    let kind = query.kind.as_ref().filter(|_| is_by_due);
    if let Some(kind) = kind {
        // Compared and ordered by kind and time together, as in an overview. It is `$1`.
        list.by("kind >= ? AND kind <= ?", Some(kind));
        list.by("(kind, due) >= ($1, ?)", since.as_ref());
        list.by("(kind, due) < ($1, ?)", until.as_ref());
        list.after("(kind, due, id) > ($1, ?, ?)", after.as_ref());
        list.sql += if runs { " AND (kind, due) <= ($1, now())" } else { "" };
    } else {
        list.only("kind = ?", query.kind.as_ref());
        list.add(is_by_due, "due >= ?", since.as_ref());
        list.add(is_by_due, "due < ?", until.as_ref());
        list.sql += if runs && is_by_due { " AND due <= now()" } else { "" };
    }
    if let Some((prefix, end, after)) = &names {
        list.sql += " AND schedule IS NULL AND name IS NOT NULL";
        list.by("name >= ?", Some(*prefix));
        list.by("name < ?", end.as_ref());
        list.by("name > ?", after.as_ref());
        list.sql += " ORDER BY name";
    } else if kind.is_some() {
        list.sql += " ORDER BY kind, due, id";
    } else {
        list.after("(due, id) > (?, ?)", after.as_ref());
        list.sql += " ORDER BY due, id";
    }
    let _ = write!(list.sql, " LIMIT {}", query.limit);
    list.read(session).await?.iter().map(|row| timer(row, 0)).collect()
}

pub(super) async fn schedules(
    session: &Session,
    query: &ScheduleQuery,
) -> Answer<Vec<ScheduleRow>> {
    let end = query.prefix.as_deref().and_then(prefix_end);
    let columns = schedule_columns!();
    let mut list = List::new(String::from("SELECT * FROM ("));
    let parts: &[_] = match (query.enabled, &query.kind) {
        (None, None) => &["true"],
        (Some(true), _) => &["s.enabled"],
        (Some(false), _) => &["NOT s.enabled"],
        (None, Some(_)) => &["s.enabled", "NOT s.enabled"],
    };
    let limit = query.limit;
    for (n, part) in parts.iter().enumerate() {
        // The first of each part, and of those the first.
        list.sql += if n > 0 { " UNION ALL (" } else { "(" };
        let _ = write!(list.sql, "SELECT {columns} FROM tourbillon.schedule AS s WHERE {part}");
        list.by("s.name = ?", query.name.as_ref());
        if let Some(kind) = &query.kind {
            // As in a list of timers.
            list.by("s.kind >= ? AND s.kind <= ?", Some(kind));
            let of_kind = format!("(s.kind, s.name) # (${}, ?)", list.params.len());
            list.by(&of_kind.replace('#', ">="), query.prefix.as_ref());
            list.by(&of_kind.replace('#', "<"), end.as_ref());
            list.by(&of_kind.replace('#', ">"), query.after.as_ref());
            let _ = write!(list.sql, " ORDER BY s.kind, s.name LIMIT {limit})");
        } else {
            list.by("s.name >= ?", query.prefix.as_ref());
            list.by("s.name < ?", end.as_ref());
            list.by("s.name > ?", query.after.as_ref());
            let _ = write!(list.sql, " ORDER BY s.name LIMIT {limit})");
        }
    }
    let _ = write!(list.sql, ") AS s ORDER BY name LIMIT {limit}");
    list.read(session).await?.iter().map(|row| schedule_row(row, 0)).collect()
}

/// Every kind that has a record, as `k`: each by one look at an index.
macro_rules! kinds {
    () => {
        "WITH RECURSIVE k (kind) AS (
             (SELECT kind FROM tourbillon.history ORDER BY kind LIMIT 1)
             UNION ALL
             SELECT (
                 SELECT h.kind FROM tourbillon.history AS h
                 WHERE h.kind > k.kind ORDER BY h.kind LIMIT 1
             )
             FROM k WHERE k.kind IS NOT NULL
         ) "
    };
}

pub(super) async fn records(session: &Session, query: &RecordQuery) -> Answer<Vec<Record>> {
    let schedule = query.schedule.map(Id::from);
    let id = query.timer.map(Id::from);
    let outcome = query.outcome.map(Outcome::code);
    let (since, until) = (query.since.map(Stamp), query.until.map(Stamp));
    let after = query.after.map(|(time, id)| (Stamp(time), Id::from(id)));
    let is_by_id = id.is_some();
    let is_by_name = !is_by_id && query.name.is_some();
    let is_by_schedule = !is_by_id && !is_by_name && schedule.is_some();
    let is_by_kind = !is_by_id && !is_by_name && !is_by_schedule;
    let is_by_outcome = query.outcome.is_some_and(|outcome| outcome != Outcome::Succeeded);
    let is_by_time = is_by_name || is_by_kind;

    let mut list = List::new(format!("SELECT {RECORD} FROM tourbillon.history AS h WHERE true"));
    list.add(is_by_id, "timer = ?", id.as_ref());
    list.add(is_by_name, "name = ?", query.name.as_ref());
    list.add(is_by_schedule, "schedule = ?", schedule.as_ref());
    match &query.kind {
        None if is_by_kind => list.sql += " AND h.kind = k.kind",
        kind => list.add(is_by_kind, "kind = ?", kind.as_ref()),
    }
    if is_by_kind && is_by_outcome {
        list.sql += " AND outcome <> 1";
    }
    list.add(is_by_kind && is_by_outcome, "outcome = ?", outcome.as_ref());
    list.only("starts_with(name, ?)", query.prefix.as_ref());
    list.add(is_by_time, "recorded >= ?", since.as_ref());
    list.add(is_by_time, "recorded < ?", until.as_ref());
    let order = if query.newest_first {
        list.after("(recorded, timer) < (?, ?)", after.as_ref());
        "recorded DESC, timer DESC"
    } else {
        list.after("(recorded, timer) > (?, ?)", after.as_ref());
        "recorded, timer"
    };
    let _ = write!(list.sql, " ORDER BY {order} LIMIT {}", query.limit);
    if query.kind.is_none() && is_by_kind {
        // The first of each kind, and of those the first.
        list.sql = format!(
            concat!(
                kinds!(),
                "SELECT r.* FROM k CROSS JOIN LATERAL ({}) AS r ORDER BY {} LIMIT {}"
            ),
            list.sql, order, query.limit
        );
    }
    list.read(session).await?.iter().map(record).collect()
}

/// The columns of a record, in the order that [`record`] reads them in.
const RECORD: &str = "timer, schedule, name, h.kind, scheduled_for, attempts, failures, outcome, \
    reason, detail, node, recorded, payload, retry_attempts, retry_first, retry_longest";

// A statement above has this number in it.
const _: () = assert!(Outcome::Succeeded.code() == 1);

fn record(row: &Row) -> Answer<Record> {
    let schedule: Option<Id> = row.try_get(1)?;
    let node: Option<Id> = row.try_get(10)?;
    let (Stamp(scheduled_for), Stamp(recorded)) = (row.try_get(4)?, row.try_get(11)?);
    let outcome = outcome(row.try_get(7)?)?;
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
        payload: row.try_get(12)?,
        retry: match row.try_get(13)? {
            None => None,
            Some(attempts) => Some(retry(attempts, row.try_get(14)?, row.try_get(15)?)),
        },
        node: node.map(Into::into),
        recorded,
    })
}

pub(super) fn outcome(code: i16) -> Answer<Outcome> {
    Outcome::from_code(code).ok_or_else(unknown)
}

fn unknown() -> Failure {
    let why = "a record has an outcome or a reason that this build does not know";
    Failure::Other(StoreError::new(StoreErrorKind::Schema, why))
}

const PRUNE: &str = concat!(
    kinds!(),
    "DELETE FROM tourbillon.history
    WHERE timer = ANY(ARRAY(
        SELECT old.timer FROM k CROSS JOIN LATERAL (
            SELECT h.timer FROM tourbillon.history AS h
            WHERE h.kind = k.kind AND h.recorded < $1 ORDER BY h.recorded, h.timer LIMIT $2
        ) AS old
        LIMIT $2
    ))
    RETURNING timer"
);

/// Most records that one statement deletes: the server gives a statement a few seconds.
pub(super) const PRUNED: u32 = 5_000;

/// Epochs of nodes that have not been seen for two days.
const FORGET: &str = "
    DELETE FROM tourbillon.identity AS i
    WHERE seen < now() - interval '2 days'
        AND NOT EXISTS (SELECT 1 FROM tourbillon.node AS n WHERE n.id = i.id)";

pub(super) async fn prune(session: &mut Session, before: Time, limit: u32) -> Answer<u64> {
    session.write(FORGET, &[]).await?;
    let pruned = session.write(PRUNE, &[&Stamp(before), &i64::from(limit)]).await?;
    Ok(pruned.len() as u64)
}
