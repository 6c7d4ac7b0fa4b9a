//! How many processors there are.

/// Returns how many processors the calling thread may run on, or how many there are if that cannot
/// be asked for.
///
/// Unlike `std`'s count, it does not heed how much of their time a control group of Linux has. That
/// is in files: to read them takes longer than to make an engine, and the code is a tenth of all
/// that a first `sleep` adds to a program. A quota bounds the time of all processors together. Its
/// threads still run on all of them.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
pub(crate) fn processors() -> usize {
    // SAFETY: a set of bits; without any it is empty.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a place for a set of that size. 0 is the calling thread.
    let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0;
    if failed {
        return unmasked(std::io::Error::last_os_error().raw_os_error());
    }
    // One by one: the code of `CPU_COUNT` is some hundred bytes larger.
    // SAFETY: the call has written it, and `cpu` is within.
    let is_in = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..size_of_val(&set) * 8).filter(is_in).count().max(1)
}

/// Returns how many processors there are where the thread's set cannot be read, by that error.
#[cold]
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
fn unmasked(error: Option<i32>) -> usize {
    if error == Some(libc::EINVAL) {
        // There are more than such a set has bits. musl's `CPU_SETSIZE` is its bytes.
        return size_of::<libc::cpu_set_t>() * 8;
    }
    // A sandbox refuses the call. `std` counts so too then.
    // SAFETY: it takes a number, and has no requirements.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(1).max(1)
}

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(all(test, target_os = "linux", not(miri), not(tourbillon_model)))]
mod tests {
    use std::collections::BTreeSet;

    /// The processors of a list of the kernel's, such as `0-3,8`.
    fn listed(list: &str) -> BTreeSet<usize> {
        let number = |text: &str| text.parse::<usize>().expect("it is a number");
        let range = |text: &str| match text.split_once('-') {
            Some((first, last)) => number(first)..=number(last),
            None => number(text)..=number(text),
        };
        list.trim().split(',').filter(|text| !text.is_empty()).flat_map(range).collect()
    }

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(listed("\n"), BTreeSet::new());
        assert_eq!(listed("0-2,5,7-8\n"), BTreeSet::from([0, 1, 2, 5, 7, 8]));
    }

    /// Oracles: `std`, which counts as many, or fewer where a quota is smaller; and the kernel's
    /// two lists. An allowed processor may be offline.
    #[test]
    fn all_processors_that_a_thread_may_run_on_are_counted() {
        let by_std = std::thread::available_parallelism().map_or(1, usize::from);
        assert!(super::processors() >= by_std);
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("it is there");
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online");
        let online = listed(&online.expect("it is there"));
        let usable = &listed(allowed.expect("it has the row")) & &online;
        assert_eq!(super::processors(), usable.len());
    }

    /// Oracle: the kernel's list of the processors that are online.
    #[test]
    fn a_refused_call_is_not_taken_for_a_thousand_processors() {
        let stat = std::fs::read_to_string("/proc/stat").expect("it is there");
        let is_one = |line: &&str| {
            line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_numeric()))
        };
        let online = stat.lines().filter(is_one).count();
        for error in [libc::EPERM, libc::ENOSYS] {
            assert!((1..=online).contains(&super::unmasked(Some(error))), "error {error}");
        }
        assert_eq!(super::unmasked(Some(libc::EINVAL)), 1024);
    }
}
