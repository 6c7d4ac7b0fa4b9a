//! Timers and schedules on their way to another store.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::lanes::LOCK;
use super::link::{Answer, Query, Session};
use super::schedules::{CREATE, put};
use super::timers::{NewTimers, columns, new_timers, record_cancelled};
use super::values::{Id, Stamp, big, int};
use crate::id::TimerId;
use crate::record::Reason;
use crate::store::transfer::{AWAY, received};
use crate::store::{ScheduleRow, Timer, Transfer};
use crate::time::Time;

// The statements below have this number in them.
const _: () = assert!(Reason::Moved.code() == 12);

const FORGET_MOVED: &str = "
    DELETE FROM tourbillon.history WHERE timer = ANY($1) AND (reason = 12) IS TRUE";

const MOVED: &str = "
    SELECT timer FROM tourbillon.history WHERE timer = ANY($1) AND (reason = 12) IS TRUE";

const DELETE_OLDER: &str = "
    DELETE FROM tourbillon.timer AS t
    USING unnest($1::uuid[], $2::int4[], $3::int4[]) AS n (timer, tries, changes)
    WHERE t.id = n.timer AND (t.due >= $4 AND t.due < 'infinity') IS TRUE
        AND (t.attempt < n.tries OR coalesce(t.version, 1) < n.changes)
    RETURNING t.id";

const HOLD: &str = concat!(
    "WITH new AS (
         SELECT n.*, m.attempt, m.failures, nullif(m.detail, '') AS detail,
                nullif(m.version, 1) AS version
         FROM ",
    new_timers!(),
    "    JOIN unnest($1::uuid[], $14::int4[], $15::int4[], $16::text[], $17::int4[])
             AS m (id, attempt, failures, detail, version) USING (id)
         WHERE NOT EXISTS (SELECT 1 FROM tourbillon.history AS h WHERE h.timer = n.id)
             AND NOT EXISTS (
                 SELECT 1 FROM tourbillon.history AS h
                 WHERE h.schedule = n.schedule AND h.scheduled_for = n.scheduled_for
             )
     )
     INSERT INTO tourbillon.timer
         (id, schedule, name, kind, scheduled_for, due, shard, payload, retry_attempts,
          retry_first, retry_longest, has_queue, lane, attempt, failures, detail, version)
     SELECT id, schedule, name, kind, scheduled_for, due, shard, payload, retry_attempts,
            retry_first, retry_longest, has_queue, lane, attempt, failures, detail, version
     FROM new ON CONFLICT DO NOTHING RETURNING id"
);

/// The insert may have waited for the end of a timer with the id or of the occurrence, whose record
/// only a later statement sees.
const DELETE_ENDED: &str = "
    DELETE FROM tourbillon.timer AS t
    WHERE (t.due >= $2 AND t.due < 'infinity') IS TRUE
        AND t.id = ANY(ARRAY(
            SELECT timer FROM tourbillon.history WHERE timer = ANY($1)
            UNION ALL
            SELECT o.id FROM tourbillon.timer AS o
            JOIN tourbillon.history AS h USING (schedule, scheduled_for) WHERE o.id = ANY($1)
        ))
    RETURNING t.id";

const ARE_AWAY: &str = "
    SELECT id FROM tourbillon.timer
    WHERE id = ANY($1) AND (due >= $2 AND due < 'infinity') IS TRUE";

const SURRENDER: &str = concat!(
    "WITH gone AS (
         DELETE FROM tourbillon.timer AS t
         USING unnest($1::uuid[], $2::int4[], $3::int4[]) AS n (timer, tries, changes)
         WHERE t.id = n.timer AND t.attempt = n.tries AND coalesce(t.version, 1) = n.changes
             AND t.node IS NULL AND (t.stopped IS NULL) IS TRUE
             AND (t.due < $4 OR t.due = 'infinity') IS TRUE
             AND NOT EXISTS (SELECT 1 FROM tourbillon.history AS h WHERE h.timer = t.id)
         RETURNING ",
    columns!(),
    ") ",
    record_cancelled!("12::int2"),
    " RETURNING timer"
);

const DROP: &str = "
    DELETE FROM tourbillon.timer AS t
    USING unnest($1::uuid[], $2::timestamptz[]) AS n (timer, was)
    WHERE t.id = n.timer AND (t.due = n.was) IS TRUE
    RETURNING t.id";

const RELEASE: &str = "
    UPDATE tourbillon.timer AS t
    SET lane = n.lane, due = greatest(n.due, now(), CASE
            WHEN n.lane IS NOT NULL AND EXISTS (
                SELECT 1 FROM tourbillon.timer AS f WHERE f.lane = n.lane AND f.due < 'infinity'
            ) THEN timestamptz 'infinity'
        END)
    FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::text[])
        AS n (timer, was, due, lane)
    WHERE t.id = n.timer AND (t.due = n.was) IS TRUE
    RETURNING t.id";

