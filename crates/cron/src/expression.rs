//! [`Cron`]: an expression and its zone.

use std::fmt;
use std::sync::Arc;

use croner::Weekday;
use croner::parser::{CronParser, Seconds};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use tourbillon::time::SystemTime;

use crate::error::{Field, ParseError, ParseErrorKind};
use crate::field::{self, Values};
use crate::schedule::Schedule;
use crate::time::{from_timestamp, to_timestamp};
use crate::zone::{self, From, Kind};
use crate::zoned_time::ZonedTime;
use crate::zones;

/// croner knows the years from 1 on, and of this one only a part.
const YEAR_END: i16 = 5000;

/// Midnight of 1 January 1, in UTC.
const EARLIEST_S: i64 = -62_135_596_800;

/// Midnight of 1 January 5000, in UTC.
const END_S: i64 = 95_617_584_000;

const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The months with so many days, in leap years alone or in others where that is stated.
const MONTHS_BY_LENGTH: [(u8, &[u8], Option<bool>); 4] = [
    (31, &[1, 3, 5, 7, 8, 10, 12], None),
    (30, &[4, 6, 9, 11], None),
    (29, &[2], Some(true)),
    (28, &[2], Some(false)),
];

/// A [`Schedule`] from a cron expression and the name of a time zone.
///
/// The expression has five fields, as in crontab(5), or six, the first being the second:
///
/// | field | values |
/// |---|---|
/// | second | 0 to 59 |
/// | minute | 0 to 59 |
/// | hour | 0 to 23 |
/// | day of month | 1 to 31; `L`, the last; `L-3`, the third before the last; `15W`, the weekday nearest to the 15th in its month; `LW`, the last weekday |
/// | month | 1 to 12, or `JAN` to `DEC` |
/// | day of week | 0 to 7, both ends being Sunday, or `SUN` to `SAT`; `FRI#2`, the second Friday; `FRIL`, the last |
///
/// A field is `*`, a value, a range `8-17`, a range or `*` with a step (`8-17/3`, `*/5`), or a list
/// of these with commas. The case of names does not matter, and in the fields for days `?` is
/// another `*`. `@yearly` or `@annually`, `@monthly`, `@weekly`, `@daily` or `@midnight`, and
/// `@hourly` stand for the whole.
///
/// `@every 90s`, or `@every 1h30m`, is Go cron's: it occurs that long after the given time, rounded
/// down to a whole second. So a stream counts from its creation, and then from one occurrence to
/// the next, regardless of the zone's clock. To continue where another process stopped,
/// [restart](crate::Ticks::restart) it from the last run.
///
/// If both fields for days are restricted, a day must match either. If either begins with `*`, such
/// as `*/2`, a day must match both. That too is as in crontab(5).
///
/// Clones share the parsed expression: a clone is a pointer, and allocates nothing.
///
/// The [crate] describes the meaning of an expression when clocks are changed. The calendar ends
/// with the year 4999: past it there is no occurrence.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tourbillon_cron::{Cron, Schedule};
///
/// let second_fridays = Cron::parse("30 17 * * FRI#2", "Asia/Tokyo")?;
/// let start_of_2026 = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
/// let first = second_fridays.next_after(start_of_2026).unwrap();
/// assert_eq!(first, start_of_2026 + Duration::from_secs(8 * 86_400 + 8 * 3600 + 30 * 60));
/// # Ok::<(), tourbillon_cron::ParseError>(())
/// ```
#[derive(Clone)]
pub struct Cron {
    /// Shared by all clones, because it takes some kilobytes.
    parsed: Arc<Parsed>,
}

struct Parsed {
    expression: String,
    zone: TimeZone,
    rule: Rule,
}

/// Rule for the occurrences.
enum Rule {
    /// After so many seconds; not 0.
    Every(i64),
    /// When a wall clock that is never changed shows a time of any of these. Where there are
    /// several, each is for other months.
    Times(Vec<Times>, Kind),
}

/// Times on the wall, in some months.
struct Times {
    pattern: croner::Cron,
    /// Only leap years if true, only the others if false.
    leap: Option<bool>,
}

impl Times {
    fn are_in(&self, year: i16) -> bool {
        let is_leap = Date::new(year, 1, 1).is_ok_and(Date::in_leap_year);
        self.leap.is_none_or(|leap| leap == is_leap)
    }

    fn search(&self, mut from: From) -> Option<DateTime> {
        loop {
            let found = match from {
                From::After(wall) => self.pattern.find_next_occurrence(&wall, false),
                From::At(wall) => self.pattern.find_next_occurrence(&wall, true),
            };
            let year = found.as_ref().ok()?.year();
            if year >= YEAR_END {
                return None;
            }
            if self.are_in(year) {
                return found.ok();
            }
            from = From::At(Date::new(year + 1, 1, 1).ok()?.at(0, 0, 0, 0));
        }
    }

