#!/usr/bin/env bash
# hierarchical_hash_wheel_timer 1.4.0, `thread_timer`: while another timer is pending, a timer of whole
# milliseconds fires up to one millisecond before its delay has passed. Alone it never does: the wheel
# stands still then, and is set to the present as the first timer comes. With another pending it stays
# at its last tick, and the delay counts from there.
#
# Seen: "alone: 0 of 60 early", "beside another: 55 of 60 early, by up to 982 us" (35 to 56 of 60).
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
cat >Cargo.toml <<'END'
[package]
name = "early"
version = "0.0.0"
edition = "2021"

[dependencies]
hierarchical_hash_wheel_timer = "=1.4.0"
uuid = { version = "=1.18.1", features = ["v4"] }
END
mkdir src
cat >src/main.rs <<'END'
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use hierarchical_hash_wheel_timer::ClosureTimer;
use hierarchical_hash_wheel_timer::thread_timer::TimerWithThread;
use uuid::Uuid;

fn main() {
    let timer = TimerWithThread::for_uuid_closures();
    let early = |name: &str| {
        let (mut early, mut most) = (0, Duration::ZERO);
        for n in 0..60 {
            std::thread::sleep(Duration::from_micros(100 + 17 * n));
            let delay = Duration::from_millis(1 + n % 20);
            let (say, heard) = channel();
            let start = Instant::now();
            let fired = move |_| say.send(start.elapsed()).unwrap();
            timer.timer_ref().schedule_action_once(Uuid::new_v4(), delay, fired);
            let missing = delay.saturating_sub(heard.recv().unwrap());
            early += u32::from(missing > Duration::ZERO);
            most = most.max(missing);
        }
        println!("{name}: {early} of 60 early, by up to {} us", most.as_micros());
        early
    };
    let alone = early("alone");
    let minute = Duration::from_secs(60);
    timer.timer_ref().schedule_action_once(Uuid::new_v4(), minute, |_| ());
    let beside = early("beside another");
    std::process::exit(i32::from(alone > 0 || beside == 0));
}
END
cargo run --quiet --release
