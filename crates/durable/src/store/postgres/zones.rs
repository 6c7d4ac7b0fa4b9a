//! Schedules whose times follow the rules of a zone.

use super::answer::Answer;
use super::link::{Query, Session};
use super::schedules::schedule_row;
use super::values::{Id, Stamp, big};
use crate::store::{Advanced, ScheduleRow, ZonedQuery};
use crate::time::Time;

/// Schedules without their payloads.
const ZONED: &str = "
    SELECT s.id, s.name, s.kind, s.spec, s.policies, ''::bytea, s.enabled, s.version, s.next,
           s.paused, s.lane, s.wall
    FROM tourbillon.schedule AS s
    WHERE s.enabled AND s.wall IS NOT NULL AND s.id > $1
        AND ($2::text IS NULL OR left(s.wall, length($2)) <> $2)
    ORDER BY s.id LIMIT $3";

pub(super) async fn zoned(session: &mut Session, query: &ZonedQuery) -> Answer<Vec<ScheduleRow>> {
    let after = query.after.map_or(Id(0), Id::from);
    // With the space that follows a version.
    let but = query.but.as_ref().map(|but| format!("{but} "));
    let rows = session.read(ZONED, &[&after, &but, &i64::from(query.limit)]).await?;
    rows.iter().map(|row| schedule_row(row, 0)).collect()
}

const LOCK: &str = "
    SELECT now() FROM tourbillon.schedule
    WHERE id = $1 AND version = $2 AND next = $3 AND enabled
    FOR UPDATE";

/// The timers that are to come and were never claimed.
const LOCK_TO_COME: &str = "
    SELECT id, scheduled_for FROM tourbillon.timer
    WHERE schedule = $1 AND attempt = 0 AND scheduled_for > now()
    ORDER BY id
    FOR UPDATE";

const DELETE: &str = "DELETE FROM tourbillon.timer WHERE id = ANY($1)";

const SET_NEXT: &str = "UPDATE tourbillon.schedule SET next = $2, wall = $3 WHERE id = $1";

pub(super) async fn rezone(session: &mut Session, row: &ScheduleRow) -> Answer<Advanced> {
    session.begin().await?;
    let moved = rezone_within(session, row).await?;
    match moved {
        Advanced::Done => session.commit().await?,
        Advanced::Stale | Advanced::Busy => session.rollback().await?,
    }
    Ok(moved)
}

async fn rezone_within(session: &mut Session, row: &ScheduleRow) -> Answer<Advanced> {
    let id = Id::from(row.id);
    let as_read = session.write(LOCK, &[&id, &big(row.version), &row.next.map(Stamp)]).await?;
    let Some(locked) = as_read.first() else { return Ok(Advanced::Stale) };
    let Stamp(now) = locked.try_get(0)?;
    let (mut ids, mut first) = (Vec::new(), None::<Time>);
    for timer in session.write(LOCK_TO_COME, &[&id]).await? {
        let Stamp(at) = timer.try_get(1)?;
        ids.push(timer.try_get::<_, Id>(0)?);
        first = Some(first.map_or(at, |first| first.min(at)));
    }
    session.write(DELETE, &[&ids]).await?;
    let moved = row.clone().with_next(row.found_again(first, now));
    let wall = moved.wall.map(|wall| wall.to_string());
    session.write(SET_NEXT, &[&id, &moved.next.map(Stamp), &wall]).await?;
    Ok(Advanced::Done)
}
