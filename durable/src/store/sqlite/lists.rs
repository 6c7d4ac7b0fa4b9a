//! Lists by a filter, and the end of old records.

use rusqlite::types::ToSql;
use rusqlite::{Connection, Row, params};

use super::failure::Answer;
use super::values::{
    Id, Stamp, record, record_columns, schedule, schedule_columns, timer, timer_columns,
};
use crate::record::Record;
use crate::store::{Filter, ScheduleRow, Timer};
use crate::time::Time;

const TIMERS: &str = concat!("SELECT ", timer_columns!(), " FROM tourbillon_timer WHERE true");

const SCHEDULES: &str =
    concat!("SELECT ", schedule_columns!(), " FROM tourbillon_schedule WHERE true");

const RECORDS: &str = concat!("SELECT ", record_columns!(), " FROM tourbillon_history WHERE true");

pub(super) const PRUNE: &str = "
    DELETE FROM tourbillon_history WHERE (recorded, timer) IN (
        SELECT recorded, timer FROM tourbillon_history
        WHERE recorded < ?1 ORDER BY recorded, timer LIMIT ?2
    )";

/// A list with those conditions that its filter has, so that an index can serve it.
struct List {
    sql: String,
    values: Vec<Box<dyn ToSql>>,
}

impl List {
    fn new(sql: &str) -> Self {
        Self { sql: sql.to_owned(), values: Vec::new() }
    }

    fn and<T: ToSql + 'static>(&mut self, condition: &str, value: Option<T>) -> &mut Self {
        if let Some(value) = value {
            self.sql += " AND ";
            self.sql += condition;
            self.values.push(Box::new(value));
        }
        self
    }

    /// What all lists can be asked for.
    fn of(&mut self, filter: &Filter) -> &mut Self {
        self.and("kind = ?", filter.kind.clone()).and("name = ?", filter.name.clone())
    }

    fn get<T>(
        &mut self,
        connection: &Connection,
        order: &str,
        limit: usize,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Answer<Vec<T>> {
        self.sql += order;
        self.sql += " LIMIT ?";
        self.values.push(Box::new(limit as i64));
        let mut statement = connection.prepare_cached(&self.sql)?;
        let values: Vec<&dyn ToSql> = self.values.iter().map(|value| &**value).collect();
        let rows = statement.query_map(&values[..], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

pub(super) fn timers(connection: &Connection, filter: &Filter) -> Answer<Vec<Timer>> {
    List::new(TIMERS)
        .of(filter)
        .and("schedule = ?", filter.schedule.map(Id::from))
        .and("id = ?", filter.timer.map(Id::from))
        .and("id > ?", filter.after.map(Id::from))
        .get(connection, " ORDER BY id", filter.limit(), timer)
}

pub(super) fn schedules(connection: &Connection, filter: &Filter) -> Answer<Vec<ScheduleRow>> {
    List::new(SCHEDULES).of(filter).and("id > ?", filter.after.map(Id::from)).get(
        connection,
        " ORDER BY id",
        filter.limit(),
        schedule,
    )
}

pub(super) fn records(connection: &Connection, filter: &Filter) -> Answer<Vec<Record>> {
    let mut list = List::new(RECORDS);
    list.of(filter)
        .and("schedule = ?", filter.schedule.map(Id::from))
        .and("timer = ?", filter.timer.map(Id::from));
    if let Some((recorded, timer)) = filter.after_record {
        list.sql += " AND (recorded, timer) > (?, ?)";
        list.values.extend([Box::new(Stamp(recorded)) as _, Box::new(Id::from(timer)) as _]);
    }
    list.get(connection, " ORDER BY recorded, timer", filter.limit(), record)
}

/// Deletes the first `limit` records from before `before`.
pub(super) fn prune(connection: &Connection, before: Time, limit: u32) -> Answer<u64> {
    let mut statement = connection.prepare_cached(PRUNE)?;
    Ok(statement.execute(params![Stamp(before), limit])? as u64)
}
