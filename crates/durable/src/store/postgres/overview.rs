//! Counts for an overview. Planned each time, because the cheapest plan depends on the tables'
//! sizes.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::answer::Answer;
use super::link::{Query, Session};
use super::lists::outcome;
use super::values::{Id, Stamp};
use crate::store::{NodeInfo, Overview, OverviewOf};

const NODES: &str = "SELECT id, epoch, beat, expires FROM tourbillon.node ORDER BY id";

/// A row for each kind of `$1`, of `$2` rows at most.
const DUE: &str = "
    SELECT d.pending, d.oldest, d.running
    FROM unnest($1::text[]) AS k (kind) CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE node IS NULL) AS pending,
               min(due) FILTER (WHERE node IS NULL) AS oldest,
               count(*) FILTER (WHERE node IS NOT NULL) AS running
        FROM (
            SELECT due, node FROM tourbillon.timer AS t
            WHERE t.kind = k.kind AND due <= now() AND retry_attempts >= 0
            ORDER BY due, id LIMIT $2
        ) AS t
    ) AS d";

/// Timers that are not due yet do not run, so the index suffices.
const NEXT: &str = "
    SELECT k.place, n.minute, n.count, n.last
    FROM unnest($1::text[]) WITH ORDINALITY AS k (kind, place) CROSS JOIN LATERAL (
        SELECT ceil(extract(epoch FROM due - now()) / 60)::int4 - 1 AS minute,
               count(*) AS count, max(due) AS last
        FROM (
            SELECT due FROM tourbillon.timer AS t
            WHERE t.kind = k.kind AND due > now() AND due <= now() + interval '1 hour'
                AND retry_attempts >= 0
            ORDER BY due, id LIMIT $2
        ) AS t
        GROUP BY 1
    ) AS n";

const SCHEDULES: &str = "
    SELECT (
        SELECT count(*) FROM (
            SELECT 1 FROM tourbillon.schedule AS s WHERE enabled AND s.kind = k.kind LIMIT $2
        ) AS s
    ), (
        SELECT count(*) FROM (
            SELECT 1 FROM tourbillon.schedule AS s WHERE NOT enabled AND s.kind = k.kind LIMIT $2
        ) AS s
    )
    FROM unnest($1::text[]) AS k (kind)";

const OUTCOMES: &str = "
    SELECT k.place, o.outcome, o.count, o.first
    FROM unnest($1::text[]) WITH ORDINALITY AS k (kind, place) CROSS JOIN LATERAL (
        SELECT outcome, count(*) AS count, min(recorded) AS first
        FROM (
            SELECT outcome, recorded FROM tourbillon.history AS h
            WHERE h.kind = k.kind AND recorded >= now() - interval '1 hour'
            ORDER BY recorded DESC, timer DESC LIMIT $2
        ) AS h
        GROUP BY 1
    ) AS o";

pub(super) async fn nodes(session: &mut Session) -> Answer<Vec<NodeInfo>> {
    let node = |row: &Row| {
        let (Stamp(beat), Stamp(expires)) = (row.try_get(2)?, row.try_get(3)?);
        let epoch = row.try_get::<_, i64>(1)?.unsigned_abs();
        Ok(NodeInfo { id: row.try_get::<_, Id>(0)?.into(), epoch, beat, expires })
    };
    session.read(NODES, &[]).await?.iter().map(node).collect()
}

pub(super) async fn overview(session: &mut Session, of: &OverviewOf) -> Answer<Overview> {
    let part = of.part();
    let limit = i64::from(part);
    // All of one transaction see the same time.
    session.begin().await?;
    let Stamp(now) = session.read("SELECT now()", &[]).await?[0].try_get(0)?;
    let mut overview = Overview::new(now);
    for row in session.read_once(DUE, &[&of.kinds, &limit]).await? {
        let oldest: Option<Stamp> = row.try_get(1)?;
        overview.add_due(count(&row, 0)?, oldest.map(|Stamp(due)| due), count(&row, 2)?, part);
    }
    let mut kinds = BTreeMap::<i64, Vec<_>>::new();
    for row in session.read_once(NEXT, &[&of.kinds, &limit]).await? {
        let (minute, Stamp(last)) = (row.try_get::<_, i32>(1)?.unsigned_abs(), row.try_get(3)?);
        kinds.entry(row.try_get(0)?).or_default().push((minute, count(&row, 2)?, last));
    }
    kinds.values().for_each(|minutes| overview.add_next(minutes, part));
    for row in session.read_once(SCHEDULES, &[&of.kinds, &limit]).await? {
        overview.add_schedules(count(&row, 0)?, count(&row, 1)?, part);
    }
    let mut kinds = BTreeMap::<i64, Vec<_>>::new();
    for row in session.read_once(OUTCOMES, &[&of.kinds, &limit]).await? {
        let Stamp(first) = row.try_get(3)?;
        let outcome = outcome(row.try_get(1)?)?;
        kinds.entry(row.try_get(0)?).or_default().push((outcome, count(&row, 2)?, first));
    }
    kinds.values().for_each(|outcomes| overview.add_outcomes(outcomes, part));
    session.rollback().await?;
    Ok(overview)
}

fn count(row: &Row, column: usize) -> Answer<u64> {
    Ok(row.try_get::<_, i64>(column)?.unsigned_abs())
}
