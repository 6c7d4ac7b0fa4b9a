//! Counts for an overview.

use rusqlite::{Connection, Row, params};

use super::failure::Answer;
use super::values::{Id, Stamp, count, outcome};
use crate::store::overview::HOUR;
use crate::store::{NodeInfo, Overview, OverviewOf};
use crate::time::Time;

const NODES: &str = "
    SELECT id, epoch, seen, expires FROM tourbillon_node WHERE expires IS NOT NULL ORDER BY id";

pub(super) const DUE: &str = "
    SELECT count(*) FILTER (WHERE node IS NULL), min(due) FILTER (WHERE node IS NULL),
        count(*) FILTER (WHERE node IS NOT NULL)
    FROM (
        SELECT due, node FROM tourbillon_timer INDEXED BY tourbillon_timer_kind
        WHERE kind = ?1 AND due <= ?2 ORDER BY due LIMIT ?3
    )";

pub(super) const NEXT: &str = "
    SELECT (due - ?2 - 1) / 60000000, count(*), max(due)
    FROM (
        SELECT due FROM tourbillon_timer INDEXED BY tourbillon_timer_kind
        WHERE kind = ?1 AND due > ?2 AND due <= ?3 ORDER BY due LIMIT ?4
    )
    GROUP BY 1";

pub(super) const ENABLED: &str = "
    SELECT count(*) FROM (
        SELECT 1 FROM tourbillon_schedule INDEXED BY tourbillon_schedule_enabled
        WHERE enabled AND kind = ?1 LIMIT ?2
    )";

pub(super) const DISABLED: &str = "
    SELECT count(*) FROM (
        SELECT 1 FROM tourbillon_schedule INDEXED BY tourbillon_schedule_disabled
        WHERE NOT enabled AND kind = ?1 LIMIT ?2
    )";

pub(super) const OUTCOMES: &str = "
    SELECT outcome, count(*), min(recorded)
    FROM (
        SELECT outcome, recorded FROM tourbillon_history INDEXED BY tourbillon_history_kind
        WHERE kind = ?1 AND recorded >= ?2 ORDER BY recorded DESC LIMIT ?3
    )
    GROUP BY 1";

pub(super) fn nodes(connection: &Connection) -> Answer<Vec<NodeInfo>> {
    let mut statement = connection.prepare_cached(NODES)?;
    let node = |row: &Row<'_>| {
        Ok(NodeInfo {
            id: row.get::<_, Id>(0)?.into(),
            epoch: count(row, 1)?,
            beat: row.get::<_, Stamp>(2)?.0,
            expires: row.get::<_, Stamp>(3)?.0,
        })
    };
    let nodes = statement.query_map([], node)?;
    Ok(nodes.collect::<Result<_, _>>()?)
}

pub(super) fn overview(connection: &Connection, now: Time, of: &OverviewOf) -> Answer<Overview> {
    let mut overview = Overview::new(now);
    let part = of.part();
    for kind in &of.kinds {
        let due = params![kind, Stamp(now), part];
        let (pending, oldest, running) = connection.prepare_cached(DUE)?.query_row(due, |row| {
            Ok((count(row, 0)?, row.get::<_, Option<Stamp>>(1)?, count(row, 2)?))
        })?;
        overview.add_due(pending, oldest.map(|stamp| stamp.0), running, part);

        let mut statement = connection.prepare_cached(NEXT)?;
        let next = params![kind, Stamp(now), Stamp(now + HOUR), part];
        let minutes = statement
            .query_map(next, |row| Ok((row.get(0)?, count(row, 1)?, row.get::<_, Stamp>(2)?.0)))?;
        overview.add_next(&minutes.collect::<Result<Vec<_>, _>>()?, part);

        let number =
            |sql| connection.prepare_cached(sql)?.query_row((kind, part), |row| count(row, 0));
        overview.add_schedules(number(ENABLED)?, number(DISABLED)?, part);

        let mut statement = connection.prepare_cached(OUTCOMES)?;
        let last = params![kind, Stamp(now - HOUR), part];
        let outcomes = statement.query_map(last, |row| {
            Ok((outcome(row, 0)?, count(row, 1)?, row.get::<_, Stamp>(2)?.0))
        })?;
        overview.add_outcomes(&outcomes.collect::<Result<Vec<_>, _>>()?, part);
    }
    Ok(overview)
}
