//! Looks: they move a connection's [`Floor`], and walk through the range before it.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use super::answer::{Answer, Failure, Params, unavailable};
use super::floor::{Floor, MARGIN, MOST, Part, Walk};
use super::link::{Query, Session};
use super::values::{Id, Span, Stamp};
use crate::time::Time;

/// One more than [`MOST`].
const LIMIT: i64 = MOST as i64 + 1;

/// Time of the server after which a look stops walking; without a floor, when reads wait for it. A
/// look also stops after twice that time on this side, because each part waits for the network.
const SLICE: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];

/// The remaining timers of `$7`, and at most `$10` that are due from `$8` until `$9` before now:
/// none if that is null.
macro_rules! look {
    () => {
        "WITH look AS MATERIALIZED (
             SELECT due, id, kind, shard, node, stopped FROM tourbillon.timer
             WHERE id = ANY($7::uuid[])
             UNION
             (
                 SELECT due, id, kind, shard, node, stopped FROM tourbillon.timer
                 WHERE due >= coalesce($8::timestamptz, '-infinity')
                     AND due < now() - $9::interval AND shard >= 0
                 ORDER BY due, id LIMIT $10
             )
         ),
         "
    };
}

/// Times and ids of a look, and the duration of its reading on the server.
macro_rules! found {
    () => {
        ", ARRAY(SELECT due FROM look ORDER BY due, id),
         ARRAY(SELECT id FROM look ORDER BY due, id), clock_timestamp() - now() "
    };
}
pub(super) use {found, look};

/// Query for at most `$4` timers that are due before `$1`, have been due for longer than `$2`, and
/// lie within a span of `$3` if it is given. The clock is read after the rows.
const WALK: &str = "
    SELECT least($1, now() - $2::interval), clock_timestamp() - now(),
           array_agg(l.due ORDER BY l.due, l.id), array_agg(l.id ORDER BY l.due, l.id)
    FROM (
        SELECT due, id FROM tourbillon.timer
        WHERE due < least($1::timestamptz, now() - $2::interval)
            AND due >= coalesce(least($1, now() - $2::interval) - $3::interval, '-infinity')
            AND shard >= 0
        ORDER BY due, id LIMIT $4
    ) AS l";

/// A look by a scan: it moves the floor of the connection.
pub(super) struct Look {
    /// Where it begins; `None` if it is a walk through everything too.
    from: Option<Stamp>,
    sent: Instant,
}

/// Parameters of a scan from `$6` on.
pub(super) struct Values {
    floor: Option<Stamp>,
    behind: Vec<Id>,
    from: Option<Stamp>,
    margin: Option<Span>,
}

impl Values {
    pub(super) fn new(look: Option<&Look>, floor: &Floor) -> Self {
        let (floor, behind) = floor.place();
        let margin = look.map(|_| Span(MARGIN));
        Self { floor, behind, from: look.and_then(|look| look.from), margin }
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 5] {
        [&self.floor, &self.behind, &self.from, &self.margin, &LIMIT]
    }
}

/// Begins a look, and walks if it is time. Where a short statement walks through everything, the
/// look itself does.
///
/// # Errors
///
/// Fails like a walk, unless the server ends that where there is a floor. Without a floor, fails if
/// the walk that sets it has not ended; the next call continues it, or a later one after an error.
pub(super) async fn begin(session: &mut Session) -> Answer<Look> {
    let sent = Instant::now();
    let is_time = session.floor.walks(sent);
    if is_time && session.floor.is_quick() {
        return Ok(Look { from: None, sent });
    }
    if is_time {
        let walked = walk(session).await;
        session.floor.note_walk(sent, sent.elapsed(), walked.is_err());
        walked?;
    }
    match session.floor.from {
        Some(from) => Ok(Look { from: Some(Stamp(from)), sent }),
        None => {
            let why = "rows kept by a long snapshot are not read yet";
            Err(Failure::Other(unavailable(why.into())))
        }
    }
}

impl Look {
    /// Ends it with the rows of its scan. Returns whether the floor is lower than that scan had it,
    /// so that timers between the two are not read.
    pub(super) fn end(self, floor: &mut Floor, rows: &Answer<Vec<Row>>) -> Answer<bool> {
        let Ok(rows) = rows else {
            if self.from.is_none() {
                floor.narrow();
            }
            return Ok(false);
        };
        let Stamp(now) = rows[0].try_get(0)?;
        let found = rows[0].try_get::<_, Vec<Stamp>>(4)?.into_iter().map(|Stamp(due)| due);
        let found: Vec<_> = found.zip(rows[0].try_get::<_, Vec<Id>>(5)?).collect();
        let before = floor.from;
        floor.set(now, found.into_iter());
        if self.from.is_none() {
            let Span(took) = rows[0].try_get(6)?;
            floor.end_walk(took);
            floor.note_walk(self.sent, self.sent.elapsed(), false);
        }
        Ok(floor.from < before)
    }
}

/// Sets a floor if there is none.
pub(super) async fn ensure(session: &mut Session) -> Answer<()> {
    match session.floor.from {
        Some(_) => Ok(()),
        None => begin(session).await.map(drop),
    }
}

/// Walks until the end, or for a while.
async fn walk(session: &mut Session) -> Answer<()> {
    let slice = SLICE[usize::from(session.floor.from.is_none())];
    let (begun, mut took) = (Instant::now(), Duration::ZERO);
    // Known timers are read at the end of the look, which then knows fewer.
    while took < slice && begun.elapsed() < slice * 2 && session.floor.behind.len() <= MOST {
        let Floor { walk: Walk { below, span, .. }, from, .. } = session.floor;
        let below = below.or(from).unwrap_or(Time::NEVER);
        let params: Params<'_> = &[&Stamp(below), &Span(MARGIN), &span.map(Span), &LIMIT];
        let rows = match session.read(WALK, params).await {
            Err(Failure::Postgres(error)) if error.code() == Some(&SqlState::QUERY_CANCELED) => {
                session.floor.narrow();
                return if from.is_some() { Ok(()) } else { Err(error.into()) };
            }
            rows => rows?,
        };
        let (Stamp(end), Span(part)) = (rows[0].try_get(0)?, rows[0].try_get(1)?);
        let part = Part { end, took: part, found: timers(&rows[0], 2)? };
        took += part.took;
        if session.floor.take(part) {
            break;
        }
    }
    Ok(())
}

/// Reads the timers whose times and ids are in two columns from `column` on.
fn timers(row: &Row, column: usize) -> Answer<Vec<(Time, Id)>> {
    let due: Vec<Stamp> = row.try_get::<_, Option<_>>(column)?.unwrap_or_default();
    let ids: Vec<Id> = row.try_get::<_, Option<_>>(column + 1)?.unwrap_or_default();
    Ok(due.into_iter().map(|Stamp(due)| due).zip(ids).collect())
}

#[cfg(test)]
mod tests;
