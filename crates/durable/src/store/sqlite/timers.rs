//! One timer's way from its insert to its record.

use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::failure::Answer;
use super::values::{Id, Stamp, micros, parts, timer, timer_columns};
use crate::id::{Lease, Shards, TimerId};
use crate::record::{Outcome, Reason};
use crate::store::{
    Amendment, Claimed, End, Finished, Held, How, Inserted, NewTimer, Reschedule, Scan, Timer,
    TimerUpdate, Waiting, Window,
};
use crate::time::Time;

/// The caller has removed occurrences that exist: a duplicate is an error.
pub(super) const INSERT: &str = "
    INSERT INTO tourbillon_timer
        (id, schedule, name, kind, scheduled_for, due, payload, retry_attempts, retry_first,
         retry_longest, has_queue, lane)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO NOTHING
    ON CONFLICT (name) WHERE schedule IS NULL AND name IS NOT NULL DO NOTHING";

pub(super) const ENDED: &str = "SELECT EXISTS (SELECT 1 FROM tourbillon_history WHERE timer = ?)";

/// Scans one kind by the index, however many timers are of other kinds or due later; running ones
/// are passed over.
pub(super) const SCAN: &str = "
    SELECT due, id FROM tourbillon_timer INDEXED BY tourbillon_timer_kind
    WHERE kind = ?1 AND due >= ?2 AND due <= ?3 AND node IS NULL AND stopped IS NULL
    ORDER BY due, id";

pub(super) const HELD: &str =
    "SELECT id, attempt FROM tourbillon_timer WHERE node = ?1 AND epoch = ?2";

pub(super) const LIVES: &str = "
    SELECT EXISTS (
        SELECT 1 FROM tourbillon_node WHERE id = ?1 AND epoch = ?2 AND expires IS NOT NULL
    )";

pub(super) const CLAIM: &str = concat!(
    "UPDATE tourbillon_timer SET attempt = attempt + 1, node = ?2, epoch = ?3
    WHERE id = ?1 AND node IS NULL AND stopped IS NULL AND due <= ?4
    RETURNING ",
    timer_columns!()
);

/// With the fence of the attempt that ends, in the order that `fence!` gives.
macro_rules! fenced {
    ($what:literal) => {
        concat!($what, " WHERE id = ?1 AND node = ?2 AND epoch = ?3 AND attempt = ?4")
    };
}

/// Records an attempt's end, unless its timer has a record already. A timer that was inserted by
/// other means may have one.
pub(super) const RECORD: &str = concat!(
    fenced!(
        "INSERT INTO tourbillon_history (recorded, timer, schedule, name, kind, scheduled_for,
            attempts, failures, outcome, reason, detail, node, payload, retry_attempts,
            retry_first, retry_longest, lane)
        SELECT ?5, id, schedule, name, kind, scheduled_for, attempt, failures + ?9, ?6, ?7, ?8,
            node, CASE WHEN ?9 THEN payload END, CASE WHEN ?9 THEN retry_attempts END,
            CASE WHEN ?9 THEN retry_first END, CASE WHEN ?9 THEN retry_longest END,
            CASE WHEN ?9 THEN lane END
        FROM tourbillon_timer"
    ),
    " ON CONFLICT DO NOTHING"
);

pub(super) const DELETE_ENDED: &str = fenced!("DELETE FROM tourbillon_timer");

pub(super) const RETRY: &str = fenced!(
    "UPDATE tourbillon_timer
    SET node = NULL, epoch = NULL, failures = failures + 1, due = ?5, detail = ?6"
);

pub(super) const POSTPONE: &str = fenced!(
    "UPDATE tourbillon_timer
    SET node = NULL, epoch = NULL, due = ?5, detail = coalesce(?6, detail)"
);

pub(super) const HAND_BACK: &str = fenced!("UPDATE tourbillon_timer SET node = NULL, epoch = NULL");

