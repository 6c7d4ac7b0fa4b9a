//! Schedules, and how they become timers and records.

use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::answer::{Answer, Params};
use super::link::{Query, Session};
use super::timers::{NewTimers, columns, insert_timers, record_cancelled};
use super::values::{Id, Span, Stamp, big, int, mask};
use crate::id::{SHARDS, TimerId};
use crate::record::{Outcome, Reason};
use crate::rule::Rule;
use crate::store::{
    Advance, Advanced, Change, Changed, Filled, ManualRun, NewOccurrence, NewTimer, Past,
    ScheduleRow, Skip, Unfinished, Upcoming, UpcomingQuery, Wall,
};
use crate::time::{BEGINNING, Time};

macro_rules! schedule_columns {
    () => {
        "s.id, s.name, s.kind, s.spec, s.policies, s.payload, s.enabled, s.version, s.next, \
         s.paused, s.lane, s.wall"
    };
}
pub(super) use schedule_columns;

pub(super) fn schedule_row(row: &Row, at: usize) -> Answer<ScheduleRow> {
    let next: Option<Stamp> = row.try_get(at + 8)?;
    let paused: Option<Stamp> = row.try_get(at + 9)?;
    Ok(ScheduleRow {
        id: row.try_get::<_, Id>(at)?.into(),
        name: row.try_get(at + 1)?,
        kind: row.try_get(at + 2)?,
        rule: Rule::from_text(row.try_get(at + 3)?, row.try_get(at + 4)?),
        payload: row.try_get(at + 5)?,
        enabled: row.try_get(at + 6)?,
        version: row.try_get::<_, i64>(at + 7)?.unsigned_abs(),
        next: next.map(|Stamp(next)| next),
        paused: paused.map(|Stamp(paused)| paused),
        lane: row.try_get(at + 10)?,
        wall: row.try_get::<_, Option<&str>>(at + 11)?.and_then(|wall| wall.parse().ok()),
    })
}

const BY_NAME: &str = concat!(
    "SELECT now(), ",
    schedule_columns!(),
    " FROM (VALUES (1)) AS one LEFT JOIN tourbillon.schedule AS s ON s.name = $1"
);

pub(super) async fn schedule(
    session: &mut Session,
    name: &str,
) -> Answer<(Time, Option<ScheduleRow>)> {
    let rows = session.read(BY_NAME, &[&name]).await?;
    let Stamp(now) = rows[0].try_get(0)?;
    let is_there = rows[0].try_get::<_, Option<Id>>(1)?.is_some();
    Ok((now, if is_there { Some(schedule_row(&rows[0], 1)?) } else { None }))
}

/// Merges the schedules of all shards by their next times. So it reads the rows that it returns and
/// one more of each shard that is asked for, and none of other shards. The server merges only parts
/// known to be ordered: so each part says its order.
static UPCOMING: LazyLock<String> = LazyLock::new(|| {
    let of_shard = |shard: u8| {
        format!(
            "(SELECT * FROM tourbillon.schedule
              WHERE enabled AND shard = {shard} AND next <= now() + $1::interval
                  AND (next, id) > ($4, $5) AND ($2::int8 >> {shard}) & 1 = 1
              ORDER BY next, id LIMIT $3)"
        )
    };
    let merged = (0..SHARDS).map(of_shard).collect::<Vec<_>>().join(" UNION ALL ");
    format!(
        "SELECT now(), o.unfinished, o.queued, {}
         FROM (VALUES (1)) AS one
         LEFT JOIN (
             SELECT * FROM ({merged}) AS merged ORDER BY next, id LIMIT $3
         ) AS s ON true
         LEFT JOIN LATERAL (
             SELECT count(*) FILTER (WHERE t.due < 'infinity' OR t.lane IS NOT NULL) AS unfinished,
                    count(*) FILTER (WHERE t.due = 'infinity' AND t.lane IS NULL) AS queued
             FROM tourbillon.timer AS t WHERE t.schedule = s.id
         ) AS o ON true",
        schedule_columns!()
    )
});

