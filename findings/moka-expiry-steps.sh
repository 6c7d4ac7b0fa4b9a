#!/usr/bin/env bash
# moka 0.12.16: an entry with an expiry of its own (`Expiry`) is taken out, and its listener called, up to
# 1.07 s after its time, though `run_pending_tasks` is called each 5 ms. The wheel for these entries looks
# into a slot of 2^30 ns only as that ends. An entry of a cache with `time_to_live` leaves at the first
# call. A read finds neither from its time on. The documents name the wheel, and not its step.
#
# Seen: "expiry of its own: up to 1023 ms late; time to live: up to 10 ms" (1023 and 1052; 10 and 7).
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
cat >Cargo.toml <<'END'
[package]
name = "steps"
version = "0.0.0"
edition = "2021"

[dependencies]
moka = { version = "=0.12.16", features = ["sync"] }
END
mkdir src
cat >src/main.rs <<'END'
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use moka::sync::Cache;
use moka::Expiry;

const AGE: Duration = Duration::from_millis(100);

struct Same;

impl Expiry<u32, Instant> for Same {
    fn expire_after_create(&self, _: &u32, _: &Instant, _: Instant) -> Option<Duration> {
        Some(AGE)
    }
}

/// How late the latest of forty entries leaves, one each 50 ms.
fn latest(own_expiry: bool) -> Duration {
    let (say, heard) = channel();
    let left = move |_, made: Instant, _| say.send(made.elapsed().saturating_sub(AGE)).unwrap();
    let cache = Cache::builder().eviction_listener(left);
    let cache =
        if own_expiry { cache.expire_after(Same) } else { cache.time_to_live(AGE) }.build();
    for n in 0..40 {
        cache.insert(n, Instant::now());
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(5));
            cache.run_pending_tasks();
        }
    }
    let mut late = Vec::new();
    while late.len() < 40 {
        std::thread::sleep(Duration::from_millis(5));
        cache.run_pending_tasks();
        late.extend(heard.try_iter());
    }
    late.into_iter().max().unwrap()
}

fn main() {
    let (own, live) = (latest(true).as_millis(), latest(false).as_millis());
    println!("expiry of its own: up to {own} ms late; time to live: up to {live} ms");
    std::process::exit(i32::from(own < 800 || live > 400));
}
END
cargo run --quiet --release
