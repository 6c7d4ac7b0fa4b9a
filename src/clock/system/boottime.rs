//! A clock of the C library's that counts suspend.

use crate::clock::TimeLine;
use crate::clock::pair::Pair;
use crate::tick::Tick;
use crate::time::Instant;

/// The system's clock that counts suspend.
///
/// Its instants are its own: the instant of its making, plus the time that it has counted since.
#[derive(Clone)]
pub(crate) struct Boottime {
    pub(in crate::clock) line: TimeLine,
    /// Number to add to its reading, wrapping, for a tick.
    offset: u64,
}

impl Boottime {
    #[cfg(not(target_vendor = "apple"))]
    const ID: libc::clockid_t = libc::CLOCK_BOOTTIME;
    /// Counts suspend, unlike `CLOCK_UPTIME_RAW`, and is not slewed, unlike `CLOCK_MONOTONIC`
    /// (clock_gettime(3)).
    #[cfg(target_vendor = "apple")]
    const ID: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;

    pub(in crate::clock) fn new() -> Option<Self> {
        let Pair { between: base, after, .. } = Pair::read(|| read(Self::ID), Instant::now);
        // The reading after the base, so that the clock seems earlier than it is beside instants,
        // and never later. It does so for as long as it lives.
        let offset = Tick::ORIGIN.raw().wrapping_sub(after);
        Some(Self { line: TimeLine::starting_at(base), offset })
    }

    pub(in crate::clock) fn now(&self) -> Tick {
        Tick::from_raw(read(Self::ID).wrapping_add(self.offset)).min(Tick::LAST)
    }
}

/// The clock's reading in nanoseconds.
#[inline]
pub(super) fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for one timespec, and the call asks for no more. It cannot
    // fail with a clock that every supported kernel has; if it did, `time` stays zero, and the
    // clock never shows a time after its origin.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    nanos(&time)
}

#[inline]
pub(super) fn nanos(time: &libc::timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
