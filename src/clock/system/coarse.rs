//! `CLOCK_MONOTONIC_COARSE`: the monotonic clock as of the kernel's last tick, 1 to 10 ms ago.

use crate::clock::TimeLine;
use crate::clock::pair::Pair;
use crate::clock::system::boottime::{nanos, read};
use crate::tick::Tick;
use crate::time::Instant;

/// The longest and the shortest step of a kernel's, in nanoseconds: 100 and 1,000 ticks a
/// second.
const LONGEST_STEP: libc::c_long = 10_000_000;
const SHORTEST_STEP: u64 = 1_000_000;

/// Most steps that it lags by while the kernel's timekeeping runs: one, one more while the
/// interrupt that makes the step is delayed, and five where a virtual machine's processor that
/// keeps the time is held. Then another takes over, after as many ticks of its own
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

    /// The exact clock's reading on that line.
    #[inline]
    pub(super) fn exact_now(&self, line: &TimeLine) -> Tick {
        line.tick(Instant::now())
    }

    #[inline]
    pub(super) fn now(&self) -> Option<Tick> {
        Some(self.reading())
    }

    #[inline]
    fn reading(&self) -> Tick {
        Tick::from_raw(read(libc::CLOCK_MONOTONIC_COARSE).wrapping_add(self.offset))
    }

    /// `None` if the coarse clock cannot tell. Exact before the origin too: the clock lags, so it
    /// is there at first, and may be again once it has stepped back.
    #[inline]
    pub(super) fn has_passed(&self, deadline: Tick) -> Option<bool> {
        let now = self.reading().raw();
        if deadline.raw() > now.wrapping_add(self.lag) {
            return Some(false);
        }
        (deadline.raw() <= now).then_some(true)
    }
}

/// Returns the step of the kernel's clock, in nanoseconds, as reported by the kernel. Miri does not
/// know that call.
fn step() -> u64 {
    #[cfg_attr(miri, expect(unused_mut))]
    let mut step = libc::timespec { tv_sec: 0, tv_nsec: LONGEST_STEP };
    #[cfg(not(miri))]
    // SAFETY: `step` is a valid place for one timespec, and the call asks for no more. If it fails,
    // that stays as it is.
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
            // A deadline that has come may be reported so, and no other.
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
