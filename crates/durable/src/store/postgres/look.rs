//! Looks: they move a connection's [`Floor`], and walk through the range before it.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

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

/// Query for the remaining timers of `$1`, and for at most `$4` that are due from `$2` until `$3`
/// before now.
const LOOK: &str = "
    SELECT now(), array_agg(l.due ORDER BY l.due, l.id), array_agg(l.id ORDER BY l.due, l.id)
    FROM (
        SELECT due, id FROM tourbillon.timer WHERE id = ANY($1)
        UNION
        (
            SELECT due, id FROM tourbillon.timer
            WHERE due >= $2 AND due < now() - $3::interval AND shard >= 0
            ORDER BY due, id LIMIT $4
        )
    ) AS l";

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

/// Moves the floor of a connection, and walks if it is time.
///
/// # Errors
///
/// Fails as the statement does, but for a walk that the server ends where there is a floor. Without
/// one, fails if the walk that sets it has not ended; the next call continues it, or a later one
/// after an error.
pub(super) async fn look(session: &mut Session) -> Answer<()> {
    let sent = Instant::now();
    if session.floor.walks(sent) {
        let walked = walk(session).await;
        session.floor.note_walk(sent, sent.elapsed(), walked.is_err());
        walked?;
    }
    let Some(from) = session.floor.from else {
        let why = "rows kept by a long snapshot are not read yet";
        return Err(Failure::Other(unavailable(why.into())));
    };
    let params: Params<'_> = &[&session.floor.behind.clone(), &Stamp(from), &Span(MARGIN), &LIMIT];
    let rows = session.read(LOOK, params).await?;
    let Stamp(now) = rows[0].try_get(0)?;
    let found = timers(&rows[0], 1)?;
    session.floor.set(now, found.into_iter());
    Ok(())
}

/// Sets a floor if there is none.
pub(super) async fn ensure(session: &mut Session) -> Answer<()> {
    match session.floor.from {
        Some(_) => Ok(()),
        None => look(session).await,
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