pub(super) async fn upcoming(session: &mut Session, query: &UpcomingQuery) -> Answer<Upcoming> {
    let (ahead, shards, limit) = (Span(query.ahead), mask(query.shards), i64::from(query.limit));
    let (next, id) = query.after.map_or((BEGINNING, Id(0)), |(next, id)| (next, id.into()));
    let rows = session.read(&UPCOMING, &[&ahead, &shards, &limit, &Stamp(next), &id]).await?;
    let Stamp(now) = rows[0].try_get(0)?;
    let mut schedules = Vec::with_capacity(rows.len());
    for row in &rows {
        if row.try_get::<_, Option<Id>>(3)?.is_some() {
            let occupied = Unfinished { unfinished: count(row, 1)?, queued: count(row, 2)? };
            schedules.push((schedule_row(row, 3)?, occupied));
        }
    }
    schedules.sort_by_key(|(row, _)| (row.next, row.id));
    Ok(Upcoming { now, schedules })
}

const LOCK: &str = "
    SELECT id, kind, version FROM tourbillon.schedule WHERE name = $1 FOR UPDATE";

const CREATE: &str = "
    INSERT INTO tourbillon.schedule
        (id, name, kind, spec, policies, payload, enabled, version, next, shard, paused, lane,
         wall)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    ON CONFLICT DO NOTHING
    RETURNING id";

/// Makes schedules in the order of their names, so that two who make several do not wait for each
/// other.
const CREATE_ALL: &str = "
    WITH new AS (
        SELECT n.* FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[],
                $6::bytea[], $7::bool[], $8::timestamptz[], $9::int2[], $10::timestamptz[],
                $11::text[], $12::text[])
            AS n (id, name, kind, spec, policies, payload, enabled, next, shard, paused, lane, wall)
        WHERE n.next IS NULL OR n.next > now()
        ORDER BY n.name COLLATE \"C\"
    )
    INSERT INTO tourbillon.schedule
        (id, name, kind, spec, policies, payload, enabled, version, next, shard, paused, lane,
         wall)
    SELECT id, name, kind, spec, policies, payload, enabled, 1, next, shard, paused, lane, wall
    FROM new ON CONFLICT DO NOTHING
    RETURNING id";

const REPLACE: &str = "
    UPDATE tourbillon.schedule
    SET id = $1, kind = $3, spec = $4, policies = $5, payload = $6, enabled = $7, version = $8,
        next = $9, shard = $10, paused = $11, lane = $12, wall = $13
    WHERE name = $2
    RETURNING id";

const REMOVE: &str = "DELETE FROM tourbillon.schedule WHERE name = $1";

/// Waits for timers that are being claimed or ended, and keeps their state afterwards.
const LOCK_TIMERS: &str = "
    SELECT id, attempt, node IS NOT NULL FROM tourbillon.timer
    WHERE schedule = $1
    ORDER BY id
    FOR UPDATE";

/// Takes back pending timers, and records each that is scheduled until now. Now is the start of the
/// statement, not of the transaction: another transaction that began later may have locked the
/// schedule first, and made an occurrence for its own now.
const WITHDRAW: &str = concat!(
    "WITH withdrawn AS (
         DELETE FROM tourbillon.timer WHERE schedule = $1 AND node IS NULL RETURNING ",
    columns!(),
    "), gone AS (
         SELECT * FROM withdrawn WHERE scheduled_for <= statement_timestamp() OR attempt > 0
     ) ",
    record_cancelled!("$2::int2")
);

/// Marks running timers: they do not run again, however they end.
const STOP: &str =
    "UPDATE tourbillon.timer SET stopped = $2::int2 WHERE schedule = $1 AND node IS NOT NULL";