/// Condition that a record is of this outcome, of this attempt by this node.
pub(super) const RECORDED: &str = "
    SELECT EXISTS (
        SELECT 1 FROM tourbillon_history
        WHERE timer = ?1 AND node = ?2 AND attempts = ?3 AND outcome = ?4
    )";

pub(super) const WITHDRAW: &str = "
    INSERT INTO tourbillon_history (recorded, timer, schedule, name, kind, scheduled_for,
        attempts, failures, outcome, reason, detail)
    SELECT ?2, id, schedule, name, kind, scheduled_for, attempt, failures, ?3, ?4, detail
    FROM tourbillon_timer WHERE id = ?1 AND node IS NULL
    ON CONFLICT DO NOTHING";

pub(super) const DELETE_PENDING: &str =
    "DELETE FROM tourbillon_timer WHERE id = ? AND node IS NULL";

pub(super) const DELETE: &str = "DELETE FROM tourbillon_timer WHERE id = ?";

pub(super) const RESCHEDULE: &str = "
    UPDATE tourbillon_timer SET scheduled_for = ?2, due = ?3, payload = coalesce(?4, payload),
        version = version + 1
    WHERE id = ?1";

pub(super) const AMEND: &str = "
    UPDATE tourbillon_timer SET due = ?2, detail = ?3, version = version + 1
    WHERE id = ?1 AND stopped IS NULL";

pub(super) const GET: &str =
    concat!("SELECT ", timer_columns!(), " FROM tourbillon_timer WHERE id = ?");

pub(super) const FIND: &str = concat!(
    "SELECT ",
    timer_columns!(),
    " FROM tourbillon_timer WHERE name = ? AND schedule IS NULL"
);

pub(super) fn insert(
    connection: &Connection,
    now: Time,
    timers: &[NewTimer],
) -> Answer<Vec<Inserted>> {
    let mut statement = connection.prepare_cached(INSERT)?;
    let mut inserted = Vec::with_capacity(timers.len());
    for new in timers {
        let has_ended = exists(connection, ENDED, params![Id::from(new.id)])?;
        let is_new = !has_ended && add(&mut statement, new, now)?;
        inserted.push(if is_new {
            Inserted::Created
        } else {
            let named = new.name.as_ref().filter(|_| new.schedule.is_none());
            let rival = named.map(|name| find(connection, name)).transpose()?.flatten();
            Inserted::Exists(rival.map_or(new.id, |rival| rival.new.id))
        });
    }
    Ok(inserted)
}

/// Inserts a timer by [`INSERT`]. Returns whether it is new. In a lane, it waits.
pub(super) fn add(statement: &mut CachedStatement<'_>, new: &NewTimer, now: Time) -> Answer<bool> {
    let due = if new.lane.is_some() { Time::NEVER } else { new.due.max(now) };
    let count = statement.execute(params![
        Id::from(new.id),
        new.schedule.map(Id::from),
        new.name,
        new.kind,
        Stamp(new.scheduled_for),
        Stamp(due),
        new.payload,
        new.retry.attempts.min(i32::MAX as u32),
        micros(new.retry.first),
        micros(new.retry.longest),
        new.has_queue,
        new.lane,
    ])?;
    Ok(count > 0)
}

