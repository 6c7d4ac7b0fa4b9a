//! Timers: inserted, found, and taken back.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::answer::{Answer, Failure, Params};
use super::link::{Query, Session};
use super::look;
use super::pulse;
use super::values::{Id, Span, Stamp, big, int, mask};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Lease, TimerId};
use crate::policy::Retry;
use crate::record::{Outcome, Reason};
use crate::store::{
    Amendment, Inserted, NewTimer, Reschedule, Scan, Timer, TimerUpdate, Waiting, Window,
};
use crate::time::Time;

/// The columns of a timer, in the order that [`timer`] reads them in.
macro_rules! columns {
    () => {
        "id, schedule, name, kind, scheduled_for, due, payload, retry_attempts, retry_first, \
         retry_longest, has_queue, attempt, failures, node, epoch, \
         coalesce(detail, '') AS detail, coalesce(version, 1) AS version, lane"
    };
}
pub(super) use columns;

/// Reads a timer whose columns begin at `at`.
pub(super) fn timer(row: &Row, at: usize) -> Answer<Timer> {
    let schedule: Option<Id> = row.try_get(at + 1)?;
    let Stamp(scheduled_for) = row.try_get(at + 4)?;
    let Stamp(due) = row.try_get(at + 5)?;
    let node: Option<Id> = row.try_get(at + 13)?;
    let epoch: Option<i64> = row.try_get(at + 14)?;
    Ok(Timer {
        new: NewTimer {
            id: row.try_get::<_, Id>(at)?.into(),
            schedule: schedule.map(Into::into),
            name: row.try_get(at + 2)?,
            kind: row.try_get(at + 3)?,
            scheduled_for,
            due,
            payload: row.try_get(at + 6)?,
            retry: retry(row.try_get(at + 7)?, row.try_get(at + 8)?, row.try_get(at + 9)?),
            has_queue: row.try_get(at + 10)?,
            lane: row.try_get(at + 17)?,
        },
        attempt: row.try_get::<_, i32>(at + 11)?.unsigned_abs(),
        failures: row.try_get::<_, i32>(at + 12)?.unsigned_abs(),
        detail: row.try_get(at + 15)?,
        running: node
            .zip(epoch)
            .map(|(node, epoch)| Lease { node: node.into(), epoch: epoch.unsigned_abs() }),
        version: row.try_get::<_, i32>(at + 16)?.unsigned_abs().into(),
    })
}

pub(super) fn retry(attempts: i32, Span(first): Span, Span(longest): Span) -> Retry {
    Retry::new(attempts.unsigned_abs(), first, longest)
}

/// Rows `n` of the parameters `$1` to `$13`.
macro_rules! new_timers {
    () => {
        "unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[],
             $6::timestamptz[], $7::int2[], $8::bytea[], $9::int4[], $10::interval[],
             $11::interval[], $12::bool[], $13::text[])
             AS n (id, schedule, name, kind, scheduled_for, due, shard, payload, retry_attempts,
                   retry_first, retry_longest, has_queue, lane)"
    };
}

/// Inserts rows of [`new_timers`] for which `$condition` holds. Timers of a lane wait until they
/// are [promoted](super::lanes). The rows are composed before: Citus refuses an insert that selects
/// from anything else.
macro_rules! insert_timers {
    ($condition:literal) => {
        concat!(
            "WITH new AS (
                 SELECT n.id, n.schedule, n.name, n.kind, n.scheduled_for,
                        CASE WHEN n.lane IS NULL THEN greatest(n.due, now()) ELSE 'infinity' END
                            AS due,
                        n.shard, n.payload, n.retry_attempts, n.retry_first, n.retry_longest,
                        n.has_queue, n.lane
                 FROM ",
            $crate::store::postgres::timers::new_timers!(),
            " WHERE ",
            $condition,
            ")
             INSERT INTO tourbillon.timer
                 (id, schedule, name, kind, scheduled_for, due, shard, payload, retry_attempts,
                  retry_first, retry_longest, has_queue, lane)
             SELECT id, schedule, name, kind, scheduled_for, due, shard, payload, retry_attempts,
                    retry_first, retry_longest, has_queue, lane
             FROM new ON CONFLICT DO NOTHING RETURNING id"
        )
    };
}
pub(super) use {insert_timers, new_timers};

