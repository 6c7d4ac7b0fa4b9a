use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use super::limits::Limits;
use super::{Excluded, Schedule};
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
        let limited = limited(&mut random, every.clone(), at(1_000_000_000));
        for schedule in [every, cron, limited] {
            let read: Schedule = schedule.to_string().parse().unwrap();
            let next = |schedule: &Schedule| schedule.next_after(at(1_000_000_000));
            assert_eq!((&read, next(&read)), (&schedule, next(&schedule)));
        }
    }
}

#[test]
fn a_text_that_is_no_schedule_is_named() {
    for text in [
        "",
        "at dawn",
        "every 0s 0",
        "every 5 0",
        "every 5s",
        "every 1ns 0",
        "cron UTC x",
        "first=1",
        "first=x every 5s 0",
        "middle=1 every 5s 0",
        "excluded=1..2 every 5s 0",
        "excluded=1-2:skip every 5s 0",
        "excluded=1..2:run every 5s 0",
        "first=1 at dawn",
    ] {
        let error = text.parse::<Schedule>().unwrap_err();
        assert_eq!(error.to_string(), format!("`{text}` is not a schedule"));
    }
}

#[test]
fn a_period_has_occurrences_from_the_beginning_of_time() {
    let first = Time::from_micros(i64::MIN);
    let every = Schedule::every_from(Duration::from_secs(5), at(3));
    assert_eq!(every.next_after(first), Some(at(8)));
}

#[test]
fn a_schedule_has_no_more_than_a_thousand_windows() {
    let word = |n: i64| format!("excluded={n}..{}:skip ", n + 1);
    let text = |count: i64| (0..count).map(word).collect::<String>() + "every 5s 0";
    let most: Schedule = text(1_000).parse().unwrap();
    text(1_001).parse::<Schedule>().unwrap_err();
    // An equal window is not another.
    let window = |n: i64| Time::from_micros(n)..Time::from_micros(n + 1);
    assert_eq!(most.clone().excluding(window(7), Excluded::Skip), most);
    let more = || most.clone().excluding(window(2_000), Excluded::Skip);
    std::panic::catch_unwind(more).unwrap_err();
}

#[test]
fn a_window_after_all_others_costs_no_look_at_them() {
    let looks = std::cell::Cell::new(0);
    let mut limits = Limits::default();
    for day in 0..1_000 {
        let window = at(day * 86_400)..at(day * 86_400 + 3_600);
        let end = window.end;
        limits.exclude(window, Excluded::RunAtEnd).unwrap();
        limits.settle(end, |after| {
            looks.set(looks.get() + 1);
            Some(after + Duration::from_secs(60))
        });
    }
    assert_eq!(looks.get(), 1_000);
    assert_eq!(limits.next_after(at(3_000), |_| None), Some(at(3_600)));
}

#[test]
fn occurrences_end_where_times_do() {
    let last = Time::NEVER - Duration::from_micros(1);
    assert_eq!(Schedule::every(Duration::from_secs(1)).occurrences(last).count(), 0);
    assert_eq!(Schedule::cron("* * * * *", "UTC").unwrap().occurrences(last).count(), 0);
}

/// The schedule with limits, near `around` if there are any.
fn limited(random: &mut fastrand::Rng, mut schedule: Schedule, around: Time) -> Schedule {
    let mut some = |span: u64| around + Duration::from_micros(random.u64(0..span));
    let span = 200 * MINUTE.as_micros() as u64;
    let [first, last] = [some(span / 8), some(span)];
    let windows: Vec<_> = (0..4).map(|_| some(span)..some(span)).collect();
    if random.bool() {
        schedule = schedule.starting_at(first);
    }
    if random.bool() {
        schedule = schedule.ending_at(last);
    }
    for window in windows.into_iter().take(random.usize(0..5)) {
        // Windows often begin or end with an occurrence.
        let whole = |at: Time| at - Duration::from_micros(at.as_micros() as u64 % 60_000_000);
        let Range { start, end } = window;
        let window = if random.bool() { whole(start)..whole(end) } else { start..end };
        let then = if random.bool() { Excluded::Skip } else { Excluded::RunAtEnd };
        schedule = schedule.excluding(window, then);
    }
    schedule
}

const MINUTE: Duration = Duration::from_secs(60);

