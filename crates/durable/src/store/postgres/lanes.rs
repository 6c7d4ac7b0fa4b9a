//! Lanes: which timer of each is the front.

use super::answer::Answer;
use super::link::{Query, Session};
use super::schedules::UNHURRIED;
use super::values::{Id, Stamp};
use crate::store::Promoted;

/// Lanes that one call of [`maintain`] looks at.
const PART: i64 = 2_000;

/// Lanes of one transaction, each with a lock: the server has room for some thousands.
pub(super) const LOCKED: usize = 200;

/// The lanes after `$1` in which timers wait, `$2` of them at most, by one look at an index each;
/// and whether each is to have another front. As in a claim, each condition is for one index.
const WAITING: &str = "
    WITH RECURSIVE q (lane, number) AS (
        (
            SELECT lane, 1::int8 FROM tourbillon.timer
            WHERE lane > $1 AND lane IS NOT NULL AND due = 'infinity' ORDER BY lane LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT t.lane FROM tourbillon.timer AS t
            WHERE t.lane > q.lane AND t.lane IS NOT NULL AND t.due = 'infinity'
            ORDER BY t.lane LIMIT 1
        ), q.number + 1
        FROM q WHERE q.lane IS NOT NULL AND q.number < $2
    )
    SELECT q.lane, w.id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM tourbillon.timer AS f
        WHERE f.lane = q.lane AND f.due < 'infinity'
            AND (f.node IS NOT NULL OR f.attempt > 0
                OR (f.scheduled_for, f.id) < (w.scheduled_for, w.id)) IS TRUE
    )
    FROM q LEFT JOIN LATERAL (
        SELECT t.scheduled_for, t.id FROM tourbillon.timer AS t
        WHERE t.lane = q.lane AND t.due = 'infinity' AND (t.scheduled_for < 'infinity') IS TRUE
        ORDER BY t.scheduled_for, t.id LIMIT 1
    ) AS w ON true
    WHERE q.lane IS NOT NULL
    ORDER BY q.lane";

/// If two choose the front of a lane at the same time, the second sees the first's choice. Everyone
/// who locks several lanes uses this order.
pub(super) const LOCK: &str = "
    SELECT pg_advisory_xact_lock(k.key)
    FROM (
        SELECT DISTINCT hashtextextended('tourbillon.timer ' || n.lane, 0) AS key
        FROM unnest($1::text[]) AS n (lane) ORDER BY key
    ) AS k";

/// Lets fronts that were never claimed wait again, if the first waiting timer is scheduled before:
/// one look at an index, however many wait. A locked front is being claimed or taken back.
const DEMOTE: &str = "
    UPDATE tourbillon.timer SET due = 'infinity'
    WHERE node IS NULL AND attempt = 0 AND id = ANY(ARRAY(
        SELECT (
            SELECT f.id FROM tourbillon.timer AS f
            WHERE f.lane = n.lane AND f.due < 'infinity'
                AND (f.node IS NULL AND f.attempt = 0) IS TRUE
                AND (f.scheduled_for, f.id) > (
                    SELECT w.scheduled_for, w.id FROM tourbillon.timer AS w
                    WHERE w.lane = n.lane AND w.due = 'infinity'
                        AND (w.scheduled_for < 'infinity') IS TRUE
                    ORDER BY w.scheduled_for, w.id LIMIT 1
                )
            FOR UPDATE OF f SKIP LOCKED
        )
        FROM unnest($1::text[]) AS n (lane)
    ))
    RETURNING id";

/// Makes the first waiting timer the front, in lanes without one. A locked timer is being taken
/// back or moved: its lane is left to [`maintain`], so that this transaction waits for no row.
const PROMOTE: &str = "
    UPDATE tourbillon.timer SET due = greatest(scheduled_for, now())
    WHERE (due = 'infinity' AND node IS NULL) IS TRUE AND id = ANY(ARRAY(
        SELECT t.id FROM tourbillon.timer AS t
        WHERE t.id = ANY(ARRAY(
            SELECT (
                SELECT w.id FROM tourbillon.timer AS w
                WHERE w.lane = n.lane AND w.due = 'infinity'
                    AND (w.scheduled_for < 'infinity') IS TRUE
                ORDER BY w.scheduled_for, w.id LIMIT 1
            )
            FROM unnest($1::text[]) AS n (lane)
            WHERE NOT EXISTS (
                SELECT 1 FROM tourbillon.timer AS f WHERE f.lane = n.lane AND f.due < 'infinity'
            )
        ))
        FOR UPDATE OF t SKIP LOCKED
    ))
    RETURNING id, kind, due";

/// Promotes as [`Store::promote`](crate::Store::promote) does, at most [`LOCKED`] lanes. If a crash
/// of the server loses the promotion, it also loses the claims since, and [`maintain`] finds the
/// lanes.
pub(super) async fn promote(session: &mut Session, lanes: &[String]) -> Answer<Vec<Promoted>> {
    session.begin().await?;
    session.batch(UNHURRIED).await?;
    session.read(LOCK, &[&lanes]).await?;
    session.write(DEMOTE, &[&lanes]).await?;
    let rows = session.write(PROMOTE, &[&lanes]).await?;
    session.commit().await?;
    let promoted = |row: &tokio_postgres::Row| {
        let (id, Stamp(due)): (Id, _) = (row.try_get(0)?, row.try_get(2)?);
        Ok(Promoted { id: id.into(), kind: row.try_get(1)?, due })
    };
    rows.iter().map(promoted).collect()
}

/// Promotes the lanes after `lane`, a part of them. Sets `lane` to where the next call begins, and
/// returns how many have another front.
pub(super) async fn maintain(session: &mut Session, lane: &mut String) -> Answer<u64> {
    let rows = session.read(WAITING, &[&*lane, &PART]).await?;
    let (mut stuck, mut last) = (Vec::new(), String::new());
    for row in &rows {
        last = row.try_get(0)?;
        if row.try_get(1)? {
            stuck.push(last.clone());
        }
    }
    *lane = if rows.len() as i64 == PART { last } else { String::new() };
    let mut promoted = 0;
    for part in stuck.chunks(LOCKED) {
        promoted += promote(session, part).await?.len() as u64;
    }
    Ok(promoted)
}
