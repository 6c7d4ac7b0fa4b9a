#!/usr/bin/env bash
# english-to-cron 0.1.7 (crates.io): words that it does not know are read over, and what is left is another
# schedule, without an error. "except sunday" is Sunday alone, "every weekday", "every other day" and "on the 31st"
# are each day, "every two hours" is each hour, and "first monday of the month" each Monday. With a word for the
# unit alone, "daily at 9" or "yearly on january 1", seconds are all that is fixed: the job runs each minute. Its
# README (https://docs.rs/crate/english-to-cron/0.1.7) has a list of patterns, speaks of specific days beyond it,
# and an unknown text alone is an error; "every weekend" and "from monday to friday" are right.
#
# Seen: "every day except sunday at 9am: 0 0 9 ? * SUN *", "every weekday at 9am: 0 0 9 */1 * ? *",
# "daily at 9: 0 * * * * ? *" and so on, as below.
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
cat >Cargo.toml <<'END'
[package]
name = "words"
version = "0.0.0"
edition = "2021"

[dependencies]
english-to-cron = "=0.1.7"
END
mkdir src
cat >src/main.rs <<'END'
fn main() {
    for text in [
        "every day at 9am",
        "every weekend at 9am",
        "from monday to friday at 9am",
        "every day except sunday at 9am",
        "every weekday at 9am",
        "every other day at 9am",
        "every month on the 31st at 9am",
        "first monday of the month at 9am",
        "every two hours",
        "daily at 9",
        "yearly on january 1",
        "quarter past nine",
    ] {
        match english_to_cron::str_cron_syntax(text) {
            Ok(cron) => println!("{text}: {cron}"),
            Err(_) => println!("{text}: refused"),
        }
    }
}
END
cargo run --quiet | tee seen
diff - seen <<'END'
every day at 9am: 0 0 9 */1 * ? *
every weekend at 9am: 0 0 9 ? * SAT,SUN *
from monday to friday at 9am: 0 0 9 ? * MON-FRI *
every day except sunday at 9am: 0 0 9 ? * SUN *
every weekday at 9am: 0 0 9 */1 * ? *
every other day at 9am: 0 0 9 */1 * ? *
every month on the 31st at 9am: 0 0 9 * * ? *
first monday of the month at 9am: 0 0 9 ? * MON *
every two hours: 0 0 * * * ? *
daily at 9: 0 * * * * ? *
yearly on january 1: 0 * * * JAN ? *
quarter past nine: refused
END
