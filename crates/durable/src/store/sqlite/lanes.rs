//! Lanes: which timer of each is the front.

use rusqlite::{Connection, OptionalExtension, params};

use super::failure::Answer;
use super::values::{Id, Stamp};
use crate::store::Promoted;
use crate::time::Time;

/// Lanes that one call of [`maintain`] looks at.
const PART: usize = 500;

/// The next lane in which timers wait: one look at an index, however many there are.
pub(super) const NEXT: &str = "
    SELECT lane FROM tourbillon_timer INDEXED BY tourbillon_timer_lane
    WHERE lane > ? AND lane IS NOT NULL AND due = 9223372036854775807
    ORDER BY lane LIMIT 1";

/// Whether the front stays whatever waits, and its place.
pub(super) const FRONT: &str = "
    SELECT node IS NOT NULL OR attempt > 0, scheduled_for, id
    FROM tourbillon_timer INDEXED BY tourbillon_timer_front
    WHERE lane = ? AND lane IS NOT NULL AND due < 9223372036854775807";

/// The first that waits and is not held.
pub(super) const FIRST: &str = "
    SELECT scheduled_for, id, kind FROM tourbillon_timer INDEXED BY tourbillon_timer_lane
    WHERE lane = ?1 AND lane IS NOT NULL AND due = 9223372036854775807 AND scheduled_for < ?2
    ORDER BY scheduled_for, id LIMIT 1";

pub(super) const MOVE: &str = "UPDATE tourbillon_timer SET due = ?2 WHERE id = ?1";

/// Chooses the fronts of these lanes. Returns the new ones.
pub(super) fn promote(
    connection: &Connection,
    now: Time,
    lanes: &[String],
) -> Answer<Vec<Promoted>> {
    let promoted = lanes.iter().map(|lane| promote_one(connection, now, lane).transpose());
    promoted.flatten().collect()
}

fn promote_one(connection: &Connection, now: Time, lane: &str) -> Answer<Option<Promoted>> {
    let mut statement = connection.prepare_cached(FIRST)?;
    let first = statement.query_row(params![lane, Stamp(Time::NEVER)], |row| {
        Ok((row.get::<_, Stamp>(0)?.0, row.get::<_, Id>(1)?, row.get(2)?))
    });
    let Some((scheduled_for, id, kind)) = first.optional()? else { return Ok(None) };
    let id = id.into();
    let mut statement = connection.prepare_cached(FRONT)?;
    let front = statement.query_row([lane], |row| {
        Ok((row.get::<_, bool>(0)?, row.get::<_, Stamp>(1)?.0, row.get::<_, Id>(2)?))
    });
    let mut statement = connection.prepare_cached(MOVE)?;
    if let Some((stays, at, front)) = front.optional()? {
        if stays || (at, front.into()) < (scheduled_for, id) {
            return Ok(None);
        }
        statement.execute(params![front, Stamp(Time::NEVER)])?;
    }
    let due = scheduled_for.max(now);
    statement.execute(params![Id::from(id), Stamp(due)])?;
    Ok(Some(Promoted { id, kind, due }))
}

/// Promotes the lanes after `lane`, a part of them. Sets `lane` to where the next call begins, and
/// returns how many have another front.
pub(super) fn maintain(connection: &Connection, now: Time, lane: &mut String) -> Answer<u64> {
    let (mut statement, mut promoted) = (connection.prepare_cached(NEXT)?, 0);
    for _ in 0..PART {
        let Some(next) = statement.query_row([&*lane], |row| row.get(0)).optional()? else {
            lane.clear();
            break;
        };
        *lane = next;
        promoted += u64::from(promote_one(connection, now, lane)?.is_some());
    }
    Ok(promoted)
}
