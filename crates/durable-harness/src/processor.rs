//! Processor time of processes, counted by the kernel.

use std::time::Duration;

use crate::Result;

/// The kernel's clock ticks a second.
const TICKS: u64 = 100;

/// Times of a process.
struct Times {
    parent: u32,
    own: Duration,
    /// Time of children that have ended.
    ended: Duration,
}

impl Times {
    /// Reads `/proc/PROCESS/stat`.
    fn of(process: &str) -> Result<Self> {
        let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        let after_name = text.rsplit_once(") ").ok_or("a process without a name")?.1;
        let fields: Vec<&str> = after_name.split(' ').collect();
        let field = |at: usize| -> Result<u64> {
            Ok(fields.get(at).ok_or("a process with too few fields")?.parse()?)
        };
        let span = |at: usize| -> Result<Duration> {
            Ok(Duration::from_millis((field(at)? + field(at + 1)?) * 1_000 / TICKS))
        };
        Ok(Self { parent: u32::try_from(field(1)?)?, own: span(11)?, ended: span(13)? })
    }
}

/// Returns the processor time that a process has used, without its children.
pub(crate) fn of(process: u32) -> Result<Duration> {
    Ok(Times::of(&process.to_string())?.own)
}

/// Returns the processor time of a process and its children, ended ones included.
pub(crate) fn family(process: u32) -> Result<Duration> {
    let first = Times::of(&process.to_string())?;
    let mut sum = first.own + first.ended;
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| name.parse::<u32>().is_ok()) else { continue };
        // One may have ended since the folder was read.
        let child = Times::of(name).ok().filter(|times| times.parent == process);
        sum += child.map_or(Duration::ZERO, |times| times.own);
    }
    Ok(sum)
}