/// Gives timers that were never claimed the values of a new definition.
const RENEW: &str = "
    UPDATE tourbillon.timer
    SET payload = $2, retry_attempts = $3, retry_first = $4, retry_longest = $5, has_queue = $6,
        version = coalesce(version, 1) + 1
    WHERE schedule = $1 AND attempt = 0
        AND (payload, retry_attempts, retry_first, retry_longest, has_queue)
            IS DISTINCT FROM ($2, $3, $4, $5, $6)";

/// Writes records for occurrences without a timer or a record. As in an insert of timers, these are
/// put together before.
const SKIP: &str = "
    WITH new AS (
        SELECT n.id, $1::uuid AS schedule, $2::text AS name, $3::text AS kind, n.scheduled_for,
               n.outcome, n.reason
        FROM unnest($4::uuid[], $5::timestamptz[], $6::int2[], $7::int2[])
            AS n (id, scheduled_for, outcome, reason)
        WHERE NOT EXISTS (
            SELECT 1 FROM tourbillon.timer AS t
            WHERE t.schedule = $1 AND t.scheduled_for = n.scheduled_for
        )
    )
    INSERT INTO tourbillon.history
        (timer, schedule, name, kind, scheduled_for, attempts, failures, outcome, reason, detail,
         node, recorded)
    SELECT id, schedule, name, kind, scheduled_for, 0, 0, outcome, reason, '', NULL, now()
    FROM new ON CONFLICT DO NOTHING";

async fn skip(
    session: &mut impl Query,
    (schedule, name, kind): (Id, &str, &str),
    skipped: &[Skip],
) -> Answer<()> {
    if skipped.is_empty() {
        return Ok(());
    }
    let ids: Vec<Id> = skipped.iter().map(|skip| skip.id.into()).collect();
    let times: Vec<Stamp> = skipped.iter().map(|skip| Stamp(skip.scheduled_for)).collect();
    let outcomes: Vec<i16> = skipped.iter().map(|skip| Outcome::code(skip.outcome)).collect();
    let reasons: Vec<i16> = skipped.iter().map(|skip| Reason::code(skip.reason)).collect();
    let params: Params<'_> = &[&schedule, &name, &kind, &ids, &times, &outcomes, &reasons];
    session.write(SKIP, params).await?;
    Ok(())
}

/// Writes `row` with `version`; whether it was written.
async fn put(
    session: &mut impl Query,
    row: &ScheduleRow,
    version: i64,
    sql: &'static str,
) -> Answer<bool> {
    let shard = i16::from(row.id.shard());
    let (schedule, policies) = row.texts();
    let written = session
        .write(
            sql,
            &[
                &Id::from(row.id),
                &row.name,
                &row.kind,
                &schedule,
                &policies,
                &row.payload,
                &row.enabled,
                &version,
                &row.next.map(Stamp),
                &shard,
                &row.paused.map(Stamp),
                &row.lane,
                &row.wall.as_ref().map(Wall::to_string),
            ],
        )
        .await?;
    Ok(!written.is_empty())
}

