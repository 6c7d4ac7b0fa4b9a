//! The system's clocks: the monotonic one, and one that counts suspend.

use crate::clock::TimeLine;
use crate::tick::Tick;
use crate::time::Instant;

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

    /// The time, or a little earlier.
    pub(super) fn coarse_now(&self) -> Tick {
        #[cfg(target_os = "linux")]
        return self.coarse.now();
        #[cfg(not(target_os = "linux"))]
        self.now()
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

    use super::{nanos, read};
    use crate::tick::Tick;

    /// The longest and the shortest step of a kernel's, in nanoseconds: 100 and 1,000 ticks a
    /// second.
    const LONGEST_STEP: libc::c_long = 10_000_000;
    const SHORTEST_STEP: u64 = 1_000_000;

    /// It lags by less than so many of its steps while the kernel's timekeeping runs: by one, and
    /// by what delays the interrupt that makes it.
    const STEPS: u64 = 3;

    #[derive(Clone)]
    pub(super) struct Coarse {
        /// More than the clock lags, in nanoseconds.
        lag: u64,
        /// What to add to a reading, wrapping, to have a tick. From the exact clock's reading at
        /// [`Tick::ORIGIN`], or a little later.
        offset: u64,
    }

    impl Coarse {
        pub(super) fn starting_now() -> Self {
            let offset = Tick::ORIGIN.raw().wrapping_sub(read(libc::CLOCK_MONOTONIC));
            Self { lag: step().max(SHORTEST_STEP) * STEPS, offset }
        }

        #[inline]
        pub(super) fn now(&self) -> Tick {
            Tick::from_raw(read(libc::CLOCK_MONOTONIC_COARSE).wrapping_add(self.offset))
        }

        /// `None` if the coarse clock cannot tell. Exact also before the origin, where the clock is
        /// at first, as it lags, and may be once it has stepped back.
        #[inline]
        pub(super) fn has_passed(&self, deadline: Tick) -> Option<bool> {
            let now = self.now().raw();
            if deadline.raw() > now.wrapping_add(self.lag) {
                return Some(false);
            }
            (deadline.raw() <= now).then_some(true)
        }
    }

    /// By how much the kernel moves the clock each time, in nanoseconds, as it says itself. Miri
    /// does not know that call.
    fn step() -> u64 {
        #[cfg_attr(miri, expect(unused_mut))]
        let mut step = libc::timespec { tv_sec: 0, tv_nsec: LONGEST_STEP };
        #[cfg(not(miri))]
        // SAFETY: `step` is a valid place for one timespec, which is all the call asks for. If it
        // fails, that stays as it is.
        unsafe {
            libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step)
        };
        nanos(&step)
    }

    #[cfg(all(test, not(tourbillon_model)))]
    mod tests {
        use std::time::Duration;

        use super::*;

        #[test]
        fn only_what_is_certain_is_answered() {
            let clock = Coarse::starting_now();
            let exact = || Tick::from_raw(read(libc::CLOCK_MONOTONIC).wrapping_add(clock.offset));
            for _ in 0..if cfg!(miri) { 10 } else { 10_000 } {
                let before = exact();
                let soon = before.saturating_add(Duration::from_nanos(1));
                // What has come may be said to have, and what has not may not.
                let answer = clock.has_passed(soon);
                assert!(answer != Some(true) || exact() >= soon);
                assert_eq!(clock.has_passed(Tick::PAST), Some(true));
                let far = exact().saturating_add(Duration::from_secs(60));
                assert_eq!(clock.has_passed(far), Some(false));
            }
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
    nanos(&time)
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
#[inline]
fn nanos(time: &libc::timespec) -> u64 {
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
