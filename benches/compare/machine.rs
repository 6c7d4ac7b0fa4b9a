//! The machine that the figures are from.

use std::process::Command;
use std::thread::available_parallelism;
use std::{env, fs};

pub(crate) fn describe() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, model)| model);
    let cores = available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
        .arg("-V")
        .output()
        .map_or_else(|_| String::new(), |out| String::from_utf8_lossy(&out.stdout).into_owned());
    format!("{model}, {cores} cores; Linux {}; {}", kernel.trim(), rustc.trim())
}