/// Makes schedules as [`Store::create_schedules`](crate::Store::create_schedules) does.
pub(super) async fn create(session: &mut Session, rows: &[ScheduleRow]) -> Answer<Vec<bool>> {
    let ids: Vec<Id> = rows.iter().map(|row| row.id.into()).collect();
    let shards: Vec<i16> = rows.iter().map(|row| row.id.shard().into()).collect();
    let names: Vec<&str> = rows.iter().map(|row| &row.name[..]).collect();
    let kinds: Vec<&str> = rows.iter().map(|row| &row.kind[..]).collect();
    let (specs, policies): (Vec<_>, Vec<_>) = rows.iter().map(ScheduleRow::texts).unzip();
    let payloads: Vec<&[u8]> = rows.iter().map(|row| &row.payload[..]).collect();
    let enabled: Vec<bool> = rows.iter().map(|row| row.enabled).collect();
    let next: Vec<Option<Stamp>> = rows.iter().map(|row| row.next.map(Stamp)).collect();
    let paused: Vec<Option<Stamp>> = rows.iter().map(|row| row.paused.map(Stamp)).collect();
    let lanes: Vec<Option<&str>> = rows.iter().map(|row| row.lane.as_deref()).collect();
    let walls: Vec<_> = rows.iter().map(|row| row.wall.as_ref().map(Wall::to_string)).collect();
    let params: Params<'_> = &[
        &ids, &names, &kinds, &specs, &policies, &payloads, &enabled, &next, &shards, &paused,
        &lanes, &walls,
    ];
    let mut made = HashSet::new();
    for row in session.write(CREATE_ALL, params).await? {
        made.insert(row.try_get::<_, Id>(0)?.0);
    }
    Ok(ids.iter().map(|Id(id)| made.contains(id)).collect())
}

pub(super) async fn change(session: &mut Session, change: &Change<'_>) -> Answer<Changed> {
    if let Change { expect: None, row: Some(row), withdraw: None, skipped: [], .. } = change {
        // A new schedule has no timers: one statement makes it, or finds its name taken.
        return Ok(match put(session, row, 1, CREATE).await? {
            true => Changed::Done { claimed: Vec::new() },
            false => Changed::Stale,
        });
    }
    session.begin().await?;
    let changed = change_within(session, change).await?;
    match changed {
        Changed::Stale => session.rollback().await?,
        Changed::Done { .. } => session.commit().await?,
    }
    Ok(changed)
}

async fn change_within(session: &mut impl Query, change: &Change<'_>) -> Answer<Changed> {
    let rows = session.write(LOCK, &[&change.name]).await?;
    let old = match rows.first() {
        None => None,
        Some(row) => {
            Some((row.try_get::<_, Id>(0)?, row.try_get::<_, String>(1)?, row.try_get(2)?))
        }
    };
    let found: Option<i64> = old.as_ref().map(|(.., version)| *version);
    if found != change.expect.map(big) {
        return Ok(Changed::Stale);
    }
    let version = found.unwrap_or(0) + 1;
    match (change.row, found) {
        (Some(row), None) if !put(session, row, version, CREATE).await? => {
            // Another call made a schedule of that name at the same time.
            return Ok(Changed::Stale);
        }
        (Some(row), Some(_)) => {
            put(session, row, version, REPLACE).await?;
        }
        (None, _) => {
            session.write(REMOVE, &[&change.name]).await?;
        }
        (Some(_), None) => {}
    }
    let (id, kind) = match (&old, change.row) {
        (Some((id, kind, _)), _) => (*id, &kind[..]),
        (None, Some(row)) => (row.id.into(), &row.kind[..]),
        (None, None) => return Ok(Changed::Done { claimed: Vec::new() }),
    };
    let claimed = change_timers(session, id, change).await?;
    skip(session, (id, change.name, kind), change.skipped).await?;
    Ok(Changed::Done { claimed })
}

/// Takes back pending timers if asked to, and otherwise renews timers that were never claimed.
/// Returns the others.
async fn change_timers(
    session: &mut impl Query,
    schedule: Id,
    change: &Change<'_>,
) -> Answer<Vec<(TimerId, u32)>> {
    let rows = session.write(LOCK_TIMERS, &[&schedule]).await?;
    if let Some(reason) = change.withdraw {
        session.write(WITHDRAW, &[&schedule, &reason.code()]).await?;
        session.write(STOP, &[&schedule, &reason.code()]).await?;
    }
    let (mut claimed, mut is_new) = (Vec::new(), false);
    for row in rows {
        let attempt: i32 = row.try_get(1)?;
        is_new |= attempt == 0;
        if row.try_get(2)? || change.withdraw.is_none() && attempt > 0 {
            claimed.push((row.try_get::<_, Id>(0)?.into(), attempt.unsigned_abs()));
        }
    }
    if let Some(new) = change.occurrence().filter(|_| is_new) {
        let (first, longest) = (Span(new.retry.first), Span(new.retry.longest));
        let attempts = int(new.retry.attempts);
        let params: Params<'_> =
            &[&schedule, &new.payload, &attempts, &first, &longest, &new.has_queue];
        session.write(RENEW, params).await?;
    }
    Ok(claimed)
}