/// The parameters of [`new_timers`], column by column.
#[derive(Default)]
pub(super) struct NewTimers<'a> {
    pub(super) ids: Vec<Id>,
    pub(super) schedules: Vec<Option<Id>>,
    pub(super) names: Vec<Option<&'a str>>,
    pub(super) kinds: Vec<&'a str>,
    pub(super) scheduled_for: Vec<Stamp>,
    pub(super) due: Vec<Stamp>,
    pub(super) shards: Vec<i16>,
    pub(super) payloads: Vec<&'a [u8]>,
    pub(super) attempts: Vec<i32>,
    pub(super) first: Vec<Span>,
    pub(super) longest: Vec<Span>,
    pub(super) queues: Vec<bool>,
    pub(super) lanes: Vec<Option<&'a str>>,
}

impl NewTimers<'_> {
    /// In the order of [`INSERT`].
    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 13] {
        [
            &self.ids,
            &self.schedules,
            &self.names,
            &self.kinds,
            &self.scheduled_for,
            &self.due,
            &self.shards,
            &self.payloads,
            &self.attempts,
            &self.first,
            &self.longest,
            &self.queues,
            &self.lanes,
        ]
    }
}

impl<'a> FromIterator<&'a NewTimer> for NewTimers<'a> {
    fn from_iter<T: IntoIterator<Item = &'a NewTimer>>(timers: T) -> Self {
        let mut columns = Self::default();
        for new in timers {
            columns.ids.push(new.id.into());
            columns.schedules.push(new.schedule.map(Id::from));
            columns.names.push(new.name.as_deref());
            columns.kinds.push(&new.kind);
            columns.scheduled_for.push(Stamp(new.scheduled_for));
            columns.due.push(Stamp(new.due));
            columns.shards.push(new.id.shard().into());
            columns.payloads.push(&new.payload);
            columns.attempts.push(int(new.retry.attempts));
            columns.first.push(Span(new.retry.first));
            columns.longest.push(Span(new.retry.longest));
            columns.queues.push(new.has_queue);
            columns.lanes.push(new.lane.as_deref());
        }
        columns
    }
}

pub(super) const INSERT: &str =
    insert_timers!("NOT EXISTS (SELECT 1 FROM tourbillon.history AS h WHERE h.timer = n.id)");

/// Finds the rows that conflict with timers of `$1` (ids), `$2` (names), `$3` and `$4`
/// (occurrences).
const IN_THE_WAY: &str = "
    SELECT id, NULL::text, NULL::uuid, NULL::timestamptz FROM tourbillon.timer WHERE id = ANY($1)
    UNION ALL
    SELECT id, name, NULL, NULL FROM tourbillon.timer
    WHERE schedule IS NULL AND name IS NOT NULL AND name = ANY($2)
    UNION ALL
    SELECT t.id, NULL, t.schedule, t.scheduled_for
    FROM unnest($3::uuid[], $4::timestamptz[]) AS n (schedule, scheduled_for)
    JOIN tourbillon.timer AS t USING (schedule, scheduled_for) WHERE t.schedule IS NOT NULL
    UNION ALL
    SELECT timer, NULL, NULL, NULL FROM tourbillon.history WHERE timer = ANY($1)";

/// Number of times that an insert looks again for a conflicting row that has gone.
const ROUNDS: u32 = 5;

/// Inserts as [`Store::insert`](crate::Store::insert) does.
pub(super) async fn insert(query: &mut impl Query, timers: &[NewTimer]) -> Answer<Vec<Inserted>> {
    let new: NewTimers<'_> = timers.iter().collect();
    let made = query.write(INSERT, &new.params()).await?;
    answers(query, timers, made).await
}

/// Returns the answers to an insert, from the rows that it made. If a conflicting row has gone
/// meanwhile, inserts again.
pub(super) async fn answers(
    query: &mut impl Query,
    timers: &[NewTimer],
    mut made: Vec<Row>,
) -> Answer<Vec<Inserted>> {
    let mut answers: Vec<Option<Inserted>> = vec![None; timers.len()];
    let mut rounds = 1..ROUNDS;
    loop {
        let mut created = HashSet::with_capacity(made.len());
        for row in made {
            created.insert(TimerId::from(row.try_get::<_, Id>(0)?));
        }
        for (new, answer) in timers.iter().zip(&mut answers) {
            // The second of the same call finds the first.
            if answer.is_none() && created.remove(&new.id) {
                *answer = Some(Inserted::Created);
            }
        }
        let left = timers.iter().zip(&mut answers).filter(|(_, answer)| answer.is_none());
        let left: Vec<_> = left.collect();
        if !left.is_empty() {
            let others = Others::find(query, left.iter().map(|(new, _)| *new)).await?;
            let mut is_found = false;
            for (new, answer) in left {
                *answer = others.of(new).map(Inserted::Exists);
                is_found |= answer.is_some();
            }
            if is_found {
                query.confirm().await?;
            }
        }
        let left = timers.iter().zip(&answers).filter(|(_, answer)| answer.is_none());
        let again: NewTimers<'_> = left.map(|(new, _)| new).collect();
        if again.ids.is_empty() {
            return Ok(answers.into_iter().flatten().collect());
        }
        if rounds.next().is_none() {
            let why = "conflicting timers came and went at every try";
            return Err(Failure::Other(StoreError::new(StoreErrorKind::Conflict, why)));
        }
        made = query.write(INSERT, &again.params()).await?;
    }
}

