//! Lives of nodes, and the work for dead ones.

use tokio_postgres::Row;

use super::answer::{Answer, Params};
use super::lanes;
use super::link::{Query, Session};
use super::look;
use super::timers::{columns, record_cancelled};
use super::values::{Id, Span, Stamp, big};
use crate::id::{Lease, NodeId, TimerId};
use crate::store::{Beat, Held, Maintained};
use crate::time::Time;

/// The last epoch is kept apart from the life, under the lock of its row: nobody has it twice.
const JOIN: &str = "
    WITH mine AS (
        INSERT INTO tourbillon.identity AS i (id, epoch, seen) VALUES ($1, $3, now())
        ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, seen = excluded.seen
        WHERE i.epoch < excluded.epoch
        RETURNING epoch
    ),
    life AS (
        INSERT INTO tourbillon.node (id, epoch, expires, beat)
        SELECT $1, epoch, now() + $2::interval, now() FROM mine
        ON CONFLICT (id) DO UPDATE
        SET epoch = excluded.epoch, expires = excluded.expires, beat = excluded.beat
        RETURNING id, epoch, beat
    )
    SELECT id, epoch, beat FROM life
    UNION ALL
    SELECT id, epoch, beat FROM tourbillon.node
    WHERE id <> $1 AND EXISTS (SELECT 1 FROM life)";

const BEAT: &str = "
    WITH life AS (
        UPDATE tourbillon.node SET expires = now() + $3::interval, beat = now()
        WHERE id = $1 AND epoch = $2
        RETURNING id, epoch, beat
    )
    SELECT id, epoch, beat FROM life
    UNION ALL
    SELECT id, epoch, beat FROM tourbillon.node
    WHERE id <> $1 AND EXISTS (SELECT 1 FROM life)";

pub(super) async fn now(session: &mut Session) -> Answer<Time> {
    let Stamp(now) = session.read("SELECT now()", &[]).await?[0].try_get(0)?;
    Ok(now)
}

/// The own row comes first; its last beat is now.
fn beat_of(rows: &[Row]) -> Answer<Option<Beat>> {
    let Some(own) = rows.first() else { return Ok(None) };
    let mut nodes = Vec::with_capacity(rows.len());
    for row in rows {
        let Stamp(beat) = row.try_get(2)?;
        nodes.push((NodeId::from(row.try_get::<_, Id>(0)?), beat));
    }
    let (node, now) = nodes[0];
    nodes.sort();
    let epoch = own.try_get::<_, i64>(1)?.unsigned_abs();
    Ok(Some(Beat { lease: Lease { node, epoch }, now, nodes }))
}

pub(super) async fn join(session: &mut Session, lease: Lease, span: Span) -> Answer<Option<Beat>> {
    let (node, epoch) = (Id::from(lease.node), big(lease.epoch));
    beat_of(&session.write(JOIN, &[&node, &span, &epoch]).await?)
}

pub(super) async fn beat(session: &mut Session, lease: Lease, span: Span) -> Answer<Option<Beat>> {
    let (node, epoch) = (Id::from(lease.node), big(lease.epoch));
    beat_of(&session.write(BEAT, &[&node, &epoch, &span]).await?)
}

const LEAVE: &str = "
    WITH gone AS (DELETE FROM tourbillon.node WHERE id = $1 AND epoch = $2 RETURNING id)
    UPDATE tourbillon.identity AS i SET seen = now() FROM gone WHERE i.id = gone.id
    RETURNING i.id";

/// A running timer was due: so running timers are found from the floor on, and among those known
/// to be due before it.
const GIVE_BACK: &str = "
    UPDATE tourbillon.timer SET node = NULL, epoch = NULL
    WHERE id = ANY($4::uuid[] || ARRAY(
            SELECT id FROM tourbillon.timer
            WHERE due <= now() AND due >= coalesce($3::timestamptz, '-infinity')
                AND shard >= 0 AND (node = $1 AND epoch = $2) IS TRUE
        )) AND node = $1 AND epoch = $2
    RETURNING id";

