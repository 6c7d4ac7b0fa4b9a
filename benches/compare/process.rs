//! Facts that the system knows about this process.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The number behind `key:` in a `status` file.
fn field(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("the system does not tell {key}"))
}

/// Processor time of all threads that live.
pub(crate) fn processor_time() -> Duration {
    let nanos = tasks(|task| {
        let times = read(task.join("schedstat"));
        let time = times.split_whitespace().next().and_then(|time| time.parse::<u64>().ok());
        time.expect("the first number is the time on a processor")
    });
    Duration::from_nanos(nanos)
}

/// Counts how often threads other than this one have gone to sleep and so been woken.
pub(crate) fn wakeups_of_others() -> u64 {
    let own = fs::read_link("/proc/thread-self").expect("it is there");
    tasks(|task| {
        if task.file_name() == own.file_name() {
            return 0;
        }
        field(&read(task.join("status")), "voluntary_ctxt_switches")
    })
}

/// Memory that is resident, in bytes.
pub(crate) fn resident() -> u64 {
    field(&read("/proc/self/status"), "VmRSS") * 1024
}

/// Makes the allocator give back to the system what pages it does not use, if it can be asked to.
pub(crate) fn give_back_pages() {
    #[cfg(target_env = "gnu")]
    // SAFETY: any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Lets helper threads catch up.
pub(crate) fn settle() {
    thread::sleep(Duration::from_millis(200));
}

fn tasks(figure: impl Fn(&Path) -> u64) -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("this needs Linux");
    tasks.map(|task| figure(&task.expect("it can be listed").path())).sum()
}
