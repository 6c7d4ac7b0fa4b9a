#!/usr/bin/env bash
# may 0.3.51, `coroutine::sleep`, in a release build: a time of more than 584 years is cut to the low 64 bits
# of its nanoseconds, and the end may come round to the past. A sleep of `Duration::MAX`, as one writes
# "for ever", ends at once, one of 18,446,744,074 s within 0.3 s. Those of std and tokio do not end. Its
# documents say that a sleep lasts until its timeout.
#
# Seen: "600s: sleeps, 18446744073s: ends, 18446744074s: ends, 18446744073709551615.999999999s: ends".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
cat >Cargo.toml <<'END'
[package]
name = "far"
version = "0.0.0"
edition = "2021"

[dependencies]
may = "=0.3.51"
END
mkdir src
cat >src/main.rs <<'END'
use std::sync::mpsc::channel;
use std::time::Duration;

use may::{coroutine, go};

fn main() {
    let far = [600, 18_446_744_073, 18_446_744_074].map(Duration::from_secs);
    let ends = far.into_iter().chain([Duration::MAX]).map(|time| {
        let (say, heard) = channel();
        go!(move || {
            coroutine::sleep(time);
            let _ = say.send(());
        });
        let ends = heard.recv_timeout(Duration::from_secs(10)).is_ok();
        println!("{time:?}: {}", if ends { "ends" } else { "sleeps" });
        ends
    });
    let ends: Vec<bool> = ends.collect();
    std::process::exit(i32::from(ends != [false, true, true, true]));
}
END
cargo run --quiet --release