pub(super) async fn leave(session: &mut Session, lease: Lease) -> Answer<()> {
    let (node, epoch) = (Id::from(lease.node), big(lease.epoch));
    session.begin().await?;
    // It waits for claims under way, and the next statement sees their timers.
    if session.write(LEAVE, &[&node, &epoch]).await?.is_empty() {
        return session.rollback().await;
    }
    let (from, behind) = session.floor.place();
    session.write(GIVE_BACK, &[&node, &epoch, &from, &behind]).await?;
    session.commit().await
}

/// A part of the due timers, in their order, then the timers of `$6`; of both, the running ones of
/// a lease.
const HELD: &str = "
    WITH part AS MATERIALIZED (
        SELECT due, id, attempt, node, epoch FROM tourbillon.timer
        WHERE due <= now() AND (due, id) > ($3, $4) AND shard >= 0
        ORDER BY due, id
        LIMIT $5
    ),
    held AS MATERIALIZED (
        SELECT id, attempt FROM part WHERE node = $1 AND epoch = $2
        UNION
        SELECT id, attempt FROM tourbillon.timer
        WHERE id = ANY($6) AND (node = $1 AND epoch = $2) IS TRUE
    )
    SELECT (SELECT count(*) FROM part), l.due, l.id,
           ARRAY(SELECT id FROM held ORDER BY id), ARRAY(SELECT attempt FROM held ORDER BY id)
    FROM (SELECT 1) AS one
    LEFT JOIN (SELECT due, id FROM part ORDER BY due DESC, id DESC LIMIT 1) AS l ON true";

pub(super) async fn held(
    session: &mut Session,
    lease: Lease,
    after: Option<(Time, TimerId)>,
) -> Answer<Held> {
    let (after, after_id, behind) = begin(session, after).await?;
    let (node, epoch) = (Id::from(lease.node), big(lease.epoch));
    let params: Params<'_> = &[&node, &epoch, &after, &after_id, &PART, &behind];
    let row = &session.read(HELD, params).await?[0];
    let (ids, attempts): (Vec<Id>, Vec<i32>) = (row.try_get(3)?, row.try_get(4)?);
    let attempts = attempts.into_iter().map(i32::unsigned_abs);
    let timers = ids.into_iter().map(TimerId::from).zip(attempts).collect();
    let is_cut = row.try_get::<_, i64>(0)? >= PART;
    Ok(Held::new(timers, if is_cut { end(row)? } else { None }))
}

/// Returns the place after which a part begins, and the timers to look up with it: the first part
/// begins with the floor.
async fn begin(
    session: &mut Session,
    after: Option<(Time, TimerId)>,
) -> Answer<(Stamp, Id, Vec<Id>)> {
    if let Some((time, id)) = after {
        return Ok((Stamp(time), id.into(), Vec::new()));
    }
    look::ensure(session).await?;
    let (from, behind) = session.floor.place();
    Ok((from.unwrap_or(Stamp(Time::from_micros(i64::MIN))), Id(0), behind))
}

/// Returns where a part ends.
fn end(row: &Row) -> Answer<Option<(Time, TimerId)>> {
    let (due, id): (Option<Stamp>, Option<Id>) = (row.try_get(1)?, row.try_get(2)?);
    Ok(due.zip(id).map(|(Stamp(due), id)| (due, id.into())))
}

/// A row that is locked is being beaten, or ended by another node.
const BURY: &str = "
    WITH gone AS (
        DELETE FROM tourbillon.node
        WHERE id = ANY(ARRAY(
            SELECT id FROM tourbillon.node WHERE expires < now() FOR UPDATE SKIP LOCKED
        ))
        RETURNING id
    ),
    seen AS (
        UPDATE tourbillon.identity AS i SET seen = now() FROM gone WHERE i.id = gone.id
    )
    SELECT count(*) FROM gone";