/// Timers and records that prevented inserts.
#[derive(Default)]
struct Others {
    ids: HashSet<TimerId>,
    names: HashMap<String, TimerId>,
    occurrences: HashMap<(u128, Time), TimerId>,
}

impl Others {
    async fn find<'a>(
        query: &mut impl Query,
        timers: impl Iterator<Item = &'a NewTimer>,
    ) -> Answer<Self> {
        let new: NewTimers<'_> = timers.collect();
        let rows = query
            .read(IN_THE_WAY, &[&new.ids, &new.names, &new.schedules, &new.scheduled_for])
            .await?;
        let mut others = Self::default();
        for row in rows {
            let id = row.try_get::<_, Id>(0)?.into();
            let schedule: Option<Id> = row.try_get(2)?;
            let scheduled_for: Option<Stamp> = row.try_get(3)?;
            if let Some(name) = row.try_get(1)? {
                others.names.insert(name, id);
            } else if let Some((Id(schedule), Stamp(time))) = schedule.zip(scheduled_for) {
                others.occurrences.insert((schedule, time), id);
            } else {
                others.ids.insert(id);
            }
        }
        Ok(others)
    }

    fn of(&self, new: &NewTimer) -> Option<TimerId> {
        let named = match (new.schedule, &new.name) {
            (Some(schedule), _) => self.occurrences.get(&(schedule.bits(), new.scheduled_for)),
            (None, Some(name)) => self.names.get(name),
            (None, None) => None,
        };
        named.copied().or_else(|| self.ids.contains(&new.id).then_some(new.id))
    }
}

/// Which timers a scan is asked for.
macro_rules! is_asked_for {
    () => {
        " AND node IS NULL AND stopped IS NULL
          AND (($2::int8 >> shard) & 1 = 1 OR due <= now() - $5::interval) IS TRUE "
    };
}

/// In arrays, so that there is a row, with the time, if there is no timer.
///
/// Each kind is read by the index that begins with it, so that nobody walks over the backlog of
/// another.
macro_rules! scan {
    ($with:expr, $columns:expr, $known:literal, $from:literal, $order:literal) => {
        concat!(
            $with,
            "SELECT now(), array_agg(w.due), array_agg(w.id), array_agg(w.kind)",
            $columns,
            "FROM (
                 SELECT t.due, t.id, k.number::int4 AS kind
                 FROM unnest($4::text[]) WITH ORDINALITY AS k (kind, number),
                 LATERAL (",
            $known,
            "    (
                     SELECT due, id FROM tourbillon.timer AS t
                     WHERE t.kind = k.kind AND t.retry_attempts >= 0
                         AND t.due <= now() + $1::interval AND (t.due < 'infinity') IS TRUE
                         AND t.due >= ",
            $from,
            is_asked_for!(),
            "        ORDER BY t.due, t.id
                     LIMIT $3
                 )",
            $order,
            ") AS t
                 ORDER BY t.due, t.id
             ) AS w"
        )
    };
}

/// Query for a scan from the floor on, after the timers that a [`look`] knows to be due before it.
const SCAN: &str = scan!(
    concat!(
        look::look!(),
        "behind AS MATERIALIZED (
             SELECT due, id, kind FROM look WHERE due < $6::timestamptz",
        is_asked_for!(),
        "    ORDER BY due, id
         ) "
    ),
    look::found!(),
    "SELECT b.due, b.id FROM behind AS b WHERE b.kind = k.kind UNION ALL ",
    "coalesce($6::timestamptz, '-infinity')",
    " ORDER BY due, id LIMIT $3"
);
const SCAN_BACK: &str = scan!("", " ", "", "now() - $6::interval", "");

/// The same, with a pulse.
const SCAN_AND_BEAT: &str =
    scan!(pulse::beat!(), pulse::answers!(), "", "now() - $6::interval", "");

