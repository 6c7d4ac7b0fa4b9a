//! [`Limits`]: bounds of a schedule, and its excluded windows.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::time::Time;

/// The least step of a [`Time`].
pub(super) const STEP: Duration = Duration::from_micros(1);

/// Most excluded windows of a schedule.
const WINDOWS_MAX: usize = 1_000;

/// Policy for occurrences that lie in an excluded window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Excluded {
    /// They are skipped.
    Skip,
    /// They are skipped, and if there are any, one occurrence at the end of the window runs for all
    /// of them. It may be missed like any other.
    ///
    /// A schedule whose times are changed begins anew from the change. So if the change moves the
    /// end of the window to a time that is past, nothing runs at that end, and no record says so;
    /// [`backfill`](crate::Client::backfill) makes that occurrence.
    RunAtEnd,
}

/// Bounds of a schedule, and its excluded windows.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// Earliest time of an occurrence.
    pub(super) first: Option<Time>,
    /// Latest time of an occurrence.
    pub(super) last: Option<Time>,
    /// Excluded windows, sorted, none twice and none empty.
    windows: Vec<Window>,
    /// Ends of windows at which one occurrence replaces those within; ascending.
    stand_ins: Vec<Time>,
}

/// Times from `from` to before `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Window {
    from: Time,
    until: Time,
    then: Excluded,
}

impl Limits {
    /// Adds a window, unless it is empty. `None` if there are [`WINDOWS_MAX`] others.
    pub(super) fn exclude(&mut self, window: Range<Time>, then: Excluded) -> Option<()> {
        let window = Window { from: window.start, until: window.end, then };
        if let (true, Err(place)) =
            (window.from < window.until, self.windows.binary_search(&window))
        {
            (self.windows.len() < WINDOWS_MAX).then_some(())?;
            self.windows.insert(place, window);
        }
        Some(())
    }

    /// Works out the stand-ins at `since` or later, from the first occurrence later than a time
    /// without them. Those before are as they were.
    ///
    /// An occurrence at the end of a window is itself excluded if it lies in another window. So
    /// windows are taken in the order of their ends: none changes occurrences before its end.
    pub(super) fn settle(&mut self, since: Time, next_after: impl Fn(Time) -> Option<Time>) {
        self.stand_ins.retain(|at| *at < since);
        let is_open = |window: &&Window| window.has_stand_in() && window.until >= since;
        let mut ends: Vec<_> = self.windows.iter().filter(is_open).collect();
        ends.sort_by_key(|window| window.until);
        for window in ends {
            let bounds = |at: &Time| *at < window.until;
            let own = self.next_after(window.from - STEP, &next_after).filter(bounds);
            let is_last = self.stand_ins.last() == Some(&window.until);
            if own.is_some() && !is_last && self.last.is_none_or(|last| window.until <= last) {
                self.stand_ins.push(window.until);
            }
        }
    }

    /// The first occurrence later than `after`, excluded or not, given the one without limits.
    pub(super) fn next_after(
        &self,
        after: Time,
        next_after: impl Fn(Time) -> Option<Time>,
    ) -> Option<Time> {
        let first = self.first.map_or(after, |first| after.max(first - STEP));
        let own = next_after(first).filter(|at| self.last.is_none_or(|last| *at <= last));
        let place = self.stand_ins.partition_point(|at| *at <= after);
        match (own, self.stand_ins.get(place).copied()) {
            (Some(own), Some(stand_in)) => Some(own.min(stand_in)),
            (own, stand_in) => own.or(stand_in),
        }
    }

    /// Returns whether an occurrence at `at` replaces those of a window.
    pub(super) fn has_stand_in(&self, at: Time) -> bool {
        self.stand_ins.binary_search(&at).is_ok()
    }

    /// Returns the latest end of the windows that `at` lies in; `None` if it lies in none.
    pub(super) fn window_end(&self, at: Time) -> Option<Time> {
        let open = self.windows.iter().take_while(|window| window.from <= at);
        open.map(|window| window.until).filter(|until| at < *until).max()
    }

    /// Reads a word that [`Display`](fmt::Display) wrote; `None` if it is none.
    pub(super) fn read(&mut self, word: &str) -> Option<()> {
        let time = |text: &str| text.parse().ok().map(Time::from_micros);
        match word.split_once('=')? {
            ("first", at) => self.first = Some(time(at)?),
            ("last", at) => self.last = Some(time(at)?),
            ("excluded", window) => {
                let (window, then) = window.split_once(':')?;
                let (from, until) = window.split_once("..")?;
                let then = match then {
                    "skip" => Excluded::Skip,
                    "run-at-end" => Excluded::RunAtEnd,
                    _ => return None,
                };
                self.exclude(time(from)?..time(until)?, then)?;
            }
            _ => return None,
        }
        Some(())
    }
}

impl Window {
    fn has_stand_in(&self) -> bool {
        self.then == Excluded::RunAtEnd && self.until < Time::NEVER
    }
}

impl fmt::Display for Limits {
    /// Writes a word for each bound and window, with a space after it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.first {
            write!(f, "first={} ", first.as_micros())?;
        }
        if let Some(last) = self.last {
            write!(f, "last={} ", last.as_micros())?;
        }
        for Window { from, until, then } in &self.windows {
            let then = match then {
                Excluded::Skip => "skip",
                Excluded::RunAtEnd => "run-at-end",
            };
            write!(f, "excluded={}..{}:{then} ", from.as_micros(), until.as_micros())?;
        }
        Ok(())
    }
}