/// A part of the due timers, in their order, then the timers of `$4`; of both, the leases without a
/// row. Such a lease never has a row again: so conclusions from it need no lock.
const ORPHANED: &str = "
    WITH part AS MATERIALIZED (
        SELECT due, id, node, epoch FROM tourbillon.timer
        WHERE due <= now() AND (due, id) > ($1, $2) AND shard >= 0
        ORDER BY due, id
        LIMIT $3
    ),
    dead AS (
        SELECT p.node, p.epoch
        FROM (
            SELECT node, epoch FROM part WHERE node IS NOT NULL
            UNION
            SELECT node, epoch FROM tourbillon.timer
            WHERE id = ANY($4) AND (node IS NOT NULL) IS TRUE
        ) AS p
        WHERE NOT EXISTS (
            SELECT 1 FROM tourbillon.node AS n WHERE n.id = p.node AND n.epoch = p.epoch
        )
    )
    SELECT (SELECT count(*) FROM part), l.due, l.id,
           ARRAY(SELECT node FROM dead ORDER BY node, epoch),
           ARRAY(SELECT epoch FROM dead ORDER BY node, epoch)
    FROM (SELECT 1) AS one
    LEFT JOIN (SELECT due, id FROM part ORDER BY due DESC, id DESC LIMIT 1) AS l ON true";

/// Frees the timers of that part and of `$8` that run under the leases of `$5` and `$6`, except
/// locked ones: another node frees them, or their end is under way.
const FREE: &str = "
    UPDATE tourbillon.timer SET node = NULL, epoch = NULL
    WHERE id = ANY(ARRAY(
        SELECT t.id FROM tourbillon.timer AS t
        WHERE t.id = ANY($8::uuid[] || ARRAY(
                SELECT t.id FROM tourbillon.timer AS t
                WHERE (t.due, t.id) > ($1, $2) AND (t.due, t.id) <= ($3, $4)
                    AND t.shard >= 0 AND (t.node IS NOT NULL) IS TRUE
            ))
            AND EXISTS (
                SELECT 1 FROM unnest($5::uuid[], $6::int8[]) AS dead (node, epoch)
                WHERE dead.node = t.node AND dead.epoch = t.epoch
            )
        LIMIT $7
        FOR UPDATE OF t SKIP LOCKED
    ))
    RETURNING id";

/// Records timers that are pending again and whose schedule was stopped while they ran.
const END_STOPPED: &str = concat!(
    "WITH gone AS (
         DELETE FROM tourbillon.timer
         WHERE id = ANY(ARRAY(
             SELECT id FROM tourbillon.timer
             WHERE stopped IS NOT NULL AND (node IS NULL) IS TRUE
             LIMIT $1
             FOR UPDATE SKIP LOCKED
         ))
         RETURNING stopped, ",
    columns!(),
    ") ",
    record_cancelled!("stopped"),
    " RETURNING timer"
);

/// The schedules whose queue may continue: each schedule with a queue takes one look at an index,
/// however long the queue is. As in a claim, each condition is for one index.
const STUCK: &str = "
    WITH RECURSIVE q (schedule) AS (
        (
            SELECT schedule FROM tourbillon.timer
            WHERE due = 'infinity' AND schedule IS NOT NULL AND lane IS NULL
            ORDER BY schedule LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT t.schedule FROM tourbillon.timer AS t
            WHERE t.due = 'infinity' AND t.schedule IS NOT NULL AND t.lane IS NULL
                AND t.schedule > q.schedule
            ORDER BY t.schedule LIMIT 1
        )
        FROM q WHERE q.schedule IS NOT NULL
    )
    SELECT q.schedule FROM q
    WHERE q.schedule IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM tourbillon.timer AS t
        WHERE t.schedule = q.schedule AND (t.due < 'infinity' OR t.lane IS NOT NULL) IS TRUE
    )
    LIMIT $1";

