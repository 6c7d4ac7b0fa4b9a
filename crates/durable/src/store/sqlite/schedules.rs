//! Schedules, and how they become timers and records.

use std::sync::LazyLock;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::failure::Answer;
use super::timers::{self, DELETE, ENDED, GET, INSERT, exists, withdraw};
use super::values::{Id, Stamp, big, micros, schedule, schedule_columns, timer, timer_columns};
use crate::id::{SHARDS, ScheduleId, TimerId};
use crate::record::Outcome;
use crate::store::{
    Advance, Advanced, Change, Changed, Filled, ManualRun, NewOccurrence, NewTimer, Past,
    ScheduleRow, Skip, Timer, Unfinished, Upcoming, UpcomingQuery, Wall,
};
use crate::time::{BEGINNING, Time};

pub(super) const BY_NAME: &str =
    concat!("SELECT ", schedule_columns!(), " FROM tourbillon_schedule WHERE name = ?");

pub(super) const BY_ID: &str =
    concat!("SELECT ", schedule_columns!(), " FROM tourbillon_schedule WHERE id = ?");

/// Merges the schedules of all shards by their next times. So it reads the rows that it returns and
/// one more of each shard that is asked for, and none of other shards.
pub(super) static UPCOMING: LazyLock<String> = LazyLock::new(|| {
    let of_shard = |shard: u8| {
        format!(
            "SELECT {} FROM tourbillon_schedule INDEXED BY tourbillon_schedule_next
             WHERE enabled AND shard = {shard} AND next <= ?1 AND (next, id) > (?4, ?5)
                 AND ?2 >> {shard} & 1 = 1",
            schedule_columns!()
        )
    };
    let merged = (0..SHARDS).map(of_shard).collect::<Vec<_>>().join(" UNION ALL ");
    format!("{merged} ORDER BY next, id LIMIT ?3")
});

/// Counts of unfinished and of queued timers.
pub(super) const OCCUPIED: &str = "
    SELECT count(*) FILTER (WHERE due < ?2 OR node IS NOT NULL OR lane IS NOT NULL),
        count(*) FILTER (WHERE due = ?2 AND node IS NULL AND lane IS NULL)
    FROM tourbillon_timer WHERE schedule = ?1";

pub(super) const IS_BUSY: &str = "
    SELECT EXISTS (
        SELECT 1 FROM tourbillon_timer
        WHERE schedule = ?1 AND (due < ?2 OR node IS NOT NULL OR lane IS NOT NULL)
    )";

const CREATE: &str = "
    INSERT INTO tourbillon_schedule
        (name, id, kind, spec, policies, payload, enabled, version, next, shard, paused, lane,
         wall)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

pub(super) const REPLACE: &str = "
    UPDATE tourbillon_schedule SET id = ?2, kind = ?3, spec = ?4, policies = ?5, payload = ?6,
        enabled = ?7, version = ?8, next = ?9, shard = ?10, paused = ?11, lane = ?12,
        wall = ?13
    WHERE name = ?1";

pub(super) const REMOVE: &str = "DELETE FROM tourbillon_schedule WHERE name = ?";

pub(super) const MOVE: &str = "UPDATE tourbillon_schedule SET next = ?2, wall = ?3 WHERE id = ?1";

pub(super) const OF_SCHEDULE: &str = concat!(
    "SELECT ",
    timer_columns!(),
    " FROM tourbillon_timer WHERE schedule = ? ORDER BY scheduled_for"
);

/// Marks running timers: they do not run again, however they end.
pub(super) const STOP: &str =
    "UPDATE tourbillon_timer SET stopped = ?2 WHERE schedule = ?1 AND node IS NOT NULL";

pub(super) const RENEW: &str = "
    UPDATE tourbillon_timer SET payload = ?2, retry_attempts = ?3, retry_first = ?4,
        retry_longest = ?5, has_queue = ?6, version = version + 1
    WHERE schedule = ?1 AND attempt = 0
        AND (payload, retry_attempts, retry_first, retry_longest, has_queue)
            <> (?2, ?3, ?4, ?5, ?6)";

/// Condition that an occurrence is a timer or recorded.
pub(super) const IS_TAKEN: &str = "
    SELECT EXISTS (SELECT 1 FROM tourbillon_timer WHERE schedule = ?1 AND scheduled_for = ?2)
        OR EXISTS (SELECT 1 FROM tourbillon_history WHERE schedule = ?1 AND scheduled_for = ?2)";

pub(super) const FORGET_SKIP: &str = "
    DELETE FROM tourbillon_history WHERE schedule = ?1 AND scheduled_for = ?2 AND outcome = 3";