pub(super) async fn transfer(
    session: &mut Session,
    step: Transfer,
    timers: &[Timer],
) -> Answer<Vec<TimerId>> {
    let rows = match step {
        Transfer::Hold => hold(session, timers).await?,
        Transfer::Surrender => {
            let Keys { ids, attempts, versions } = Keys::of(timers);
            session.write(SURRENDER, &[&ids, &attempts, &versions, &Stamp(AWAY)]).await?
        }
        Transfer::Moved => session.read(MOVED, &[&Keys::of(timers).ids]).await?,
        Transfer::Drop => {
            let away = timers.iter().filter(|timer| received(timer).is_some());
            let (ids, due): (Vec<_>, Vec<_>) =
                away.map(|timer| (Id::from(timer.new.id), Stamp(timer.new.due))).unzip();
            session.write(DROP, &[&ids, &due]).await?
        }
        Transfer::Release => release(session, timers).await?,
    };
    rows.iter().map(|row| Ok(row.try_get::<_, Id>(0)?.into())).collect()
}

/// Columns of timers that are compared.
struct Keys {
    ids: Vec<Id>,
    attempts: Vec<i32>,
    versions: Vec<i32>,
}

impl Keys {
    fn of(timers: &[Timer]) -> Self {
        let version = |timer: &Timer| i32::try_from(timer.version).unwrap_or(i32::MAX);
        Self {
            ids: timers.iter().map(|timer| timer.new.id.into()).collect(),
            attempts: timers.iter().map(|timer| int(timer.attempt)).collect(),
            versions: timers.iter().map(version).collect(),
        }
    }
}

async fn hold(session: &mut Session, timers: &[Timer]) -> Answer<Vec<Row>> {
    let Keys { ids, attempts, versions } = Keys::of(timers);
    let new: NewTimers<'_> = timers.iter().map(|timer| &timer.new).collect();
    let failures: Vec<i32> = timers.iter().map(|timer| int(timer.failures)).collect();
    let details: Vec<&str> = timers.iter().map(|timer| &*timer.detail).collect();
    let from = Stamp(AWAY);
    session.begin().await?;
    session.write(DELETE_OLDER, &[&ids, &attempts, &versions, &from]).await?;
    session.write(FORGET_MOVED, &[&ids]).await?;
    let mut params = new.params().to_vec();
    params.extend::<[&(dyn ToSql + Sync); 4]>([&attempts, &failures, &details, &versions]);
    session.write(HOLD, &params).await?;
    session.write(DELETE_ENDED, &[&ids, &from]).await?;
    let rows = session.read(ARE_AWAY, &[&ids, &from]).await?;
    session.commit().await?;
    Ok(rows)
}

async fn release(session: &mut Session, timers: &[Timer]) -> Answer<Vec<Row>> {
    let (mut ids, mut was, mut due, mut lanes) = (vec![], vec![], vec![], vec![]);
    for timer in timers {
        if let Some((then, lane)) = received(timer) {
            ids.push(Id::from(timer.new.id));
            was.push(Stamp(timer.new.due));
            due.push(Stamp(then));
            lanes.push(lane);
        }
    }
    // Of two that choose the front of a lane, the second sees what the first chose.
    let claimed = due.iter().zip(&lanes).filter(|(Stamp(due), _)| *due < Time::NEVER);
    let fronts: Vec<&str> = claimed.filter_map(|(_, lane)| *lane).collect();
    session.begin().await?;
    if !fronts.is_empty() {
        session.read(LOCK, &[&fronts]).await?;
    }
    let rows = session.write(RELEASE, &[&ids, &was, &due, &lanes]).await?;
    session.commit().await?;
    Ok(rows)
}

const SHIFT: &str = "
    UPDATE tourbillon.schedule SET next = $4, version = version + 1
    WHERE id = $1 AND version = $2 AND (next IS NOT DISTINCT FROM $3) IS TRUE
    RETURNING id";

pub(super) async fn shift(session: &mut Session, row: &ScheduleRow, next: Time) -> Answer<bool> {
    let (from, next) = (row.next.map(Stamp), Stamp(next));
    let rows = session.write(SHIFT, &[&Id::from(row.id), &big(row.version), &from, &next]).await?;
    Ok(!rows.is_empty())
}

pub(super) async fn adopt(session: &mut Session, row: &ScheduleRow) -> Answer<bool> {
    put(session, row, big(row.version), CREATE).await
}