/// Nothing else makes a timer of theirs unfinished while these are locked.
const LOCK_SCHEDULES: &str = "
    SELECT id FROM tourbillon.schedule WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE";

const PROMOTE: &str = "
    UPDATE tourbillon.timer SET due = now()
    WHERE (due = 'infinity' AND node IS NULL) IS TRUE AND id = ANY(ARRAY(
        SELECT (
            SELECT t.id FROM tourbillon.timer AS t
            WHERE t.schedule = q.schedule ORDER BY t.scheduled_for LIMIT 1
        )
        FROM unnest($1::uuid[]) AS q (schedule)
        WHERE NOT EXISTS (
            SELECT 1 FROM tourbillon.timer AS t
            WHERE t.schedule = q.schedule AND (t.due < 'infinity' OR t.lane IS NOT NULL) IS TRUE
        )
    ))
    RETURNING id";

/// Number of due timers that are searched for orphans at a time.
const PART: i64 = 20_000;

/// Most timers that are changed at a time.
const MOST: i64 = 4_000;

/// Places at which searches continue. The search for orphans is in parts, because millions of due
/// timers may wait: each call searches one part. Only once a node has died, one call searches all.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Place after which the next call continues; `None` where it begins anew.
    after: Option<(Time, TimerId)>,
    is_urgent: bool,
    /// Lane after which the search for lanes without a front continues.
    lane: String,
}

pub(super) async fn maintain(session: &mut Session, search: &mut Search) -> Answer<Maintained> {
    let buried = session.write(BURY, &[]).await?;
    let nodes = buried[0].try_get::<_, i64>(0)?.unsigned_abs();
    if nodes > 0 {
        (search.after, search.is_urgent) = (None, true);
    }
    session.settle();
    // Without a floor it is refused, and the others need none.
    let freed = free(session, search).await;
    session.settle();
    let stopped = session.write(END_STOPPED, &[&MOST]).await?.len() as u64;
    session.settle();
    let promoted = promote(session).await?;
    session.settle();
    let promoted = promoted + lanes::maintain(session, &mut search.lane).await?;
    let orphans = freed?;
    let is_round = search.lane.is_empty();
    let more = search.is_urgent || stopped.max(promoted) >= MOST as u64 || !is_round;
    Ok(Maintained { nodes, orphans, promoted, more })
}

/// Makes timers pending that run under leases that are over, in one part of the due timers.
async fn free(session: &mut Session, search: &mut Search) -> Answer<u64> {
    let (after, after_id, behind) = begin(session, search.after).await?;
    let row = &session.read(ORPHANED, &[&after, &after_id, &PART, &behind]).await?[0];
    let until = end(row)?;
    let (nodes, epochs): (Vec<Id>, Vec<i64>) = (row.try_get(3)?, row.try_get(4)?);
    let mut freed = 0;
    if !nodes.is_empty() {
        let (until, until_id) =
            until.map_or((after, after_id), |(due, id)| (Stamp(due), id.into()));
        let params: Params<'_> =
            &[&after, &after_id, &until, &until_id, &nodes, &epochs, &MOST, &behind];
        freed = session.write(FREE, params).await?.len() as u64;
        search.is_urgent |= freed > 0;
    }
    if freed >= MOST as u64 {
        // There may be more in this part.
    } else if row.try_get::<_, i64>(0)? < PART {
        (search.after, search.is_urgent) = (None, false);
    } else {
        search.after = until;
    }
    Ok(freed)
}

/// Lets the queues of schedules continue.
async fn promote(session: &mut Session) -> Answer<u64> {
    let rows = session.read(STUCK, &[&MOST]).await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let schedules = rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Answer<Vec<Id>>>()?;
    session.begin().await?;
    session.write(LOCK_SCHEDULES, &[&schedules]).await?;
    let promoted = session.write(PROMOTE, &[&schedules]).await?.len() as u64;
    session.commit().await?;
    Ok(promoted)
}
