//! The process's file descriptors, and their division.
//!
//! Clients must not leave callbacks and the database without any. So each has a share of its own:
//! clients as many as callbacks, and a reserve is for the database, the log and the resolver.

use std::io;
use std::sync::{Arc, LazyLock};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Descriptors that belong neither to clients nor to callbacks.
const RESERVE: usize = 64;

/// Least that a share has, however low the limit is.
const LEAST: usize = 8;

/// Limit that stands for none.
const MANY: u64 = 1 << 20;

/// Descriptors of callbacks that are not in use.
static CALLBACKS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(share())));

/// Raises the limit on open descriptors as far as the process may. Returns the new limit.
///
/// A limit that cannot be raised stays.
pub fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // A system that refuses an unlimited number may take a large one.
        let most = maximum.or(Some(MANY));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum });
    }
    limit()
}

fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(MANY).min(MANY);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Returns how many connections of clients there may be, and how many of callbacks.
pub fn share() -> usize {
    (limit().saturating_sub(RESERVE) / 2).max(LEAST)
}

/// Takes a descriptor of the share of callbacks; `None` if all are in use.
pub(crate) fn for_callback() -> Option<OwnedSemaphorePermit> {
    Arc::clone(&CALLBACKS).try_acquire_owned().ok()
}

/// Returns whether less than half of the share of callbacks is left.
pub(crate) fn are_scarce() -> bool {
    CALLBACKS.available_permits() < share() / 2
}

/// Returns whether no descriptor is available at this moment.
pub(crate) fn are_used_up() -> bool {
    std::fs::File::open("/dev/null").is_err_and(|error| is_shortage(&error))
}

/// Returns whether an error says that this host is short of something: of descriptors, memory, or
/// ports.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|error| short.contains(&error))
}
