//! The machine that the figures are from.

use std::process::Command;
use std::thread::available_parallelism;
use std::{env, fs};

pub(crate) fn describe() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of_first = |name: &str| {
        let mut fields = processors.lines().filter_map(|line| line.split_once(':'));
        let field = fields.find(|(field, _)| field.trim() == name);
        field.map_or("unknown", |(_, value)| value.trim())
    };
    let cache = fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size");
    // Hosts hide the name, and those with the same differ.
    let model = format!(
        "{} (family {}, model {}, stepping {}, {} bogomips, L3 {})",
        of_first("model name"),
        of_first("cpu family"),
        of_first("model"),
        of_first("stepping"),
        of_first("bogomips"),
        cache.as_deref().map_or("unknown", str::trim),
    );
    let cores = available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
        .arg("-V")
        .output()
        .map_or_else(|_| String::new(), |out| String::from_utf8_lossy(&out.stdout).into_owned());
    format!("{model}, {cores} cores; Linux {}; {}", kernel.trim(), rustc.trim())
}