    /// Returns whether any day suits. In 28 years without a century's exception, months of each
    /// length begin on each day of the week, so a day that has not come by then never comes.
    fn have_a_day(&self) -> bool {
        let days = Date::constant(2000, 1, 1).series(jiff::Span::new().days(1));
        days.take_while(|day| day.year() < 2028).filter(|day| self.are_in(day.year())).any(|day| {
            let (month, date) = (day.month().unsigned_abs().into(), day.day().unsigned_abs());
            let weekday = u32::from(day.weekday().to_sunday_zero_offset().unsigned_abs());
            let weekday = Weekday::from_days_from_sunday(weekday);
            let pattern = &self.pattern.pattern;
            pattern.month_match(month).unwrap_or(false)
                && pattern
                    .day_match(day.year().into(), month, date.into(), weekday)
                    .unwrap_or(false)
        })
    }
}

impl Cron {
    /// Parses `expression`, for the time zone that the IANA database has under the name `zone`.
    ///
    /// The result keeps the rules that the zone has now, from [this copy](crate::ZoneData::current)
    /// of the database.
    ///
    /// # Errors
    ///
    /// If the expression is invalid or names a day that never comes, or if the zone is unknown. The
    /// error has the position. `Etc/Unknown`, `Factory`, `localtime` and `posixrules` are unknown,
    /// although copies of the database have such files: they name no place.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, ParseError> {
        let rule = parse(expression)?;
        let zone = zones::get(zone)
            .ok_or_else(|| ParseError::new(ParseErrorKind::UnknownZone, Field::Zone, zone, 0))?;
        let expression = expression.trim().to_owned();
        Ok(Self { parsed: Arc::new(Parsed { expression, zone, rule }) })
    }

    /// The expression, as given.
    pub fn expression(&self) -> &str {
        &self.parsed.expression
    }

    /// The name of the zone, in the database's spelling.
    ///
    /// # Examples
    ///
    /// ```
    /// use tourbillon_cron::Cron;
    ///
    /// let cron = Cron::parse("@daily", "europe/berlin")?;
    /// assert_eq!((cron.expression(), cron.zone()), ("@daily", "Europe/Berlin"));
    /// assert_eq!(cron.to_string(), "@daily in Europe/Berlin");
    /// # Ok::<(), tourbillon_cron::ParseError>(())
    /// ```
    pub fn zone(&self) -> &str {
        self.parsed.zone.iana_name().unwrap_or("UTC")
    }

    /// Returns the time that clocks in the zone show at `time`; `None` outside the years -9999 to
    /// 9999.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tourbillon_cron::{Cron, Schedule as _};
    ///
    /// let nights = Cron::parse("30 2 * * *", "Europe/Berlin")?;
    /// let march_of_2026 = SystemTime::UNIX_EPOCH + Duration::from_secs(1_774_656_000);
    /// let [first, second] = [0, 1].map(|nth| {
    ///     let at = nights.occurrences(march_of_2026).nth(nth).expect("there is one");
    ///     nights.zoned(at).expect("within range").to_string()
    /// });
    /// assert_eq!(first, "2026-03-28T02:30:00+01:00[Europe/Berlin]");
    /// assert_eq!(second, "2026-03-29T03:00:00+02:00[Europe/Berlin]"); // 2:30 is skipped
    /// # Ok::<(), tourbillon_cron::ParseError>(())
    /// ```
    pub fn zoned(&self, time: SystemTime) -> Option<ZonedTime> {
        let time = to_timestamp(time)?;
        Some(ZonedTime::new(time.to_zoned(self.parsed.zone.clone())))
    }

    /// Returns the offset from UTC, in seconds, to keep beside an occurrence at `time` that is
    /// stored: [`same_wall`](Self::same_wall) finds it by it after the rules of the zone have
    /// changed. `None` for `@every`, which has no times of day.
    ///
    /// It is the offset that clocks in the zone have at `time`. If they are changed just then, it
    /// is the lower one of the two.
    pub fn wall_offset_s(&self, time: SystemTime) -> Option<i32> {
        match self.parsed.rule {
            Rule::Every(_) => None,
            Rule::Times(..) => Some(zone::offset_s(&self.parsed.zone, to_timestamp(time)?)),
        }
    }

    /// Returns when clocks in the zone show what clocks with this offset from UTC, in seconds, show
    /// at `time`. Where they show it twice, it is the time with this offset, or the first of them.
    /// Where they skip it, it is the moment of the change.
    ///
    /// # Examples
    ///
    /// A time that was stored with its offset, before the zone got other rules:
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tourbillon_cron::Cron;
    ///
    /// let mornings = Cron::parse("0 9 * * *", "Asia/Tokyo")?;
    /// let stored = SystemTime::UNIX_EPOCH + Duration::from_secs(1_774_656_000); // 9:00 in Tokyo
    /// assert_eq!(mornings.wall_offset_s(stored), Some(9 * 3600));
    /// assert_eq!(mornings.same_wall(stored, 9 * 3600), Some(stored));
    /// // By clocks an hour ahead of these it was 10:00.
    /// let hour = Duration::from_secs(3600);
    /// assert_eq!(mornings.same_wall(stored, 10 * 3600), Some(stored + hour));
    /// # Ok::<(), tourbillon_cron::ParseError>(())
    /// ```
    pub fn same_wall(&self, time: SystemTime, offset_s: i32) -> Option<SystemTime> {
        let found = zone::same_wall(&self.parsed.zone, to_timestamp(time)?, offset_s)?;
        from_timestamp(found)
    }
}

