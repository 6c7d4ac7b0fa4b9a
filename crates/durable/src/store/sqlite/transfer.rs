//! Timers and schedules on their way to another store.

use rusqlite::{Connection, params};

use super::failure::Answer;
use super::schedules::{self, BY_ID, CREATE};
use super::timers::{DELETE, ENDED, exists};
use super::values::{Id, Stamp, big, micros};
use crate::id::TimerId;
use crate::record::{Outcome, Reason};
use crate::store::transfer::{AWAY, received};
use crate::store::{ScheduleRow, Timer, Transfer};
use crate::time::Time;

pub(super) const FORGET_MOVED: &str =
    "DELETE FROM tourbillon_history WHERE timer = ?1 AND reason = ?2";

pub(super) const IS_MOVED: &str =
    "SELECT EXISTS (SELECT 1 FROM tourbillon_history WHERE timer = ?1 AND reason = ?2)";

pub(super) const DELETE_OLDER: &str = "
    DELETE FROM tourbillon_timer
    WHERE id = ?1 AND due >= ?2 AND due < ?3 AND (attempt < ?4 OR version < ?5)";

pub(super) const HOLD: &str = "
    INSERT INTO tourbillon_timer
        (id, schedule, name, kind, scheduled_for, due, payload, retry_attempts, retry_first,
         retry_longest, has_queue, lane, attempt, failures, detail, version)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING";

pub(super) const IS_AWAY: &str = "
    SELECT EXISTS (SELECT 1 FROM tourbillon_timer WHERE id = ?1 AND due >= ?2 AND due < ?3)";

pub(super) const SURRENDER: &str = "
    INSERT INTO tourbillon_history (recorded, timer, schedule, name, kind, scheduled_for,
        attempts, failures, outcome, reason, detail)
    SELECT ?2, id, schedule, name, kind, scheduled_for, attempt, failures, ?3, ?4, detail
    FROM tourbillon_timer
    WHERE id = ?1 AND attempt = ?5 AND version = ?6 AND node IS NULL AND stopped IS NULL
        AND NOT (due >= ?7 AND due < ?8)
    ON CONFLICT DO NOTHING";

pub(super) const DROP: &str = "DELETE FROM tourbillon_timer WHERE id = ?1 AND due = ?2";

pub(super) const HAS_FRONT: &str = "
    SELECT EXISTS (
        SELECT 1 FROM tourbillon_timer INDEXED BY tourbillon_timer_front
        WHERE lane = ?1 AND lane IS NOT NULL AND due < 9223372036854775807
    )";

pub(super) const RELEASE: &str =
    "UPDATE tourbillon_timer SET due = ?3, lane = ?4 WHERE id = ?1 AND due = ?2";

pub(super) const SHIFT: &str = "
    UPDATE tourbillon_schedule SET next = ?4, version = version + 1
    WHERE id = ?1 AND version = ?2 AND next IS ?3";

pub(super) fn transfer(
    connection: &Connection,
    now: Time,
    step: Transfer,
    timers: &[Timer],
) -> Answer<Vec<TimerId>> {
    let mut applies = Vec::new();
    for timer in timers {
        let is_done = match step {
            Transfer::Hold => hold(connection, timer)?,
            Transfer::Surrender => surrender(connection, now, timer)?,
            Transfer::Moved => {
                exists(connection, IS_MOVED, params![Id::from(timer.new.id), Reason::Moved.code()])?
            }
            Transfer::Drop => drop_away(connection, timer)?,
            Transfer::Release => release(connection, now, timer)?,
        };
        if is_done {
            applies.push(timer.new.id);
        }
    }
    Ok(applies)
}

fn hold(connection: &Connection, timer: &Timer) -> Answer<bool> {
    let (new, id) = (&timer.new, Id::from(timer.new.id));
    let (from, until, version) = (Stamp(AWAY), Stamp(Time::NEVER), big(timer.version));
    connection.prepare_cached(DELETE_OLDER)?.execute(params![
        id,
        from,
        until,
        timer.attempt,
        version
    ])?;
    connection.prepare_cached(FORGET_MOVED)?.execute(params![id, Reason::Moved.code()])?;
    let is_known = match new.schedule {
        Some(schedule) => schedules::is_taken(connection, schedule, new.scheduled_for)?,
        None => false,
    };
    if !is_known && !exists(connection, ENDED, params![id])? {
        connection.prepare_cached(HOLD)?.execute(params![
            id,
            new.schedule.map(Id::from),
            new.name,
            new.kind,
            Stamp(new.scheduled_for),
            Stamp(new.due),
            new.payload,
            new.retry.attempts.min(i32::MAX as u32),
            micros(new.retry.first),
            micros(new.retry.longest),
            new.has_queue,
            new.lane,
            timer.attempt,
            timer.failures,
            timer.detail,
            version,
        ])?;
    }
    exists(connection, IS_AWAY, params![id, from, until])
}

fn surrender(connection: &Connection, now: Time, timer: &Timer) -> Answer<bool> {
    let id = Id::from(timer.new.id);
    let recorded = connection.prepare_cached(SURRENDER)?.execute(params![
        id,
        Stamp(now),
        Outcome::Cancelled.code(),
        Reason::Moved.code(),
        timer.attempt,
        big(timer.version),
        Stamp(AWAY),
        Stamp(Time::NEVER),
    ])?;
    if recorded > 0 {
        connection.prepare_cached(DELETE)?.execute([id])?;
    }
    Ok(recorded > 0)
}

fn drop_away(connection: &Connection, timer: &Timer) -> Answer<bool> {
    if received(timer).is_none() {
        return Ok(false);
    }
    let values = params![Id::from(timer.new.id), Stamp(timer.new.due)];
    Ok(connection.prepare_cached(DROP)?.execute(values)? > 0)
}

fn release(connection: &Connection, now: Time, timer: &Timer) -> Answer<bool> {
    let Some((due, lane)) = received(timer) else { return Ok(false) };
    let waits = match lane {
        Some(lane) => exists(connection, HAS_FRONT, params![lane])?,
        None => false,
    };
    let due = if waits { Time::NEVER } else { due.max(now) };
    let values = params![Id::from(timer.new.id), Stamp(timer.new.due), Stamp(due), lane];
    Ok(connection.prepare_cached(RELEASE)?.execute(values)? > 0)
}

pub(super) fn shift(connection: &Connection, row: &ScheduleRow, next: Time) -> Answer<bool> {
    let from = row.next.map(Stamp);
    let values = params![Id::from(row.id), big(row.version), from, Stamp(next)];
    Ok(connection.prepare_cached(SHIFT)?.execute(values)? > 0)
}

pub(super) fn adopt(connection: &Connection, now: Time, row: &ScheduleRow) -> Answer<bool> {
    let is_there = schedules::by_name(connection, &row.name)?.is_some()
        || connection.prepare_cached(BY_ID)?.exists([Id::from(row.id)])?;
    if !is_there {
        schedules::put(connection, CREATE, row, row.version, now)?;
    }
    Ok(!is_there)
}
