//! Reads for observers: the newest records of names, names by a text, and counts by time.

use tokio_postgres::Row;

use super::answer::Answer;
use super::link::{Query, Session};
use super::lists::{List, outcome, reason};
use super::values::{Id, Stamp};
use crate::record::RecordSummary;
use crate::store::query::prefix_end;
use crate::store::views::Walk;
use crate::store::{Hits, NameState, Search, Tally, TallyOf};

/// The newest `$2` records of each name. The limit makes the server look up each name by an index,
/// also by a plan that is made while the table is empty.
const LATEST: &str = "
    SELECT n.place, h.*
    FROM unnest($1::text[]) WITH ORDINALITY AS n (name, place)
    CROSS JOIN LATERAL (
        SELECT timer, scheduled_for, outcome, reason, detail, recorded
        FROM tourbillon.history AS h WHERE h.name = n.name
        ORDER BY recorded DESC, timer DESC LIMIT $2
    ) AS h";

/// Counts records of the kind `$2` in parts that begin at `$1`: from `$3` on, before `$4`, `$5` of
/// them at most. Compared and ordered by kind and time together, for the index on both.
const TALLY: &str = "
    SELECT width_bucket(recorded, $1::timestamptz[]) - 1, outcome, count(*), min(recorded)
    FROM (
        SELECT outcome, recorded FROM tourbillon.history AS h
        WHERE kind >= $2 AND kind <= $2
            AND (kind, recorded) >= ($2, $3) AND (kind, recorded) < ($2, $4)
        ORDER BY kind DESC, recorded DESC, timer DESC LIMIT $5
    ) AS h
    GROUP BY 1, 2";

/// The same as [`TALLY`], of the name `$6`.
const TALLY_NAMED: &str = "
    SELECT width_bucket(recorded, $1::timestamptz[]) - 1, outcome, count(*), min(recorded)
    FROM (
        SELECT outcome, recorded FROM tourbillon.history AS h
        WHERE name = $6 AND recorded >= $3 AND recorded < $4 AND (kind = $2) IS TRUE
        ORDER BY recorded DESC, timer DESC LIMIT $5
    ) AS h
    GROUP BY 1, 2";

pub(super) async fn latest_records(
    session: &mut Session,
    names: &[&str],
    each: u32,
) -> Answer<Vec<Vec<RecordSummary>>> {
    let mut found = vec![Vec::new(); names.len()];
    for row in &session.read(LATEST, &[&names, &i64::from(each)]).await? {
        let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or(0);
        if let Some(found) = found.get_mut(place) {
            found.push(summary(row)?);
        }
    }
    for records in &mut found {
        records.sort_by_key(|record| std::cmp::Reverse((record.recorded, record.timer)));
    }
    Ok(found)
}

fn summary(row: &Row) -> Answer<RecordSummary> {
    let (Stamp(scheduled_for), Stamp(recorded)) = (row.try_get(2)?, row.try_get(6)?);
    Ok(RecordSummary {
        timer: row.try_get::<_, Id>(1)?.into(),
        scheduled_for,
        outcome: outcome(row.try_get(3)?)?,
        reason: reason(row.try_get(4)?)?,
        detail: row.try_get(5)?,
        recorded,
    })
}

/// Table of names, and the condition of each state.
struct Names {
    table: &'static str,
    states: &'static [(NameState, &'static str)],
}

const SCHEDULES: Names = Names {
    table: "tourbillon.schedule AS t WHERE true",
    states: &[(NameState::Enabled, "enabled"), (NameState::Disabled, "NOT enabled")],
};

const TIMERS: Names = Names {
    table: "tourbillon.timer AS t WHERE schedule IS NULL AND name IS NOT NULL",
    states: &[
        (NameState::Pending, "node IS NULL AND scheduled_for < 'infinity'"),
        (NameState::Held, "node IS NULL AND scheduled_for = 'infinity'"),
        (NameState::Running, "node IS NOT NULL"),
    ],
};

pub(super) async fn search(session: &mut Session, search: &Search) -> Answer<Hits> {
    let mut walks = Vec::new();
    if search.has_schedules() {
        walks.push(walk(session, search, &SCHEDULES).await?);
    }
    if search.has_timers() {
        walks.push(walk(session, search, &TIMERS).await?);
    }
    Ok(search.hits(walks))
}

/// Reads the names of a table in their order, up to a limit, and returns the matching ones.
async fn walk(session: &mut Session, search: &Search, names: &Names) -> Answer<Walk> {
    let wanted = names.states.iter().filter(|(state, _)| search.has(*state));
    let states: Vec<_> = wanted.map(|(_, condition)| format!("({condition})")).collect();
    let end = prefix_end(&search.prefix);
    let behind = i32::try_from(search.behind).unwrap_or(i32::MAX).saturating_add(1);
    let (most, limit) = (i64::from(search.most), i32::try_from(search.names()).unwrap_or(i32::MAX));
    let mut list = List::new(format!(
        "SELECT count(*), max(name), count(*) FILTER (WHERE fits),
                coalesce((array_agg(name ORDER BY name) FILTER (WHERE fits))[:$1], '{{}}')
         FROM (
             SELECT name, position($2 IN lower(substr(name, $3))) > 0 AND ({}) AS fits
             FROM (SELECT t.* FROM {}",
        states.join(" OR "),
        names.table
    ));
    list.with(&limit).with(&search.text).with(&behind);
    list.page("name", Some(&search.prefix), end.as_ref(), search.after.as_ref());
    list.end(" ORDER BY name LIMIT ?) AS t) AS t", &most);
    let rows = list.read(session).await?;
    let Some(row) = rows.first() else { return Ok(Walk::default()) };
    let number =
        |column| Ok::<_, tokio_postgres::Error>(row.try_get::<_, i64>(column)?.unsigned_abs());
    Ok(Walk { rows: number(0)?, last: row.try_get(1)?, count: number(2)?, names: row.try_get(3)? })
}

pub(super) async fn tally(session: &mut Session, of: &TallyOf) -> Answer<Tally> {
    let starts: Vec<Stamp> = of.starts().into_iter().map(Stamp).collect();
    let (since, until, most) = (Stamp(of.since), Stamp(of.until), i64::from(of.reads()));
    let rows = match &of.name {
        Some(name) => {
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                [&starts, &of.kind, &since, &until, &most, name];
            session.read(TALLY_NAMED, &params).await?
        }
        None => session.read(TALLY, &[&starts, &of.kind, &since, &until, &most]).await?,
    };
    let mut counts = Vec::new();
    for row in &rows {
        let part = usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(usize::MAX);
        let Stamp(first) = row.try_get(3)?;
        let count = row.try_get::<_, i64>(2)?.unsigned_abs();
        counts.push((part, outcome(row.try_get(1)?)?, count, first));
    }
    Ok(of.tally(counts))
}
