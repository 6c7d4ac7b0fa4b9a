//! Random expressions against an oracle that walks every minute of two years, in eleven zones; and
//! the most telling ones about a change of the clock, from any instant there.
//!
//! The oracle shares nothing with the library but the name of the zone and jiff's offset for an
//! instant: its expressions are made together with their meanings, and it finds skipped and
//! repeated times by walking.

use std::time::{Duration, SystemTime};

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use tourbillon_cron::{Cron, Schedule, Ticks};

use super::{shown, utc};
use crate::support::{SECOND, virtual_timer};

/// Zones, each with the first of two years in which something happens there.
const ZONES: [(&str, i16); 11] = [
    ("America/New_York", 2024),
    ("Europe/Berlin", 2025),
    ("Australia/Lord_Howe", 2024),
    ("Antarctica/Troll", 2023),
    ("Africa/Cairo", 2023),
    ("Pacific/Apia", 2011),
    ("America/Nuuk", 2023),
    ("Africa/Casablanca", 2024),
    ("America/Santiago", 2022),
    ("Pacific/Chatham", 2025),
    ("Asia/Kathmandu", 2027),
];

const HOUR: Duration = Duration::from_secs(3600);
const DAY: i64 = 24 * 60;
const DAY_MINUTES: usize = 24 * 60;

/// More occurrences in two years than are all looked at.
const DENSE: usize = 5000;

/// Expressions in each zone.
const ROUNDS: usize = 4;

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// A part of an expression, and its meaning.
struct Part<T> {
    text: String,
    suits: Box<dyn Fn(T) -> bool>,
}

impl<T> Part<T> {
    fn new(text: impl Into<String>, suits: impl Fn(T) -> bool + 'static) -> Self {
        Self { text: text.into(), suits: Box::new(suits) }
    }

    fn is_starred(&self) -> bool {
        self.text.starts_with('*')
    }
}

/// A field of numbers. The `likely` ones make something happen.
fn numbers(random: &mut Random, min: i64, max: i64, likely: &[i64]) -> Part<i64> {
    let any = |random: &mut Random| min + random.below((max - min + 1) as usize) as i64;
    let (a, b, c) = (random.pick(likely), any(random), any(random));
    let step = 1 + random.below(20) as i64;
    match random.below(8) {
        0 => Part::new("*", |_| true),
        1 => Part::new(format!("*/{step}"), move |n| (n - min) % step == 0),
        2 => Part::new(format!("{a},{b},{c}"), move |n| [a, b, c].contains(&n)),
        3 => {
            let (from, to) = (a.min(b), a.max(b));
            Part::new(format!("{from}-{to}"), move |n| (from..=to).contains(&n))
        }
        4 => {
            let (from, to) = (a.min(b), a.max(b));
            Part::new(format!("{from}-{to}/{step},{c}"), move |n| {
                (from..=to).contains(&n) && (n - from) % step == 0 || n == c
            })
        }
        _ => Part::new(a.to_string(), move |n| n == a),
    }
}

fn is_workday(day: Date) -> bool {
    !matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday)
}

/// The working day of the month that is nearest to its `day`th.
fn nearest_workday(month: Date, day: i8) -> Option<Date> {
    let wanted = month.with().day(day).build().ok()?;
    let days = month.first_of_month().series(1.day());
    days.take_while(|at| at.month() == month.month() && at.year() == month.year())
        .filter(|at| is_workday(*at))
        .min_by_key(|at| (at.day() - wanted.day()).abs())
}

