//! [`DbClock`]: estimate of the database's clock by the node's clock.

use std::time::{Duration, Instant};

use crate::time::Time;

/// Life of the best sample while others are worse.
const KEPT: Duration = Duration::from_secs(10);

/// Difference up to which two samples agree.
const SLACK: Duration = Duration::from_millis(1);

/// An estimate of the database's clock from the round trips of calls. It decides when to ask, and
/// nothing else.
#[derive(Clone, Debug, Default)]
pub(crate) struct DbClock {
    best: Option<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Half way between the call and its answer.
    local: Instant,
    db: Time,
    round_trip: Duration,
}

impl DbClock {
    /// Takes note of an answer with the time `db` to a call made at `sent`.
    pub(crate) fn sample(&mut self, sent: Instant, received: Instant, db: Time) {
        let round_trip = received.saturating_duration_since(sent);
        let new = Sample { local: sent + round_trip / 2, db, round_trip };
        let is_taken = self.best.is_none_or(|best| {
            let expected = best.at(new.local);
            let apart = expected.since(db).max(db.since(expected));
            round_trip <= best.round_trip
                || new.local.saturating_duration_since(best.local) > KEPT
                || apart > (round_trip + best.round_trip) / 2 + SLACK
        });
        if is_taken {
            self.best = Some(new);
        }
    }

    /// Returns the database's time at `local`; `None` before the first sample.
    pub(crate) fn at(&self, local: Instant) -> Option<Time> {
        self.best.map(|best| best.at(local))
    }

    /// When, by the node's clock, the database's will show `db`.
    pub(crate) fn when(&self, db: Time) -> Option<Instant> {
        let best = self.best?;
        if db <= best.db {
            return Some(best.local);
        }
        // Far enough for any wait, and near enough for any instant.
        Some(best.local + db.since(best.db).min(Duration::from_secs(86_400)))
    }
}

impl Sample {
    fn at(&self, local: Instant) -> Time {
        match local.checked_duration_since(self.local) {
            Some(after) => self.db + after,
            None => self.db - self.local.saturating_duration_since(local),
        }
    }
}
