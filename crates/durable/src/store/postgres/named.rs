//! The holders of names: schedules, timers and records.

use tokio_postgres::Row;

use super::answer::{Answer, Failure};
use super::link::{Query, Session};
use super::lists::{record, record_columns};
use super::schedules::{schedule_columns, schedule_row};
use super::timers::{INSERT, NewTimers, answers, columns, timer};
use super::values::{Id, Stamp};
use crate::store::{Inserted, Looked, Named, NewTimer};
use crate::time::Time;

/// Finds the holders of each name: its place among the names, the columns of a schedule, of a
/// timer, and of a record. The limits make the server look up each name by an index. Without them,
/// a plan that is made while the tables are empty reads a whole table and compares.
const NAMED: &str = concat!(
    "SELECT now(), n.place, ",
    schedule_columns!(),
    ", t.*, h.*
    FROM unnest($1::text[]) WITH ORDINALITY AS n (name, place)
    LEFT JOIN LATERAL (
        SELECT * FROM tourbillon.schedule AS s WHERE s.name = n.name LIMIT 1
    ) AS s ON true
    LEFT JOIN LATERAL (
        SELECT ",
    columns!(),
    "   FROM tourbillon.timer
        WHERE schedule IS NULL AND name IS NOT NULL AND name = n.name LIMIT 1
    ) AS t ON true
    LEFT JOIN LATERAL (
        SELECT ",
    record_columns!(),
    "   FROM tourbillon.history AS h
        WHERE h.name = n.name AND s.id IS NULL AND t.id IS NULL
        ORDER BY recorded DESC, timer DESC LIMIT 1
    ) AS h ON true"
);

/// Places of the first columns of a schedule, a timer and a record in [`NAMED`].
const SCHEDULE_AT: usize = 2;
const TIMER_AT: usize = SCHEDULE_AT + 12;
const RECORD_AT: usize = TIMER_AT + 18;

pub(super) async fn find(session: &mut Session, names: &[&str]) -> Answer<(Time, Vec<Named>)> {
    holders(&session.read(NAMED, &[&names]).await?, names.len())
}

/// Inserts and looks up as [`Store::insert_and_look`](crate::Store::insert_and_look) does; in one
/// round trip if nothing is in the way of any timer.
pub(super) async fn insert_and_look(
    session: &mut Session,
    timers: &[NewTimer],
    names: &[&str],
) -> Answer<Looked> {
    let new: NewTimers<'_> = timers.iter().collect();
    let (made, seen) = session.write_then_read((INSERT, &new.params()), (NAMED, &[&names])).await?;
    if made.len() == timers.len() {
        let (now, found) = holders(&seen, names.len())?;
        return Ok((vec![Inserted::Created; timers.len()], now, found));
    }
    let inserted = answers(session, timers, made).await?;
    // Some may have been inserted since.
    let (now, found) = find(session, names).await?;
    Ok((inserted, now, found))
}

/// Reads the rows of [`NAMED`], of so many names.
fn holders(rows: &[Row], count: usize) -> Answer<(Time, Vec<Named>)> {
    let mut now = Time::default();
    let mut found = vec![Named::default(); count];
    for row in rows {
        Stamp(now) = row.try_get(0)?;
        let place = usize::try_from(row.try_get::<_, i64>(1)? - 1).unwrap_or(0);
        let is_there = |at| Ok::<_, Failure>(row.try_get::<_, Option<Id>>(at)?.is_some());
        if let Some(named) = found.get_mut(place) {
            if is_there(SCHEDULE_AT)? {
                named.schedule = Some(schedule_row(row, SCHEDULE_AT)?);
            }
            if is_there(TIMER_AT)? {
                named.timer = Some(timer(row, TIMER_AT)?);
            }
            if is_there(RECORD_AT)? {
                named.record = Some(record(row, RECORD_AT)?);
            }
        }
    }
    Ok((now, found))
}
