//! [`Floor`]: where a connection begins to read what is due.
//!
//! A timer that has ended leaves an entry in each index, which nothing removes while any snapshot
//! in the database is older than the end. Reads from the beginning of an index on `due` would pass
//! all of these. So a connection remembers a time, the floor, and the timers due before it; it
//! looks those up by id, and reads the index from the floor on.
//!
//! A look moves the floor to [`MARGIN`] before now. It reads, by one statement and so in one
//! snapshot, what is left of the timers that were known, and what is between the old floor and the
//! new one. A timer that appears before the floor later was written by a transaction that began
//! longer than the margin before the look, by a clock that has stepped back, or by hand. No call of
//! a store is one of these, as none takes as long as the margin. For the others each look also
//! reads a part of what is before the floor: all of it where that takes little, and parts of
//! limited time otherwise. After the last part the next look begins with the first.

use std::mem;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::error::SqlState;

use super::link::{Answer, Failure, Params, Query, Session};
use super::nodes;
use super::values::{Id, Span, Stamp};
use crate::time::Time;

/// Time from the floor to the look that sets it; longer than a call of a store takes.
const MARGIN: Duration = Duration::from_secs(10);

/// Most timers before the floor. The floor stays at the first that is one too many.
const MOST: usize = 1_000;

/// Time after which a look begins no further part.
const BUDGET: Duration = Duration::from_millis(100);

/// Time above which a part is too long: a node scans a second ahead, so no timer is late for less.
/// If no part of a round takes the other, they may be longer. The two are far apart: a machine on
/// which everything is slow gets no finer parts for that.
const SLOW: Duration = Duration::from_millis(200);
const QUICK: Duration = Duration::from_millis(50);

/// Age at which the first part ends, if there are several: as good as the beginning.
const OLDEST: Duration = Duration::from_secs(10 * 366 * 86_400);

/// Lowest [`Walk::fineness`] of several parts, and the highest.
const COARSE: u32 = 3;
const FINEST: u32 = 8;

/// Floor of a connection; none before the first look.
#[derive(Debug, Default)]
pub(super) struct Floor {
    from: Option<Time>,
    /// Timers that are due before the floor, as far as looks have found them.
    behind: Vec<Id>,
    walk: Walk,
}

/// Read of everything before the floor, in rounds of parts.
#[derive(Debug, Default, PartialEq)]
struct Walk {
    /// Place at which the next part begins; none at the beginning of a round.
    after: Option<Time>,
    /// A part is what is left of the round, halved so many times: most of what has ended has ended
    /// lately. 0 while a round is one part.
    fineness: u32,
    /// Longest time that a part of the round has taken.
    slowest: Duration,
}

impl Floor {
    /// Returns from where reads go by an index, and what they look up besides.
    pub(super) fn place(&self) -> (Option<Stamp>, Vec<Id>) {
        (self.from.map(Stamp), self.behind.clone())
    }

    /// Takes the timers that a look has found, by `(due, id)`: all that are due before the first of
    /// `found` that is one too many, or before [`MARGIN`] ago. Returns the floor.
    fn set(&mut self, now: Time, found: impl Iterator<Item = (Time, Id)> + Clone) -> Time {
        let one_too_many = found.clone().nth(MOST).map_or(Time::NEVER, |(due, _)| due);
        let from = one_too_many.min(now - MARGIN);
        self.from = Some(from);
        self.behind = found.take_while(|(due, _)| *due < from).map(|(_, id)| id).collect();
        from
    }
}

impl Walk {
    /// Returns where the next part ends, if the floor is at `from`.
    fn until(&self, from: Time) -> Time {
        let begin = self.after.unwrap_or(from - OLDEST);
        let part = from.since(begin) / (1 << self.fineness);
        if part < Duration::from_secs(1) { from } else { begin + part }
    }

    /// Notes a part until `until`; the round ends at `end`. Returns whether it is over.
    fn advance(&mut self, until: Time, end: Time, took: Duration) -> bool {
        self.slowest = self.slowest.max(took);
        if took > SLOW {
            self.refine(1);
        }
        let is_over = until >= end;
        self.after = Some(until).filter(|_| !is_over);
        if is_over && mem::take(&mut self.slowest) < QUICK {
            self.fineness = if self.fineness > COARSE { self.fineness - 1 } else { 0 };
        }
        is_over
    }

    /// Makes parts shorter.
    fn refine(&mut self, times: u32) {
        self.fineness = (self.fineness + times).clamp(COARSE, FINEST);
    }
}

/// What is left of `$1`; what is due from `$2` until `$3` before now; and what is due from `$5`
/// until `$6`. Of the last two no more than `$4` each.
const LOOK: &str = "
    SELECT now(), array_agg(l.due ORDER BY l.due, l.id), array_agg(l.id ORDER BY l.due, l.id)
    FROM (
        SELECT due, id FROM tourbillon.timer WHERE id = ANY($1)
        UNION
        (
            SELECT due, id FROM tourbillon.timer
            WHERE due >= coalesce($2::timestamptz, '-infinity') AND due < now() - $3::interval
            ORDER BY due, id LIMIT $4
        )
        UNION
        (
            SELECT due, id FROM tourbillon.timer
            WHERE due >= coalesce($5::timestamptz, '-infinity') AND due < $6::timestamptz
            ORDER BY due, id LIMIT $4
        )
    ) AS l";

