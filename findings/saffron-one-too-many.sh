#!/usr/bin/env bash
# saffron 0.1.0 (crates.io), the cron parser that by its documents (https://docs.rs/saffron/0.1.0/saffron/) powers
# Cron Triggers on Cloudflare Workers: a range that continues past the end of its field has the value before its
# first, too. `SAT-SUN` are Friday, Saturday and Sunday, `22-2` begins at 21:00, `25-5` on the 24th, and `NOV-FEB`
# in October. Written as two ranges, `22-23,0-2`, it has no such value. Its documents call it like Quartz, and to
# Quartz `NOV-FEB` is November to February (https://www.quartz-scheduler.org/api/2.3.0/org/quartz/CronExpression.html).
#
# Seen: "0 9 * * SAT-SUN: Fri 01-02 09:00, Sat 01-03 09:00, Sun 01-04 09:00, Fri 01-09 09:00", "0 22-2 * * *: Thu
# 01-01 21:00, Thu 01-01 22:00, Thu 01-01 23:00, Fri 01-02 00:00", "0 9 25-5 * *: ..., Sat 01-24 09:00, ...",
# "0 9 1 NOV-FEB *: Sun 02-01 09:00, Thu 10-01 09:00, Sun 11-01 09:00, Tue 12-01 09:00".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
cat >Cargo.toml <<'END'
[package]
name = "ranges"
version = "0.0.0"
edition = "2021"

[dependencies]
chrono = "=0.4.45"
saffron = "=0.1.0"
END
mkdir src
cat >src/main.rs <<'END'
use chrono::{TimeZone, Utc};

fn main() {
    let cases = [
        ("0 9 * * SAT-SUN", 1, 1),
        ("0 9 * * SAT,SUN", 1, 1),
        ("0 22-2 * * *", 1, 1),
        ("0 22-23,0-2 * * *", 1, 1),
        ("0 9 25-5 * *", 1, 4),
        ("0 9 1 NOV-FEB *", 1, 2),
    ];
    for (written, month, day) in cases {
        let cron: saffron::Cron = written.parse().unwrap();
        let start = Utc.with_ymd_and_hms(2026, month, day, 12, 0, 0).unwrap();
        let runs: Vec<_> = cron.iter_after(start).take(4).map(|run| run.format("%a %m-%d %H:%M").to_string()).collect();
        println!("{written}: {}", runs.join(", "));
    }
}
END
cargo run --quiet | tee seen
diff - seen <<'END'
0 9 * * SAT-SUN: Fri 01-02 09:00, Sat 01-03 09:00, Sun 01-04 09:00, Fri 01-09 09:00
0 9 * * SAT,SUN: Sat 01-03 09:00, Sun 01-04 09:00, Sat 01-10 09:00, Sun 01-11 09:00
0 22-2 * * *: Thu 01-01 21:00, Thu 01-01 22:00, Thu 01-01 23:00, Fri 01-02 00:00
0 22-23,0-2 * * *: Thu 01-01 22:00, Thu 01-01 23:00, Fri 01-02 00:00, Fri 01-02 01:00
0 9 25-5 * *: Mon 01-05 09:00, Sat 01-24 09:00, Sun 01-25 09:00, Mon 01-26 09:00
0 9 1 NOV-FEB *: Sun 02-01 09:00, Thu 10-01 09:00, Sun 11-01 09:00, Tue 12-01 09:00
END
