//! Days on which clocks are changed.

use tourbillon_cron::Schedule as _;

use super::{between, cron, utc};

/// Each case: expression, and the occurrences on the day, in UTC.
#[track_caller]
fn on_the_day(zone: &str, from: &str, to: &str, cases: &[(&str, &[&str])]) {
    for (expression, expected) in cases {
        let found = between(&cron(expression, zone), from, to);
        let times: Vec<_> = found.iter().map(|at| at.split_once('T').unwrap().1).collect();
        assert_eq!(&times, expected, "{expression} in {zone}");
    }
}

#[test]
fn new_york_goes_from_2_to_3() {
    // At 7:00 UTC. The window is the local day.
    on_the_day(
        "America/New_York",
        "2025-03-09T04:59",
        "2025-03-10T04:00",
        &[
            ("30 1 * * *", &["06:30"]),
            ("0 2 * * *", &["07:00"]),
            ("30 2 * * *", &["07:00"]),
            ("59 59 2 * * *", &["07:00"]),
            ("0,30 2 * * *", &["07:00"]),
            ("0-59 2 * * SUN", &["07:00"]),
            ("0 2,3 * * *", &["07:00"]),
            ("0 3 * * *", &["07:00"]),
            ("30 2,3 * * *", &["07:00", "07:30"]),
            ("30 2 10 * *", &[]),
            ("*/30 2 * * *", &[]),
            (
                "30 */2 * * *",
                &[
                    "05:30", "08:30", "10:30", "12:30", "14:30", "16:30", "18:30", "20:30",
                    "22:30", "00:30", "02:30",
                ],
            ),
            ("*/20 1-3 * * *", &["06:00", "06:20", "06:40", "07:00", "07:20", "07:40"]),
        ],
    );
}

#[test]
fn new_york_goes_from_2_back_to_1() {
    // At 6:00 UTC.
    on_the_day(
        "America/New_York",
        "2025-11-02T03:59",
        "2025-11-03T05:00",
        &[
            ("0 1 * * *", &["05:00"]),
            ("30 1 * * *", &["05:30"]),
            ("0,30 1 * * *", &["05:00", "05:30"]),
            ("0 1,13 * * *", &["05:00", "18:00"]),
            ("0 2 * * *", &["07:00"]),
            ("*/30 1 * * *", &["05:00", "05:30", "06:00", "06:30"]),
            ("*/40 30 1 * * *", &["05:30", "05:30:40", "06:30", "06:30:40"]),
            ("0,40 30 1 * * *", &["05:30", "05:30:40"]),
            (
                "59 * * * *",
                &[
                    "04:59", "05:59", "06:59", "07:59", "08:59", "09:59", "10:59", "11:59",
                    "12:59", "13:59", "14:59", "15:59", "16:59", "17:59", "18:59", "19:59",
                    "20:59", "21:59", "22:59", "23:59", "00:59", "01:59", "02:59", "03:59",
                    "04:59",
                ],
            ),
        ],
    );
}

#[test]
fn lord_howe_changes_by_half_an_hour() {
    // From 2:00 to 2:30, at 15:30 UTC of the day before.
    on_the_day(
        "Australia/Lord_Howe",
        "2025-10-04T13:29",
        "2025-10-05T13:00",
        &[
            ("15 2 * * *", &["15:30"]),
            ("0,15,30 2 * * *", &["15:30"]),
            ("45 2 * * *", &["15:45"]),
            ("*/15 2 * * *", &["15:30", "15:45"]),
        ],
    );
    // From 2:00 back to 1:30, at 15:00 UTC.
    on_the_day(
        "Australia/Lord_Howe",
        "2025-04-05T12:59",
        "2025-04-06T13:30",
        &[
            ("45 1 * * *", &["14:45"]),
            ("0,30 1 * * *", &["14:00", "14:30"]),
            ("*/15 1 * * *", &["14:00", "14:15", "14:30", "14:45", "15:00", "15:15"]),
        ],
    );
}

#[test]
fn troll_changes_by_two_hours() {
    // From 1:00 to 3:00, at 1:00 UTC.
    on_the_day(
        "Antarctica/Troll",
        "2025-03-29T23:59",
        "2025-03-30T22:00",
        &[
            ("0 1 * * *", &["01:00"]),
            ("30 1,2 * * *", &["01:00"]),
            ("59 2 * * *", &["01:00"]),
            ("*/30 1-2 * * *", &[]),
        ],
    );
    // From 3:00 back to 1:00, at 1:00 UTC.
    on_the_day(
        "Antarctica/Troll",
        "2025-10-25T21:59",
        "2025-10-27T00:00",
        &[
            ("30 1,2 * * *", &["23:30", "00:30"]),
            ("*/30 1 * * *", &["23:00", "23:30", "01:00", "01:30"]),
            ("*/30 2 * * *", &["00:00", "00:30", "02:00", "02:30"]),
        ],
    );
}