/// The occurrences until `end` by the literal rules, and those among them that run.
fn naive(text: &str, after: Time, end: Time) -> (Vec<Time>, Vec<Time>) {
    let (mut first, mut last, mut windows) = (None, None, Vec::new());
    let time = |text: &str| Time::from_micros(text.parse().unwrap());
    let mut words: Vec<&str> = text.split(' ').collect();
    while let Some((key, value)) = words[0].split_once('=') {
        words.remove(0);
        match key {
            "first" => first = Some(time(value)),
            "last" => last = Some(time(value)),
            _ => {
                let (window, then) = value.split_once(':').unwrap();
                let (from, until) = window.split_once("..").unwrap();
                windows.push((time(until), time(from), then == "run-at-end"));
            }
        }
    }
    let plain: Schedule = words.join(" ").parse().unwrap();
    let mut all: BTreeSet<Time> = plain.occurrences(after).take_while(|at| *at <= end).collect();
    let is_within =
        |at: &Time| first.is_none_or(|first| *at >= first) && last.is_none_or(|last| *at <= last);
    all.retain(is_within);
    windows.sort();
    for (until, from, runs_at_end) in &windows {
        if *runs_at_end && from < until && is_within(until) && all.range(from..until).count() > 0 {
            all.insert(*until);
        }
    }
    let excluded = |at: &Time| windows.iter().any(|(until, from, _)| from <= at && at < until);
    let runs = all.iter().copied().filter(|at| !excluded(at)).collect();
    (all.into_iter().collect(), runs)
}

#[test]
fn limits_are_as_a_naive_model_has_them() {
    let mut random = fastrand::Rng::with_seed(11);
    // Hours before the clocks of Berlin go forward and back, and any other.
    let places = [1_774_742_400, 1_792_886_400, 1_000_000_000];
    let (mut count, mut excluded) = (0, 0);
    for _ in 0..2_000 {
        let after = at(places[random.usize(0..3)]);
        let end = after + 200 * MINUTE;
        let plain = match random.u8(0..3) {
            0 => Schedule::every(Duration::from_secs(random.u64(50..2_000))),
            1 => Schedule::cron("*/7 * * * *", "Europe/Berlin").unwrap(),
            _ => Schedule::cron("30 2 * * *", "Europe/Berlin").unwrap(),
        };
        let schedule = limited(&mut random, plain, after);
        let (all, runs) = naive(&schedule.to_string(), after, end);
        let until = |times: &mut dyn Iterator<Item = Time>| -> Vec<Time> {
            times.take_while(|at| *at <= end).collect()
        };
        let first = schedule.next_of_all(after);
        assert_eq!(until(&mut schedule.all_from(first)), all, "{schedule}");
        assert_eq!(until(&mut schedule.occurrences(after)), runs, "{schedule}");
        let is_run = |at: &&Time| !schedule.excludes(**at);
        assert_eq!(all.iter().filter(is_run).count(), runs.len(), "{schedule}");
        assert_eq!(schedule.to_string().parse::<Schedule>().unwrap(), schedule);
        (count, excluded) = (count + runs.len(), excluded + all.len() - runs.len());
    }
    assert!(count > 5_000 && excluded > 5_000, "{count} run, {excluded} are excluded");
}

#[test]
fn a_window_across_a_change_of_clocks_excludes_instants() {
    let nights = Schedule::cron("30 2 * * *", "Europe/Berlin").unwrap();
    // On 29 March 2026 there is no half past two in Berlin: it runs at three, summer time.
    let gap = at(1_774_746_000);
    let runs = |schedule: &Schedule| -> Vec<Time> {
        schedule.occurrences_from(gap - 3_600 * Duration::from_secs(12)).take(2).collect()
    };
    assert_eq!(runs(&nights), [gap, at(1_774_830_600)]);
    let hour = gap - Duration::from_secs(1_800)..gap + Duration::from_secs(1_800);
    let skipped = nights.clone().excluding(hour.clone(), Excluded::Skip);
    assert_eq!(runs(&skipped), [at(1_774_830_600), at(1_774_917_000)]);
    let run = nights.clone().excluding(hour.clone(), Excluded::RunAtEnd);
    assert_eq!(runs(&run), [hour.end, at(1_774_830_600)]);
    // On 25 October half past two comes twice, and is one occurrence: the first.
    let first = at(1_792_888_200);
    let second = first + Duration::from_secs(3_600);
    let after = |schedule: &Schedule| schedule.occurrences_from(first).next();
    assert_eq!(after(&nights), Some(first));
    let minute = Duration::from_secs(60);
    let only_second = nights.clone().excluding(second..second + minute, Excluded::Skip);
    assert_eq!(after(&only_second), Some(first));
    let only_first = nights.excluding(first..first + minute, Excluded::Skip);
    assert_eq!(after(&only_first), Some(at(1_792_978_200)));
}
