//! Signals that threads of a timer's leave to the program's.

use std::mem::MaybeUninit;
use std::{io, ptr};

/// Signals that no thread of a timer's blocks. An instruction that causes any of the first seven
/// while that is blocked ends the process without a word: without `std`'s of a stack that has
/// overflown, or a handler's that turns it into an error. The last two are a profiler's, which
/// counts the time of the thread that they come to.
#[cfg(not(all(test, tourbillon_model)))]
const OPEN: [libc::c_int; 9] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGPROF,
    libc::SIGVTALRM,
];

/// While it lives, the calling thread blocks all signals but these, and so does for life each
/// thread that it starts: a thread begins with its starter's mask.
#[cfg(not(all(test, tourbillon_model)))]
pub(super) struct Blocked {
    /// The mask before. `None` if it is unchanged.
    before: Option<libc::sigset_t>,
}

#[cfg(not(all(test, tourbillon_model)))]
impl Blocked {
    pub(super) fn begin() -> Self {
        // Miri knows no masks.
        if cfg!(miri) {
            return Self { before: None };
        }
        let mut set = MaybeUninit::uninit();
        // SAFETY: `set` is a valid place for a set, and the call fills it.
        unsafe { libc::sigfillset(set.as_mut_ptr()) };
        // SAFETY: as it was just filled.
        let mut set = unsafe { set.assume_init() };
        for signal in OPEN {
            // SAFETY: `set` is a set, and the other a plain number.
            unsafe { libc::sigdelset(&raw mut set, signal) };
        }
        let mut before = MaybeUninit::uninit();
        // SAFETY: `set` is a set, and `before` a valid place for another.
        let result =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, before.as_mut_ptr()) };
        // SAFETY: a call that succeeds has filled it.
        Self { before: (result == 0).then(|| unsafe { before.assume_init() }) }
    }
}

#[cfg(not(all(test, tourbillon_model)))]
impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: `before` is a set, and the old one is not asked for.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
        }
    }
}

/// Has the calling thread block no signals. May be called between `fork` and `exec`.
pub(crate) fn unblock_signals() -> io::Result<()> {
    let mut none = MaybeUninit::uninit();
    // SAFETY: `none` is a valid place for a set, and the call fills it.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: `none` is a set, filled just now, and the old one is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
