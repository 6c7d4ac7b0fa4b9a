//! A library that a program loads and unloads again. It leaves no thread behind: it ends its driver
//! before. `ci/hostile.sh`, in the repository, loads it a thousand times, built by
//! `cargo rustc --example plugin --crate-type cdylib`.

use std::time::{Duration, SystemTime};

use tourbillon::{Timer, wall};

/// Sleeps, and makes the library's two threads start for that.
#[unsafe(no_mangle)]
extern "C" fn plugin_work() {
    pollster::block_on(tourbillon::sleep(Duration::from_millis(1)));
    pollster::block_on(wall::sleep_until_wall(SystemTime::now() + Duration::from_millis(1)));
}

/// Returns whether it may be unloaded.
#[unsafe(no_mangle)]
extern "C" fn plugin_end() -> bool {
    Timer::global().end_driver().is_ok()
}