/// The row is locked from here on: by a change, an advance, and whatever lets its queue continue.
const MOVE_ON: &str = "
    UPDATE tourbillon.schedule SET next = $4, wall = $5
    WHERE id = $1 AND version = $2 AND next = $3 AND enabled
    RETURNING name, kind";

/// Condition that a timer is busy. Like in a claim, the time is no condition for an index.
const IS_BUSY: &str = "
    SELECT EXISTS (
        SELECT 1 FROM tourbillon.timer
        WHERE schedule = $1 AND (due < 'infinity' OR lane IS NOT NULL) IS TRUE
    )";

/// Occurrences that are there already stay where they are: no record of them is on its way.
const LOCK_OCCURRENCES: &str = "
    SELECT id FROM tourbillon.timer
    WHERE schedule = $1 AND scheduled_for = ANY($2)
    ORDER BY id
    FOR UPDATE";

const INSERT: &str = insert_timers!(
    "NOT EXISTS (
         SELECT 1 FROM tourbillon.history AS h
         WHERE h.schedule = n.schedule AND h.scheduled_for = n.scheduled_for
     )"
);

/// If a crash of the server loses the last half second, it loses whole advances: each schedule is
/// in its old state. A claim flushes the timers that its attempts build on.
pub(super) const UNHURRIED: &str = "SET LOCAL synchronous_commit = off";

pub(super) async fn advance(session: &mut Session, advance: &Advance<'_>) -> Answer<Advanced> {
    session.begin().await?;
    session.batch(UNHURRIED).await?;
    let advanced = advance_within(session, advance).await?;
    match advanced {
        Advanced::Done => session.commit().await?,
        Advanced::Stale | Advanced::Busy => session.rollback().await?,
    }
    Ok(advanced)
}

async fn advance_within(session: &mut Session, advance: &Advance<'_>) -> Answer<Advanced> {
    let id = Id::from(advance.schedule);
    let (version, from) = (big(advance.version), Stamp(advance.from));
    let (next, wall) = (advance.next.map(Stamp), advance.wall.map(Wall::to_string));
    let rows = session.write(MOVE_ON, &[&id, &version, &from, &next, &wall]).await?;
    let Some(row) = rows.first() else { return Ok(Advanced::Stale) };
    let (name, kind): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
    if advance.only_idle && session.read(IS_BUSY, &[&id]).await?[0].try_get(0)? {
        return Ok(Advanced::Busy);
    }
    if !advance.timers.is_empty() {
        let times: Vec<Stamp> = advance.timers.iter().map(|new| Stamp(new.scheduled_for)).collect();
        session.write(LOCK_OCCURRENCES, &[&id, &times]).await?;
        insert(session, advance.timers).await?;
    }
    skip(session, (id, name, kind), advance.skipped).await?;
    Ok(Advanced::Done)
}

/// Inserts each timer that has no record.
async fn insert(session: &mut Session, timers: &[NewTimer]) -> Answer<()> {
    let new: NewTimers<'_> = timers.iter().collect();
    session.write(INSERT, &new.params()).await?;
    Ok(())
}

/// Locks schedules in the order of their ids, as everyone does who locks several.
const LOCK_ALL: &str = "
    SELECT s.id, s.version, s.next, s.enabled
    FROM (SELECT id FROM unnest($1::uuid[]) AS p (id) ORDER BY id) AS p,
         LATERAL (SELECT * FROM tourbillon.schedule AS s WHERE s.id = p.id FOR UPDATE) AS s";

