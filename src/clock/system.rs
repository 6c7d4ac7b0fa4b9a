//! The system's clocks: the monotonic one, and one that counts suspend.

use crate::clock::TimeLine;
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
use crate::clock::pair::Pair;
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
        #[cfg(target_os = "linux")]
        {
            let (line, coarse) = coarse::Coarse::starting_now();
            Self { line, coarse }
        }
        #[cfg(not(target_os = "linux"))]
        Self { line: TimeLine::starting_at(Instant::now()) }
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
    use crate::clock::TimeLine;
    use crate::clock::pair::Pair;
    use crate::tick::Tick;
    use crate::time::Instant;

    /// The longest and the shortest step of a kernel's, in nanoseconds: 100 and 1,000 ticks a
    /// second.
    const LONGEST_STEP: libc::c_long = 10_000_000;
    const SHORTEST_STEP: u64 = 1_000_000;

    /// Steps by which it lags at most while the kernel's timekeeping runs: by one, by what delays
    /// the interrupt that makes it, and by five where a virtual machine's processor that keeps the
    /// time is held. Then another takes over, after as many ticks of its own
    /// (`MAX_STALLED_JIFFIES` in Linux).
    const STEPS: u64 = 7;

    #[derive(Clone)]
    pub(super) struct Coarse {
        /// More than the clock lags, in nanoseconds.
        lag: u64,
        /// Number to add to a reading, wrapping, for a tick. From the exact clock's reading at
        /// [`Tick::ORIGIN`], or a later one.
        offset: u64,
    }

    impl Coarse {
        /// A time line that begins now, and the coarse clock beside it.
        ///
        /// One reading is the origin of both, so nothing can come in between: an `Instant` is a
        /// reading of `CLOCK_MONOTONIC`, and shows its numbers. `std` does not promise that, so
        /// they have to lie between two readings of that clock itself. If they do not, the second
        /// of the closest pair is the coarse clock's origin: that seems earlier than it is by what
        /// lies between for as long as it lives, but never later.
        pub(super) fn starting_now() -> (TimeLine, Self) {
            let Pair { before, between: base, after } =
                Pair::read(|| read(libc::CLOCK_MONOTONIC), Instant::now);
            let line = TimeLine::starting_at(base);
            let own = line.reading_of_base().filter(|reading| (before..=after).contains(reading));
            let offset = Tick::ORIGIN.raw().wrapping_sub(own.unwrap_or(after));
            (line, Self { lag: step().max(SHORTEST_STEP) * STEPS, offset })
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

    /// Returns by how much the kernel moves the clock each time, in nanoseconds, as it says itself.
    /// Miri does not know that call.
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
            let (_, clock) = Coarse::starting_now();
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

        #[test]
        fn the_origin_of_the_coarse_clock_is_the_reading_of_the_base_itself() {
            let (line, clock) = Coarse::starting_now();
            let origin = Tick::ORIGIN.raw().wrapping_sub(clock.offset);
            assert_eq!(line.reading_of_base(), Some(origin));
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
    /// Number to add to its reading, wrapping, for a tick.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    offset: u64,
    /// There is no such clock.
    #[cfg(not(any(unix, windows)))]
    none: core::convert::Infallible,
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
        let Pair { between: base, after, .. } = Pair::read(|| read(Self::ID), Instant::now);
        // The reading after the base, so that the clock seems earlier than it is beside instants,
        // and never later. It does so for as long as it lives.
        let offset = Tick::ORIGIN.raw().wrapping_sub(after);
        Some(Self { line: TimeLine::starting_at(base), offset })
    }

    pub(super) fn now(&self) -> Tick {
        Tick::from_raw(read(Self::ID).wrapping_add(self.offset)).min(Tick::LAST)
    }
}

#[cfg(all(
    any(unix, windows),
    not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))
))]
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

#[cfg(not(any(unix, windows)))]
impl Boottime {
    pub(super) fn new() -> Option<Self> {
        None
    }

    pub(super) fn now(&self) -> Tick {
        match self.none {}
    }
}
