//! The program, part by part.

mod files;
mod jobs;
mod run;
mod writer;

use std::path::PathBuf;
use std::time::SystemTime;
use std::{env, fs};

use jiff::Timestamp;
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

/// A timer on a virtual clock, and the clock.
fn virtual_timer() -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    (timer, clock)
}

/// A time in UTC, as `2026-03-29T01:00:30`, `2026-03-29T01:00` or `2026-03-29`.
fn utc(text: &str) -> SystemTime {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00"));
    let seconds = if time.len() == 5 { ":00" } else { "" };
    let time: Timestamp = format!("{date}T{time}{seconds}Z").parse().expect("a time");
    time.into()
}

/// An empty directory of this name, beside the program that is tested.
fn directory(name: &str) -> PathBuf {
    let program = env::current_exe().expect("it has a path");
    let path = program.with_file_name("crontab-tests").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory can be made");
    path
}