// The statement above has this number in it.
const _: () = assert!(Outcome::Skipped.code() == 3);

const SKIP: &str = "
    INSERT INTO tourbillon_history (recorded, timer, schedule, name, kind, scheduled_for,
        attempts, failures, outcome, reason, detail)
    VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, ?, '')
    ON CONFLICT DO NOTHING";

pub(super) fn by_name(connection: &Connection, name: &str) -> Answer<Option<ScheduleRow>> {
    Ok(connection.prepare_cached(BY_NAME)?.query_row([name], schedule).optional()?)
}

pub(super) fn upcoming(
    connection: &Connection,
    now: Time,
    query: &UpcomingQuery,
) -> Answer<Upcoming> {
    let mut schedules = Vec::new();
    let mask = i64::from_ne_bytes(query.shards.mask().to_ne_bytes());
    let mut statement = connection.prepare_cached(&UPCOMING)?;
    let from = query.after.map_or((BEGINNING, Id::from(0_u128)), |(next, id)| (next, id.into()));
    let until = Stamp(now + query.ahead);
    let mut rows = statement.query(params![until, mask, query.limit, Stamp(from.0), from.1])?;
    while let Some(row) = rows.next()? {
        let row = schedule(row)?;
        let occupied = occupied(connection, row.id)?;
        schedules.push((row, occupied));
    }
    Ok(Upcoming { now, schedules })
}

fn occupied(connection: &Connection, id: ScheduleId) -> Answer<Unfinished> {
    let mut statement = connection.prepare_cached(OCCUPIED)?;
    Ok(statement.query_row(params![Id::from(id), Stamp(Time::NEVER)], |row| {
        Ok(Unfinished { unfinished: row.get(0)?, queued: row.get(1)? })
    })?)
}

pub(super) fn change(connection: &Connection, now: Time, change: &Change<'_>) -> Answer<Changed> {
    let old = by_name(connection, change.name)?;
    if old.as_ref().map(|row| row.version) != change.expect {
        return Ok(Changed::Stale);
    }
    let version = change.expect.unwrap_or(0) + 1;
    match change.row {
        Some(row) => {
            let sql = if old.is_some() { REPLACE } else { CREATE };
            put(connection, sql, row, version)?;
        }
        None => {
            connection.prepare_cached(REMOVE)?.execute([change.name])?;
        }
    }
    let Some(row) = old.as_ref().or(change.row) else {
        return Ok(Changed::Done { claimed: Vec::new() });
    };
    let timers = of_schedule(connection, row.id)?;
    if let Some(reason) = change.withdraw {
        for timer in timers.iter().filter(|timer| timer.running.is_none()) {
            if timer.new.scheduled_for > now && timer.attempt == 0 {
                connection.prepare_cached(DELETE)?.execute([Id::from(timer.new.id)])?;
            } else {
                withdraw(connection, now, timer.new.id, reason)?;
            }
        }
        connection.prepare_cached(STOP)?.execute(params![Id::from(row.id), reason.code()])?;
    }
    if let Some(new) = change.occurrence() {
        renew(connection, row.id, &new)?;
    }
    skip(connection, now, change.skipped, row)?;
    let is_claimed =
        |timer: &&Timer| timer.running.is_some() || change.withdraw.is_none() && timer.attempt > 0;
    let claimed = timers.iter().filter(is_claimed);
    let claimed: Vec<(TimerId, u32)> = claimed.map(|timer| (timer.new.id, timer.attempt)).collect();
    Ok(Changed::Done { claimed })
}

/// Gives timers that were never claimed the values of a new definition.
fn renew(connection: &Connection, id: ScheduleId, new: &NewTimer) -> Answer<()> {
    let NewTimer { payload, retry, has_queue, .. } = new;
    connection.prepare_cached(RENEW)?.execute(params![
        Id::from(id),
        payload,
        retry.attempts.min(i32::MAX as u32),
        micros(retry.first),
        micros(retry.longest),
        has_queue,
    ])?;
    Ok(())
}

/// Writes `row` by [`CREATE`] or [`REPLACE`], with this version.
fn put(connection: &Connection, sql: &str, row: &ScheduleRow, version: u64) -> Answer<()> {
    let (schedule, policies) = row.texts();
    connection.prepare_cached(sql)?.execute(params![
        row.name,
        Id::from(row.id),
        row.kind,
        schedule,
        policies,
        row.payload,
        row.enabled,
        big(version),
        row.next.map(Stamp),
        row.id.shard(),
        row.paused.map(Stamp),
        row.lane,
        row.wall.as_ref().map(Wall::to_string),
    ])?;
    Ok(())
}