/// As [`LOCK_OCCURRENCES`], of several schedules. Each is looked up by itself, whatever the server
/// believes to be the size of the table: so it is in [`ADVANCE`].
const LOCK_ALL_OCCURRENCES: &str = "
    SELECT id FROM tourbillon.timer
    WHERE id = ANY(ARRAY(
        SELECT (
            SELECT t.id FROM tourbillon.timer AS t
            WHERE t.schedule = n.schedule AND t.scheduled_for = n.scheduled_for
        )
        FROM unnest($1::uuid[], $2::timestamptz[]) AS n (schedule, scheduled_for)
    ))
    ORDER BY id
    FOR UPDATE";

/// Moves schedules that are as they were read and not busy, and writes their timers and records.
/// Its snapshot is later than both locks: so it sees each timer and each record of these schedules.
/// `$1` to `$13` are the timers.
const ADVANCE: &str = concat!(
    "WITH moved AS (
         UPDATE tourbillon.schedule AS s SET next = p.next, wall = p.wall
         FROM unnest($14::uuid[], $15::int8[], $16::timestamptz[], $17::timestamptz[], $18::bool[],
                 $24::text[])
             AS p (id, version, before, next, only_idle, wall)
         WHERE s.id = p.id AND s.version = p.version AND s.next = p.before
             AND (s.enabled) IS TRUE
             AND (NOT p.only_idle OR (
                 SELECT t.id FROM tourbillon.timer AS t
                 WHERE t.schedule = s.id AND (t.due < 'infinity' OR t.lane IS NOT NULL) IS TRUE
                 LIMIT 1
             ) IS NULL)
         RETURNING s.id, s.name, s.kind
     ), made AS (",
    insert_timers!(
        "n.schedule IN (SELECT id FROM moved) AND (
             SELECT h.timer FROM tourbillon.history AS h
             WHERE h.schedule = n.schedule AND h.scheduled_for = n.scheduled_for
         ) IS NULL"
    ),
    "), gone AS (
         SELECT k.id, k.schedule, m.name, m.kind, k.scheduled_for, k.outcome, k.reason
         FROM unnest($19::uuid[], $20::uuid[], $21::timestamptz[], $22::int2[], $23::int2[])
             AS k (id, schedule, scheduled_for, outcome, reason)
         JOIN moved AS m ON m.id = k.schedule
         WHERE (
             SELECT t.id FROM tourbillon.timer AS t
             WHERE t.schedule = k.schedule AND t.scheduled_for = k.scheduled_for
         ) IS NULL
     ), recorded AS (
         INSERT INTO tourbillon.history
             (timer, schedule, name, kind, scheduled_for, attempts, failures, outcome, reason,
              detail, node, recorded)
         SELECT id, schedule, name, kind, scheduled_for, 0, 0, outcome, reason, '', NULL, now()
         FROM gone ON CONFLICT DO NOTHING
     )
     SELECT id FROM moved"
);

/// Skipped occurrences of several schedules, column by column.
#[derive(Default)]
struct Skips {
    ids: Vec<Id>,
    schedules: Vec<Id>,
    times: Vec<Stamp>,
    outcomes: Vec<i16>,
    reasons: Vec<i16>,
}

