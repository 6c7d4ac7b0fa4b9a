//! Schedules.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::Tx;
use super::rows::{self, SCHEDULE};
use super::timers;
use crate::id::{ScheduleId, Shards};
use crate::store::{
    Advance, Advanced, Change, Changed, Filter, Occupied, ScheduleRow, Skip, Upcoming,
};
use crate::time::Time;

pub(super) fn find(tx: &Tx<'_>, name: &str) -> rusqlite::Result<Option<ScheduleRow>> {
    let select = format!("SELECT {SCHEDULE} FROM tourbillon_schedule WHERE name = ?");
    tx.tx.prepare_cached(&select)?.query_row([name], rows::schedule).optional()
}

pub(super) fn list(tx: &Tx<'_>, filter: &Filter) -> rusqlite::Result<Vec<ScheduleRow>> {
    let mut select = tx.tx.prepare_cached(&format!(
        "SELECT {SCHEDULE} FROM tourbillon_schedule
         WHERE (?1 IS NULL OR id > ?1)
             AND (?2 IS NULL OR kind = ?2) AND (?3 IS NULL OR name = ?3)
         ORDER BY id LIMIT ?4"
    ))?;
    let after = filter.after.map(ScheduleId::from_bits);
    let values = params![after, filter.kind, filter.name, filter.limit() as i64];
    select.query_map(values, rows::schedule)?.collect()
}

pub(super) fn upcoming(
    tx: &Tx<'_>,
    ahead: Duration,
    shards: Shards,
    limit: u32,
) -> rusqlite::Result<Upcoming> {
    let mut select = tx.tx.prepare_cached(&format!(
        "SELECT {SCHEDULE}, shard FROM tourbillon_schedule
         WHERE enabled = 1 AND next <= ? ORDER BY next, id"
    ))?;
    let mut found = select.query([tx.now + ahead])?;
    let mut schedules = Vec::new();
    while let Some(row) = found.next()? {
        if schedules.len() >= limit as usize {
            break;
        }
        if shards.contains(row.get(9)?) {
            let row = rows::schedule(row)?;
            let occupied = occupied(tx, row.id)?;
            schedules.push((row, occupied));
        }
    }
    Ok(Upcoming { now: tx.now, schedules })
}

fn occupied(tx: &Tx<'_>, schedule: ScheduleId) -> rusqlite::Result<Occupied> {
    let mut count = tx.tx.prepare_cached(
        "SELECT COUNT(*), COALESCE(SUM(owner IS NULL AND due = ?), 0)
         FROM tourbillon_timer WHERE schedule = ?",
    )?;
    count.query_row(params![Time::NEVER, schedule], |row| {
        let (all, queued): (u32, u32) = (row.get(0)?, row.get(1)?);
        Ok(Occupied { unfinished: all - queued, queued })
    })
}

pub(super) fn change(tx: &Tx<'_>, change: &Change<'_>) -> rusqlite::Result<Changed> {
    let old = find(tx, change.name)?;
    if old.as_ref().map(|row| row.version) != change.expect {
        return Ok(Changed::Stale);
    }
    let version = change.expect.unwrap_or(0) + 1;
    match change.row {
        Some(row) => put(tx, row, version)?,
        None => {
            let mut delete =
                tx.tx.prepare_cached("DELETE FROM tourbillon_schedule WHERE name = ?")?;
            delete.execute([change.name])?;
        }
    }
    let Some(row) = old.as_ref().or(change.row) else {
        return Ok(Changed::Done { version, running: Vec::new() });
    };
    let mut running = Vec::new();
    for timer in timers::of_schedule(tx, row.id)? {
        if timer.running.is_some() {
            running.push((timer.new.id, timer.attempt));
        } else if let Some(reason) = change.withdraw {
            if timer.new.scheduled_for > change.as_of && timer.attempt == 0 {
                timers::delete(tx, timer.new.id)?;
            } else {
                timers::withdraw(tx, timer.new.id, reason)?;
            }
        }
    }
    skip(tx, change.skipped, row)?;
    Ok(Changed::Done { version, running })
}

fn put(tx: &Tx<'_>, row: &ScheduleRow, version: u64) -> rusqlite::Result<()> {
    let mut put = tx.tx.prepare_cached(&format!(
        "INSERT INTO tourbillon_schedule ({SCHEDULE}, shard)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT (id) DO UPDATE SET name = ?2, kind = ?3, spec = ?4, policies = ?5,
             payload = ?6, enabled = ?7, version = ?8, next = ?9"
    ))?;
    put.execute(params![
        row.id,
        row.name,
        row.kind,
        row.spec,
        row.policies,
        row.payload,
        row.enabled,
        version,
        row.next,
        row.id.shard(),
    ])?;
    Ok(())
}

pub(super) fn advance(tx: &Tx<'_>, advance: &Advance<'_>) -> rusqlite::Result<Advanced> {
    let mut select = tx.tx.prepare_cached(&format!(
        "SELECT {SCHEDULE} FROM tourbillon_schedule
         WHERE id = ? AND version = ? AND next = ? AND enabled = 1"
    ))?;
    let values = params![advance.schedule, advance.version, advance.from];
    let Some(row) = select.query_row(values, rows::schedule).optional()? else {
        return Ok(Advanced::Stale);
    };
    if advance.only_idle && occupied(tx, row.id)?.unfinished > 0 {
        return Ok(Advanced::Busy);
    }
    let mut update =
        tx.tx.prepare_cached("UPDATE tourbillon_schedule SET next = ? WHERE id = ?")?;
    update.execute(params![advance.next, row.id])?;
    for timer in advance.timers {
        if !is_recorded(tx, row.id, timer.scheduled_for)? {
            timers::insert(tx, timer)?;
        }
    }
    skip(tx, advance.skipped, &row)?;
    Ok(Advanced::Done)
}

fn is_recorded(tx: &Tx<'_>, schedule: ScheduleId, at: Time) -> rusqlite::Result<bool> {
    let mut select = tx.tx.prepare_cached(
        "SELECT 1 FROM tourbillon_history WHERE schedule = ? AND scheduled_for = ?",
    )?;
    select.exists(params![schedule, at])
}

/// Records occurrences that have neither timer nor record.
fn skip(tx: &Tx<'_>, skipped: &[Skip], row: &ScheduleRow) -> rusqlite::Result<()> {
    let mut insert = tx.tx.prepare_cached(
        "INSERT INTO tourbillon_history
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, 0, 0, ?7, ?8, '', NULL
         WHERE NOT EXISTS (
             SELECT 1 FROM tourbillon_timer WHERE schedule = ?3 AND scheduled_for = ?6)
         ON CONFLICT DO NOTHING",
    )?;
    for skip in skipped {
        insert.execute(params![
            tx.now,
            skip.id,
            row.id,
            row.name,
            row.kind,
            skip.scheduled_for,
            skip.outcome.code(),
            skip.reason.code(),
        ])?;
    }
    Ok(())
}