#[test]
fn cairo_has_no_midnight_and_two() {
    // From 0:00 to 1:00 on Friday 25 April, at 22:00 UTC.
    on_the_day(
        "Africa/Cairo",
        "2025-04-24T21:00",
        "2025-04-25T21:00",
        &[
            ("@daily", &["22:00"]),
            ("30 0 25 4 *", &["22:00"]),
            ("30 0 * * FRI", &["22:00"]),
            ("59 23 * * *", &["21:59", "20:59"]),
            ("*/30 0 * * *", &[]),
        ],
    );
    // From 24:00 on Thursday 30 October back to 23:00, at 21:00 UTC.
    on_the_day(
        "Africa/Cairo",
        "2025-10-30T19:59",
        "2025-10-31T21:59",
        &[
            ("@daily", &["22:00"]),
            ("30 23 * * *", &["20:30", "21:30"]),
            ("30 23 * * THU", &["20:30"]),
            ("*/30 23 * * THU", &["20:00", "20:30", "21:00", "21:30"]),
        ],
    );
}

#[test]
fn nuuk_skips_the_last_hour_of_a_saturday() {
    // From 23:00 to 0:00 of the next day, at 1:00 UTC. The run belongs to the day that is over.
    on_the_day(
        "America/Nuuk",
        "2024-03-31T00:00",
        "2024-03-31T10:00",
        &[
            ("30 23 * * SAT", &["01:00"]),
            ("30 23 30 3 *", &["01:00"]),
            ("30 23 * * SUN", &[]),
            ("0 0 * * SUN", &["01:00"]),
        ],
    );
}

#[test]
fn apia_had_no_30_december() {
    // From the end of the 29th to the 31st, at 10:00 UTC: a day is no daylight saving.
    let noons = cron("0 12 * * *", "Pacific/Apia");
    assert_eq!(
        between(&noons, "2011-12-29T00:00", "2012-01-01T00:00"),
        ["2011-12-29T22:00", "2011-12-30T22:00", "2011-12-31T22:00"]
    );
    let skipped = cron("0 12 30 12 *", "Pacific/Apia");
    assert_eq!(
        between(&skipped, "2010-01-01", "2014-01-01"),
        ["2010-12-30T22:00", "2012-12-29T22:00", "2013-12-29T22:00"]
    );
    let seconds = cron("* * * 30 12 *", "Pacific/Apia");
    assert_eq!(
        between(&seconds, "2011-06-01", "2012-12-29T10:00:02"),
        ["2012-12-29T10:00", "2012-12-29T10:00:01"]
    );
    let hours = cron("@hourly", "Pacific/Apia");
    assert_eq!(between(&hours, "2011-12-29T00:00", "2011-12-31T00:00").len(), 47);
}

#[test]
fn a_leap_day_comes_every_fourth_year_but_for_centuries() {
    assert_eq!(
        between(&cron("0 12 29 2 *", "Europe/London"), "2090-01-01", "2109-01-01"),
        ["2092-02-29T12:00", "2096-02-29T12:00", "2104-02-29T12:00", "2108-02-29T12:00"]
    );
}

/// Every occurrence is where its time on the wall is, so nothing moves while the rules stay.
#[test]
fn an_occurrence_is_found_again_by_its_offset() {
    for (zone, from) in [
        ("America/New_York", "2025-03-08T00:00"),
        ("America/New_York", "2025-11-01T00:00"),
        ("Australia/Lord_Howe", "2025-10-04T00:00"),
        ("Australia/Lord_Howe", "2025-04-05T00:00"),
        ("Pacific/Apia", "2011-12-28T00:00"),
        ("America/Nuuk", "2024-03-30T00:00"),
        ("Europe/Dublin", "2025-10-25T00:00"),
    ] {
        for expression in ["*/15 * * * *", "0,30 0-4 * * *", "15 2 * * *", "0 3 * * *", "5 1 * * *"]
        {
            let cron = cron(expression, zone);
            for at in cron.occurrences(utc(from)).take(150) {
                let offset_s = cron.wall_offset_s(at).unwrap();
                assert_eq!(cron.same_wall(at, offset_s), Some(at), "{expression} in {zone}");
            }
        }
    }
}

#[test]
fn a_time_on_the_wall_that_other_rules_made_is_found() {
    let berlin = cron("30 2 * * *", "Europe/Berlin");
    for (made, offset_s, found) in [
        // Two o'clock, before the data had summer time.
        ("2026-06-01T01:30", 3600, "2026-06-01T00:30"),
        // It is skipped: the change.
        ("2026-03-29T01:30", 3600, "2026-03-29T01:00"),
        ("2026-03-29T00:30", 7200, "2026-03-29T01:00"),
        // It comes twice: as it was, and else the first.
        ("2026-10-25T00:30", 7200, "2026-10-25T00:30"),
        ("2026-10-25T01:30", 3600, "2026-10-25T01:30"),
        ("2026-10-25T02:30", 0, "2026-10-25T00:30"),
    ] {
        assert_eq!(berlin.same_wall(utc(made), offset_s), Some(utc(found)), "{made} {offset_s}");
    }
    let period = cron("@every 90s", "Europe/Berlin");
    assert_eq!(period.wall_offset_s(utc("2026-06-01T00:00")), None);
}