fn day_of_month(random: &mut Random) -> Part<Date> {
    let day = 1 + random.below(31) as i8;
    match random.below(10) {
        0 => Part::new("L", |at: Date| at == at.last_of_month()),
        1 => Part::new("LW", |at: Date| {
            let days = at.last_of_month().series((-1).day());
            days.into_iter().find(|at| is_workday(*at)) == Some(at)
        }),
        2 => Part::new(format!("{day}W"), move |at| nearest_workday(at, day) == Some(at)),
        3 => Part::new(format!("{day}W,L"), move |at: Date| {
            nearest_workday(at, day) == Some(at) || at == at.last_of_month()
        }),
        4 => Part::new(format!("L-{}", day.min(30)), move |at: Date| {
            at.day() == at.days_in_month() - day.min(30)
        }),
        5 => Part::new(format!("{day},L-1,l-2"), move |at: Date| {
            let left = at.days_in_month() - at.day();
            at.day() == day || left == 1 || left == 2
        }),
        _ => {
            let part = numbers(random, 1, 31, &[1, 13, 28, 30]);
            Part::new(part.text, move |at: Date| (part.suits)(i64::from(at.day())))
        }
    }
}

fn day_of_week(random: &mut Random) -> Part<Date> {
    const NAMES: [&str; 8] = ["sun", "Mon", "TUE", "wed", "thu", "fri", "SAT", "7"];
    let place = random.below(8);
    let (name, day) = (NAMES[place], (place % 7) as i8);
    let of = |at: Date| at.weekday().to_sunday_zero_offset();
    match random.below(8) {
        0 => {
            let nth = 1 + random.below(5) as i8;
            Part::new(format!("{name}#{nth}"), move |at| {
                of(at) == day && at.nth_weekday_of_month(nth, at.weekday()).ok() == Some(at)
            })
        }
        1 => Part::new(format!("{name}L"), move |at: Date| {
            of(at) == day && at.nth_weekday_of_month(-1, at.weekday()).ok() == Some(at)
        }),
        2 => Part::new("MON-FRI", is_workday),
        3 => Part::new("thu-sun", move |at| of(at) >= 4 || of(at) == 0),
        4 => Part::new("*/3", move |at| of(at) % 3 == 0),
        5 => Part::new(format!("{name},3"), move |at| of(at) == day || of(at) == 3),
        _ => Part::new("*", |_| true),
    }
}

struct Expression {
    text: String,
    minute: Part<i64>,
    hour: Part<i64>,
    day: Part<Date>,
    month: Part<i64>,
    weekday: Part<Date>,
}

impl Expression {
    fn new(random: &mut Random) -> Self {
        let minute = numbers(random, 0, 59, &[0, 1, 15, 29, 30, 45, 59]);
        let hour = numbers(random, 0, 23, &[0, 0, 1, 1, 2, 2, 3, 23, 23]);
        // Mostly every day, so that the days that matter are among them.
        let star = || Part::new("*", |_| true);
        let day = if random.below(4) > 0 { star() } else { day_of_month(random) };
        let month = if random.below(4) > 0 {
            Part::new("*", |_| true)
        } else {
            numbers(random, 1, 12, &[3, 4, 10, 11, 12])
        };
        let weekday = if random.below(4) > 0 { star() } else { day_of_week(random) };
        let text = [&minute.text, &hour.text, &day.text, &month.text, &weekday.text];
        let text = text.map(String::as_str).join(" ");
        Self { text, minute, hour, day, month, weekday }
    }

    /// A job at one minute of each day; or an interval, of all minutes of its hour from there on.
    fn daily(wall: i64, interval: bool) -> Self {
        let (hour, from) = (wall.rem_euclid(DAY) / 60, wall.rem_euclid(60));
        let minute = if interval {
            Part::new("*", |_| true)
        } else {
            Part::new(from.to_string(), move |n| n == from)
        };
        let hour = Part::new(hour.to_string(), move |n| n == hour);
        let star = || Part::new("*", |_: Date| true);
        let text = format!("{} {} * * *", minute.text, hour.text);
        let month = Part::new("*", |_| true);
        Self { text, minute, hour, day: star(), month, weekday: star() }
    }

    fn is_fixed(&self) -> bool {
        !self.minute.is_starred() && !self.hour.is_starred()
    }

    fn suits_day(&self, at: Date) -> bool {
        let (day, weekday) = ((self.day.suits)(at), (self.weekday.suits)(at));
        let both = self.day.is_starred() || self.weekday.is_starred();
        (self.month.suits)(i64::from(at.month()))
            && if both { day && weekday } else { day || weekday }
    }
}