pub(super) fn exists(
    connection: &Connection,
    sql: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Answer<bool> {
    Ok(connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?)
}

pub(super) fn scan(connection: &Connection, now: Time, scan: &Scan<'_>) -> Answer<Window> {
    let mut timers = Vec::new();
    let is_empty = scan.shards == Shards::NONE && scan.grace.is_none();
    if is_empty || scan.kind_limit == 0 {
        return Ok(Window { now, timers, pulsed: None });
    }
    let floor = scan.back.map_or(Time::from_micros(i64::MIN), |back| now - back);
    let end = (now + scan.ahead).min(Time::NEVER - Duration::from_micros(1));
    let late = scan.grace.map(|grace| now - grace);
    let mut statement = connection.prepare_cached(SCAN)?;
    for (kind, name) in (0..).zip(scan.kinds) {
        let most = timers.len() + scan.kind_limit as usize;
        let mut rows = statement.query(params![name, Stamp(floor), Stamp(end)])?;
        while let Some(row) = rows.next()? {
            let (Stamp(due), id) = (row.get(0)?, TimerId::from(row.get::<_, Id>(1)?));
            let is_late = late.is_some_and(|late| due <= late);
            if is_late || scan.shards.contains(id.shard()) {
                timers.push(Waiting { due, id, kind });
            }
            if timers.len() == most {
                break;
            }
        }
    }
    timers.sort_unstable();
    Ok(Window { now, timers, pulsed: None })
}

pub(super) fn held(connection: &Connection, lease: Lease) -> Answer<Held> {
    let mut statement = connection.prepare_cached(HELD)?;
    let rows =
        statement.query_map(parts(lease), |row| Ok((row.get::<_, Id>(0)?.into(), row.get(1)?)))?;
    Ok(Held::new(rows.collect::<Result<_, _>>()?, None))
}

pub(super) fn claim(
    connection: &Connection,
    now: Time,
    lease: Lease,
    timers: &[TimerId],
) -> Answer<Claimed> {
    let mut claimed = Vec::new();
    let (node, epoch) = parts(lease);
    if !timers.is_empty() && exists(connection, LIVES, params![node, epoch])? {
        let mut statement = connection.prepare_cached(CLAIM)?;
        for id in timers {
            let values = params![Id::from(*id), node, epoch, Stamp(now)];
            claimed.extend(statement.query_row(values, timer).optional()?);
        }
    }
    claimed.sort_by_key(|timer| (timer.new.due, timer.new.id));
    Ok(Claimed { now, timers: claimed })
}

pub(super) fn finish(
    connection: &Connection,
    now: Time,
    lease: Lease,
    ends: &[End],
) -> Answer<Vec<Finished>> {
    let mut finished = self::end(connection, now, lease, ends)?;
    for (end, answer) in ends.iter().zip(&mut finished) {
        let How::Done(outcome, ..) = end.how else { continue };
        let values = params![Id::from(end.timer), parts(lease).0, end.attempt, outcome.code()];
        if *answer == Finished::Fenced && exists(connection, RECORDED, values)? {
            *answer = Finished::Accepted;
        }
    }
    Ok(finished)
}

/// Ends attempts that are under way. An attempt that an earlier call has ended is fenced.
pub(super) fn end(
    connection: &Connection,
    now: Time,
    lease: Lease,
    ends: &[End],
) -> Answer<Vec<Finished>> {
    ends.iter().map(|end| end_one(connection, now, lease, end)).collect()
}

fn end_one(connection: &Connection, now: Time, lease: Lease, end: &End) -> Answer<Finished> {
    let (id, (node, epoch)) = (Id::from(end.timer), parts(lease));
    let changed = match &end.how {
        How::Done(outcome, reason, detail) => {
            let failed = u32::from(*outcome == Outcome::Dead);
            let count = connection.prepare_cached(RECORD)?.execute(params![
                id,
                node,
                epoch,
                end.attempt,
                Stamp(now),
                outcome.code(),
                reason.map(Reason::code),
                detail,
                failed,
            ])?;
            connection.prepare_cached(DELETE_ENDED)?.execute(params![
                id,
                node,
                epoch,
                end.attempt
            ])?;
            count
        }
        How::Retry(pause, detail) => {
            let values =
                params![id, node, epoch, end.attempt, Stamp(now.after_pause(*pause)), detail];
            connection.prepare_cached(RETRY)?.execute(values)?
        }
        How::Postpone(pause, detail) => {
            let values =
                params![id, node, epoch, end.attempt, Stamp(now.after_pause(*pause)), detail];
            connection.prepare_cached(POSTPONE)?.execute(values)?
        }
        How::HandBack => {
            let values = params![id, node, epoch, end.attempt];
            connection.prepare_cached(HAND_BACK)?.execute(values)?
        }
    };
    Ok(if changed > 0 { Finished::Accepted } else { Finished::Fenced })
}

pub(super) fn cancel(connection: &Connection, now: Time, id: TimerId) -> Answer<TimerUpdate> {
    Ok(match get(connection, id)? {
        None => TimerUpdate::Gone,
        Some(Timer { running: Some(_), attempt, .. }) => TimerUpdate::Running { attempt },
        Some(_) if withdraw(connection, now, id, Reason::Cancelled)? => TimerUpdate::Done,
        Some(_) => TimerUpdate::Gone,
    })
}

/// Ends a pending timer. Returns whether that is in its record, and not an earlier end.
pub(super) fn withdraw(
    connection: &Connection,
    now: Time,
    id: TimerId,
    reason: Reason,
) -> Answer<bool> {
    let values = params![Id::from(id), Stamp(now), Outcome::Cancelled.code(), reason.code()];
    let recorded = connection.prepare_cached(WITHDRAW)?.execute(values)?;
    connection.prepare_cached(DELETE_PENDING)?.execute([Id::from(id)])?;
    Ok(recorded > 0)
}

pub(super) fn reschedule(
    connection: &Connection,
    now: Time,
    reschedule: &Reschedule<'_>,
) -> Answer<TimerUpdate> {
    let Reschedule { timer: id, to, payload, expect, attempt } = *reschedule;
    Ok(match get(connection, id)? {
        Some(timer) if expect.is_some_and(|expect| expect != timer.version) => TimerUpdate::Stale,
        Some(Timer { running: Some(_), attempt, .. }) => TimerUpdate::Running { attempt },
        Some(timer) if attempt.is_some_and(|expect| expect != timer.attempt) => TimerUpdate::Stale,
        Some(timer) if timer.new.schedule.is_none() => {
            let waits = timer.new.lane.is_some() && timer.new.due == Time::NEVER;
            let due = if waits { Time::NEVER } else { to.max(now) };
            let values = params![Id::from(id), Stamp(to), Stamp(due), payload];
            connection.prepare_cached(RESCHEDULE)?.execute(values)?;
            TimerUpdate::Done
        }
        _ => TimerUpdate::Gone,
    })
}

pub(super) fn amend(
    connection: &Connection,
    now: Time,
    amendment: &Amendment<'_>,
) -> Answer<TimerUpdate> {
    let Amendment { timer: id, attempt, version, pause, detail } = *amendment;
    Ok(match get(connection, id)? {
        None => TimerUpdate::Gone,
        Some(timer) if timer.version != version => TimerUpdate::Stale,
        Some(Timer { running: Some(_), attempt, .. }) => TimerUpdate::Running { attempt },
        Some(timer) if timer.attempt != attempt => TimerUpdate::Stale,
        Some(timer) => {
            let waits = timer.new.lane.is_some() || timer.new.schedule.is_some();
            let waits = waits && timer.new.due == Time::NEVER;
            let due = now.after_pause(pause).max(timer.new.scheduled_for);
            let due = if waits { Time::NEVER } else { due };
            let values = params![Id::from(id), Stamp(due), detail];
            match connection.prepare_cached(AMEND)?.execute(values)? {
                0 => TimerUpdate::Gone,
                _ => TimerUpdate::Done,
            }
        }
    })
}

fn get(connection: &Connection, id: TimerId) -> Answer<Option<Timer>> {
    Ok(connection.prepare_cached(GET)?.query_row([Id::from(id)], timer).optional()?)
}

pub(super) fn find(connection: &Connection, name: &str) -> Answer<Option<Timer>> {
    Ok(connection.prepare_cached(FIND)?.query_row([name], timer).optional()?)
}