fn of_schedule(connection: &Connection, id: ScheduleId) -> Answer<Vec<Timer>> {
    let mut statement = connection.prepare_cached(OF_SCHEDULE)?;
    let timers = statement.query_map([Id::from(id)], timer)?;
    Ok(timers.collect::<Result<_, _>>()?)
}

pub(super) fn advance(
    connection: &Connection,
    now: Time,
    advance: &Advance<'_>,
) -> Answer<Advanced> {
    let id = Id::from(advance.schedule);
    let row = connection.prepare_cached(BY_ID)?.query_row([id], schedule).optional()?;
    let is_as_read = |row: &ScheduleRow| {
        row.enabled && row.version == advance.version && row.next == Some(advance.from)
    };
    let Some(row) = row.filter(is_as_read) else { return Ok(Advanced::Stale) };
    if advance.only_idle && exists(connection, IS_BUSY, params![id, Stamp(Time::NEVER)])? {
        return Ok(Advanced::Busy);
    }
    let wall = advance.wall.map(Wall::to_string);
    connection.prepare_cached(MOVE)?.execute(params![id, advance.next.map(Stamp), wall])?;
    let mut statement = connection.prepare_cached(INSERT)?;
    for new in advance.timers {
        if !is_taken(connection, row.id, new.scheduled_for)? {
            timers::add(&mut statement, new, now)?;
        }
    }
    skip(connection, now, advance.skipped, &row)?;
    Ok(Advanced::Done)
}

pub(super) fn backfill(connection: &Connection, now: Time, past: &Past<'_>) -> Answer<Filled> {
    let id = Id::from(past.schedule);
    let row = connection.prepare_cached(BY_ID)?.query_row([id], schedule).optional()?;
    if !row.is_some_and(|row| row.enabled && row.version == past.version) {
        return Ok(Filled::Stale);
    }
    let (mut made, mut existed) = (0, 0);
    let mut statement = connection.prepare_cached(INSERT)?;
    for new in past.timers {
        if made == past.limit {
            break;
        }
        let occurrence = params![id, Stamp(new.scheduled_for)];
        connection.prepare_cached(FORGET_SKIP)?.execute(occurrence)?;
        if is_taken(connection, past.schedule, new.scheduled_for)? {
            existed += 1;
        } else {
            timers::add(&mut statement, new, now)?;
            made += 1;
        }
    }
    Ok(Filled::Done { made, existed })
}

pub(super) fn insert_occurrence(
    connection: &Connection,
    now: Time,
    occurrence: &NewOccurrence<'_>,
) -> Answer<ManualRun> {
    let new = occurrence.timer;
    let is_there = connection.prepare_cached(GET)?.exists([Id::from(new.id)])?;
    if is_there || exists(connection, ENDED, params![Id::from(new.id)])? {
        return Ok(ManualRun::Exists);
    }
    let id = new.schedule.map(Id::from);
    let row = connection.prepare_cached(BY_ID)?.query_row([id], schedule).optional()?;
    let is_as_read = |row: &ScheduleRow| row.enabled && row.version == occurrence.version;
    let Some(row) = row.filter(is_as_read) else { return Ok(ManualRun::Stale) };
    let Some(due) = occurrence.due(occupied(connection, row.id)?, now) else {
        return Ok(ManualRun::Busy);
    };
    let mut scheduled_for = now;
    while is_taken(connection, row.id, scheduled_for)? {
        scheduled_for = scheduled_for - Duration::from_micros(1);
    }
    let new = NewTimer { scheduled_for, due, ..new.clone() };
    timers::add(&mut connection.prepare_cached(INSERT)?, &new, now)?;
    Ok(ManualRun::Done { due })
}

/// Returns whether an occurrence is a timer or recorded.
pub(super) fn is_taken(
    connection: &Connection,
    id: ScheduleId,
    scheduled_for: Time,
) -> Answer<bool> {
    exists(connection, IS_TAKEN, params![Id::from(id), Stamp(scheduled_for)])
}

fn skip(connection: &Connection, now: Time, skipped: &[Skip], row: &ScheduleRow) -> Answer<()> {
    for skip in skipped {
        if !is_taken(connection, row.id, skip.scheduled_for)? {
            connection.prepare_cached(SKIP)?.execute(params![
                Stamp(now),
                Id::from(skip.id),
                Id::from(row.id),
                row.name,
                row.kind,
                Stamp(skip.scheduled_for),
                skip.outcome.code(),
                skip.reason.code(),
            ])?;
        }
    }
    Ok(())
}
