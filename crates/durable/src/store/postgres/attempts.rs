//! Attempts: claimed, and ended.

use std::collections::HashSet;

use tokio_postgres::Row;

use super::answer::{Answer, Params};
use super::link::{Query, Session};
use super::timers::{columns, timer};
use super::values::{Id, Span, Stamp, big, int};
use crate::id::{Lease, TimerId};
use crate::record::{Outcome, Reason};
use crate::store::{Claimed, End, Finished, How};

/// The parts of a claim and of ends, put together to statements below. A claim first asks for the
/// node's row and locks it in a way that beats do not mind, but the end of the life does.
///
/// One reading of the clock is compared and answered. Citus reads that of a change on its
/// coordinator, and all others later, on a worker: a timer due in between would count as another
/// node's.
///
/// A condition that `IS TRUE` is none for an index: a plan made while the table is empty would walk
/// all that is due, for the ids.
macro_rules! claimed {
    ($timers:expr) => {
        concat!(
            "alive AS MATERIALIZED (
                 SELECT now() FROM tourbillon.node WHERE id = $1 AND epoch = $2 FOR KEY SHARE
             ),
             claimed AS (
                 UPDATE tourbillon.timer SET attempt = attempt + 1, node = $1, epoch = $2
                 WHERE id = ANY(",
            $timers,
            ") AND node IS NULL AND stopped IS NULL
                     AND (due <= (SELECT now FROM alive)) IS TRUE
                 RETURNING ",
            columns!(),
            ")"
        )
    };
}

/// The parameters `$3` to `$7` are the ends. A timer that was inserted by other means may have a
/// record already: it is deleted without a second record, and its end is fenced.
macro_rules! ended {
    () => {
        "ended AS (
             DELETE FROM tourbillon.timer AS t
             USING unnest($3::uuid[], $4::int4[], $5::int2[], $6::int2[], $7::text[])
                 AS e (timer, attempt, outcome, reason, detail)
             WHERE t.id = e.timer AND t.attempt = e.attempt AND t.node = $1 AND t.epoch = $2
             RETURNING t.id, t.schedule, t.name, t.kind, t.scheduled_for, t.attempt, t.failures,
                       e.outcome, e.reason, e.detail,
                       CASE WHEN e.outcome = 2 THEN t.payload END AS payload,
                       CASE WHEN e.outcome = 2 THEN t.retry_attempts END AS retry_attempts,
                       CASE WHEN e.outcome = 2 THEN t.retry_first END AS retry_first,
                       CASE WHEN e.outcome = 2 THEN t.retry_longest END AS retry_longest,
                       CASE WHEN e.outcome = 2 THEN t.lane END AS lane
         )"
    };
}

macro_rules! recorded {
    () => {
        "    INSERT INTO tourbillon.history
                 (timer, schedule, name, kind, scheduled_for, attempts, failures, outcome, reason,
                  detail, node, recorded, payload, retry_attempts, retry_first, retry_longest, lane)
             SELECT id, schedule, name, kind, scheduled_for, attempt,
                    failures + (outcome = 2)::int4, outcome, reason, detail, $1, now(), payload,
                    retry_attempts, retry_first, retry_longest, lane
             FROM ended
             ON CONFLICT DO NOTHING
             RETURNING timer"
    };
}

/// The time stands in the first row, which has no timer.
macro_rules! and_rows {
    ($ended:literal) => {
        concat!(
            " SELECT coalesce((SELECT now FROM alive), now()), ",
            $ended,
            ", NULL::uuid, NULL::uuid, NULL, NULL, NULL::timestamptz, NULL::timestamptz,
                 NULL::bytea, NULL::int4, NULL::interval, NULL::interval, NULL::bool, NULL::int4,
                 NULL::int4, NULL::uuid, NULL::int8, NULL, NULL::int4, NULL
             UNION ALL SELECT NULL, NULL, ",
            columns!(),
            " FROM claimed"
        )
    };
}

const CLAIM: &str = concat!("WITH ", claimed!("$3::uuid[]"), and_rows!("NULL::uuid[]"));

/// Rows of `$timers` that no other transaction has locked.
macro_rules! unlocked {
    ($timers:literal) => {
        concat!(
            "ARRAY(
                 SELECT id FROM tourbillon.timer
                 WHERE id = ANY(",
            $timers,
            ") AND node IS NULL AND (due <= (SELECT now FROM alive)) IS TRUE
                 FOR UPDATE SKIP LOCKED
             )"
        )
    };
}

const CLAIM_UNLOCKED: &str =
    concat!("WITH ", claimed!(unlocked!("$3::uuid[]")), and_rows!("NULL::uuid[]"));

