#!/usr/bin/env bash
# slint 1.18.1, `Timer` (of its crate i-slint-core 1.18.1): timers that are due in the same millisecond come
# in the reverse of the order in which they were started; in Node.js, GLib and Erlang in that order. And time
# is cut to whole milliseconds both as a timer is started and as it comes, so it comes up to one early: 1 ms
# that is started at 0.9 ms comes after 0.1 ms, though the callback is for "when the time has been reached or
# exceeded". The documents have no order. The clock here is a `Platform` that is moved by hand.
#
# Seen: "started: 0 1 2 3 4 5 6 7, come: 7 6 5 4 3 2 1 0", "1 ms, started at 0.9 ms: after 0.1 ms".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
cat >Cargo.toml <<'END'
[package]
name = "reverse"
version = "0.0.0"
edition = "2024"

[dependencies]
i-slint-core = { version = "=1.18.1", default-features = false, features = ["std"] }

[profile.dev]
debug = false
END
mkdir src
cat >src/main.rs <<'END'
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use i_slint_core::platform::{
    Platform, PlatformError, WindowAdapter, set_platform, update_timers_and_animations,
};
use i_slint_core::timers::Timer;

#[derive(Clone, Default)]
struct Clock(Rc<Cell<Duration>>);

impl Platform for Clock {
    fn create_window_adapter(&self) -> Result<Rc<dyn WindowAdapter>, PlatformError> {
        Err(PlatformError::NoPlatform)
    }

    fn duration_since_start(&self) -> Duration {
        self.0.get()
    }
}

fn main() {
    let clock = Clock::default();
    set_platform(Box::new(clock.clone())).unwrap();
    let come = Rc::new(RefCell::new(String::new()));
    for name in 0..8 {
        let come = Rc::clone(&come);
        let note = move || come.borrow_mut().push_str(&format!(" {name}"));
        Timer::single_shot(Duration::from_millis(10), note);
    }
    clock.0.set(Duration::from_millis(10));
    update_timers_and_animations();
    println!("started: 0 1 2 3 4 5 6 7, come:{}", come.borrow());

    let start = Duration::from_micros(20_900);
    clock.0.set(start);
    let fired = Rc::new(Cell::new(false));
    let fire = Rc::clone(&fired);
    Timer::single_shot(Duration::from_millis(1), move || fire.set(true));
    while !fired.get() {
        clock.0.set(clock.0.get() + Duration::from_micros(1));
        update_timers_and_animations();
    }
    let waited = clock.0.get() - start;
    println!("1 ms, started at 0.9 ms: after {} ms", waited.as_secs_f64() * 1e3);
    let reverse = *come.borrow() == " 7 6 5 4 3 2 1 0";
    std::process::exit(i32::from(!reverse || waited != Duration::from_micros(100)));
}
END
cargo run --quiet
