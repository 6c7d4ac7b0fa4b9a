//! A wait of Linux's for a word, by the span that is left rather than until an instant, as `std`
//! waits. Where libfaketime moves the clock, an instant of it is none of the kernel's, and such a
//! wait may never end.
//!
//! On 64-bit systems alone: on 32-bit ones, whether the call takes times of 32 or of 64 bits
//! depends on the system, and on how the C library was built.

use std::ptr::{from_ref, null};
use std::time::Duration;

use super::word;
use crate::sync::AtomicU32;

/// A token that a thread leaves and another takes.
pub(super) type Token = word::Token<Futex>;

/// The kernel's wait for a word, futex(2).
#[derive(Debug, Default)]
pub(super) struct Futex;

impl word::Wait for Futex {
    /// A signal ends it early. The driver then looks at its clock again, and waits for the rest.
    fn wait(&self, word: &AtomicU32, expected: u32, limit: Option<Duration>) {
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(null(), from_ref);
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the call takes the address of a word, which lives at least as long, an operation,
        // a number, and a valid timespec or null.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, limit) };
    }

    fn wake(&self, word: &AtomicU32) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        const THREADS: libc::c_int = 1;
        // SAFETY: the call takes the address of a word, which lives at least as long, an operation
        // and a number.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, THREADS) };
    }
}
