//! Schedules whose times follow the rules of a zone.

use rusqlite::{Connection, params};

use super::failure::Answer;
use super::schedules::MOVE;
use super::values::{Id, Stamp, big, schedule};
use crate::store::{Advanced, ScheduleRow, ZonedQuery};
use crate::time::Time;

/// Schedules without their payloads.
pub(super) const ZONED: &str = "
    SELECT id, name, kind, spec, policies, x'', enabled, version, next, paused, lane, wall
    FROM tourbillon_schedule
    WHERE enabled AND wall IS NOT NULL AND id > ?1
        AND (?2 IS NULL OR substr(wall, 1, length(?2)) <> ?2)
    ORDER BY id LIMIT ?3";

pub(super) const IS_AS_READ: &str = "
    SELECT 1 FROM tourbillon_schedule
    WHERE id = ? AND enabled AND version = ? AND next = ?";

/// Of the timers that are to come and were never claimed.
pub(super) const FIRST_TO_COME: &str = "
    SELECT min(scheduled_for) FROM tourbillon_timer
    WHERE schedule = ? AND scheduled_for > ? AND attempt = 0";

pub(super) const DELETE_TO_COME: &str = "
    DELETE FROM tourbillon_timer WHERE schedule = ? AND scheduled_for > ? AND attempt = 0";

pub(super) fn zoned(connection: &Connection, query: &ZonedQuery) -> Answer<Vec<ScheduleRow>> {
    let after = query.after.map_or(Id::from(0_u128), Id::from);
    // With the space that follows a version.
    let but = query.but.as_ref().map(|but| format!("{but} "));
    let mut statement = connection.prepare_cached(ZONED)?;
    let rows = statement.query_map(params![after, but, query.limit], schedule)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn rezone(connection: &Connection, now: Time, row: &ScheduleRow) -> Answer<Advanced> {
    let id = Id::from(row.id);
    let as_read = params![id, big(row.version), row.next.map(Stamp)];
    if !connection.prepare_cached(IS_AS_READ)?.exists(as_read)? {
        return Ok(Advanced::Stale);
    }
    let to_come = params![id, Stamp(now)];
    let mut statement = connection.prepare_cached(FIRST_TO_COME)?;
    let first: Option<Stamp> = statement.query_row(to_come, |row| row.get(0))?;
    connection.prepare_cached(DELETE_TO_COME)?.execute(to_come)?;
    let moved = row.clone().with_next(row.found_again(first.map(|Stamp(first)| first), now));
    let wall = moved.wall.map(|wall| wall.to_string());
    connection.prepare_cached(MOVE)?.execute(params![id, moved.next.map(Stamp), wall])?;
    Ok(Advanced::Done)
}
