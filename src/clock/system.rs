//! The system's clocks: the monotonic one, and one that counts suspend.

use std::time::Instant;

use crate::clock::TimeLine;
use crate::tick::Tick;

/// The system's monotonic clock.
#[derive(Clone)]
pub(crate) struct Monotonic {
    pub(super) line: TimeLine,
    #[cfg(target_os = "linux")]
    coarse: coarse::Coarse,
}

impl Monotonic {
    pub(super) fn new() -> Self {
        let base = Instant::now();
        Self {
            // Read after the base, so that coarse time seems earlier than it is and never later;
            // and right after it, as it seems earlier by what lies between for as long as it lives.
            #[cfg(target_os = "linux")]
            coarse: coarse::Coarse::starting_now(),
            line: TimeLine::starting_at(base),
        }
    }

    pub(super) fn now(&self) -> Tick {
        self.line.tick(Instant::now()).min(Tick::LAST)
    }

    #[inline]
    pub(super) fn has_passed(&self, deadline: Tick) -> bool {
        #[cfg(target_os = "linux")]
        match self.coarse.has_passed(deadline) {
            Some(answer) => answer,
            None => self.has_passed_exactly(deadline),
        }
        #[cfg(not(target_os = "linux"))]
        self.has_passed_exactly(deadline)
    }

    #[cfg_attr(target_os = "linux", cold)]
    fn has_passed_exactly(&self, deadline: Tick) -> bool {
        self.now() >= deadline
    }
}

#[cfg(target_os = "linux")]
mod coarse {
    //! `CLOCK_MONOTONIC_COARSE`: the monotonic clock as of the kernel's last tick, 1 to 10 ms ago.

    use super::read;
    use crate::tick::Tick;

    /// More than the coarse clock lags while the kernel's timekeeping runs, in nanoseconds: five of
    /// its longest steps.
    const LAG: u64 = 50_000_000;

    #[derive(Clone)]
    pub(super) struct Coarse {
        /// What to add to a reading, wrapping, to have a tick. From the exact clock's reading at
        /// [`Tick::ORIGIN`], or a little later.
        offset: u64,
    }

    impl Coarse {
        pub(super) fn starting_now() -> Self {
            Self { offset: Tick::ORIGIN.raw().wrapping_sub(read(libc::CLOCK_MONOTONIC)) }
        }

        /// `None` if the coarse clock cannot tell. Exact also before the origin, where the clock is
        /// at first, as it lags, and may be once it has stepped back.
        #[inline]
        pub(super) fn has_passed(&self, deadline: Tick) -> Option<bool> {
            let now = read(libc::CLOCK_MONOTONIC_COARSE).wrapping_add(self.offset);
            if deadline.raw() > now.wrapping_add(LAG) {
                return Some(false);
            }
            (deadline.raw() <= now).then_some(true)
        }
    }
}

/// The clock's reading in nanoseconds.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for one timespec, which is all the call asks for. It cannot
    // fail with a clock that every supported kernel has; if it did, `time` stays zero, and the
    // clock never shows a time after its origin.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The system's clock that counts suspend.
///
/// Its instants are its own: the one at which it was made, and what it has counted since.
#[derive(Clone)]
pub(crate) struct Boottime {
    pub(super) line: TimeLine,
    /// What to add to its reading, wrapping, for a tick.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    offset: u64,
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
impl Boottime {
    #[cfg(not(target_vendor = "apple"))]
    const ID: libc::clockid_t = libc::CLOCK_BOOTTIME;
    /// Counts suspend, unlike `CLOCK_UPTIME_RAW`, and is not slewed, unlike `CLOCK_MONOTONIC`
    /// (clock_gettime(3)).
    #[cfg(target_vendor = "apple")]
    const ID: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;

    pub(super) fn new() -> Option<Self> {
        // The reading comes right after the base, so that the clock seems earlier than it is beside
        // instants, and never later.
        let base = Instant::now();
        let offset = Tick::ORIGIN.raw().wrapping_sub(read(Self::ID));
        Some(Self { line: TimeLine::starting_at(base), offset })
    }

    pub(super) fn now(&self) -> Tick {
        Tick::from_raw(read(Self::ID).wrapping_add(self.offset)).min(Tick::LAST)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
impl Boottime {
    /// On Windows, instants themselves count suspend.
    pub(super) fn new() -> Option<Self> {
        let line = TimeLine::starting_at(Instant::now());
        cfg!(windows).then_some(Self { line })
    }

    pub(super) fn now(&self) -> Tick {
        self.line.tick(Instant::now()).min(Tick::LAST)
    }
}