/// Times that a wall clock shows in each minute of two years, in minutes since 1970.
struct Walk {
    zone: &'static str,
    /// In UTC, minutes since 1970.
    start: i64,
    wall: Vec<i64>,
}

impl Walk {
    fn new(zone: &'static str, year: i16) -> Self {
        let tz = TimeZone::get(zone).expect("the zone is known");
        let minute = |year| {
            let start = Date::constant(year, 1, 1).to_zoned(TimeZone::UTC).expect("a time");
            start.timestamp().as_second() / 60
        };
        let (start, end) = (minute(year), minute(year + 2));
        let wall = (start..end).map(|minute| {
            let at = Timestamp::from_second(minute * 60).expect("a time");
            minute + i64::from(tz.to_offset(at).seconds()).div_euclid(60)
        });
        Self { zone, start, wall: wall.collect() }
    }

    /// The part of it from two days before a place to two days after.
    fn about(&self, place: usize) -> Self {
        let from = place.saturating_sub(2 * DAY_MINUTES);
        let to = self.wall.len().min(place + 2 * DAY_MINUTES);
        Self {
            zone: self.zone,
            start: self.start + from as i64,
            wall: self.wall[from..to].to_vec(),
        }
    }

    fn time(&self, place: usize) -> SystemTime {
        let minutes = self.start + place as i64;
        SystemTime::UNIX_EPOCH + Duration::from_secs(minutes as u64 * 60)
    }

    fn expected(&self, expression: &Expression) -> Vec<SystemTime> {
        let first_day = self.wall[0].div_euclid(DAY) - 1;
        let days = self.wall[self.wall.len() - 1].div_euclid(DAY) + 2 - first_day;
        let epoch = Date::constant(1970, 1, 1);
        let days: Vec<bool> = (first_day..first_day + days)
            .map(|day| expression.suits_day(epoch.checked_add(day.days()).expect("a day")))
            .collect();
        let times: Vec<bool> = (0..DAY)
            .map(|minute| {
                (expression.hour.suits)(minute / 60) && (expression.minute.suits)(minute % 60)
            })
            .collect();
        let suits = |wall: i64| {
            times[wall.rem_euclid(DAY) as usize]
                && days[(wall.div_euclid(DAY) - first_day) as usize]
        };
        let mut latest = self.wall[0] - 1;
        let mut found = Vec::new();
        for (place, wall) in self.wall.iter().copied().enumerate() {
            let is_due = if expression.is_fixed() {
                let skipped = latest + 1..wall;
                let is_saving = skipped.end - skipped.start < 3 * 60;
                wall > latest && suits(wall) || is_saving && { skipped }.any(suits)
            } else {
                suits(wall)
            };
            latest = latest.max(wall);
            if is_due {
                found.push(self.time(place));
            }
        }
        found
    }

    /// Places where the clock was changed.
    fn changes(&self) -> Vec<usize> {
        let places = 1..self.wall.len();
        places.filter(|place| self.wall[*place] != self.wall[*place - 1] + 1).collect()
    }
}

