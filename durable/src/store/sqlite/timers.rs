//! Timers.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, params};

use super::Tx;
use super::nodes::lives;
use super::rows::{self, TIMER};
use crate::id::{Lease, NodeId, ScheduleId, TimerId};
use crate::record::{Outcome, Reason};
use crate::store::{
    Claimed, End, Filter, Finished, How, Inserted, NewTimer, Scan, Timer, Waiting, Window,
    Withdrawn,
};
use crate::time::Time;

pub(super) fn insert_all(
    tx: &Tx<'_>,
    timers: &[NewTimer],
    repeated: bool,
) -> rusqlite::Result<Vec<Inserted>> {
    timers.iter().map(|timer| insert_new(tx, timer, repeated)).collect()
}

fn insert_new(tx: &Tx<'_>, timer: &NewTimer, repeated: bool) -> rusqlite::Result<Inserted> {
    if repeated {
        let mut recorded =
            tx.tx.prepare_cached("SELECT 1 FROM tourbillon_history WHERE timer = ?")?;
        if recorded.exists([timer.id])? {
            return Ok(Inserted::Exists(timer.id));
        }
    }
    if insert(tx, timer)? {
        return Ok(Inserted::Created);
    }
    let named = timer.name.as_ref().filter(|_| timer.schedule.is_none());
    let other = match named {
        Some(name) => find(tx, name)?,
        None => None,
    };
    Ok(Inserted::Exists(other.map_or(timer.id, |other| other.new.id)))
}

/// Inserts a timer unless it is there. Returns whether it did.
pub(super) fn insert(tx: &Tx<'_>, timer: &NewTimer) -> rusqlite::Result<bool> {
    let mut insert = tx.tx.prepare_cached(
        "INSERT INTO tourbillon_timer
             (id, schedule, name, kind, scheduled_for, due, shard, retry, payload)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
    )?;
    let inserted = insert.execute(params![
        timer.id,
        timer.schedule,
        timer.name,
        timer.kind,
        timer.scheduled_for,
        timer.due.max(tx.now),
        timer.id.shard(),
        timer.retry,
        timer.payload,
    ])?;
    Ok(inserted == 1)
}

pub(super) fn scan(tx: &Tx<'_>, scan: &Scan<'_>) -> rusqlite::Result<Window> {
    let kinds: HashMap<&str, u32> =
        scan.kinds.iter().zip(0..).map(|(kind, place)| (&kind[..], place)).collect();
    let floor = scan.back.map_or(Time::from_micros(i64::MIN), |back| tx.now - back);
    let mut select = tx.tx.prepare_cached(
        "SELECT due, id, kind, shard FROM tourbillon_timer INDEXED BY tourbillon_timer_due
         WHERE due BETWEEN ? AND ? AND due < ? AND owner IS NULL ORDER BY due, id",
    )?;
    let mut rows = select.query(params![floor, tx.now + scan.ahead, Time::NEVER])?;
    let mut timers = Vec::new();
    while let Some(row) = rows.next()? {
        if timers.len() >= scan.limit as usize {
            break;
        }
        let kind = row.get_ref(2)?.as_str()?;
        if let Some(kind) = kinds.get(kind) {
            if scan.shards.contains(row.get(3)?) {
                timers.push(Waiting { due: row.get(0)?, id: row.get(1)?, kind: *kind });
            }
        }
    }
    Ok(Window { now: tx.now, timers })
}

pub(super) fn held(tx: &Tx<'_>, lease: Lease) -> rusqlite::Result<Vec<(TimerId, u32)>> {
    let mut select = tx
        .tx
        .prepare_cached("SELECT id, attempt FROM tourbillon_timer WHERE owner = ? AND epoch = ?")?;
    let found =
        select.query_map(params![lease.node, lease.epoch], |row| Ok((row.get(0)?, row.get(1)?)))?;
    found.collect()
}

pub(super) fn claim(tx: &Tx<'_>, lease: Lease, timers: &[TimerId]) -> rusqlite::Result<Claimed> {
    let mut claimed = Vec::new();
    if !timers.is_empty() && lives(tx, lease)? {
        let mut update = tx.tx.prepare_cached(&format!(
            "UPDATE tourbillon_timer SET attempt = attempt + 1, owner = ?, epoch = ?
             WHERE id = ? AND owner IS NULL AND due <= ? RETURNING {TIMER}"
        ))?;
        for timer in timers {
            let values = params![lease.node, lease.epoch, timer, tx.now];
            claimed.extend(update.query_row(values, rows::timer).optional()?);
        }
    }
    claimed.sort_by_key(|timer| (timer.new.due, timer.new.id));
    Ok(Claimed { now: tx.now, timers: claimed })
}

pub(super) fn finish(tx: &Tx<'_>, lease: Lease, ends: &[End]) -> rusqlite::Result<Vec<Finished>> {
    ends.iter().map(|end| finish_one(tx, lease, end)).collect()
}

