//! [`Floor`]: the place where a connection begins to read due timers, so that reads do not pass the
//! index entries of ended timers. `docs/POSTGRES.md`, "Beside a long snapshot", says why and how.
//!
//! A look moves the floor to [`MARGIN`] before now, by one statement and so in one snapshot. Looks
//! also walk through the range before it, for one part in [`SHARE`] of the time: a [`Walk`] moves
//! down from the floor in parts of some [`PART`] each. Without a floor, the end of the first walk
//! sets it.

use std::time::Duration;

use tokio::time::Instant;

use super::values::{Id, Stamp};
use crate::time::Time;

/// Time from the floor to the look that sets it; longer than a call of a store takes.
pub(super) const MARGIN: Duration = Duration::from_secs(10);

/// Most timers before the floor. The floor stays at the first that is one too many.
pub(super) const MOST: usize = 1_000;

/// A look that walked for a second is followed by the next that walks after so many.
const SHARE: u32 = 100;

/// A look without a floor whose walk failed is followed by the next that walks after so many times
/// as long as it took.
const REST: u32 = 2;

/// Time that the server is meant to spend on reading one part of a walk.
const PART: Duration = Duration::from_millis(25);

/// Span of the first part, and the longest one but that of all that is left.
const SPANS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(30 * 86_400)];

/// Floor of a connection; none before the first walk has ended.
#[derive(Debug, Default)]
pub(super) struct Floor {
    pub(super) from: Option<Time>,
    /// Timers that are due before the floor, as far as looks have found them.
    pub(super) behind: Vec<Id>,
    pub(super) walk: Walk,
    /// Time from which on looks walk on; none before the first.
    pub(super) walks_from: Option<Instant>,
}

/// Progress of a walk through due timers, from the floor down.
#[derive(Debug)]
pub(super) struct Walk {
    /// End of the next part; none before the first.
    pub(super) below: Option<Time>,
    /// Span of the next part; none for all that is left.
    pub(super) span: Option<Duration>,
    /// Span of the last part that was read, and the time that the server read.
    last: Option<(Duration, Duration)>,
    /// Floor that the walk sets at its end, if there is none by then.
    floor: Time,
    /// Time that the server has read.
    took: Duration,
}

impl Default for Walk {
    fn default() -> Self {
        let (span, floor, took) = (Some(SPANS[0]), Time::NEVER, Duration::ZERO);
        Self { below: None, span, last: None, floor, took }
    }
}

/// Timers of a part, by `(due, id)`, its end, and the time that the server read.
pub(super) struct Part {
    pub(super) end: Time,
    pub(super) took: Duration,
    pub(super) found: Vec<(Time, Id)>,
}

impl Floor {
    /// Returns the place from which reads use an index, and the ids that they look up besides.
    pub(super) fn place(&self) -> (Option<Stamp>, Vec<Id>) {
        (self.from.map(Stamp), self.behind.clone())
    }

    /// Takes the timers that a look has found, by `(due, id)`: all that are due before the first of
    /// `found` that is one too many, or before [`MARGIN`] ago.
    pub(super) fn set(&mut self, now: Time, found: impl Iterator<Item = (Time, Id)> + Clone) {
        let one_too_many = found.clone().nth(MOST).map_or(Time::NEVER, |(due, _)| due);
        let from = one_too_many.min(now - MARGIN);
        self.from = Some(from);
        self.behind = found.take_while(|(due, _)| *due < from).map(|(_, id)| id).collect();
    }

    /// Returns whether a look at `now` walks.
    pub(super) fn walks(&self, now: Instant) -> bool {
        self.walks_from.is_none_or(|from| from <= now)
    }

    /// Notes a look that walked from `sent` on, for so long, and whether the walk failed.
    pub(super) fn note_walk(&mut self, sent: Instant, took: Duration, has_failed: bool) {
        let times = match (self.from, has_failed) {
            (Some(_), _) => SHARE,
            (None, true) => REST,
            (None, false) => 0,
        };
        self.walks_from = Some(sent + took * times);
    }

    /// Takes a part of the walk. Returns whether it was the last.
    pub(super) fn take(&mut self, part: Part) -> bool {
        let cut = part.found.get(MOST).map(|(due, _)| *due);
        let walk = &mut self.walk;
        if walk.below.is_none() {
            walk.floor = part.end;
        }
        if let Some(from) = &mut self.from {
            *from = cut.unwrap_or(Time::NEVER).min(*from);
        } else if self.behind.len() + part.found.len() > MOST {
            // Timers that are due later than the walk's rest are found from the floor on.
            self.behind.clear();
            walk.floor = cut.unwrap_or(part.end);
        }
        self.behind.extend(part.found.iter().take(MOST).map(|(_, id)| *id));
        walk.took += part.took;
        if let Some(span) = walk.span {
            walk.below = Some(part.end - span);
            walk.span = next(walk.last, (span, part.took));
            walk.last = Some((span, part.took));
            return false;
        }
        self.from.get_or_insert(walk.floor);
        let took = walk.took;
        self.end_walk(took);
        true
    }

    /// Ends a walk that took so long. After a quick one the next has one part.
    pub(super) fn end_walk(&mut self, took: Duration) {
        self.walk = Walk::default();
        if took <= PART {
            self.walk.span = None;
        }
    }

    /// Returns whether the next walk begins and has one part.
    pub(super) fn is_quick(&self) -> bool {
        let Walk { below, span, .. } = self.walk;
        self.from.is_some() && below.is_none() && span.is_none()
    }

    /// Narrows the next part, because the server has ended this one.
    pub(super) fn narrow(&mut self) {
        let span = self.walk.span.filter(|span| *span <= SPANS[0]);
        let span = span.map_or(SPANS[0], |span| span / 16);
        self.walk.span = Some(span.max(Duration::from_micros(1)));
        self.walk.last = None;
    }
}

/// Returns the span of the next part, from the durations of the last two: the span that takes
/// [`PART`], but at most four times the last one, because more rows may be dead there.
///
/// A part takes some time even if empty, and on a slow server that alone exceeds [`PART`]. A
/// shorter part does not save this fixed time; the difference between the two parts shows the rest.
fn next(before: Option<(Duration, Duration)>, last: (Duration, Duration)) -> Option<Duration> {
    let (span, took) = (last.0.as_secs_f64(), last.1.as_secs_f64());
    let read = match before {
        Some(before) if before.0 != last.0 => {
            let more = (took - before.1.as_secs_f64()) / (span - before.0.as_secs_f64());
            (more * span).clamp(0.0, took)
        }
        _ => took,
    };
    let times = (PART.as_secs_f64() / read.max(1e-6)).clamp(0.25, 4.0);
    let next = last.0.mul_f64(times).max(Duration::from_micros(1));
    Some(next).filter(|next| *next <= SPANS[1])
}

#[cfg(test)]
mod tests;
