//! Valid expressions with their meanings, and refusals.

use std::time::{Duration, SystemTime};

use tourbillon_cron::{Cron, Field, ParseErrorKind, Schedule};

use super::{between, cron, shown, utc};
use crate::support::WALL_GRAIN;

fn first(expression: &str) -> String {
    let next = cron(expression, "UTC").next_after(utc("2026-01-01"));
    shown(next.unwrap_or_else(|| panic!("{expression} never comes")))
}

#[test]
fn every_form_means_what_crontab_5_says() {
    // 1 January 2026 is a Thursday.
    for (expression, expected) in [
        ("* * * * *", "2026-01-01T00:01"),
        ("*/7 * * * *", "2026-01-01T00:07"),
        ("5-59/10 * * * *", "2026-01-01T00:05"),
        ("0 0 * * *", "2026-01-02T00:00"),
        ("30 6,18 * * *", "2026-01-01T06:30"),
        ("0 9-17/4 * * *", "2026-01-01T09:00"),
        ("0 0 15 * *", "2026-01-15T00:00"),
        ("0 0 * feb *", "2026-02-01T00:00"),
        ("0 0 1 Mar-may,OCT *", "2026-03-01T00:00"),
        ("0 0 * * 0", "2026-01-04T00:00"),
        ("0 0 * * 7", "2026-01-04T00:00"),
        ("0 0 * * Mon-Fri", "2026-01-02T00:00"),
        ("0 12 * * sat-sun", "2026-01-03T12:00"),
        ("0 12 * * 6-7", "2026-01-03T12:00"),
        ("0 0 L * *", "2026-01-31T00:00"),
        ("0 0 L 2 ?", "2026-02-28T00:00"),
        ("0 0 L-3 * *", "2026-01-28T00:00"),
        ("0 0 l-30 * *", "2026-03-01T00:00"),
        ("0 0 L-1 2 *", "2026-02-27T00:00"),
        ("0 0 L-28 2 *", "2028-02-01T00:00"),
        ("0 0 9,L-25 * *", "2026-01-06T00:00"),
        ("0 0 LW * *", "2026-01-30T00:00"),
        ("0 0 17W * *", "2026-01-16T00:00"),
        ("0 0 18W * *", "2026-01-19T00:00"),
        ("0 0 1W 2 *", "2026-02-02T00:00"),
        ("0 0 31W 1 *", "2026-01-30T00:00"),
        ("0 0 ? * FRI#2", "2026-01-09T00:00"),
        ("0 0 * * 5#5", "2026-01-30T00:00"),
        ("0 0 * * friL", "2026-01-30T00:00"),
        ("0 0 * * 7L", "2026-01-25T00:00"),
        ("0 0 * * 1#L", "2026-01-26T00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("0 0 * * */7", "2026-01-04T00:00"),
        ("*/99999999999999999999 3 * * *", "2026-01-01T03:00"),
        ("20 * * * * *", "2026-01-01T00:00:20"),
        ("*/25 30 12 1 * *", "2026-01-01T12:30"),
        ("  0\t0  2 1 * ", "2026-01-02T00:00"),
        ("@hourly", "2026-01-01T01:00"),
        ("@daily", "2026-01-02T00:00"),
        (" @Midnight", "2026-01-02T00:00"),
        ("@weekly", "2026-01-04T00:00"),
        ("@monthly", "2026-02-01T00:00"),
        ("@yearly", "2027-01-01T00:00"),
        ("@annually", "2027-01-01T00:00"),
        ("@every 90s", "2026-01-01T00:01:30"),
        (" @Every \t 1h30m10s ", "2026-01-01T01:30:10"),
        ("@every 5m5m", "2026-01-01T00:10"),
        ("@every 008760h", "2027-01-01T00:00"),
    ] {
        assert_eq!(first(expression), expected, "{expression}");
    }
}

#[test]
fn a_day_suits_one_of_two_fields_or_both_if_one_begins_with_a_star() {
    let days = |expression| between(&cron(expression, "UTC"), "2025-12-31T12:00", "2026-01-13");
    assert_eq!(days("0 0 2 * SUN"), ["2026-01-02T00:00", "2026-01-04T00:00", "2026-01-11T00:00"]);
    assert_eq!(days("0 0 */2 * SUN"), ["2026-01-11T00:00"]);
    assert_eq!(days("0 0 4 * */2"), ["2026-01-04T00:00"]);
    assert_eq!(days("0 0 * * SUN"), ["2026-01-04T00:00", "2026-01-11T00:00"]);
    assert_eq!(days("0 0 1-31 * SUN").len(), 12);
}

#[test]
fn a_day_before_the_last_suits_with_a_weekday_as_others_do() {
    let days = |expression| between(&cron(expression, "UTC"), "2028-01-31T12:00", "2028-04-01");
    assert_eq!(days("0 0 L-2 * *"), ["2028-02-27T00:00", "2028-03-29T00:00"]);
    assert_eq!(days("0 0 L-1,L-2,31 3 *").len(), 3);
    // Either; both, because one begins with a star.
    assert_eq!(days("0 0 L-2 2 TUE#1"), ["2028-02-01T00:00", "2028-02-27T00:00"]);
    assert_eq!(days("0 0 L-2 * */7"), ["2028-02-27T00:00"]);
    // The first in months of 31 days, and in no others; the weekday in each.
    assert_eq!(
        days("0 0 L-30 * TUE#1"),
        ["2028-02-01T00:00", "2028-03-01T00:00", "2028-03-07T00:00"]
    );
    assert_eq!(between(&cron("0 0 L-28 2 *", "UTC"), "1895-01-01", "1909-01-01").len(), 3);
}

#[test]
fn every_counts_from_what_it_is_asked_about_in_whole_seconds() {
    let every = cron("@every 90s", "America/New_York");
    // Through the night when the clock goes from 2 to 3.
    assert_eq!(
        between(&every, "2026-03-08T06:57", "2026-03-08T07:02"),
        ["2026-03-08T06:58:30", "2026-03-08T07:00", "2026-03-08T07:01:30"]
    );
    let half = Duration::from_millis(500);
    assert_eq!(every.next_after(utc("2026-01-01") + half), Some(utc("2026-01-01T00:01:30")));
    let second = cron("@every 1s", "UTC");
    let before_the_epoch = SystemTime::UNIX_EPOCH - half;
    assert_eq!(second.next_after(before_the_epoch), Some(SystemTime::UNIX_EPOCH));
    assert_eq!(second.next_after(utc("4999-12-31T23:59:58")), Some(utc("4999-12-31T23:59:59")));
    assert_eq!(second.next_after(utc("4999-12-31T23:59:59")), None);
    assert_eq!(cron("@every 9223372036854775807s", "UTC").next_after(before_the_epoch), None);
}

#[test]
fn a_time_is_shown_as_the_clocks_of_the_zone_show_it() {
    let berlin = cron("@daily", "Europe/Berlin");
    let shown = |text| berlin.zoned(utc(text)).expect("within range");
    // The hour that is shown twice.
    let [summer, winter] = ["2026-10-25T00:30", "2026-10-25T01:30"].map(shown);
    assert_eq!(summer.to_string(), "2026-10-25T02:30:00+02:00[Europe/Berlin]");
    assert_eq!(winter.to_string(), "2026-10-25T02:30:00+01:00[Europe/Berlin]");
    assert_eq!(format!("{winter:?}"), winter.to_string());
    assert_eq!(format!("{winter:>50}").len(), 50);
    assert_eq!((summer.hour(), winter.hour(), summer.minute()), (2, 2, 30));
    assert_eq!((summer.offset_s(), winter.offset_s()), (7200, 3600));
    assert!(summer < winter);
    assert_eq!(shown("1969-12-31T23:30").year(), 1970);
    let fraction = berlin.zoned(SystemTime::UNIX_EPOCH + Duration::from_millis(500));
    assert!(fraction.is_some_and(|time| time.to_string().contains("01:00:00.5+01:00")));
    for far in [1 << 40, u64::MAX >> 1] {
        let far = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(far));
        assert!(far.is_none_or(|far| berlin.zoned(far).is_none()));
    }
}

