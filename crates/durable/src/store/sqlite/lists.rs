//! Lists by a query, and the end of old records.

use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::failure::Answer;
use super::values::{Id, Stamp, record, record_columns, schedule_columns, timer_columns};
use super::{schedules, timers};
use crate::id::TimerId;
use crate::record::Outcome;
use crate::store::query::prefix_end;
use crate::store::{Named, RecordQuery, ScheduleQuery, Search, State, TimerOrder, TimerQuery};
use crate::time::Time;

pub(super) const PRUNE: &str = "
    DELETE FROM tourbillon_history WHERE (recorded, timer) IN (
        SELECT recorded, timer FROM tourbillon_history
        WHERE recorded < ?1 ORDER BY recorded, timer LIMIT ?2
    )";

/// Condition that a timer has a name of its own, or that of its schedule.
const IS_NAMED: &str = "id IN (
    SELECT id FROM tourbillon_timer WHERE schedule IS NULL AND name IS NOT NULL AND name = ?
    UNION ALL
    SELECT id FROM tourbillon_timer
    WHERE schedule IS NOT NULL AND schedule = (SELECT id FROM tourbillon_schedule WHERE name = ?)
)";

/// A list with those conditions that its query has, by the index that serves them best.
pub(super) struct List {
    sql: String,
    values: Vec<Box<dyn ToSql>>,
}

impl List {
    fn new(sql: String) -> Self {
        Self { sql, values: Vec::new() }
    }

