//! Metrics of the process, by the names that Prometheus's own clients give them.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo as _};

const CPU: &str = "process_cpu_seconds_total";
const RESIDENT: &str = "process_resident_memory_bytes";
const VIRTUAL: &str = "process_virtual_memory_bytes";
const START: &str = "process_start_time_seconds";
const OPEN: &str = "process_open_fds";
const MOST: &str = "process_max_fds";
const THREADS: &str = "process_threads";

pub(super) fn describe() {
    describe_counter!(CPU, Unit::Seconds, "Processor time used, by the user and the system.");
    describe_gauge!(RESIDENT, Unit::Bytes, "Resident memory.");
    describe_gauge!(VIRTUAL, Unit::Bytes, "Virtual memory.");
    describe_gauge!(START, Unit::Seconds, "Start of the process since the Unix epoch.");
    describe_gauge!(OPEN, Unit::Count, "Open file descriptors.");
    describe_gauge!(MOST, Unit::Count, "Soft limit of open file descriptors.");
    describe_gauge!(THREADS, Unit::Count, "Threads of the process.");
}

/// Reads the metrics from the system.
///
/// # Errors
///
/// If `/proc` is not there. Values that were not read keep their state.
pub(super) fn read() -> ProcResult<()> {
    let own = Process::myself()?;
    let stat = own.stat()?;
    let ticks = procfs::ticks_per_second();
    // Whole seconds: counters are integers.
    counter!(CPU).absolute((stat.utime + stat.stime) / ticks);
    gauge!(RESIDENT).set(stat.rss_bytes().get() as f64);
    gauge!(VIRTUAL).set(stat.vsize as f64);
    gauge!(THREADS).set(stat.num_threads as f64);
    let start = procfs::boot_time_secs()? as f64 + stat.starttime as f64 / ticks as f64;
    gauge!(START).set(start);
    gauge!(OPEN).set(own.fd_count()? as f64);
    gauge!(MOST).set(match own.limits()?.max_open_files.soft_limit {
        LimitValue::Value(limit) => limit as f64,
        LimitValue::Unlimited => f64::INFINITY,
    });
    Ok(())
}