#[test]
fn an_occurrence_is_later_than_what_it_follows_by_as_little_as_can_be() {
    let hourly = cron("@hourly", "UTC");
    let hour = utc("2026-05-05T05:00");
    assert_eq!(hourly.next_after(hour - WALL_GRAIN), Some(hour));
    assert_eq!(hourly.next_after(hour), Some(utc("2026-05-05T06:00")));
    assert_eq!(hourly.next_after(hour + WALL_GRAIN), Some(utc("2026-05-05T06:00")));
    let before_the_epoch = utc("1969-12-31T23:00");
    assert_eq!(hourly.next_after(before_the_epoch - WALL_GRAIN), Some(before_the_epoch));
}

#[test]
fn a_calendar_ends_and_begins_without_a_panic() {
    let yearly = cron("@yearly", "Asia/Tokyo");
    assert_eq!(yearly.next_after(utc("4998-06-01")), Some(utc("4998-12-31T15:00")));
    assert_eq!(yearly.next_after(utc("4999-06-01")), None);
    assert_eq!(yearly.next_after(utc("9999-12-30")), None);
    assert_eq!(yearly.occurrences(utc("4990-06-01")).count(), 9);
    let end = |back: bool, seconds| {
        let span = Duration::from_secs(seconds);
        let epoch = SystemTime::UNIX_EPOCH;
        if back { epoch.checked_sub(span) } else { epoch.checked_add(span) }
    };
    for seconds in [u64::MAX >> 1, 1 << 40, 1 << 37] {
        if let Some(end) = end(false, seconds) {
            assert_eq!(yearly.next_after(end), None);
        }
        if let Some(end) = end(true, seconds) {
            let first = yearly.next_after(end).expect("one to follow");
            assert!(first > end);
        }
    }
}