impl Skips {
    fn of(advances: &[Advance<'_>]) -> Self {
        let mut columns = Self::default();
        for advance in advances {
            for skip in advance.skipped {
                columns.ids.push(skip.id.into());
                columns.schedules.push(advance.schedule.into());
                columns.times.push(Stamp(skip.scheduled_for));
                columns.outcomes.push(skip.outcome.code());
                columns.reasons.push(skip.reason.code());
            }
        }
        columns
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 5] {
        [&self.ids, &self.schedules, &self.times, &self.outcomes, &self.reasons]
    }
}

/// Advances all of these schedules in one transaction and one round trip. What the statements must
/// not see before, they see as later statements: first come the locks, then the writes.
pub(super) async fn advance_all(
    session: &mut Session,
    advances: &[Advance<'_>],
) -> Answer<Vec<Advanced>> {
    let ids: Vec<Id> = advances.iter().map(|advance| advance.schedule.into()).collect();
    let versions: Vec<i64> = advances.iter().map(|advance| big(advance.version)).collect();
    let from: Vec<Stamp> = advances.iter().map(|advance| Stamp(advance.from)).collect();
    let next: Vec<Option<Stamp>> = advances.iter().map(|one| one.next.map(Stamp)).collect();
    let walls: Vec<_> = advances.iter().map(|one| one.wall.map(Wall::to_string)).collect();
    let only_idle: Vec<bool> = advances.iter().map(|advance| advance.only_idle).collect();
    let new: NewTimers<'_> = advances.iter().flat_map(|advance| advance.timers).collect();
    let skips = Skips::of(advances);
    let mut params = new.params().to_vec();
    params.extend::<[&(dyn ToSql + Sync); 5]>([&ids, &versions, &from, &next, &only_idle]);
    params.extend(skips.params());
    params.push(&walls);
    let [locked, _, moved] = session
        .transact(
            UNHURRIED,
            [
                (LOCK_ALL, &[&ids]),
                (LOCK_ALL_OCCURRENCES, &[&new.schedules, &new.scheduled_for]),
                (ADVANCE, &params),
            ],
        )
        .await?;
    let moved: HashSet<u128> =
        moved.iter().map(|row| Ok(row.try_get::<_, Id>(0)?.0)).collect::<Answer<_>>()?;
    let mut as_read = HashSet::new();
    for row in &locked {
        let next: Option<Stamp> = row.try_get(2)?;
        if row.try_get(3)? {
            as_read.insert((row.try_get::<_, Id>(0)?.0, row.try_get::<_, i64>(1)?, next));
        }
    }
    let answer = |advance: &Advance<'_>| {
        let (Id(id), version) = (advance.schedule.into(), big(advance.version));
        match as_read.contains(&(id, version, Some(Stamp(advance.from)))) {
            _ if moved.contains(&id) => Advanced::Done,
            true => Advanced::Busy,
            false => Advanced::Stale,
        }
    };
    Ok(advances.iter().map(answer).collect())
}

const LOCK_ENABLED: &str = "
    SELECT id FROM tourbillon.schedule WHERE id = $1 AND version = $2 AND enabled FOR UPDATE";

const IS_KNOWN: &str = "
    SELECT EXISTS (SELECT 1 FROM tourbillon.timer WHERE id = $1)
        OR EXISTS (SELECT 1 FROM tourbillon.history WHERE timer = $1)";

const OCCUPIED: &str = "
    SELECT now(), count(*) FILTER (WHERE due < 'infinity' OR lane IS NOT NULL),
           count(*) FILTER (WHERE due = 'infinity' AND lane IS NULL)
    FROM tourbillon.timer WHERE schedule = $1";

const IS_TAKEN: &str = "
    SELECT EXISTS (SELECT 1 FROM tourbillon.timer WHERE schedule = $1 AND scheduled_for = $2)
        OR EXISTS (SELECT 1 FROM tourbillon.history WHERE schedule = $1 AND scheduled_for = $2)";

pub(super) async fn insert_occurrence(
    session: &mut Session,
    occurrence: &NewOccurrence<'_>,
) -> Answer<ManualRun> {
    session.begin().await?;
    let made = insert_occurrence_within(session, occurrence).await?;
    match made {
        ManualRun::Done { .. } => session.commit().await?,
        ManualRun::Exists => {
            session.rollback().await?;
            session.confirm().await?;
        }
        ManualRun::Stale | ManualRun::Busy => session.rollback().await?,
    }
    Ok(made)
}

async fn insert_occurrence_within(
    session: &mut Session,
    occurrence: &NewOccurrence<'_>,
) -> Answer<ManualRun> {
    let new = occurrence.timer;
    let (id, schedule) = (Id::from(new.id), new.schedule.map(Id::from));
    let locked = session.write(LOCK_ENABLED, &[&schedule, &big(occurrence.version)]).await?;
    if session.read(IS_KNOWN, &[&id]).await?[0].try_get(0)? {
        return Ok(ManualRun::Exists);
    }
    if locked.is_empty() {
        return Ok(ManualRun::Stale);
    }
    let rows = session.read(OCCUPIED, &[&schedule]).await?;
    let Stamp(now) = rows[0].try_get(0)?;
    let occupied = Unfinished { unfinished: count(&rows[0], 1)?, queued: count(&rows[0], 2)? };
    let Some(due) = occurrence.due(occupied, now) else { return Ok(ManualRun::Busy) };
    let mut scheduled_for = now;
    while session.read(IS_TAKEN, &[&schedule, &Stamp(scheduled_for)]).await?[0].try_get(0)? {
        scheduled_for = scheduled_for - Duration::from_micros(1);
    }
    insert(session, &[NewTimer { scheduled_for, due, ..new.clone() }]).await?;
    Ok(ManualRun::Done { due })
}

/// Occurrences at the times `$2` that have a timer, or a record other than of a skip.
const TAKEN: &str = "
    SELECT scheduled_for FROM tourbillon.timer
    WHERE schedule = $1 AND scheduled_for = ANY($2)
    UNION ALL
    SELECT scheduled_for FROM tourbillon.history
    WHERE schedule = $1 AND scheduled_for = ANY($2) AND (outcome <> 3) IS TRUE";

const FORGET_SKIPS: &str = "
    DELETE FROM tourbillon.history
    WHERE schedule = $1 AND scheduled_for = ANY($2) AND (outcome = 3) IS TRUE";

// The statements above have this number in them.
const _: () = assert!(Outcome::Skipped.code() == 3);

pub(super) async fn backfill(session: &mut Session, past: &Past<'_>) -> Answer<Filled> {
    session.begin().await?;
    let filled = backfill_within(session, past).await?;
    match filled {
        Filled::Done { made: 1.., .. } => session.commit().await?,
        Filled::Done { .. } | Filled::Stale => session.rollback().await?,
    }
    Ok(filled)
}

async fn backfill_within(session: &mut Session, past: &Past<'_>) -> Answer<Filled> {
    let schedule = Id::from(past.schedule);
    // While it is locked nothing else makes an occurrence of it.
    if session.write(LOCK_ENABLED, &[&schedule, &big(past.version)]).await?.is_empty() {
        return Ok(Filled::Stale);
    }
    let times: Vec<Stamp> = past.timers.iter().map(|new| Stamp(new.scheduled_for)).collect();
    let mut taken = HashSet::new();
    for row in session.read(TAKEN, &[&schedule, &times]).await? {
        let Stamp(time) = row.try_get(0)?;
        taken.insert(time);
    }
    let (mut new, mut existed) = (Vec::new(), 0);
    for timer in past.timers {
        if new.len() == past.limit as usize {
            break;
        }
        match taken.contains(&timer.scheduled_for) {
            true => existed += 1,
            false => new.push(timer.clone()),
        }
    }
    if !new.is_empty() {
        let times: Vec<Stamp> = new.iter().map(|new| Stamp(new.scheduled_for)).collect();
        session.write(FORGET_SKIPS, &[&schedule, &times]).await?;
        insert(session, &new).await?;
    }
    Ok(Filled::Done { made: new.len() as u32, existed })
}

fn count(row: &Row, at: usize) -> Answer<u32> {
    Ok(u32::try_from(row.try_get::<_, i64>(at)?).unwrap_or(u32::MAX))
}
