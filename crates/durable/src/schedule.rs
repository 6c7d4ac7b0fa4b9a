//! [`Schedule`]: the times of a schedule, as text that a store can keep.

mod limits;
#[cfg(test)]
mod tests;
mod walls;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use tourbillon_cron::{Cron, ParseError, Schedule as _};

pub use self::limits::Excluded;
use self::limits::{Limits, STEP};
use crate::time::{BEGINNING, Time};

/// When something is to happen again and again: a pure function of time.
///
/// Stores keep it as text, see [`Display`](fmt::Display) and [`FromStr`].
///
/// # Start, end and excluded windows
///
/// A schedule may have a first and a last time, and windows in which its occurrences are skipped: a
/// freeze before a release, or the maintenance of a system that its handlers call. An occurrence is
/// excluded if its scheduled time lies in a window. Attempts themselves may run within a window: of
/// an occurrence due before it, or made by [`run_now`](crate::Client::run_now). From its due time
/// on, an excluded occurrence has a record with [`Reason::Excluded`](crate::Reason::Excluded). It
/// does not count as missed, and no other occurrence replaces it, except at the end of a window
/// with [`Excluded::RunAtEnd`].
///
/// Windows are instants, so they have no time zone. A cron expression can itself leave out times of
/// day.
///
/// A limit that is added to a schedule of a store changes its times: the schedule begins anew, see
/// [`upsert`](crate::Every::upsert).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tourbillon_durable::{Excluded, Schedule, Time};
///
/// let nights = Schedule::cron("0 2 * * *", "Europe/Berlin")?;
/// assert_eq!(nights.to_string(), "cron Europe/Berlin 0 2 * * *");
/// assert_eq!(nights.to_string().parse::<Schedule>()?, nights);
///
/// let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
/// let fives = Schedule::every(Duration::from_secs(5));
/// assert_eq!(fives.to_string(), "every 5s 0");
/// assert_eq!(fives.next_after(at(5)), Some(at(10)));
///
/// let limited = fives
///     .starting_at(at(10))
///     .ending_at(at(40))
///     .excluding(at(15)..at(27), Excluded::RunAtEnd)
///     .excluding(at(30)..at(40), Excluded::Skip);
/// let runs: Vec<Time> = limited.occurrences(at(0)).collect();
/// assert_eq!(runs, [at(10), at(27), at(40)]);
/// assert_eq!(limited.next_of_all(at(10)), Some(at(15)));
/// assert!(limited.excludes(at(15)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    times: Times,
    limits: Limits,
}

#[derive(Clone, Debug)]
enum Times {
    Cron(Box<Cron>),
    /// Multiples of `period_us` after `anchor`.
    Every {
        period_us: i64,
        anchor: Time,
    },
}

impl Schedule {
    /// The times of a cron expression in a named zone; see [`Cron`].
    ///
    /// # Errors
    ///
    /// Fails as [`Cron::parse`] does.
    pub fn cron(expression: &str, zone: &str) -> Result<Self, ParseError> {
        Cron::parse(expression, zone).map(Self::from)
    }

    /// Every multiple of `period` since the Unix epoch, so that every node means the same times.
    ///
    /// A period below a microsecond counts as one.
    pub fn every(period: Duration) -> Self {
        Self::every_from(period, Time::from_micros(0))
    }

    /// Every multiple of `period` after `anchor`; the anchor itself is not included.
    pub fn every_from(period: Duration, anchor: Time) -> Self {
        let period_us = i64::try_from(period.as_micros()).unwrap_or(i64::MAX).max(1);
        Self { times: Times::Every { period_us, anchor }, limits: Limits::default() }
    }

    /// Sets the earliest time of an occurrence, inclusive. The other occurrences keep their times.
    #[must_use]
    pub fn starting_at(mut self, first: impl Into<Time>) -> Self {
        self.limits.first = Some(first.into());
        self.settled(BEGINNING)
    }

    /// Sets the latest time of an occurrence, inclusive. Once it is past, the schedule still exists
    /// and stays enabled.
    #[must_use]
    pub fn ending_at(mut self, last: impl Into<Time>) -> Self {
        self.limits.last = Some(last.into());
        self.settled(BEGINNING)
    }

    /// Excludes the occurrences from the start of `window` until before its end. An empty window
    /// excludes none.
    ///
    /// Windows may overlap: an occurrence is excluded if it lies in any of them. The occurrence at
    /// the end of a window is excluded too if it lies in another window, and there is none after
    /// the [end](Self::ending_at) of the schedule.
    ///
    /// # Panics
    ///
    /// If the schedule has 1,000 other windows.
    #[must_use]
    #[track_caller]
    pub fn excluding<T: Into<Time>>(mut self, window: Range<T>, then: Excluded) -> Self {
        let window = window.start.into()..window.end.into();
        let end = window.end;
        let added = self.limits.exclude(window, then);
        added.expect("a schedule has at most 1,000 excluded windows");
        self.settled(end)
    }