pub(super) async fn scan(session: &mut Session, scan: &Scan<'_>) -> Answer<Window> {
    let ahead = Span(scan.ahead);
    let shards = mask(scan.shards);
    let limit = i64::from(scan.kind_limit);
    let grace = scan.grace.map(Span);
    let pulse = scan.pulse.filter(|_| !session.is_citus);
    let rows = match (scan.back.map(Span), &pulse) {
        (None, _) => loop {
            // While there is a backlog, a scan of the node's own shards follows.
            let look = match scan.grace {
                Some(_) => Some(look::begin(session).await?),
                None => look::ensure(session).await.map(|()| None)?,
            };
            let values = look::Values::new(look.as_ref(), &session.floor);
            let params: [&(dyn ToSql + Sync); 5] = [&ahead, &shards, &limit, &scan.kinds, &grace];
            let params: Vec<_> = params.into_iter().chain(values.params()).collect();
            let rows = session.read(SCAN, &params).await;
            let is_lowered = look.map(|look| look.end(&mut session.floor, &rows)).transpose()?;
            if is_lowered != Some(true) {
                break rows?;
            }
        },
        (Some(back), None) => {
            let params: Params<'_> = &[&ahead, &shards, &limit, &scan.kinds, &grace, &back];
            session.read(SCAN_BACK, params).await?
        }
        (Some(back), Some(pulse)) => {
            let values = pulse::Values::new(pulse, &session.floor);
            let params: [&(dyn ToSql + Sync); 6] =
                [&ahead, &shards, &limit, &scan.kinds, &grace, &back];
            let params: Vec<_> = params.into_iter().chain(values.params()).collect();
            session.write(SCAN_AND_BEAT, &params).await?
        }
    };
    let Stamp(now) = rows[0].try_get(0)?;
    let due: Vec<Stamp> = rows[0].try_get::<_, Option<_>>(1)?.unwrap_or_default();
    let ids: Vec<Id> = rows[0].try_get::<_, Option<_>>(2)?.unwrap_or_default();
    let kinds: Vec<i32> = rows[0].try_get::<_, Option<_>>(3)?.unwrap_or_default();
    let waiting = due.into_iter().zip(ids).zip(kinds).map(|((Stamp(due), id), kind)| {
        // Places in an array count from 1.
        Waiting { due, id: id.into(), kind: kind.unsigned_abs() - 1 }
    });
    let pulse = pulse.filter(|_| scan.back.is_some());
    let pulsed = pulse.map(|pulse| pulse::pulsed(&rows[0], pulse.lease, now)).transpose()?;
    Ok(Window { now, timers: waiting.collect(), pulsed })
}

/// Records the rows of `gone`: timers that ended before their attempt did.
macro_rules! record_cancelled {
    ($reason:literal) => {
        concat!(
            "INSERT INTO tourbillon.history
                 (timer, schedule, name, kind, scheduled_for, attempts, failures, outcome, reason,
                  detail, node, recorded)
             SELECT id, schedule, name, kind, scheduled_for, attempt, failures, 4::int2, ",
            $reason,
            ", detail, NULL, now() FROM gone ON CONFLICT DO NOTHING"
        )
    };
}
pub(super) use record_cancelled;

const CANCEL: &str = concat!(
    "WITH gone AS (DELETE FROM tourbillon.timer WHERE id = $1 AND node IS NULL RETURNING ",
    columns!(),
    ") ",
    record_cancelled!("6::int2"),
    " RETURNING timer"
);

const RESCHEDULE: &str = "
    UPDATE tourbillon.timer
    SET scheduled_for = $2, payload = coalesce($3, payload), version = coalesce(version, 1) + 1,
        due = greatest($2, now(), CASE WHEN lane IS NOT NULL AND due = 'infinity' THEN due END)
    WHERE id = $1 AND node IS NULL AND schedule IS NULL
        AND ($4::int8 IS NULL OR coalesce(version, 1) = $4)
        AND ($5::int4 IS NULL OR attempt = $5)
    RETURNING id";

const AMEND: &str = "
    UPDATE tourbillon.timer
    SET detail = $5, version = coalesce(version, 1) + 1,
        due = greatest(now() + $4, scheduled_for, CASE
            WHEN (lane IS NOT NULL OR schedule IS NOT NULL) AND due = 'infinity' THEN due
        END)
    WHERE id = $1 AND node IS NULL AND stopped IS NULL AND attempt = $2
        AND coalesce(version, 1) = $3::int8
    RETURNING id";

