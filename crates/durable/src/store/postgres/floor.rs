//! [`Floor`]: where a connection begins to read what is due.
//!
//! A timer that has ended leaves an entry in each index, which nothing removes while any snapshot
//! in the database is older than the end. Reads from the beginning of an index on `due` would pass
//! all of these. So a connection remembers a time, the floor, and the timers due before it; it
//! looks those up by id, and reads the index from the floor on.
//!
//! A look moves the floor to [`MARGIN`] before now. It reads, by one statement and so in one
//! snapshot, what is left of the timers that were known, and what is between the old floor and the
//! new one. A timer can appear before the floor later: by a transaction that began longer than the
//! margin before the look, by a clock that has stepped, or by hand. So now and then a look begins
//! anew, from the beginning of the index: as often as such looks take one part in [`SHARE`] of the
//! time. Where they are quick, as without a long snapshot, each look of a node is one.

use std::mem;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::error::SqlState;

use super::link::{Answer, Failure, Params, Query, Session};
use super::values::{Id, Span, Stamp};
use crate::time::Time;

/// Time from the floor to the look that sets it; longer than a call of a store takes.
const MARGIN: Duration = Duration::from_secs(10);

/// Most timers before the floor. The floor stays at the first that is one too many.
const MOST: usize = 1_000;

/// A look that begins anew and took a second is followed by the next after so many.
const SHARE: u32 = 100;

/// Floor of a connection; none before the first look.
#[derive(Debug, Default)]
pub(super) struct Floor {
    from: Option<Time>,
    /// Timers that are due before the floor, as far as looks have found them.
    behind: Vec<Id>,
    /// Time from which on a look begins anew; none before the first.
    anew_from: Option<Instant>,
}

impl Floor {
    /// Returns from where reads go by an index, and what they look up besides.
    pub(super) fn place(&self) -> (Option<Stamp>, Vec<Id>) {
        (self.from.map(Stamp), self.behind.clone())
    }

    /// Takes the timers that a look has found, by `(due, id)`: all that are due before the first of
    /// `found` that is one too many, or before [`MARGIN`] ago.
    fn set(&mut self, now: Time, found: impl Iterator<Item = (Time, Id)> + Clone) {
        let one_too_many = found.clone().nth(MOST).map_or(Time::NEVER, |(due, _)| due);
        let from = one_too_many.min(now - MARGIN);
        self.from = Some(from);
        self.behind = found.take_while(|(due, _)| *due < from).map(|(_, id)| id).collect();
    }

    /// Returns whether a look at `now` begins anew.
    fn begins_anew(&self, now: Instant) -> bool {
        self.anew_from.is_none_or(|from| from <= now)
    }

    /// Notes a look that began anew at `sent` and took so long.
    fn note_anew(&mut self, sent: Instant, took: Duration) {
        self.anew_from = Some(sent + took * SHARE);
    }
}

/// Query for what is left of `$1`, and what is due from `$2` until `$3` before now: of the latter
/// no more than `$4`.
const LOOK: &str = "
    SELECT now(), array_agg(l.due ORDER BY l.due, l.id), array_agg(l.id ORDER BY l.due, l.id)
    FROM (
        SELECT due, id FROM tourbillon.timer WHERE id = ANY($1)
        UNION
        (
            SELECT due, id FROM tourbillon.timer
            WHERE due >= coalesce($2::timestamptz, '-infinity') AND due < now() - $3::interval
            ORDER BY due, id LIMIT $4
        )
    ) AS l";

/// Moves the floor of a connection. If a look that begins anew takes longer than the server gives
/// a statement, the floor stays, and reads begin there as before.
///
/// # Errors
///
/// Fails as the statement does, but for a look anew that is ended where there is a floor.
pub(super) async fn look(session: &mut Session) -> Answer<()> {
    let sent = Instant::now();
    let is_anew = session.floor.begins_anew(sent);
    let floor = mem::take(&mut session.floor);
    let looked = if is_anew {
        read(session, None, &[]).await
    } else {
        read(session, floor.from, &floor.behind).await
    };
    session.floor = floor;
    if is_anew {
        session.floor.note_anew(sent, sent.elapsed());
    }
    match looked {
        Ok((now, found)) => session.floor.set(now, found.into_iter()),
        Err(Failure::Postgres(error))
            if is_anew
                && session.floor.from.is_some()
                && error.code() == Some(&SqlState::QUERY_CANCELED) => {}
        Err(failure) => return Err(failure),
    }
    Ok(())
}

/// Reads what a look finds, with the server's time.
async fn read(
    session: &mut Session,
    from: Option<Time>,
    known: &[Id],
) -> Answer<(Time, Vec<(Time, Id)>)> {
    let params: Params<'_> = &[&known, &from.map(Stamp), &Span(MARGIN), &(MOST as i64 + 1)];
    let rows = session.read(LOOK, params).await?;
    let Stamp(now) = rows[0].try_get(0)?;
    let due: Vec<Stamp> = rows[0].try_get::<_, Option<_>>(1)?.unwrap_or_default();
    let ids: Vec<Id> = rows[0].try_get::<_, Option<_>>(2)?.unwrap_or_default();
    Ok((now, due.into_iter().map(|Stamp(due)| due).zip(ids).collect()))
}

#[cfg(test)]
mod tests;
