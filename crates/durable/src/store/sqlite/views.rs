//! Reads for observers: the newest records of names, names by a text, and counts by time.

use rusqlite::{Connection, Row, params};

use super::failure::Answer;
use super::lists;
use super::values::{Id, Stamp, count, outcome, reason};
use crate::record::RecordSummary;
use crate::store::{Hits, NameState, Search, Tally, TallyOf};
use crate::time::Time;

pub(super) const LATEST: &str = "
    SELECT timer, scheduled_for, outcome, reason, detail, recorded
    FROM tourbillon_history INDEXED BY tourbillon_history_name
    WHERE name = ?1 AND name IS NOT NULL ORDER BY recorded DESC, timer DESC LIMIT ?2";

/// Counts records of a kind in parts: from `?2` on, before `?3`, `?4` microseconds each, and `?5`
/// records at most; `?6` is the number of the last part. A difference that is no whole number of 64
/// bits is a real one, and may be rounded up to the end.
pub(super) const TALLY: &str = "
    SELECT min(CAST((recorded - ?2) / ?4 AS INTEGER), ?6), outcome, count(*), min(recorded)
    FROM (
        SELECT outcome, recorded FROM tourbillon_history INDEXED BY tourbillon_history_kind
        WHERE kind = ?1 AND recorded >= ?2 AND recorded < ?3
        ORDER BY recorded DESC, timer DESC LIMIT ?5
    )
    GROUP BY 1, 2";

/// The same as [`TALLY`], of a name and of the kind `?7`.
pub(super) const TALLY_NAMED: &str = "
    SELECT min(CAST((recorded - ?2) / ?4 AS INTEGER), ?6), outcome, count(*), min(recorded)
    FROM (
        SELECT outcome, recorded FROM tourbillon_history INDEXED BY tourbillon_history_name
        WHERE name = ?1 AND name IS NOT NULL AND recorded >= ?2 AND recorded < ?3 AND kind = ?7
        ORDER BY recorded DESC, timer DESC LIMIT ?5
    )
    GROUP BY 1, 2";

/// Returns the newest records of each name.
pub(super) fn latest_records(
    connection: &Connection,
    names: &[&str],
    each: u32,
) -> Answer<Vec<Vec<RecordSummary>>> {
    let mut latest = connection.prepare_cached(LATEST)?;
    let summary = |row: &Row<'_>| {
        Ok(RecordSummary {
            timer: row.get::<_, Id>(0)?.into(),
            scheduled_for: row.get::<_, Stamp>(1)?.0,
            outcome: outcome(row, 2)?,
            reason: reason(row, 3)?,
            detail: row.get(4)?,
            recorded: row.get::<_, Stamp>(5)?.0,
        })
    };
    let mut of_name = |name: &&str| {
        let rows = latest.query_map((name, each), summary)?;
        Ok(rows.collect::<Result<_, _>>()?)
    };
    names.iter().map(&mut of_name).collect()
}

/// Finds names by a text.
pub(super) fn search(connection: &Connection, search: &Search) -> Answer<Hits> {
    let mut walks = Vec::new();
    if search.has_schedules() {
        let names = lists::names_of_schedules(search).get(connection, |row| {
            let state = if row.get(1)? { NameState::Enabled } else { NameState::Disabled };
            Ok((row.get(0)?, state))
        })?;
        walks.push(search.walk(names));
    }
    if search.has_timers() {
        let names = lists::names_of_timers(search).get(connection, |row| {
            let state = match (row.get(1)?, row.get(2)?) {
                (true, _) => NameState::Running,
                (false, Stamp(Time::NEVER)) => NameState::Held,
                (false, _) => NameState::Pending,
            };
            Ok((row.get(0)?, state))
        })?;
        walks.push(search.walk(names));
    }
    Ok(search.hits(walks))
}

/// Counts records by their time.
pub(super) fn tally(connection: &Connection, of: &TallyOf) -> Answer<Tally> {
    let part = i64::try_from(of.part().as_micros()).unwrap_or(i64::MAX);
    let (since, until) = (Stamp(of.since), Stamp(of.until));
    let last = of.parts.max(1) - 1;
    let read = |row: &Row<'_>| {
        let part = usize::try_from(row.get::<_, i64>(0)?).unwrap_or(usize::MAX);
        Ok((part, outcome(row, 1)?, count(row, 2)?, row.get::<_, Stamp>(3)?.0))
    };
    let counts: Result<Vec<_>, _> = match &of.name {
        Some(name) => connection
            .prepare_cached(TALLY_NAMED)?
            .query_map(params![name, since, until, part, of.reads(), last, of.kind], read)?
            .collect(),
        None => connection
            .prepare_cached(TALLY)?
            .query_map(params![of.kind, since, until, part, of.reads(), last], read)?
            .collect(),
    };
    Ok(of.tally(counts?))
}
