#!/usr/bin/env bash
# cron 0.17.0 (crates.io), `Schedule` in the hour that clocks repeat: its times go to and fro, 02:00, 02:00 an
# hour later, and then 02:20 of the hour before. Who asks for one time after the other (`after(last)`) gets none of
# the second hour, so a job of each 20 minutes pauses for 80. And who asks from the present (`upcoming`) within
# the second hour gets a time of the first, that has passed: it is due at once, and again, for as long as the hour
# lasts. Its documents (https://docs.rs/cron/0.17.0/cron/struct.Schedule.html) say that the times are those that
# match from the current one on, and name no exception. croner, cronexpr and cron-parser keep to the order of time.
#
# Seen, in Berlin: "iterator: 02:00+0200 02:00+0100 02:20+0200 02:20+0100 02:40+0200 02:40+0100",
# "one after the other: 02:00+0200 02:20+0200 02:40+0200 03:00+0100", "after 02:10+0100: 02:20+0200".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
cat >Cargo.toml <<'END'
[package]
name = "times"
version = "0.0.0"
edition = "2021"

[dependencies]
chrono = "=0.4.45"
chrono-tz = "=0.10.4"
cron = "=0.17.0"
END
mkdir src
cat >src/main.rs <<'END'
use chrono::{DateTime, TimeZone, Utc};
use chrono_tz::{Europe::Berlin, Tz};
use cron::Schedule;

fn shown(times: &[DateTime<Tz>]) -> String {
    times.iter().map(|time| time.format("%H:%M%z").to_string()).collect::<Vec<_>>().join(" ")
}

fn main() {
    let schedule: Schedule = "0 */20 * * * *".parse().unwrap();
    let night = |hour, minute| Utc.with_ymd_and_hms(2026, 10, 25, hour, minute, 0).unwrap().with_timezone(&Berlin);
    let before = Utc.with_ymd_and_hms(2026, 10, 24, 23, 50, 0).unwrap().with_timezone(&Berlin);
    println!("iterator: {}", shown(&schedule.after(&before).take(6).collect::<Vec<_>>()));
    let next = |last: &DateTime<Tz>| schedule.after(last).next();
    let chain: Vec<_> = std::iter::successors(next(&before), next).take(4).collect();
    println!("one after the other: {}", shown(&chain));
    for now in [night(0, 10), night(1, 10)] {
        println!("after {}: {}", now.format("%H:%M%z"), shown(&[next(&now).unwrap()]));
    }
}
END
cargo run --quiet | tee seen
diff - seen <<'END'
iterator: 02:00+0200 02:00+0100 02:20+0200 02:20+0100 02:40+0200 02:40+0100
one after the other: 02:00+0200 02:20+0200 02:40+0200 03:00+0100
after 02:10+0200: 02:20+0200
after 02:10+0100: 02:20+0200
END
