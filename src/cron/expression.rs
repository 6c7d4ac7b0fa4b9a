//! [`Cron`]: an expression and its zone.

use std::fmt;
use std::time::SystemTime;

use croner::Weekday;
use croner::parser::{CronParser, Seconds};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::error::{Field, ParseError, ParseErrorKind};
use super::field::{self, Values};
use super::schedule::Schedule;
use super::zone::{self, From, Kind};

/// croner knows the years from 1 on, and of this one only a part.
const YEAR_END: i16 = 5000;

/// Midnight of 1 January 1, in UTC.
const EARLIEST_S: i64 = -62_135_596_800;

const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A [`Schedule`] from a cron expression and the name of a time zone.
///
/// The expression has five fields, as in crontab(5), or six, of which the first is the second:
///
/// | field | values |
/// |---|---|
/// | second | 0 to 59 |
/// | minute | 0 to 59 |
/// | hour | 0 to 23 |
/// | day of month | 1 to 31; `L`, the last; `15W`, the weekday nearest to the 15th in its month; `LW`, the last weekday |
/// | month | 1 to 12, or `JAN` to `DEC` |
/// | day of week | 0 to 7, both ends being Sunday, or `SUN` to `SAT`; `FRI#2`, the second Friday; `FRIL`, the last |
///
/// A field is `*`, a value, a range `8-17`, a range or `*` with a step (`8-17/3`, `*/5`), or a list
/// of these with commas. The case of names does not matter, and in the fields for days `?` is
/// another `*`. `@yearly` or `@annually`, `@monthly`, `@weekly`, `@daily` or `@midnight`, and
/// `@hourly` stand for the whole.
///
/// If both fields for days are restricted, a day must match one of them. If one of them begins with
/// `*`, as `*/2` does, a day must match both. That too is as in crontab(5).
///
/// The [module](super) describes what an expression means when clocks are changed. The calendar
/// ends with the year 4999: past it there is no occurrence.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tourbillon::cron::{Cron, Schedule};
///
/// let second_fridays = Cron::parse("30 17 * * FRI#2", "Asia/Tokyo")?;
/// let start_of_2026 = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
/// let first = second_fridays.next_after(start_of_2026).unwrap();
/// assert_eq!(first, start_of_2026 + Duration::from_secs(8 * 86_400 + 8 * 3600 + 30 * 60));
/// # Ok::<(), tourbillon::cron::ParseError>(())
/// ```
#[derive(Clone)]
pub struct Cron {
    expression: String,
    zone: TimeZone,
    /// Finds times on a wall whose clock is never changed.
    times: croner::Cron,
    kind: Kind,
}

impl Cron {
    /// Parses `expression`, for the time zone that the IANA database has under the name `zone`.
    ///
    /// # Errors
    ///
    /// If the expression is invalid or names a day that never comes, or if the zone is unknown. The
    /// error has the position.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, ParseError> {
        let (times, kind) = parse(expression)?;
        let zone = TimeZone::get(zone)
            .map_err(|_| ParseError::new(ParseErrorKind::UnknownZone, Field::Zone, zone, 0))?;
        Ok(Self { expression: expression.trim().to_owned(), zone, times, kind })
    }

    /// The expression, as it was given.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The name of the zone, as the database spells it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tourbillon::cron::Cron;
    ///
    /// let cron = Cron::parse("@daily", "europe/berlin")?;
    /// assert_eq!((cron.expression(), cron.zone()), ("@daily", "Europe/Berlin"));
    /// assert_eq!(cron.to_string(), "@daily in Europe/Berlin");
    /// # Ok::<(), tourbillon::cron::ParseError>(())
    /// ```
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    fn search(&self, from: From) -> Option<DateTime> {
        let found = match from {
            From::After(wall) => self.times.find_next_occurrence(&wall, false),
            From::At(wall) => self.times.find_next_occurrence(&wall, true),
        };
        found.ok().filter(|found| found.year() < YEAR_END)
    }
}