    fn and<T: ToSql + 'static>(&mut self, condition: &str, value: Option<T>) -> &mut Self {
        if let Some(value) = value {
            self.sql += " AND ";
            self.sql += condition;
            self.values.push(Box::new(value));
        }
        self
    }

    fn after(&mut self, condition: &str, place: Option<(Time, TimerId)>) -> &mut Self {
        if let Some((time, id)) = place {
            self.and(condition, Some(Stamp(time)));
            self.values.push(Box::new(Id::from(id)));
        }
        self
    }

    fn starts_so(&mut self, prefix: Option<&String>) -> &mut Self {
        let end = prefix.and_then(|prefix| prefix_end(prefix));
        self.and("name >= ?", prefix.cloned()).and("name < ?", end)
    }

    /// Adds a page of names. It has one lower bound, as SQLite seeks by the first of several and
    /// walks from there.
    fn page(&mut self, prefix: Option<&String>, after: Option<&String>) -> &mut Self {
        let Some(after) = after.filter(|after| prefix.is_none_or(|prefix| prefix <= *after)) else {
            return self.starts_so(prefix);
        };
        let end = prefix.and_then(|prefix| prefix_end(prefix));
        self.and("name > ?", Some(after.clone())).and("name < ?", end)
    }

    fn order(&mut self, order: &str, limit: u32) {
        self.sql = format!("{} ORDER BY {order} LIMIT {limit}", self.sql);
    }

    pub(super) fn get<T>(
        &self,
        connection: &Connection,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Answer<Vec<T>> {
        let mut statement = connection.prepare_cached(&self.sql)?;
        let values: Vec<&dyn ToSql> = self.values.iter().map(|value| &**value).collect();
        let rows = statement.query_map(&values[..], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    #[cfg(test)]
    pub(super) fn sql(&self) -> &str {
        &self.sql
    }
}

pub(super) fn timers(query: &TimerQuery) -> List {
    let is_by_name = matches!(query.order, TimerOrder::Name { .. });
    let is_held = query.since == Some(Time::NEVER);
    // There are few running timers, and few held ones of a kind: they are found by that, and
    // sorted.
    let by = if is_by_name && query.state == Some(State::Running) {
        "INDEXED BY tourbillon_timer_running WHERE schedule IS NULL AND name IS NOT NULL"
    } else if is_by_name && is_held && query.kind.is_some() {
        "INDEXED BY tourbillon_timer_kind WHERE schedule IS NULL AND name IS NOT NULL"
    } else if is_by_name {
        "INDEXED BY tourbillon_timer_name WHERE schedule IS NULL AND name IS NOT NULL"
    } else if query.timer.is_some() || query.name.is_some() {
        "WHERE true"
    } else if query.state == Some(State::Running) {
        "INDEXED BY tourbillon_timer_running WHERE true"
    } else if query.kind.is_some() {
        "INDEXED BY tourbillon_timer_kind WHERE true"
    } else {
        "INDEXED BY tourbillon_timer_due WHERE true"
    };
    let columns = timer_columns!();
    let mut list = List::new(format!("SELECT {columns} FROM tourbillon_timer {by}"));
    if let Some(name) = &query.name {
        list.and(IS_NAMED, Some(name.clone())).values.push(Box::new(name.clone()));
    }
    match query.state {
        Some(State::Pending) => list.sql += " AND node IS NULL",
        Some(State::Running) => list.sql += " AND node IS NOT NULL",
        None => {}
    }
    list.and("id = ?", query.timer.map(Id::from))
        .and("kind = ?", query.kind.clone())
        .and("due >= ?", query.since.map(Stamp))
        .and("due < ?", query.until.map(Stamp));
    match &query.order {
        TimerOrder::Name { prefix, after } => {
            list.page(Some(prefix), after.as_ref()).order("name", query.limit);
        }
        TimerOrder::Due { after } => {
            list.after("(due, id) > (?, ?)", *after).order("due, id", query.limit);
        }
    }
    list
}

pub(super) fn schedules(query: &ScheduleQuery) -> List {
    let part = |from: &str| {
        let columns = schedule_columns!();
        let mut list = List::new(format!("SELECT {columns} FROM tourbillon_schedule {from}"));
        list.and("kind = ?", query.kind.clone())
            .and("name = ?", query.name.clone())
            .page(query.prefix.as_ref(), query.after.as_ref());
        list
    };
    const ENABLED: &str = "INDEXED BY tourbillon_schedule_enabled WHERE enabled";
    const DISABLED: &str = "INDEXED BY tourbillon_schedule_disabled WHERE NOT enabled";
    let mut list = match (query.enabled, &query.kind) {
        (None, None) => part("WHERE true"),
        (Some(true), None) => part("WHERE enabled"),
        (Some(false), None) => part("WHERE NOT enabled"),
        (Some(true), Some(_)) => part(ENABLED),
        (Some(false), Some(_)) => part(DISABLED),
        (None, Some(_)) => {
            let (mut list, more) = (part(ENABLED), part(DISABLED));
            list.sql = format!("{} UNION ALL {}", list.sql, more.sql);
            list.values.extend(more.values);
            list
        }
    };
    list.order("name", query.limit);
    list
}

/// Names of schedules in their order, and whether each is enabled.
pub(super) fn names_of_schedules(search: &Search) -> List {
    let mut list = List::new("SELECT name, enabled FROM tourbillon_schedule WHERE true".to_owned());
    list.page(Some(&search.prefix), search.after.as_ref()).order("name", search.most);
    list
}

/// Names of timers without a schedule in their order, whether each runs, and its time.
pub(super) fn names_of_timers(search: &Search) -> List {
    let mut list = List::new(
        "SELECT name, node IS NOT NULL, scheduled_for
         FROM tourbillon_timer INDEXED BY tourbillon_timer_name
         WHERE schedule IS NULL AND name IS NOT NULL"
            .to_owned(),
    );
    list.page(Some(&search.prefix), search.after.as_ref()).order("name", search.most);
    list
}

pub(super) fn records(query: &RecordQuery) -> List {
    let failed = query.outcome.filter(|outcome| *outcome != Outcome::Succeeded);
    let by = if query.timer.is_some() {
        "INDEXED BY tourbillon_history_timer WHERE true"
    } else if query.name.is_some() {
        "INDEXED BY tourbillon_history_name WHERE true"
    } else if query.kind.is_some() && failed.is_some() {
        "INDEXED BY tourbillon_history_outcome WHERE outcome <> 1"
    } else if query.kind.is_some() {
        "INDEXED BY tourbillon_history_kind WHERE true"
    } else {
        "WHERE true"
    };
    let columns = record_columns!();
    let mut list = List::new(format!("SELECT {columns} FROM tourbillon_history {by}"));
    list.and("timer = ?", query.timer.map(Id::from))
        .and("kind = ?", query.kind.clone())
        .and("name = ?", query.name.clone())
        .and("outcome = ?", query.outcome.map(Outcome::code))
        .and("recorded >= ?", query.since.map(Stamp))
        .and("recorded < ?", query.until.map(Stamp));
    if query.newest_first {
        list.after("(recorded, timer) < (?, ?)", query.after)
            .order("recorded DESC, timer DESC", query.limit);
    } else {
        list.after("(recorded, timer) > (?, ?)", query.after).order("recorded, timer", query.limit);
    }
    list
}

// A statement above has this number in it.
const _: () = assert!(Outcome::Succeeded.code() == 1);

/// Finds the newest record of a name.
pub(super) const NEWEST: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM tourbillon_history INDEXED BY tourbillon_history_name
    WHERE name = ? AND name IS NOT NULL ORDER BY recorded DESC, timer DESC LIMIT 1"
);

/// Finds the holders of each of the names.
pub(super) fn named(connection: &Connection, names: &[&str]) -> Answer<Vec<Named>> {
    let mut newest = connection.prepare_cached(NEWEST)?;
    let mut find = |name: &&str| {
        let schedule = schedules::by_name(connection, name)?;
        let timer = timers::find(connection, name)?;
        let record = match (&schedule, &timer) {
            (None, None) => newest.query_row([name], record).optional()?,
            _ => None,
        };
        Ok(Named { schedule, timer, record })
    };
    names.iter().map(&mut find).collect()
}

/// Deletes the first `limit` records from before `before`.
pub(super) fn prune(connection: &Connection, before: Time, limit: u32) -> Answer<u64> {
    let mut statement = connection.prepare_cached(PRUNE)?;
    Ok(statement.execute(params![Stamp(before), limit])? as u64)
}
