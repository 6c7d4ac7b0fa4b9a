//! Lists: timers and records by their conditions. Each list is composed so that an existing index
//! answers it.

use std::fmt::Write;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::answer::{Answer, Failure};
use super::link::{Query, Session};
use super::schedules::{schedule_columns, schedule_row};
use super::timers::{columns, retry, timer};
use super::values::{Id, Stamp};
use crate::error::{StoreError, StoreErrorKind};
use crate::record::{Outcome, Reason, Record};
use crate::store::query::prefix_end;
use crate::store::{RecordQuery, ScheduleQuery, ScheduleRow, State, Timer, TimerOrder, TimerQuery};
use crate::time::Time;

/// A statement and its parameters.
pub(super) struct List<'a> {
    sql: String,
    params: Vec<&'a (dyn ToSql + Sync)>,
}

impl<'a> List<'a> {
    pub(super) fn new(sql: String) -> Self {
        Self { sql, params: Vec::new() }
    }

    /// Adds a parameter that the statement has already.
    pub(super) fn with(&mut self, value: &'a (impl ToSql + Sync)) -> &mut Self {
        self.params.push(value);
        self
    }

    /// Adds the end of the statement; `?` in it stands for `value`.
    pub(super) fn end(&mut self, end: &str, value: &'a (impl ToSql + Sync)) {
        self.params.push(value);
        self.sql += &end.replace('?', &format!("${}", self.params.len()));
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

    /// Adds a page of names: from `prefix` on, before `end`, and after a name. It has one lower
    /// bound: a plan that is made before the values are known may seek by the lower of two.
    pub(super) fn page(
        &mut self,
        column: &str,
        prefix: Option<&'a String>,
        end: Option<&'a String>,
        after: Option<&'a String>,
    ) {
        match after.filter(|after| prefix.is_none_or(|prefix| prefix <= *after)) {
            Some(after) => self.by(&format!("{column} > ?"), Some(after)),
            None => self.by(&format!("{column} >= ?"), prefix),
        }
        self.by(&format!("{column} < ?"), end);
    }

    /// Adds the conditions on the times that timers are due. A running timer was due.
    fn due(&mut self, is_by: bool, query: &TimerQuery, [since, until]: [Option<&'a Stamp>; 2]) {
        if is_by && query.since == Some(Time::NEVER) {
            // Not a parameter: of that the planner expects a third of all timers.
            self.sql += " AND due = 'infinity'";
        } else {
            self.add(is_by, "due >= ?", since);
        }
        self.add(is_by, "due < ?", until);
        if is_by && query.state == Some(State::Running) {
            self.sql += " AND due <= now()";
        }
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

    pub(super) async fn read(&self, session: &mut Session) -> Answer<Vec<Row>> {
        session.read_list(&self.sql, &self.params).await
    }
}

/// Condition that a timer has a name of its own, or that of its schedule.
const IS_NAMED: &str = "id = ANY(ARRAY(
    SELECT id FROM tourbillon.timer WHERE schedule IS NULL AND name = ?
    UNION ALL
    SELECT id FROM tourbillon.timer
    WHERE schedule = (SELECT id FROM tourbillon.schedule WHERE name = ?)
))";

pub(super) async fn timers(session: &mut Session, query: &TimerQuery) -> Answer<Vec<Timer>> {
    let id = query.timer.map(Id::from);
    let (since, until) = (query.since.map(Stamp), query.until.map(Stamp));
    let (after, names) = match &query.order {
        TimerOrder::Due { after } => (after.map(|(due, id)| (Stamp(due), Id::from(id))), None),
        TimerOrder::Name { prefix, after } => (None, Some((prefix, prefix_end(prefix), after))),
    };
    let is_by_name = names.is_some();
    let is_by_id = !is_by_name && (id.is_some() || query.name.is_some());
    let is_by_due = !is_by_name && !is_by_id;
    // There are few running timers, and few held ones of a kind: they are found by that, and
    // sorted.
    let is_little = query.state == Some(State::Running) || query.since == Some(Time::NEVER);
    let is_sorted = is_by_name && is_little && query.kind.is_some();

    let columns = columns!();
    let mut list = List::new(format!("SELECT {columns} FROM tourbillon.timer WHERE true"));
    list.add(is_by_id, "id = ?", id.as_ref());
    list.add(is_by_id, IS_NAMED, query.name.as_ref());
    match query.state {
        Some(State::Running) => list.sql += " AND node IS NOT NULL",
        Some(State::Pending) => list.sql += " AND node IS NULL",
        None => {}
    }
    let kind = query.kind.as_ref().filter(|_| is_by_due || is_sorted);
    let is_by_time = is_by_due || kind.is_some();
    // The condition of the index that finds them.
    list.sql += match kind {
        Some(_) => " AND retry_attempts >= 0",
        None if is_by_due => " AND shard >= 0",
        None => "",
    };
    list.add(kind.is_some(), "kind = ?", query.kind.as_ref());
    list.due(is_by_time, query, [since.as_ref(), until.as_ref()]);
    if let Some((prefix, end, after)) = &names {
        list.sql += " AND schedule IS NULL AND name IS NOT NULL";
        // No index is on this expression, so the planner sorts the rows found by `kind` and `due`.
        let name = if is_sorted { "(name || '')" } else { "name" };
        list.page(name, Some(prefix), end.as_ref(), after.as_ref());
        let _ = write!(list.sql, " ORDER BY {name}");
    } else {
        list.after("(due, id) > (?, ?)", after.as_ref());
        list.sql += " ORDER BY due, id";
    }
    let _ = write!(list.sql, " LIMIT {}", query.limit);
    list.read(session).await?.iter().map(|row| timer(row, 0)).collect()
}

pub(super) async fn schedules(
    session: &mut Session,
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
            // Compared and ordered by kind and name together: the index on names alone looks as
            // good to the planner, and passes over all other kinds.
            list.by("s.kind >= ? AND s.kind <= ?", Some(kind));
            let of_kind = format!("(s.kind, s.name) # (${}, ?)", list.params.len());
            let prefix = query.prefix.as_ref();
            let after = query.after.as_ref();
            match after.filter(|after| prefix.is_none_or(|prefix| prefix <= *after)) {
                Some(after) => list.by(&of_kind.replace('#', ">"), Some(after)),
                None => list.by(&of_kind.replace('#', ">="), prefix),
            }
            list.by(&of_kind.replace('#', "<"), end.as_ref());
            let _ = write!(list.sql, " ORDER BY s.kind, s.name LIMIT {limit})");
        } else {
            list.page("s.name", query.prefix.as_ref(), end.as_ref(), query.after.as_ref());
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

pub(super) async fn records(session: &mut Session, query: &RecordQuery) -> Answer<Vec<Record>> {
    let id = query.timer.map(Id::from);
    let outcome = query.outcome.map(Outcome::code);
    let (since, until) = (query.since.map(Stamp), query.until.map(Stamp));
    let after = query.after.map(|(time, id)| (Stamp(time), Id::from(id)));
    let is_by_id = id.is_some();
    let is_by_name = !is_by_id && query.name.is_some();
    let is_by_kind = !is_by_id && !is_by_name;
    let is_by_outcome = query.outcome.is_some_and(|outcome| outcome != Outcome::Succeeded);
    let is_by_time = is_by_name || is_by_kind;

    let columns = record_columns!();
    let mut list = List::new(format!("SELECT {columns} FROM tourbillon.history AS h WHERE true"));
    list.add(is_by_id, "timer = ?", id.as_ref());
    list.add(is_by_name, "name = ?", query.name.as_ref());
    match &query.kind {
        None if is_by_kind => list.sql += " AND h.kind = k.kind",
        kind => list.add(is_by_kind, "kind = ?", kind.as_ref()),
    }
    if is_by_kind && is_by_outcome {
        list.sql += " AND outcome <> 1";
    }
    list.add(is_by_kind && is_by_outcome, "outcome = ?", outcome.as_ref());
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
    list.read(session).await?.iter().map(|row| record(row, 0)).collect()
}

/// The columns of a record, in the order that [`record`] reads them in.
macro_rules! record_columns {
    () => {
        "timer, schedule, name, h.kind, scheduled_for, attempts, failures, outcome, reason, \
         detail, node, recorded, payload, retry_attempts, retry_first, retry_longest, lane"
    };
}
pub(super) use record_columns;

// A statement above has this number in it.
const _: () = assert!(Outcome::Succeeded.code() == 1);

/// Reads a record whose columns begin at `at`.
pub(super) fn record(row: &Row, at: usize) -> Answer<Record> {
    let schedule: Option<Id> = row.try_get(at + 1)?;
    let node: Option<Id> = row.try_get(at + 10)?;
    let (Stamp(scheduled_for), Stamp(recorded)) = (row.try_get(at + 4)?, row.try_get(at + 11)?);
    let outcome = outcome(row.try_get(at + 7)?)?;
    let reason = reason(row.try_get(at + 8)?)?;
    Ok(Record {
        timer: row.try_get::<_, Id>(at)?.into(),
        schedule: schedule.map(Into::into),
        name: row.try_get(at + 2)?,
        kind: row.try_get(at + 3)?,
        scheduled_for,
        attempts: row.try_get::<_, i32>(at + 5)?.unsigned_abs(),
        failures: row.try_get::<_, i32>(at + 6)?.unsigned_abs(),
        outcome,
        reason,
        detail: row.try_get(at + 9)?,
        payload: row.try_get(at + 12)?,
        retry: match row.try_get(at + 13)? {
            None => None,
            Some(attempts) => Some(retry(attempts, row.try_get(at + 14)?, row.try_get(at + 15)?)),
        },
        lane: row.try_get(at + 16)?,
        node: node.map(Into::into),
        recorded,
    })
}

pub(super) fn outcome(code: i16) -> Answer<Outcome> {
    Outcome::from_code(code).ok_or_else(unknown)
}

pub(super) fn reason(code: Option<i16>) -> Answer<Option<Reason>> {
    code.map(|code| Reason::from_code(code).ok_or_else(unknown)).transpose()
}

fn unknown() -> Failure {
    let why = "a record has an outcome or a reason that this build does not know";
    Failure::Other(StoreError::new(StoreErrorKind::Schema, why))
}

/// Deletes records in the order of their ids. A backfill deletes skips in the order of their times,
/// and both may wait for each other: this statement then gives up first, after 50 ms, and is
/// repeated. The transaction of the backfill waits for a lock up to 3 s.
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