fn finish_one(tx: &Tx<'_>, lease: Lease, end: &End) -> rusqlite::Result<Finished> {
    let End { timer, attempt, how } = end;
    let mut fence = tx.tx.prepare_cached(
        "SELECT 1 FROM tourbillon_timer
         WHERE id = ? AND attempt = ? AND owner = ? AND epoch = ?",
    )?;
    if !fence.exists(params![timer, attempt, lease.node, lease.epoch])? {
        let is_repeated = matches!(how, How::Done(..)) && is_recorded(tx, end, lease.node)?;
        return Ok(if is_repeated { Finished::Accepted } else { Finished::Fenced });
    }
    match how {
        How::Done(outcome, reason, detail) => {
            rows::record_timer(tx, *timer, *outcome, *reason, detail)?;
            delete(tx, *timer)?;
        }
        How::Retry(pause) => {
            let mut update = tx.tx.prepare_cached(
                "UPDATE tourbillon_timer
                 SET owner = NULL, epoch = NULL, failures = failures + 1, due = ? WHERE id = ?",
            )?;
            update.execute(params![tx.now + *pause, timer])?;
        }
        How::HandBack => {
            let mut update = tx.tx.prepare_cached(
                "UPDATE tourbillon_timer SET owner = NULL, epoch = NULL WHERE id = ?",
            )?;
            update.execute([timer])?;
        }
    }
    Ok(Finished::Accepted)
}

/// Whether this end was accepted before.
fn is_recorded(tx: &Tx<'_>, end: &End, node: NodeId) -> rusqlite::Result<bool> {
    let mut select = tx.tx.prepare_cached(
        "SELECT 1 FROM tourbillon_history WHERE timer = ? AND attempts = ? AND node = ?",
    )?;
    select.exists(params![end.timer, end.attempt, node])
}

/// Deletes a timer, of which no record tells unless one is made before.
pub(super) fn delete(tx: &Tx<'_>, timer: TimerId) -> rusqlite::Result<()> {
    tx.tx.prepare_cached("DELETE FROM tourbillon_timer WHERE id = ?")?.execute([timer]).map(drop)
}

/// Ends a timer that is not running.
pub(super) fn withdraw(tx: &Tx<'_>, timer: TimerId, reason: Reason) -> rusqlite::Result<()> {
    rows::record_timer(tx, timer, Outcome::Cancelled, Some(reason), "")?;
    delete(tx, timer)
}

pub(super) fn cancel(tx: &Tx<'_>, timer: TimerId) -> rusqlite::Result<Withdrawn> {
    match get(tx, timer)? {
        None => Ok(Withdrawn::Gone),
        Some(Timer { running: Some(_), attempt, .. }) => Ok(Withdrawn::Running { attempt }),
        Some(_) => withdraw(tx, timer, Reason::Cancelled).map(|()| Withdrawn::Done),
    }
}

pub(super) fn reschedule(tx: &Tx<'_>, timer: TimerId, to: Time) -> rusqlite::Result<Withdrawn> {
    match get(tx, timer)? {
        Some(Timer { running: Some(_), attempt, .. }) => Ok(Withdrawn::Running { attempt }),
        Some(row) if row.new.schedule.is_none() => {
            let mut update = tx.tx.prepare_cached(
                "UPDATE tourbillon_timer SET scheduled_for = ?, due = ? WHERE id = ?",
            )?;
            update.execute(params![to, to.max(tx.now), timer])?;
            Ok(Withdrawn::Done)
        }
        _ => Ok(Withdrawn::Gone),
    }
}

fn get(tx: &Tx<'_>, timer: TimerId) -> rusqlite::Result<Option<Timer>> {
    let select = format!("SELECT {TIMER} FROM tourbillon_timer WHERE id = ?");
    tx.tx.prepare_cached(&select)?.query_row([timer], rows::timer).optional()
}

pub(super) fn find(tx: &Tx<'_>, name: &str) -> rusqlite::Result<Option<Timer>> {
    let select = format!(
        "SELECT {TIMER} FROM tourbillon_timer
         WHERE name = ? AND schedule IS NULL AND name IS NOT NULL"
    );
    tx.tx.prepare_cached(&select)?.query_row([name], rows::timer).optional()
}

pub(super) fn list(tx: &Tx<'_>, filter: &Filter) -> rusqlite::Result<Vec<Timer>> {
    let mut select = tx.tx.prepare_cached(&format!(
        "SELECT {TIMER} FROM tourbillon_timer
         WHERE (?1 IS NULL OR id > ?1)
             AND (?2 IS NULL OR kind = ?2) AND (?3 IS NULL OR name = ?3)
             AND (?4 IS NULL OR schedule = ?4) AND (?5 IS NULL OR id = ?5)
         ORDER BY id LIMIT ?6"
    ))?;
    let Filter { kind, name, schedule, timer, .. } = filter;
    let after = filter.after.map(TimerId::from_bits);
    let found = select.query_map(
        params![after, kind, name, schedule, timer, filter.limit() as i64],
        rows::timer,
    )?;
    found.collect()
}

/// The timers of a schedule.
pub(super) fn of_schedule(tx: &Tx<'_>, schedule: ScheduleId) -> rusqlite::Result<Vec<Timer>> {
    let select =
        format!("SELECT {TIMER} FROM tourbillon_timer WHERE schedule = ? ORDER BY scheduled_for");
    let mut select = tx.tx.prepare_cached(&select)?;
    let found = select.query_map([schedule], rows::timer)?;
    found.collect()
}