    /// Computes the occurrences at `since` or later that replace excluded ones.
    fn settled(mut self, since: Time) -> Self {
        let Self { times, limits } = &mut self;
        limits.settle(since, |after| times.next_after(after));
        self
    }

    /// Returns the first occurrence later than `after` that is not excluded.
    pub fn next_after(&self, mut after: Time) -> Option<Time> {
        loop {
            let next = self.next_of_all(after)?;
            match self.limits.window_end(next) {
                None => return Some(next),
                Some(end) => after = end - STEP,
            }
        }
    }

    /// Returns all occurrences later than `after` that are not excluded, in order. They end where
    /// microseconds since 1970 overflow. A day that does not exist, such as 31 February, is an
    /// invalid schedule.
    pub fn occurrences(&self, after: Time) -> impl Iterator<Item = Time> {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last))
    }

    /// Those [occurrences](Self::occurrences) that are not earlier than `first`.
    pub fn occurrences_from(&self, first: Time) -> impl Iterator<Item = Time> {
        self.occurrences(first - STEP)
    }

    /// Returns all occurrences from the occurrence `next` on, excluded ones included.
    pub(crate) fn all_from(&self, next: Option<Time>) -> impl Iterator<Item = Time> {
        std::iter::successors(next, |last| self.next_of_all(*last))
    }

    /// Returns the first occurrence later than `after`, excluded or not.
    /// [`excludes`](Self::excludes) tells the two apart.
    pub fn next_of_all(&self, after: Time) -> Option<Time> {
        self.limits.next_after(after, |after| self.times.next_after(after))
    }

    /// Returns whether an occurrence at that time is excluded.
    pub fn excludes(&self, at: Time) -> bool {
        self.limits.window_end(at).is_some()
    }
}

impl Times {
    /// The first time later than `after`.
    fn next_after(&self, after: Time) -> Option<Time> {
        match self {
            Self::Cron(cron) => {
                // A time of day has no fraction of a second, so none is lost by the conversion.
                let next = cron.next_after(SystemTime::from(after)).map(Time::from);
                next.filter(|next| *next > after)
            }
            Self::Every { period_us, anchor } => {
                let since = after.as_micros().saturating_sub(anchor.as_micros()).max(0);
                let periods = since / period_us + 1;
                let next = periods.checked_mul(*period_us)?.checked_add(anchor.as_micros())?;
                Some(Time::from_micros(next))
            }
        }
    }
}

impl From<Cron> for Schedule {
    fn from(cron: Cron) -> Self {
        Self { times: Times::Cron(Box::new(cron)), limits: Limits::default() }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.limits)?;
        match &self.times {
            Times::Cron(cron) => write!(f, "cron {} {}", cron.zone(), cron.expression()),
            Times::Every { period_us, anchor } => {
                let period = crate::span::write(Duration::from_micros(period_us.unsigned_abs()));
                write!(f, "every {period} {}", anchor.as_micros())
            }
        }
    }
}

impl PartialEq for Schedule {
    /// Returns whether their texts are the same.
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Schedule {}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || ScheduleError { text: text.to_owned(), source: None };
        let mut limits = Limits::default();
        let (mut word, mut rest) = text.split_once(' ').ok_or_else(unknown)?;
        while word.contains('=') {
            limits.read(word).ok_or_else(unknown)?;
            (word, rest) = rest.split_once(' ').ok_or_else(unknown)?;
        }
        let (first, rest) = rest.split_once(' ').ok_or_else(unknown)?;
        let times = match word {
            "cron" => {
                Self::cron(rest, first)
                    .map_err(|error| ScheduleError { text: text.to_owned(), source: Some(error) })?
                    .times
            }
            "every" => {
                let period = crate::span::read(first).ok_or_else(unknown)?;
                let period_us = i64::try_from(period.as_micros()).map_err(|_| unknown())?;
                let is_whole = period_us > 0 && period.subsec_nanos() % 1_000 == 0;
                let period_us = is_whole.then_some(period_us).ok_or_else(unknown)?;
                let anchor = Time::from_micros(rest.parse().map_err(|_| unknown())?);
                Times::Every { period_us, anchor }
            }
            _ => return Err(unknown()),
        };
        Ok(Self { times, limits }.settled(BEGINNING))
    }
}

/// A text that is no schedule.
#[derive(Clone, Debug)]
pub struct ScheduleError {
    text: String,
    source: Option<ParseError>,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a schedule", self.text)
    }
}

impl std::error::Error for ScheduleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}
