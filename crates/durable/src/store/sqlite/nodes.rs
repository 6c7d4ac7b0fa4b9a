//! Lives of nodes, and their orphans.

use std::time::Duration;

use rusqlite::{Connection, params};

use super::failure::Answer;
use super::lanes;
use super::timers::withdraw;
use super::values::{Id, Stamp, big, parts};
use crate::id::Lease;
use crate::record::Reason;
use crate::store::{Beat, Maintained};
use crate::time::Time;

/// Most timers that one call makes pending.
const BATCH: i64 = 2_000;

/// Life of a dead node's epoch.
const KEPT: Duration = Duration::from_secs(2 * 86_400);

pub(super) const JOIN: &str = "
    INSERT INTO tourbillon_node (id, epoch, seen, expires) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (id) DO UPDATE SET epoch = ?2, seen = ?3, expires = ?4 WHERE epoch < ?2";

pub(super) const BEAT: &str = "
    UPDATE tourbillon_node SET seen = ?3, expires = ?4
    WHERE id = ?1 AND epoch = ?2 AND expires IS NOT NULL";

const LIVING: &str = "SELECT id, seen FROM tourbillon_node WHERE expires IS NOT NULL ORDER BY id";

pub(super) const LEAVE: &str = "
    UPDATE tourbillon_node SET expires = NULL, seen = ?3
    WHERE id = ?1 AND epoch = ?2 AND expires IS NOT NULL";

pub(super) const GIVE_BACK: &str =
    "UPDATE tourbillon_timer SET node = NULL, epoch = NULL WHERE node = ?1 AND epoch = ?2";

const EXPIRE: &str = "UPDATE tourbillon_node SET expires = NULL, seen = ?1 WHERE expires < ?1";

const FORGET: &str = "DELETE FROM tourbillon_node WHERE expires IS NULL AND seen < ?1";

pub(super) const ORPHANS: &str = "
    UPDATE tourbillon_timer SET node = NULL, epoch = NULL WHERE id IN (
        SELECT timer.id FROM tourbillon_timer AS timer
        WHERE timer.node IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM tourbillon_node AS node
            WHERE node.id = timer.node AND node.epoch = timer.epoch AND node.expires IS NOT NULL
        )
        LIMIT ?1
    )";

/// Timers that are pending again of schedules that were stopped while they ran.
pub(super) const STOPPED: &str = "
    SELECT id, stopped FROM tourbillon_timer INDEXED BY tourbillon_timer_stopped
    WHERE stopped > 0 AND node IS NULL LIMIT ?";

/// The first that waits of each schedule that has some waiting, and nothing unfinished.
pub(super) const PROMOTE: &str = "
    UPDATE tourbillon_timer SET due = ?1 WHERE id IN (
        SELECT (
            SELECT first.id FROM tourbillon_timer AS first
            WHERE first.schedule = queue.schedule ORDER BY first.scheduled_for LIMIT 1
        )
        FROM (
            SELECT DISTINCT schedule FROM tourbillon_timer INDEXED BY tourbillon_timer_queue
            WHERE due = 9223372036854775807 AND schedule IS NOT NULL AND lane IS NULL
        ) AS queue
        WHERE NOT EXISTS (
            SELECT 1 FROM tourbillon_timer AS other
            WHERE other.schedule = queue.schedule
                AND (other.due < ?2 OR other.node IS NOT NULL OR other.lane IS NOT NULL)
        )
        LIMIT ?3
    )";

pub(super) fn join(
    connection: &Connection,
    now: Time,
    lease: Lease,
    span: Duration,
) -> Answer<Option<Beat>> {
    let mut statement = connection.prepare_cached(JOIN)?;
    let (node, epoch) = (Id::from(lease.node), big(lease.epoch));
    let joined = statement.execute(params![node, epoch, Stamp(now), Stamp(now + span)])?;
    if joined == 0 { Ok(None) } else { beaten(connection, now, lease).map(Some) }
}

pub(super) fn beat(
    connection: &Connection,
    now: Time,
    lease: Lease,
    span: Duration,
) -> Answer<Option<Beat>> {
    let mut statement = connection.prepare_cached(BEAT)?;
    let (node, epoch) = parts(lease);
    match statement.execute(params![node, epoch, Stamp(now), Stamp(now + span)])? {
        0 => Ok(None),
        _ => beaten(connection, now, lease).map(Some),
    }
}

fn beaten(connection: &Connection, now: Time, lease: Lease) -> Answer<Beat> {
    let mut statement = connection.prepare_cached(LIVING)?;
    let living = statement
        .query_map([], |row| Ok((row.get::<_, Id>(0)?.into(), row.get::<_, Stamp>(1)?.0)))?;
    Ok(Beat { lease, now, nodes: living.collect::<Result<_, _>>()? })
}

pub(super) fn leave(connection: &Connection, now: Time, lease: Lease) -> Answer<()> {
    let (node, epoch) = parts(lease);
    let left = connection.prepare_cached(LEAVE)?.execute(params![node, epoch, Stamp(now)])?;
    if left > 0 {
        connection.prepare_cached(GIVE_BACK)?.execute((node, epoch))?;
    }
    Ok(())
}

/// Maintains the tables. It looks at lanes after `lane`, and sets `lane` to the start of the next
/// call.
pub(super) fn maintain(
    connection: &Connection,
    now: Time,
    lane: &mut String,
) -> Answer<Maintained> {
    let count = |sql: &str, values: &[&dyn rusqlite::ToSql]| -> Answer<u64> {
        Ok(connection.prepare_cached(sql)?.execute(values)? as u64)
    };
    let nodes = count(EXPIRE, &[&Stamp(now)])?;
    count(FORGET, &[&Stamp(now - KEPT)])?;
    let orphans = count(ORPHANS, &[&BATCH])?;
    let stopped = end_stopped(connection, now)?;
    let promoted = count(PROMOTE, &[&Stamp(now), &Stamp(Time::NEVER), &BATCH])?;
    let promoted = promoted + lanes::maintain(connection, now, lane)?;
    let is_round = lane.is_empty();
    let more = orphans.max(stopped).max(promoted) >= BATCH.unsigned_abs() || !is_round;
    Ok(Maintained { nodes, orphans, promoted, more })
}

/// Records it, and says how many it was.
fn end_stopped(connection: &Connection, now: Time) -> Answer<u64> {
    let mut statement = connection.prepare_cached(STOPPED)?;
    let found = statement.query_map([BATCH], |row| Ok((row.get::<_, Id>(0)?, row.get(1)?)))?;
    let found: Vec<(Id, i16)> = found.collect::<Result<_, _>>()?;
    for (id, reason) in &found {
        let reason = Reason::from_code(*reason).unwrap_or(Reason::Removed);
        withdraw(connection, now, (*id).into(), reason)?;
    }
    Ok(found.len() as u64)
}
