//! Time lines: instants to ticks and back.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use crate::tick::{NANOS_PER_SEC, Tick, nanos};
use crate::time::Instant;

/// The correspondence between [`Instant`]s and ticks.
#[derive(Clone, Copy)]
pub(crate) struct TimeLine {
    /// The instant at [`Tick::ORIGIN`].
    base: Instant,
    /// Number to add to a [reading](Reading) for a tick.
    offset: u64,
    /// Readings of so many seconds or more are left to subtraction; all, where none is sound.
    seconds_end: u64,
}

impl TimeLine {
    pub(crate) fn starting_at(base: Instant) -> Self {
        let reading = Reading::of(base);
        let sound = Reading::IS_FASTER
            && reading.seconds < Reading::SECONDS_END
            && Reading::is_sound_around(base);
        Self {
            base,
            offset: Tick::ORIGIN.raw().wrapping_sub(reading.nanos()),
            seconds_end: if sound { Reading::SECONDS_END } else { 0 },
        }
    }

    /// The nanoseconds that the instant at [`Tick::ORIGIN`] shows of itself; `None` if they are not
    /// sound. They count from where the system's clock does, as far as `std` takes them from there.
    #[cfg(target_os = "linux")]
    pub(super) fn reading_of_base(&self) -> Option<u64> {
        (self.seconds_end > 0).then(|| Tick::ORIGIN.raw().wrapping_sub(self.offset))
    }

    /// The tick of `instant`: exact within the time line, saturated outside.
    #[inline]
    pub(crate) fn tick(&self, instant: Instant) -> Tick {
        let reading = Reading::of(instant);
        if !Reading::IS_FASTER || reading.seconds >= self.seconds_end {
            return self.tick_by_subtraction(instant);
        }
        // The reading and the base's are below 2^62, so the tick lies between 1 and 2^63.
        Tick::from_raw(reading.nanos().wrapping_add(self.offset))
    }

    /// [`tick`](Self::tick) by nothing but what `std` says of instants.
    #[cold]
    fn tick_by_subtraction(&self, instant: Instant) -> Tick {
        // The later one less the earlier: on Windows the reverse is zero rather than an error, if
        // they are as close as two readings of its clock.
        if instant < self.base {
            Tick::ORIGIN.saturating_sub(self.base.saturating_duration_since(instant))
        } else {
            Tick::ORIGIN.saturating_add(instant.saturating_duration_since(self.base))
        }
    }

    /// The instant of `tick`, or the nearest instant that the platform can represent.
    pub(crate) fn instant(&self, tick: Tick) -> Instant {
        if tick >= Tick::ORIGIN {
            let mut after = tick.since(Tick::ORIGIN);
            loop {
                match self.base.checked_add(after) {
                    Some(instant) => return instant,
                    None => after /= 2,
                }
            }
        }
        let mut before = Tick::ORIGIN.since(tick);
        loop {
            match self.base.checked_sub(before) {
                Some(instant) => return instant,
                None => before /= 2,
            }
        }
    }
}

/// Reading that an [`Instant`] shows of itself where it is hashed.
///
/// To subtract two instants is a call into `std` that takes longer than all else that a reset to
/// later does. Hashing one is inlined, and on every platform of today hands over the seconds and
/// the nanoseconds that it is made of. That is no promise of `std`'s, so a [`TimeLine`] tries it on
/// [instants that it knows](Self::is_sound_around) before it relies on it, and otherwise subtracts.
#[derive(Clone, Copy, Default)]
struct Reading {
    seconds: u64,
    nanos: u32,
}

impl Reading {
    /// In browsers an instant is a `Duration`, and its subtraction is inlined.
    const IS_FASTER: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

    /// Seconds of 2^62 nanoseconds, rounded down.
    const SECONDS_END: u64 = (1 << 62) / NANOS_PER_SEC;

    #[inline]
    fn of(instant: Instant) -> Self {
        let mut reading = Self::default();
        instant.hash(&mut reading);
        reading
    }

    /// Exact, and less than 2^62, if the seconds are below [`SECONDS_END`](Self::SECONDS_END).
    #[inline]
    fn nanos(self) -> u64 {
        self.seconds.wrapping_mul(NANOS_PER_SEC).wrapping_add(u64::from(self.nanos))
    }

    /// Returns whether the readings of instants lie as far apart as the instants, near `base` and
    /// far.
    fn is_sound_around(base: Instant) -> bool {
        let from = Self::of(base).nanos();
        (0..61).map(|bit| Duration::from_nanos((1 << bit) - 1)).all(|span| {
            base.checked_add(span).is_some_and(|instant| {
                Some(Self::of(instant).nanos().wrapping_sub(from)) == nanos(span)
            })
        })
    }
}

impl Hasher for Reading {
    #[inline]
    fn write_i64(&mut self, seconds: i64) {
        self.seconds = seconds as u64;
    }

    #[inline]
    fn write_u64(&mut self, seconds: u64) {
        self.seconds = seconds;
    }

    #[inline]
    fn write_u32(&mut self, nanos: u32) {
        self.nanos = nanos;
    }

    /// Not how the parts of an instant are expected.
    fn write(&mut self, _: &[u8]) {
        self.seconds = u64::MAX;
    }

    fn finish(&self) -> u64 {
        self.seconds
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    #[test]
    fn instants_survive_the_round_trip_on_both_sides_of_the_base() {
        let base = Instant::now();
        let line = TimeLine::starting_at(base);
        for nanos in [0, 1, 999, 1_000_000_007, 86_400_000_000_000] {
            let span = Duration::from_nanos(nanos);
            assert_eq!(line.instant(line.tick(base + span)), base + span);
            if let Some(before) = base.checked_sub(span) {
                assert_eq!(line.instant(line.tick(before)), before);
            }
        }
    }

    #[test]
    fn ticks_keep_the_order_of_instants() {
        let base = Instant::now();
        let line = TimeLine::starting_at(base);
        let instants = [base, base + Duration::from_nanos(1), base + Duration::from_secs(1)];
        assert!(instants.windows(2).all(|pair| line.tick(pair[0]) < line.tick(pair[1])));
    }

    #[test]
    fn never_has_an_instant_in_the_far_future() {
        let base = Instant::now();
        let line = TimeLine::starting_at(base);
        assert!(line.instant(Tick::NEVER) > base + Duration::from_secs(100 * 365 * 86_400));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn instants_are_read_rather_than_subtracted_here() {
        assert_eq!(TimeLine::starting_at(Instant::now()).seconds_end, Reading::SECONDS_END);
    }

    #[test]
    fn instants_that_cannot_be_read_are_subtracted() {
        let base = Instant::now();
        let line = TimeLine::starting_at(base);
        let unread = TimeLine { seconds_end: 0, ..line };
        for nanos in [0, 1, 999_999_999, 1_000_000_000, u64::MAX >> 2, u64::MAX >> 1] {
            let span = Duration::from_nanos(nanos);
            for instant in [base.checked_add(span), base.checked_sub(span)].into_iter().flatten() {
                assert_eq!(line.tick(instant), unread.tick(instant));
                assert_eq!(line.tick(instant), line.tick_by_subtraction(instant));
            }
        }
    }
}