// Statements have these numbers in them.
const _: () = assert!(Outcome::Dead.code() == 2);

/// The insert stands outside of the `WITH`: Citus would send the deleted rows to every worker, so
/// no attempt could end while a worker is away.
const END: &str = concat!("WITH ", ended!(), recorded!());

/// Two changes of one table in one statement; each is a statement of its own, too, for a database
/// that has none such.
const END_AND_CLAIM: &str = concat!(
    "WITH ",
    ended!(),
    ", recorded AS (",
    recorded!(),
    "), ",
    claimed!("$8::uuid[]"),
    and_rows!("ARRAY(SELECT timer FROM recorded)")
);

const END_AND_CLAIM_UNLOCKED: &str = concat!(
    "WITH ",
    ended!(),
    ", recorded AS (",
    recorded!(),
    "), ",
    claimed!(unlocked!("$8::uuid[]")),
    and_rows!("ARRAY(SELECT timer FROM recorded)")
);

/// Attempts that are followed by others: pending again, some after a pause. A failed one has a
/// detail, even if empty. The sum is without time zones: with them it depends on a setting, and
/// Citus refuses to compute it for each row of an update.
const RETURN: &str = "
    UPDATE tourbillon.timer AS t
    SET node = NULL, epoch = NULL, failures = t.failures + e.failed::int4,
        due = greatest((now() AT TIME ZONE 'UTC' + e.pause) AT TIME ZONE 'UTC',
                       CASE WHEN e.pause IS NULL THEN t.due END),
        detail = coalesce(e.detail, t.detail)
    FROM unnest($3::uuid[], $4::int4[], $5::interval[], $6::text[], $7::bool[])
        AS e (timer, attempt, pause, detail, failed)
    WHERE t.id = e.timer AND t.attempt = e.attempt AND t.node = $1 AND t.epoch = $2
    RETURNING t.id";

/// Reads the records that an earlier call with the same ends has written.
const WAS_ENDED: &str = "
    SELECT h.timer FROM unnest($2::uuid[], $3::int4[], $4::int2[]) AS e (timer, attempt, outcome)
    JOIN tourbillon.history AS h ON h.timer = e.timer
    WHERE h.attempts = e.attempt AND h.outcome = e.outcome AND h.node = $1";

fn key(of: Lease) -> (Id, i64) {
    (of.node.into(), big(of.epoch))
}

fn claimed(rows: &[Row]) -> Answer<Claimed> {
    let Stamp(now) = rows[0].try_get(0)?;
    let timers = rows[1..].iter().map(|row| timer(row, 2)).collect::<Answer<Vec<_>>>();
    let mut timers = timers?;
    timers.sort_by_key(|timer| (timer.new.due, timer.new.id));
    Ok(Claimed { now, timers })
}

/// Claims as [`Store::claim`](crate::Store::claim) does. If `is_contended`, leaves out locked rows.
pub(super) async fn claim(
    session: &mut Session,
    of: Lease,
    timers: &[TimerId],
    is_contended: bool,
) -> Answer<Claimed> {
    let sql = if is_contended { CLAIM_UNLOCKED } else { CLAIM };
    let (node, epoch) = key(of);
    let ids: Vec<Id> = timers.iter().copied().map(Id::from).collect();
    claimed(&session.write(sql, &[&node, &epoch, &ids]).await?)
}

/// Ends that are last, column by column.
#[derive(Default)]
struct Ends<'a> {
    timers: Vec<Id>,
    attempts: Vec<i32>,
    outcomes: Vec<i16>,
    reasons: Vec<Option<i16>>,
    details: Vec<&'a str>,
}

/// Ends that others follow.
#[derive(Default)]
struct Returns<'a> {
    timers: Vec<Id>,
    attempts: Vec<i32>,
    pauses: Vec<Option<Span>>,
    details: Vec<Option<&'a str>>,
    are_failed: Vec<bool>,
}

fn split<'a>(ends: impl IntoIterator<Item = &'a End>) -> (Ends<'a>, Returns<'a>) {
    let (mut last, mut returns) = (Ends::default(), Returns::default());
    for end in ends {
        let (timer, attempt) = (end.timer.into(), int(end.attempt));
        let (pause, detail) = match &end.how {
            How::Done(outcome, reason, detail) => {
                last.timers.push(timer);
                last.attempts.push(attempt);
                last.outcomes.push(outcome.code());
                last.reasons.push(reason.map(Reason::code));
                last.details.push(detail);
                continue;
            }
            How::Retry(pause, detail) => (Some(Span(*pause)), Some(&detail[..])),
            How::Postpone(pause, detail) => (Some(Span(*pause)), detail.as_deref()),
            How::HandBack => (None, None),
        };
        returns.timers.push(timer);
        returns.attempts.push(attempt);
        returns.pauses.push(pause);
        returns.details.push(detail);
        returns.are_failed.push(matches!(end.how, How::Retry(..)));
    }
    (last, returns)
}