fn check(walk: &Walk, random: &mut Random) {
    let changes = walk.changes();
    for _ in 0..ROUNDS {
        let expression = Expression::new(random);
        let text = &expression.text;
        let expected = walk.expected(&expression);
        let Ok(cron) = Cron::parse(text, walk.zone) else {
            assert!(expected.is_empty(), "{text} was refused");
            continue;
        };
        let (before, end) = (walk.time(0) - SECOND, walk.time(walk.wall.len()));

        // All in order; of very many, those about the changes.
        let spans = if expected.len() <= DENSE {
            vec![(0, walk.wall.len())]
        } else {
            let about = |at: usize| (at.saturating_sub(DAY_MINUTES), at + DAY_MINUTES);
            changes.iter().copied().map(about).collect()
        };
        for (from, to) in spans {
            let (from, to) = (walk.time(from) - SECOND, walk.time(to.min(walk.wall.len())));
            let mut found = cron.occurrences(from);
            let place = |time| expected.partition_point(|at| *at <= time);
            for at in &expected[place(from)..place(to - SECOND)] {
                let next = found.next().unwrap_or_else(|| panic!("{text} ended"));
                assert_eq!(shown(next), shown(*at), "{text} in {}", walk.zone);
            }
            assert!(found.next().is_none_or(|next| next >= to), "{text} in {}", walk.zone);
        }

        // From any time, most of them close to a change.
        for _ in 0..200 {
            let mut place = random.below(walk.wall.len());
            if !changes.is_empty() && random.below(4) > 0 {
                let near = (random.pick(&changes) + random.below(400)).saturating_sub(200);
                place = near.min(walk.wall.len() - 1);
            }
            let after = walk.time(place) + Duration::from_millis(random.below(60_000) as u64);
            let next = expected.get(expected.partition_point(|at| *at <= after));
            let answer = cron.next_after(after).filter(|at| *at < end);
            assert_eq!(
                answer.map(shown),
                next.copied().map(shown),
                "{text} in {} after {}",
                walk.zone,
                shown(after)
            );
        }

        // As a stream, unless there are very many.
        if expected.len() <= 2000 {
            let (timer, clock) = virtual_timer();
            clock.set_wall(before);
            let mut ticks = Ticks::with_timer(cron, &timer);
            for at in &expected {
                let tick = clock.block_on(ticks.tick()).expect("a tick");
                assert_eq!((tick.scheduled(), tick.woke(), tick.missed()), (*at, *at, 0));
            }
        }
    }
}

#[test]
fn random_expressions_agree_with_a_walk_through_every_minute() {
    let walkers = ZONES.iter().enumerate().map(|(place, (zone, year))| {
        std::thread::spawn(move || {
            let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (place as u64 + 1) << 32);
            check(&Walk::new(zone, *year), &mut random);
        })
    });
    for walker in walkers.collect::<Vec<_>>() {
        walker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

/// Jobs at the first and last minute of a change, and around them, searched from every instant of
/// the hours about it, whether or not the instant is an occurrence of theirs.
fn check_about_changes(walk: &Walk) {
    for place in walk.changes() {
        // The unchanged clock's time, and the clock's own.
        let (would, does) = (walk.wall[place - 1] + 1, walk.wall[place]);
        let about = walk.about(place);
        let (from, end) = (walk.time(place) - 5 * HOUR, about.time(about.wall.len()));
        for wall in [would, does, (would + does) / 2] {
            for (wall, interval) in
                [(wall - 1, false), (wall, false), (wall + 1, false), (wall, true)]
            {
                let expression = Expression::daily(wall, interval);
                let text = &expression.text;
                let expected = about.expected(&expression);
                let cron = Cron::parse(text, walk.zone).expect("the expression is good");
                for minutes in (0..600).step_by(5) {
                    let after = from + minutes * 60 * SECOND + Duration::from_millis(500);
                    let next = expected.get(expected.partition_point(|at| *at <= after));
                    let answer = cron.next_after(after).filter(|at| *at < end);
                    let (answer, next) = (answer.map(shown), next.copied().map(shown));
                    assert_eq!(answer, next, "{text} in {} after {}", walk.zone, shown(after));
                }
            }
        }
    }
}

#[test]
fn about_a_change_of_the_clock_the_next_is_right_from_any_instant() {
    let walkers = ZONES.map(|(zone, year)| {
        std::thread::spawn(move || check_about_changes(&Walk::new(zone, year)))
    });
    for walker in walkers {
        walker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

#[test]
fn the_walk_sees_what_is_known_of_it() {
    let apia = Walk::new("Pacific/Apia", 2011);
    let gaps: Vec<i64> = apia
        .changes()
        .into_iter()
        .map(|place| apia.wall[place] - apia.wall[place - 1] - 1)
        .collect();
    assert!(gaps.contains(&DAY) && gaps.contains(&60) && gaps.contains(&-60), "{gaps:?}");
    assert!(Walk::new("Asia/Kathmandu", 2027).changes().is_empty());
    let end = apia.time(apia.wall.len());
    assert_eq!(end, utc("2013-01-01"));
}