impl Schedule for Cron {
    fn next_after(&self, after: SystemTime) -> Option<SystemTime> {
        let earliest = Timestamp::from_second(EARLIEST_S).ok()?;
        let after = match to_timestamp(after) {
            Some(after) => after.max(earliest),
            None if after < SystemTime::UNIX_EPOCH => earliest,
            None => return None,
        };
        let next = match &self.parsed.rule {
            Rule::Every(seconds) => {
                // Rounded towards the past, also before 1970.
                let second = after.as_second() - i64::from(after.subsec_nanosecond() < 0);
                let next = second.checked_add(*seconds).filter(|next| *next < END_S);
                next.and_then(|next| Timestamp::from_second(next).ok())
            }
            Rule::Times(times, kind) => zone::next(&self.parsed.zone, *kind, after, |from| {
                times.iter().filter_map(|times| times.search(from)).min()
            }),
        };
        next.and_then(from_timestamp)
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cron")
            .field("expression", &self.parsed.expression)
            .field("zone", &self.zone())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.parsed.expression, self.zone())
    }
}

fn parse(expression: &str) -> Result<Rule, ParseError> {
    let trimmed = expression.trim();
    if trimmed.starts_with('@') {
        let start = expression.len() - expression.trim_start().len();
        return parse_nickname(trimmed, start);
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
    let times = |day: &Values, month: &Values, leap| {
        let pattern = for_croner([&second, &minute, &hour, day, month, &weekday], has_both)?;
        Some(Times { pattern, leap }).filter(Times::have_a_day)
    };
    let times: Vec<_> = if day.counts_from_last() {
        let of_months = |(days, months, leap): &(u8, &[u8], _)| {
            times(&day.clone().of_months_with(*days), &month.clone().within(months)?, *leap)
        };
        MONTHS_BY_LENGTH.iter().filter_map(of_months).collect()
    } else {
        times(&day, &month, None).into_iter().collect()
    };
    if times.is_empty() {
        let (start, end) = (rest[2].0, rest[if has_both { 4 } else { 3 }]);
        let days = &expression[start..end.0 + end.1.len()];
        return Err(ParseError::new(ParseErrorKind::NeverOccurs, Field::DayOfMonth, days, start));
    }
    Ok(Rule::Times(times, kind))
}

/// Reads `text`, which begins with an `@`, `start` bytes into the expression.
fn parse_nickname(text: &str, start: usize) -> Result<Rule, ParseError> {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if name.eq_ignore_ascii_case("@every") {
        let period = rest.trim_start();
        return parse_period(period, start + text.len() - period.len()).map(Rule::Every);
    }
    if let Some((_, meant)) = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
        return parse(meant);
    }
    let kind = if text.eq_ignore_ascii_case("@reboot") {
        ParseErrorKind::Reboot
    } else {
        ParseErrorKind::UnknownNickname
    };
    Err(ParseError::new(kind, None, text, start))
}

/// The seconds of a period such as `1h30m`, which begins `start` bytes into the expression.
fn parse_period(text: &str, start: usize) -> Result<i64, ParseError> {
    if text.is_empty() {
        return Err(ParseError::new(ParseErrorKind::Empty, None, text, start));
    }
    let mut seconds = Some(0_i64);
    for part in text.split_inclusive(|unit: char| !unit.is_ascii_digit()) {
        let at = part.as_ptr() as usize - text.as_ptr() as usize;
        let bad = || ParseError::new(ParseErrorKind::BadPeriod, None, &text[at..], start + at);
        let (number, unit) = match part.char_indices().next_back() {
            Some((end, 'h')) => (&part[..end], 3600),
            Some((end, 'm')) => (&part[..end], 60),
            Some((end, 's')) => (&part[..end], 1),
            _ => return Err(bad()),
        };
        if number.is_empty() {
            return Err(bad());
        }
        let part = number.parse().ok().and_then(|number: i64| number.checked_mul(unit));
        seconds = part.and_then(|part| seconds?.checked_add(part));
    }
    let bad = || ParseError::new(ParseErrorKind::BadPeriod, None, text, start);
    seconds.filter(|seconds| *seconds > 0).ok_or_else(bad)
}

/// The words of `text`, each with the byte that it starts at.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_whitespace().map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

/// Gives croner only lists of numbers, so that neither its dialect nor its notion of fixed times
/// matters. It computes dates and times alone, and `zone.rs` turns them into instants. Asked for
/// instants, croner 4.0.3 runs no job in a gap that ends on the next day (Nuuk), and fails where a
/// day was skipped (Apia).
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