impl Schedule for Cron {
    fn next_after(&self, after: SystemTime) -> Option<SystemTime> {
        let earliest = Timestamp::from_second(EARLIEST_S).ok()?;
        let after = match Timestamp::try_from(after) {
            Ok(after) => after.max(earliest),
            Err(_) if after < SystemTime::UNIX_EPOCH => earliest,
            Err(_) => return None,
        };
        zone::next(&self.zone, self.kind, after, |from| self.search(from)).map(SystemTime::from)
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cron")
            .field("expression", &self.expression)
            .field("zone", &self.zone())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.expression, self.zone())
    }
}

fn parse(expression: &str) -> Result<(croner::Cron, Kind), ParseError> {
    let trimmed = expression.trim();
    if trimmed.starts_with('@') {
        let start = expression.len() - expression.trim_start().len();
        let meant = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(trimmed));
        let kind = if trimmed.eq_ignore_ascii_case("@reboot") {
            ParseErrorKind::Reboot
        } else {
            ParseErrorKind::UnknownNickname
        };
        let (_, meant) = meant.ok_or_else(|| ParseError::new(kind, None, trimmed, start))?;
        return parse(meant);
    }
    let words: Vec<(usize, &str)> = words(expression).collect();
    if words.len() < 5 {
        return Err(ParseError::new(ParseErrorKind::TooFewFields, None, expression, 0));
    }
    if let Some((start, word)) = words.get(6) {
        return Err(ParseError::new(ParseErrorKind::TooManyFields, None, word, *start));
    }
    let (seconds, rest) = words.split_at(words.len() - 5);
    let read = |field, (start, word): (usize, &str)| field::parse(field, word, start);
    let second = read(Field::Second, seconds.first().copied().unwrap_or((0, "0")))?;
    let minute = read(Field::Minute, rest[0])?;
    let hour = read(Field::Hour, rest[1])?;
    let day = read(Field::DayOfMonth, rest[2])?;
    let month = read(Field::Month, rest[3])?;
    let weekday = read(Field::DayOfWeek, rest[4])?;

    let has_both = !day.is_any() && !weekday.is_any() && (day.is_starred || weekday.is_starred);
    let kind = if [&second, &minute, &hour].iter().any(|values| values.is_starred) {
        Kind::Interval
    } else {
        Kind::Fixed
    };
    let times = for_croner([&second, &minute, &hour, &day, &month, &weekday], has_both);
    let (start, end) = (rest[2].0, rest[if has_both { 4 } else { 3 }]);
    let days = &expression[start..end.0 + end.1.len()];
    let never = || ParseError::new(ParseErrorKind::NeverOccurs, Field::DayOfMonth, days, start);
    let times = times.filter(has_day).ok_or_else(never)?;
    Ok((times, kind))
}

/// The words of `text`, each with the byte that it starts at.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_whitespace().map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

/// croner is given nothing but lists of numbers, so that its dialect does not matter, nor what it
/// takes to be fixed times.
fn for_croner(fields: [&Values; 6], has_both: bool) -> Option<croner::Cron> {
    let mut plain = String::new();
    for (place, values) in fields.into_iter().enumerate() {
        if place > 0 {
            plain.push(' ');
        }
        if place == 5 && has_both {
            plain.push('+');
        }
        values.write(&mut plain);
    }
    let parsed = CronParser::builder().seconds(Seconds::Required).build().parse(&plain);
    debug_assert!(parsed.is_ok(), "croner refuses {plain}: {parsed:?}");
    parsed.ok()
}

/// Whether any day suits. In 28 years without a century's exception, months of each length begin on
/// each day of the week, so what has not come by then never does.
fn has_day(times: &croner::Cron) -> bool {
    let days = Date::constant(2000, 1, 1).series(jiff::Span::new().days(1));
    days.take_while(|day| day.year() < 2028).any(|day| {
        let (month, date) = (day.month().unsigned_abs().into(), day.day().unsigned_abs().into());
        let weekday = u32::from(day.weekday().to_sunday_zero_offset().unsigned_abs());
        let weekday = Weekday::from_days_from_sunday(weekday);
        let pattern = &times.pattern;
        pattern.month_match(month).unwrap_or(false)
            && pattern.day_match(day.year().into(), month, date, weekday).unwrap_or(false)
    })
}
