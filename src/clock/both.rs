//! The wall clock beside the monotonic one, which shows when the wall clock was set.

use std::time::Duration;

use crate::clock::pair::Pair;
use crate::clock::saturating_add;
use crate::time::{Instant, SystemTime};

/// A step has to be larger than this to be seen: more than what lies between the readings of two
/// clocks, however busy the machine is.
const TOLERANCE: Duration = Duration::from_millis(1);

/// Readings of the system's two clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Both {
    monotonic: Instant,
    wall: SystemTime,
}

impl Both {
    #[inline]
    pub(super) fn now() -> Self {
        let pair = Pair::read(Instant::now, SystemTime::now);
        Self { monotonic: pair.before, wall: pair.between }
    }

    /// Returns whether the wall clock was set since `earlier`, as far as the two clocks tell. What
    /// slews them slews both.
    #[inline]
    pub(super) fn shows_step_since(&self, earlier: &Self) -> bool {
        let elapsed = self.monotonic.saturating_duration_since(earlier.monotonic);
        let expected = saturating_add(earlier.wall, elapsed);
        let off = match self.wall.duration_since(expected) {
            Ok(ahead) => ahead,
            Err(behind) => behind.duration(),
        };
        off > TOLERANCE
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    /// After `monotonic` has passed on the one clock, and the other shows `wall`.
    fn later(start: &Both, monotonic: Duration, wall: SystemTime) -> Both {
        Both { monotonic: start.monotonic + monotonic, wall }
    }

    #[test]
    fn clocks_that_run_alike_show_no_step() {
        let start = Both::now();
        for span in [Duration::ZERO, Duration::from_secs(30), DAY, 400 * DAY] {
            for off in [Duration::ZERO, TOLERANCE] {
                let (ahead, behind) = (start.wall + span + off, start.wall + span - off);
                assert!(!later(&start, span, ahead).shows_step_since(&start));
                assert!(!later(&start, span, behind).shows_step_since(&start));
            }
        }
    }

    #[test]
    fn a_step_shows_in_either_direction_however_small_or_large() {
        let start = Both::now();
        let smallest = TOLERANCE + Duration::from_micros(1);
        for step in [smallest, Duration::from_secs(7200), 10_000 * DAY] {
            for span in [Duration::ZERO, Duration::from_secs(30), DAY] {
                let (forward, back) = (start.wall + span + step, start.wall + span - step);
                assert!(later(&start, span, forward).shows_step_since(&start));
                assert!(later(&start, span, back).shows_step_since(&start));
            }
        }
    }

    #[test]
    fn small_steps_show_once_they_add_up() {
        let start = Both::now();
        let nearly = TOLERANCE * 3 / 4;
        assert!(!later(&start, DAY, start.wall + DAY + nearly).shows_step_since(&start));
        assert!(later(&start, DAY, start.wall + DAY + 2 * nearly).shows_step_since(&start));
    }
}
