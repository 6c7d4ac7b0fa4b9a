//! Lives of nodes.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::Tx;
use crate::id::{Lease, NodeId, ScheduleId, TimerId};
use crate::store::{Beat, Tended};
use crate::time::Time;

/// For how long the epoch of a dead node is kept.
const KEPT: Duration = Duration::from_secs(7 * 86_400);

/// How many timers are freed at a time.
const BATCH: usize = 5_000;

pub(super) fn join(tx: &Tx<'_>, node: NodeId, span: Duration) -> rusqlite::Result<Beat> {
    let mut insert = tx.tx.prepare_cached(
        "INSERT INTO tourbillon_node (id, epoch, alive, beat, expires) VALUES (?1, 1, 1, ?2, ?3)
         ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1, alive = 1, beat = ?2, expires = ?3
         RETURNING epoch",
    )?;
    let epoch = insert.query_row(params![node, tx.now, tx.now + span], |row| row.get(0))?;
    answer(tx, Lease { node, epoch })
}

pub(super) fn beat(tx: &Tx<'_>, lease: Lease, span: Duration) -> rusqlite::Result<Option<Beat>> {
    let mut update = tx.tx.prepare_cached(
        "UPDATE tourbillon_node SET beat = ?, expires = ?
         WHERE id = ? AND epoch = ? AND alive = 1",
    )?;
    let beaten = update.execute(params![tx.now, tx.now + span, lease.node, lease.epoch])?;
    if beaten == 0 { Ok(None) } else { answer(tx, lease).map(Some) }
}

fn answer(tx: &Tx<'_>, lease: Lease) -> rusqlite::Result<Beat> {
    let mut select =
        tx.tx.prepare_cached("SELECT id, beat FROM tourbillon_node WHERE alive = 1 ORDER BY id")?;
    let nodes = select.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Beat { lease, now: tx.now, nodes: nodes.collect::<rusqlite::Result<_>>()? })
}

/// Whether the node lives under this lease.
pub(super) fn lives(tx: &Tx<'_>, lease: Lease) -> rusqlite::Result<bool> {
    let mut select = tx
        .tx
        .prepare_cached("SELECT 1 FROM tourbillon_node WHERE id = ? AND epoch = ? AND alive = 1")?;
    select.exists(params![lease.node, lease.epoch])
}

pub(super) fn leave(tx: &Tx<'_>, lease: Lease) -> rusqlite::Result<()> {
    if lives(tx, lease)? {
        let mut end = tx.tx.prepare_cached("UPDATE tourbillon_node SET alive = 0 WHERE id = ?")?;
        end.execute([lease.node])?;
        let mut free = tx.tx.prepare_cached(
            "UPDATE tourbillon_timer SET owner = NULL, epoch = NULL
             WHERE owner = ? AND epoch = ?",
        )?;
        free.execute(params![lease.node, lease.epoch])?;
    }
    Ok(())
}

pub(super) fn tend(tx: &Tx<'_>) -> rusqlite::Result<Tended> {
    let nodes = tx
        .tx
        .prepare_cached("UPDATE tourbillon_node SET alive = 0 WHERE alive = 1 AND expires < ?")?
        .execute([tx.now])?;
    tx.tx
        .prepare_cached("DELETE FROM tourbillon_node WHERE alive = 0 AND expires < ?")?
        .execute([tx.now - KEPT])?;
    let orphans = tx
        .tx
        .prepare_cached(
            "UPDATE tourbillon_timer SET owner = NULL, epoch = NULL WHERE id IN (
                 SELECT timer.id FROM tourbillon_timer AS timer
                 WHERE timer.owner IS NOT NULL AND NOT EXISTS (
                     SELECT 1 FROM tourbillon_node AS node
                     WHERE node.id = timer.owner AND node.epoch = timer.epoch AND node.alive = 1)
                 LIMIT ?)",
        )?
        .execute([BATCH as i64])?;
    let promoted = promote(tx)?;
    Ok(Tended { nodes: nodes as u64, orphans: orphans as u64, promoted, more: orphans == BATCH })
}

/// Makes the first of each queue due that nothing unfinished is before.
fn promote(tx: &Tx<'_>) -> rusqlite::Result<u64> {
    let mut queued = tx.tx.prepare_cached(
        "SELECT DISTINCT schedule FROM tourbillon_timer
         WHERE due = ? AND owner IS NULL AND schedule IS NOT NULL",
    )?;
    let schedules: Vec<ScheduleId> =
        queued.query_map([Time::NEVER], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut first = tx.tx.prepare_cached(
        "SELECT id FROM tourbillon_timer
         WHERE schedule = ?1 AND NOT EXISTS (
             SELECT 1 FROM tourbillon_timer
             WHERE schedule = ?1 AND (owner IS NOT NULL OR due < ?2))
         ORDER BY scheduled_for LIMIT 1",
    )?;
    let mut update = tx.tx.prepare_cached("UPDATE tourbillon_timer SET due = ? WHERE id = ?")?;
    let mut promoted = 0;
    for schedule in schedules {
        let found: Option<TimerId> =
            first.query_row(params![schedule, Time::NEVER], |row| row.get(0)).optional()?;
        if let Some(timer) = found {
            update.execute(params![tx.now, timer])?;
            promoted += 1;
        }
    }
    Ok(promoted)
}