fn ids(rows: Vec<Row>) -> Answer<HashSet<TimerId>> {
    rows.iter().map(|row| Ok(row.try_get::<_, Id>(0)?.into())).collect()
}

/// Finishes as [`Store::finish`](crate::Store::finish) does.
pub(super) async fn finish(
    query: &mut impl Query,
    of: Lease,
    ends: &[End],
) -> Answer<Vec<Finished>> {
    let accepted = end(query, of, ends).await?;
    judge(query, of, ends, accepted).await
}

/// Ends attempts that are under way; two statements at most that write. Returns whose they were.
pub(super) async fn end(
    query: &mut impl Query,
    of: Lease,
    ends: &[End],
) -> Answer<HashSet<TimerId>> {
    let (last, returns) = split(ends);
    let (node, epoch) = key(of);
    let mut accepted = HashSet::new();
    if !last.timers.is_empty() {
        let (outcomes, reasons, details) = (&last.outcomes, &last.reasons, &last.details);
        let params: Params<'_> =
            &[&node, &epoch, &last.timers, &last.attempts, outcomes, reasons, details];
        accepted.extend(ids(query.write(END, params).await?)?);
    }
    if !returns.timers.is_empty() {
        let Returns { timers, attempts, pauses, details, are_failed } = &returns;
        let params: Params<'_> = &[&node, &epoch, timers, attempts, pauses, details, are_failed];
        accepted.extend(ids(query.write(RETURN, params).await?)?);
    }
    Ok(accepted)
}

pub(super) fn is_last(end: &End) -> bool {
    matches!(end.how, How::Done(..))
}

/// Returns whether both kinds of ends occur. They take two statements.
pub(super) fn is_mixed(ends: &[End]) -> bool {
    ends.iter().any(is_last) && !ends.iter().all(is_last)
}

/// Returns the fate of `ends`, given that the timers of `accepted` were found running. Ends that an
/// earlier call has recorded are accepted too.
async fn judge(
    query: &mut impl Query,
    of: Lease,
    ends: &[End],
    mut accepted: HashSet<TimerId>,
) -> Answer<Vec<Finished>> {
    let lost = ends.iter().filter(|end| !accepted.contains(&end.timer));
    let (lost, _) = split(lost);
    if !lost.timers.is_empty() {
        let node = Id::from(of.node);
        let params: Params<'_> = &[&node, &lost.timers, &lost.attempts, &lost.outcomes];
        let recorded = ids(query.read(WAS_ENDED, params).await?)?;
        if !recorded.is_empty() {
            query.confirm().await?;
            accepted.extend(recorded);
        }
    }
    Ok(answers(ends, &accepted))
}

/// Returns the answers to `ends` if the ends of the timers `accepted` apply.
pub(super) fn answers(ends: &[End], accepted: &HashSet<TimerId>) -> Vec<Finished> {
    let became = |end: &End| match accepted.contains(&end.timer) {
        true => Finished::Accepted,
        false => Finished::Fenced,
    };
    ends.iter().map(became).collect()
}

/// Ends attempts, all of them for the last time, and claims; in one statement unless on Citus, see
/// [`END`]. If `is_contended`, the claim leaves out locked rows.
pub(super) async fn end_and_claim(
    session: &mut Session,
    of: Lease,
    ends: &[End],
    timers: &[TimerId],
    is_contended: bool,
) -> Answer<(Vec<Finished>, Claimed)> {
    if session.is_citus {
        let finished = finish(session, of, ends).await?;
        return Ok((finished, claim(session, of, timers, is_contended).await?));
    }
    let sql = if is_contended { END_AND_CLAIM_UNLOCKED } else { END_AND_CLAIM };
    let (last, _) = split(ends);
    let (node, epoch) = key(of);
    let claims: Vec<Id> = timers.iter().copied().map(Id::from).collect();
    let rows = session
        .write(
            sql,
            &[
                &node,
                &epoch,
                &last.timers,
                &last.attempts,
                &last.outcomes,
                &last.reasons,
                &last.details,
                &claims,
            ],
        )
        .await?;
    let ended: Vec<Id> = rows[0].try_get(1)?;
    let claimed = claimed(&rows)?;
    let accepted = ended.into_iter().map(TimerId::from).collect();
    Ok((judge(session, of, ends, accepted).await?, claimed))
}