#[test]
fn what_can_come_is_accepted_however_seldom() {
    for expression in ["0 0 29 2 *", "0 0 29 2 */7", "0 0 */31 * MON#1", "0 0 * 2 SUN#5"] {
        assert!(Cron::parse(expression, "UTC").is_ok(), "{expression}");
    }
    // Of 28 years, one.
    let sunday_leap_days = between(&cron("0 0 29 2 */7", "UTC"), "2026-01-01", "2070-01-01");
    assert_eq!(sunday_leap_days, ["2032-02-29T00:00", "2060-02-29T00:00"]);
    assert_eq!(
        between(&cron("0 0 29 2 *", "UTC"), "1895-01-01", "1909-01-01"),
        ["1896-02-29T00:00", "1904-02-29T00:00", "1908-02-29T00:00"]
    );
}

#[test]
fn each_fault_is_named_with_its_field_and_place() {
    use Field::*;
    use ParseErrorKind::*;
    let range = |min, max| OutOfRange { min, max };
    for (expression, kind, field, found, start) in [
        ("", TooFewFields, None, "", 0),
        ("0 0 * *", TooFewFields, None, "0 0 * *", 0),
        ("0 0 0 1 1 * 9999", TooManyFields, None, "9999", 12),
        (" @fortnightly", UnknownNickname, None, "@fortnightly", 1),
        ("@reboot", Reboot, None, "@reboot", 0),
        ("@daily x", UnknownNickname, None, "@daily x", 0),
        ("60 * * * *", range(0, 59), Some(Minute), "60", 0),
        ("61 * * * * *", range(0, 59), Some(Second), "61", 0),
        ("0 24 * * *", range(0, 23), Some(Hour), "24", 2),
        ("0 8-25 * * *", range(0, 23), Some(Hour), "25", 4),
        ("0 0 0 * *", range(1, 31), Some(DayOfMonth), "0", 4),
        ("0 0 1,32W * *", range(1, 31), Some(DayOfMonth), "32", 6),
        ("0 0 * 13 *", range(1, 12), Some(Month), "13", 6),
        ("0 0 * * 8", range(0, 7), Some(DayOfWeek), "8", 8),
        ("0 0 * * FRI#6", range(1, 5), Some(DayOfWeek), "6", 12),
        ("0 0 99999999999 * *", range(1, 31), Some(DayOfMonth), "99999999999", 4),
        ("MON * * * *", NotAValue, Some(Minute), "MON", 0),
        ("0 0 * JUNE *", NotAValue, Some(Month), "JUNE", 6),
        ("0 0 * JAN-FOO *", NotAValue, Some(Month), "FOO", 10),
        ("0 0 * * L", NotAValue, Some(DayOfWeek), "L", 8),
        ("0 0 * * +1", NotAValue, Some(DayOfWeek), "+1", 8),
        ("0 ? * * *", NotAValue, Some(Hour), "?", 2),
        ("0 L * * *", NotAValue, Some(Hour), "L", 2),
        ("0 0 é * *", NotAValue, Some(DayOfMonth), "é", 4),
        ("é * * * W", NotAValue, Some(Minute), "é", 0),
        ("0 0 W * *", Empty, Some(DayOfMonth), "", 4),
        ("1,,2 * * * *", Empty, Some(Minute), "", 2),
        ("1, * * * *", Empty, Some(Minute), "", 2),
        ("-5 * * * *", Empty, Some(Minute), "", 0),
        ("/5 * * * *", Empty, Some(Minute), "", 0),
        ("0 17-9 * * *", Reversed, Some(Hour), "17-9", 2),
        ("0 0 * * SUN-", Empty, Some(DayOfWeek), "", 12),
        ("*/0 * * * *", BadStep, Some(Minute), "0", 2),
        ("*/x * * * *", BadStep, Some(Minute), "x", 2),
        ("*/ * * * *", BadStep, Some(Minute), "", 2),
        ("*/5/5 * * * *", BadStep, Some(Minute), "5/5", 2),
        ("0 3,5/2 * * *", StepWithoutRange, Some(Hour), "5/2", 4),
        ("0 0 LW/2 * *", StepWithoutRange, Some(DayOfMonth), "LW/2", 4),
        ("0 0 L,LW * *", TwoLastDays, Some(DayOfMonth), "L,LW", 4),
        ("0 0 L-0 * *", range(1, 30), Some(DayOfMonth), "0", 6),
        ("0 0 1,l-31 * *", range(1, 30), Some(DayOfMonth), "31", 8),
        ("0 0 L- * *", Empty, Some(DayOfMonth), "", 6),
        ("0 0 L-3W * *", NotAValue, Some(DayOfMonth), "3W", 6),
        ("0 0 L-3/2 * *", StepWithoutRange, Some(DayOfMonth), "L-3/2", 4),
        ("0 0 LW-3 * *", NotAValue, Some(DayOfMonth), "LW", 4),
        ("0 0 * * L-3", NotAValue, Some(DayOfWeek), "L", 8),
        ("0 0 L-29 2 *", NeverOccurs, Some(DayOfMonth), "L-29 2", 4),
        ("@every", Empty, None, "", 6),
        ("@every  ", Empty, None, "", 6),
        ("@every90s", UnknownNickname, None, "@every90s", 0),
        (" @every 90", BadPeriod, None, "90", 8),
        ("@every 1h30x", BadPeriod, None, "30x", 9),
        ("@every 1h 30m", BadPeriod, None, " 30m", 9),
        ("@every 1.5h", BadPeriod, None, "1.5h", 7),
        ("@every 500ms", BadPeriod, None, "s", 11),
        ("@every -5s", BadPeriod, None, "-5s", 7),
        ("@every s", BadPeriod, None, "s", 7),
        ("@every 5é", BadPeriod, None, "5é", 7),
        ("@every 0h0s", BadPeriod, None, "0h0s", 7),
        ("@every 2562047788015216h", BadPeriod, None, "2562047788015216h", 7),
        ("@every 9223372036854775807s1s", BadPeriod, None, "9223372036854775807s1s", 7),
        ("0 0 30 2 *", NeverOccurs, Some(DayOfMonth), "30 2", 4),
        ("0 0 31 2,4,JUN *", NeverOccurs, Some(DayOfMonth), "31 2,4,JUN", 4),
        ("0 0 31W NOV ?", NeverOccurs, Some(DayOfMonth), "31W NOV", 4),
        ("0 0 */31 * MON#2", NeverOccurs, Some(DayOfMonth), "*/31 * MON#2", 4),
    ] {
        let error = Cron::parse(expression, "UTC").expect_err(expression);
        assert_eq!(
            (error.kind(), error.field(), error.found()),
            (kind, field, found),
            "{expression}"
        );
        assert_eq!(error.range(), start..start + found.len(), "{expression}");
        assert_eq!(&expression[error.range()], found, "{expression}");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn an_error_shows_no_more_than_32_characters_however_long_the_text() {
    for unit in ["x", "é", "日", "🕐"] {
        for count in [31, 32, 33, 5_000_000] {
            let text = unit.repeat(count);
            let shown = unit.repeat(count.min(32)) + if count > 32 { "…" } else { "" };
            let error = Cron::parse(&format!("0 {text} * * *"), "UTC").expect_err("no hour");
            assert_eq!(error.to_string(), format!("hour: `{shown}` is not a value"));
            assert_eq!(error.range(), 2..2 + text.len());
            assert_eq!(error.found(), unit.repeat(count.min(32)));
            assert!(format!("{error:?}").len() < 300);
        }
    }
    let long = "z".repeat(5_000_000);
    for (expression, zone) in [
        (format!("@{long}"), "UTC"),
        (format!("{long} 0 0"), "UTC"),
        (format!("0 0 0 0 0 0 {long}"), "UTC"),
        (format!("0 {long}-5 * * *"), "UTC"),
        (format!("0 */{long} * * *"), "UTC"),
        (format!("0 {} * * *", "9".repeat(5_000_000)), "UTC"),
        (format!("0 0 30{} 2 *", ",30".repeat(1_000_000)), "UTC"),
        ("@daily".to_owned(), long.as_str()),
    ] {
        let error = Cron::parse(&expression, zone).expect_err("a fault");
        let message = error.to_string();
        assert!(message.len() < 100 && message.contains('…'), "{message}");
    }
}

#[test]
fn an_error_shows_nothing_that_a_terminal_would_obey() {
    for (text, shown) in [
        ("\u{1b}[2J", r"\u{1b}[2J"),
        ("a\0b\u{7}", r"a\0b\u{7}"),
        ("\u{9b}1m\u{7f}", r"\u{9b}1m\u{7f}"),
        ("\u{202e}5", r"\u{202e}5"),
        ("é'\"\\", "é'\"\\"),
    ] {
        let error = Cron::parse(&format!("0 {text} * * *"), "UTC").expect_err(shown);
        assert_eq!(error.to_string(), format!("hour: `{shown}` is not a value"));
        assert_eq!(error.found(), text);
    }
    let error = Cron::parse("0 0\r\n\t0", "UTC").expect_err("two fields are missing");
    assert_eq!(error.to_string(), r"`0 0\r\n\t0` has fewer than five fields");
    let error = Cron::parse("@daily", "\u{1b}c").expect_err("no zone");
    assert_eq!(error.to_string(), r"time zone: `\u{1b}c` is not known");
}

/// The rows of `docs/COMING_FROM.md` of tourbillond: other schedulers take these too, most of them
/// for other times.
#[test]
fn expressions_of_other_schedulers_mean_what_their_users_are_told() {
    let days = |expression: &str, count: usize| {
        let times = between(&cron(expression, "UTC"), "2025-12-31T23:59:59", "2026-03-01");
        let day = |time: &String| time[5..10].to_owned();
        times.iter().map(day).take(count).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(days("0 0 13 * 5", 4), "01-02 01-09 01-13 01-16");
    assert_eq!(days("0 0 */2 * 1", 3), "01-05 01-19 02-09");
    assert_eq!(days("0 0 1-31/2 * 1", 7), "01-01 01-03 01-05 01-07 01-09 01-11 01-12");
    assert_eq!(days("0 0 1-7 * */7", 2), "01-04 02-01");
    assert_eq!(days("0 0 1-7 * 0", 8), "01-01 01-02 01-03 01-04 01-05 01-06 01-07 01-11");
    assert_eq!(days("0 0 *,5 * 1", 2), "01-05 01-12");
    assert_eq!(days("0 0 1-31 * 1", 3), "01-01 01-02 01-03");
    assert_eq!(days("0 0 * * 1,*", 3), "01-01 01-02 01-03");
    assert_eq!(days("0 0 * * 5-7", 4), "01-02 01-03 01-04 01-09");
    assert_eq!(days("0 0 9 ? * 1", 2), "01-05 01-12");
    assert_eq!(days("0 0 * * FRI-SUN,MON", 5), "01-02 01-03 01-04 01-05 01-09");
    assert_eq!(days("0 0 9 ? * 5L", 2), "01-30 02-27");
    for expression in [
        "0 22-6 * * *",
        "0 0 * * fri-mon",
        "5/15 * * * *",
        "0 0 31 2 *",
        "0 0 9 ? * L",
        "0 0 last * *",
        "0 0 * * mon%2",
        "0 9 * * 1-5 Europe/Berlin",
        "CRON_TZ=Europe/Berlin 30 2 * * *",
        "@reboot",
    ] {
        assert!(Cron::parse(expression, "UTC").is_err(), "{expression}");
    }
}

#[test]
fn a_zone_has_to_be_named_and_known() {
    for zone in ["", "Mars/Olympus", "Europe", "local", "+02:00", "../../etc/passwd", "é", "a\0b"]
    {
        let error = Cron::parse("@daily", zone).expect_err(zone);
        assert_eq!(error.kind(), ParseErrorKind::UnknownZone, "{zone}");
        assert_eq!(error.field(), Some(Field::Zone));
        assert_eq!((error.found(), error.range()), (zone, 0..zone.len()));
    }
    // Copies of the database have these files, and browsers say the first if they do not know.
    for zone in ["Etc/Unknown", "etc/unknown", "Factory", "localtime", "posixrules", "LOCALTIME"] {
        let error = Cron::parse("@daily", zone).expect_err(zone);
        assert_eq!(error.to_string(), format!("time zone: `{zone}` is not known"));
    }
    assert_eq!(cron("@daily", "utc").zone(), "UTC");
}

#[test]
fn no_text_makes_the_parser_panic() {
    let parts =
        ["*", "?", "/", "-", ",", "#", "L", "W", "L-", "0", "7", "31", "é", "sun", " ", "@"];
    let mut state = 1_u64;
    for _ in 0..20_000 {
        let mut text = String::from("0 0");
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(parts[(state >> 60) as usize]);
            if state >> 57 & 3 == 0 {
                text.push(' ');
            }
        }
        match Cron::parse(&text, "UTC") {
            Ok(cron) => assert!(cron.next_after(SystemTime::UNIX_EPOCH).is_some(), "{text}"),
            Err(error) => assert!(text[error.range()].starts_with(error.found()), "{text}"),
        }
    }
}

#[cfg(feature = "bundled-zones")]
#[test]
fn zones_are_there_without_the_systems_database() {
    let zones = jiff::tz::TimeZoneDatabase::bundled();
    assert!(zones.get("Europe/Berlin").is_ok());
}