/// Moves the floor of a connection, and looks for what has appeared before it.
pub(super) async fn look(session: &mut Session) -> Answer<()> {
    let begun = Instant::now();
    let mut floor = mem::take(&mut session.floor);
    let mut answer = Ok(());
    while begun.elapsed() < BUDGET {
        match part(session, &mut floor).await {
            Ok(false) => {}
            Ok(true) => break,
            Err(failure) => {
                answer = Err(failure);
                break;
            }
        }
    }
    session.floor = floor;
    answer
}

/// Returns whether a round is over.
async fn part(session: &mut Session, floor: &mut Floor) -> Answer<bool> {
    let sent = Instant::now();
    // The first look is a round by itself.
    let begin = Time::from_micros(i64::MIN);
    let until = floor.from.map_or(begin, |from| floor.walk.until(from));
    let (from, after) = (floor.from.map(Stamp), floor.walk.after.map(Stamp));
    let most = MOST as i64 + 1;
    let params: Params<'_> = &[&floor.behind, &from, &Span(MARGIN), &most, &after, &Stamp(until)];
    let rows = match session.read(LOOK, params).await {
        Ok(rows) => rows,
        Err(Failure::Postgres(error)) if error.code() == Some(&SqlState::QUERY_CANCELED) => {
            // The server gives a statement a few seconds. Without a floor, the walk finds what is
            // due before one.
            if floor.from.is_none() {
                floor.from = Some(nodes::now(session).await? - MARGIN);
            }
            floor.walk.refine(4);
            return Ok(false);
        }
        Err(failure) => return Err(failure),
    };
    let Stamp(now) = rows[0].try_get(0)?;
    let due: Vec<Stamp> = rows[0].try_get::<_, Option<_>>(1)?.unwrap_or_default();
    let ids: Vec<Id> = rows[0].try_get::<_, Option<_>>(2)?.unwrap_or_default();
    let old = floor.from;
    let new = floor.set(now, due.iter().map(|Stamp(due)| *due).zip(ids.iter().copied()));
    // What is between the two was read besides.
    let end = old.map_or(until, |old| old.min(new));
    Ok(floor.walk.advance(until, end, sent.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Time {
        Time::default() + SECOND * u32::try_from(seconds).unwrap()
    }

    /// Ends of the parts of a round.
    fn round(walk: &mut Walk, from: Time, took: Duration) -> Vec<Time> {
        let mut ends = Vec::new();
        loop {
            let until = walk.until(from);
            ends.push(until);
            if walk.advance(until, from, took) {
                return ends;
            }
        }
    }

    #[test]
    fn a_floor_is_behind_now_and_at_what_is_too_much() {
        let mut floor = Floor::default();
        let found = |count: u64| (0..count).map(|n| (at(n / 2), Id(n.into()))).collect::<Vec<_>>();
        floor.set(at(20), found(30).into_iter());
        assert_eq!(floor.from, Some(at(10)));
        // Those that are due from then on are found by the index.
        assert_eq!(floor.behind, (0..20).map(Id).collect::<Vec<_>>());
        floor.set(at(9_000), found(1_000).into_iter());
        assert_eq!((floor.from, floor.behind.len()), (Some(at(8_990)), MOST));
        // Of those that are due with the one too many, none is known.
        floor.set(at(9_000), found(1_002).into_iter());
        assert_eq!((floor.from, floor.behind.len()), (Some(at(500)), MOST));
        floor.set(at(9_000), found(1_000).into_iter().map(|(due, id)| (due.min(at(499)), id)));
        floor.set(at(9_000), (0..1_001).map(|n| (at(7), Id(n))).collect::<Vec<_>>().into_iter());
        assert_eq!((floor.from, floor.behind.len()), (Some(at(7)), 0));
    }

    #[test]
    fn a_quick_walk_is_one_part_and_a_slow_one_gets_finer() {
        let mut walk = Walk::default();
        assert_eq!(round(&mut walk, at(99), QUICK / 2), [at(99)]);
        assert_eq!(round(&mut walk, at(99), SLOW * 2), [at(99)]);
        assert_eq!(walk.fineness, COARSE);
        // An eighth of what is left, and the last part whole.
        let ends = round(&mut walk, at(99), SLOW);
        assert_eq!(ends[0], at(99) - OLDEST / 8 * 7);
        assert!((100..200).contains(&ends.len()) && ends.is_sorted(), "{ends:?}");
        assert_eq!((ends.last(), walk.after), (Some(&at(99)), None));
        // What is neither slow nor quick changes nothing; quick rounds are joined again.
        assert_eq!(walk.fineness, COARSE);
        walk.refine(1);
        for fineness in [COARSE, 0, 0] {
            round(&mut walk, at(99), QUICK / 2);
            assert_eq!(walk, Walk { fineness, ..Walk::default() });
        }
        for _ in 0..2 * FINEST {
            let until = walk.until(at(99));
            walk.advance(until, at(99), SLOW * 2);
        }
        assert_eq!(walk.fineness, FINEST);
    }

    #[test]
    fn a_round_ends_where_the_floor_falls_behind_it() {
        let mut walk = Walk { after: Some(at(50)), fineness: COARSE, slowest: SLOW };
        let until = walk.until(at(90));
        assert_eq!(until, at(55));
        assert!(walk.advance(until, at(54), SLOW));
        assert_eq!((walk.after, walk.fineness), (None, COARSE));
    }
}