const STATE: &str = "
    SELECT attempt, node IS NOT NULL, coalesce(version, 1),
           schedule IS NOT NULL, stopped IS NOT NULL
    FROM tourbillon.timer WHERE id = $1";

// The statements above have these numbers in them.
const _: () = {
    assert!(Outcome::Cancelled.code() == 4);
    assert!(Reason::Cancelled.code() == 6);
};

pub(super) async fn cancel(session: &mut Session, id: TimerId) -> Answer<TimerUpdate> {
    for _ in 0..ROUNDS {
        if !session.write(CANCEL, &[&Id::from(id)]).await?.is_empty() {
            return Ok(TimerUpdate::Done);
        }
        if let Some(withdrawn) = state(session, id, Asked::End).await? {
            session.confirm().await?;
            return Ok(withdrawn);
        }
    }
    Err(restless())
}

pub(super) async fn reschedule(
    session: &mut Session,
    reschedule: &Reschedule<'_>,
) -> Answer<TimerUpdate> {
    let Reschedule { timer: id, to, payload, expect, attempt } = *reschedule;
    let (version, number) = (expect.map(big), attempt.map(int));
    for _ in 0..ROUNDS {
        let values: [&(dyn ToSql + Sync); 5] =
            [&Id::from(id), &Stamp(to), &payload, &version, &number];
        if !session.write(RESCHEDULE, &values).await?.is_empty() {
            return Ok(TimerUpdate::Done);
        }
        if let Some(refused) = state(session, id, Asked::Another { expect, attempt }).await? {
            session.confirm().await?;
            return Ok(refused);
        }
    }
    Err(restless())
}

pub(super) async fn amend(session: &mut Session, amendment: &Amendment<'_>) -> Answer<TimerUpdate> {
    let Amendment { timer, attempt, version, pause, detail } = *amendment;
    let (id, number) = (Id::from(timer), int(attempt));
    let values: [&(dyn ToSql + Sync); 5] = [&id, &number, &big(version), &Span(pause), &detail];
    let asked = Asked::Amendment { attempt, version };
    for _ in 0..ROUNDS {
        if !session.write(AMEND, &values).await?.is_empty() {
            return Ok(TimerUpdate::Done);
        }
        if let Some(refused) = state(session, timer, asked).await? {
            session.confirm().await?;
            return Ok(refused);
        }
    }
    Err(restless())
}

/// Changes that a timer was asked to take, and did not.
#[derive(Clone, Copy)]
enum Asked {
    /// Its end.
    End,
    /// Another time, if it has the version and so many attempts.
    Another { expect: Option<u64>, attempt: Option<u32> },
    /// An amendment of this attempt's result, if the timer has the version.
    Amendment { attempt: u32, version: u64 },
}

/// Returns why a timer was not changed; `None` if there is no reason any more.
async fn state(session: &mut Session, id: TimerId, asked: Asked) -> Answer<Option<TimerUpdate>> {
    let rows = session.read(STATE, &[&Id::from(id)]).await?;
    let Some(row) = rows.first() else { return Ok(Some(TimerUpdate::Gone)) };
    let is_running: bool = row.try_get(1)?;
    let attempt = row.try_get::<_, i32>(0)?.unsigned_abs();
    let version = u64::from(row.try_get::<_, i32>(2)?.unsigned_abs());
    let (is_of_schedule, is_stopped): (bool, bool) = (row.try_get(3)?, row.try_get(4)?);
    Ok(match asked {
        Asked::Another { expect: Some(expect), .. } | Asked::Amendment { version: expect, .. }
            if expect != version =>
        {
            Some(TimerUpdate::Stale)
        }
        _ if is_running => Some(TimerUpdate::Running { attempt }),
        Asked::Another { attempt: Some(expect), .. } | Asked::Amendment { attempt: expect, .. }
            if expect != attempt =>
        {
            Some(TimerUpdate::Stale)
        }
        Asked::Another { .. } if is_of_schedule => Some(TimerUpdate::Gone),
        Asked::Amendment { .. } if is_stopped => Some(TimerUpdate::Gone),
        _ => None,
    })
}

fn restless() -> Failure {
    let why = "the timer is claimed and handed back again and again";
    Failure::Other(StoreError::new(StoreErrorKind::Conflict, why))
}

const FIND: &str =
    concat!("SELECT ", columns!(), " FROM tourbillon.timer WHERE schedule IS NULL AND name = $1");

pub(super) async fn find(session: &mut Session, name: &str) -> Answer<Option<Timer>> {
    let rows = session.read(FIND, &[&name]).await?;
    rows.first().map(|row| timer(row, 0)).transpose()
}
