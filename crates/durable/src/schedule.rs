//! [`Schedule`]: when, as text that a store can keep.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use tourbillon::cron::{Cron, ParseError, Schedule as _};

use crate::time::Time;

/// When something is to happen again and again: a pure function of time.
///
/// Stores keep it as text, see [`Display`](fmt::Display) and [`FromStr`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tourbillon_durable::{Schedule, Time};
///
/// let nights = Schedule::cron("0 2 * * *", "Europe/Berlin")?;
/// assert_eq!(nights.to_string(), "cron Europe/Berlin 0 2 * * *");
/// assert_eq!(nights.to_string().parse::<Schedule>()?, nights);
///
/// let seconds = Schedule::every(Duration::from_secs(5));
/// assert_eq!(seconds.next_after(Time::from_micros(5_000_000)),
/// Some(Time::from_micros(10_000_000)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schedule(Kind);

#[derive(Clone, Debug)]
enum Kind {
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

    /// Every multiple of `period` after `anchor`, which is not one of them.
    pub fn every_from(period: Duration, anchor: Time) -> Self {
        let period_us = i64::try_from(period.as_micros()).unwrap_or(i64::MAX).max(1);
        Self(Kind::Every { period_us, anchor })
    }

    /// The first occurrence later than `after`.
    pub fn next_after(&self, after: Time) -> Option<Time> {
        match &self.0 {
            Kind::Cron(cron) => {
                // A time of day has no fraction of a second, so none is lost by the conversion.
                let next = cron.next_after(SystemTime::from(after)).map(Time::from);
                next.filter(|next| *next > after)
            }
            Kind::Every { period_us, anchor } => {
                let since = after.as_micros().checked_sub(anchor.as_micros())?.max(0);
                let periods = since / period_us + 1;
                let next = periods.checked_mul(*period_us)?.checked_add(anchor.as_micros())?;
                Some(Time::from_micros(next))
            }
        }
    }

    /// All occurrences later than `after`, in order. They end where no count of microseconds goes
    /// further. A day that never comes, as 31 February, is no schedule.
    pub fn occurrences(&self, after: Time) -> impl Iterator<Item = Time> {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last))
    }
}

impl From<Cron> for Schedule {
    fn from(cron: Cron) -> Self {
        Self(Kind::Cron(Box::new(cron)))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Cron(cron) => write!(f, "cron {} {}", cron.zone(), cron.expression()),
            Kind::Every { period_us, anchor } => {
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
        let (word, rest) = text.split_once(' ').ok_or_else(unknown)?;
        let (first, rest) = rest.split_once(' ').ok_or_else(unknown)?;
        match word {
            "cron" => Self::cron(rest, first)
                .map_err(|error| ScheduleError { text: text.to_owned(), source: Some(error) }),
            "every" => {
                let period = crate::span::read(first).ok_or_else(unknown)?;
                let period_us = i64::try_from(period.as_micros()).map_err(|_| unknown())?;
                let is_whole = period_us > 0 && period.subsec_nanos() % 1_000 == 0;
                let period_us = is_whole.then_some(period_us).ok_or_else(unknown)?;
                let anchor = Time::from_micros(rest.parse().map_err(|_| unknown())?);
                Ok(Self(Kind::Every { period_us, anchor }))
            }
            _ => Err(unknown()),
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Schedule;
    use crate::time::Time;

    fn at(seconds: i64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_day_that_never_comes_is_refused() {
        let error = Schedule::cron("0 0 31 2 *", "UTC").unwrap_err();
        assert_eq!(error.to_string(), "day of month: `31 2` never comes");
        "cron UTC 0 0 31 2 *".parse::<Schedule>().unwrap_err();
    }

    #[test]
    fn a_day_that_seldom_comes_is_found_across_eight_years() {
        let leap = Schedule::cron("0 0 29 2 *", "UTC").unwrap();
        // From the first of March 2096; 2100 has no such day.
        let next: Vec<Time> = leap.occurrences(at(3_981_398_400)).take(1).collect();
        assert_eq!(next, [at(4_233_686_400)]);
    }

    #[test]
    fn schedules_are_read_as_they_were_written() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..1_000 {
            let period = Duration::from_micros(random.u64(1..) >> random.u32(1..64));
            let every = Schedule::every_from(period, Time::from_micros(random.i64(..)));
            let [minute, hour] = [random.u8(0..60), random.u8(0..24)];
            let zone = ["UTC", "Europe/Berlin", "America/New_York"][random.usize(0..3)];
            let cron = Schedule::cron(&format!("{minute} {hour} * * *"), zone).unwrap();
            for schedule in [every, cron] {
                let read: Schedule = schedule.to_string().parse().unwrap();
                let next = |schedule: &Schedule| schedule.next_after(at(1_000_000_000));
                assert_eq!((&read, next(&read)), (&schedule, next(&schedule)));
            }
        }
    }

    #[test]
    fn a_text_that_is_no_schedule_is_named() {
        for text in
            ["", "at dawn", "every 0s 0", "every 5 0", "every 5s", "every 1ns 0", "cron UTC x"]
        {
            let error = text.parse::<Schedule>().unwrap_err();
            assert_eq!(error.to_string(), format!("`{text}` is not a schedule"));
        }
    }

    #[test]
    fn occurrences_end_where_times_do() {
        let last = Time::NEVER - Duration::from_micros(1);
        assert_eq!(Schedule::every(Duration::from_secs(1)).occurrences(last).count(), 0);
        assert_eq!(Schedule::cron("* * * * *", "UTC").unwrap().occurrences(last).count(), 0);
    }
}
