//! Coalesces passes when timers are due faster than a wake-up for each is worth.
//!
//! While passes are sparse, each timer fires at its own deadline. Passes that come faster than one
//! per [sparse](Pace) distance empty a token bucket. From then on passes coalesce: there is one per
//! sparse distance while each fires a few timers, and one per crowded distance if they fire more,
//! or up to four times that. That ends with the first pass that finds a token.
//!
//! A pass that fires nothing was brought about by a timer that was armed earlier than all others.
//! If that was done by whom a timer has woken, the pass comes with that timer's: it takes no token.
//!
//! The pace weighs the cost of a wake-up against lateness: 5 us for the thread, so 20,000 exact
//! wake-ups a second take a tenth of a processor. A turn in a runtime's wait sets a descriptor too,
//! and costs several times as much.

use std::time::Duration;

use crate::tick::Tick;

/// Distances of passes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Passes that keep this distance in the long run are never delayed.
    sparse: Duration,
    /// The distance of passes while timers crowd.
    crowded: Duration,
    /// The distance grows up to so many times.
    growth_max: u32,
    /// Passes in a burst that are not delayed.
    burst: u32,
}

impl Pace {
    /// The driver thread's.
    pub(crate) const THREAD: Self = Self {
        sparse: Duration::from_micros(50),
        crowded: Duration::from_micros(250),
        growth_max: 4,
        burst: BURST,
    };

    /// Pace of turns in a runtime's wait. Tasks that sleep alike are woken together, but for the
    /// first: each turn that wakes some may wake another worker, too. In the models, where no time
    /// passes, none is delayed.
    #[cfg(any(target_os = "linux", target_os = "android", all(test, tourbillon_model)))]
    pub(crate) const REACTOR: Self = Self {
        sparse: Duration::from_micros(if cfg!(all(test, tourbillon_model)) { 0 } else { 100 }),
        crowded: Duration::from_millis(1),
        growth_max: 1,
        burst: 1,
    };
}

/// Passes of the driver thread in a burst that are not delayed, and passes in a row that may fire
/// nothing. The models, of a few timers each, have some delayed all the same.
const BURST: u32 = if cfg!(all(test, tourbillon_model)) { 2 } else { 16 };

/// Passes that fire no more than this are no crowd.
const FEW: usize = 4;

/// With so many timers to a pass, times two, three and four, the distance grows as much.
const MANY: usize = 16;

/// The driver's allowance of passes.
#[derive(Debug)]
pub(crate) struct Pacer {
    pace: Pace,
    /// When the bucket was, or will be, full again. A token takes it one sparse distance on.
    full_at: Tick,
    /// When the next pass may be, while they coalesce.
    next: Option<Tick>,
    /// Passes that fire nothing and need no token: as many as timers fired before.
    free: usize,
}

impl Pacer {
    pub(crate) fn starting_at(now: Tick, pace: Pace) -> Self {
        Self { pace, full_at: now, next: None, free: 0 }
    }

    /// Returns how long to wait at `now` before the next pass. A clock that stepped back since the
    /// last one makes it no longer than it ever is.
    pub(crate) fn delay(&self, now: Tick) -> Duration {
        self.next.map_or(Duration::ZERO, |next| {
            next.since(now).min(self.pace.crowded * self.pace.growth_max)
        })
    }

    /// Notes a pass that was made at `now` and fired so many timers.
    pub(crate) fn passed(&mut self, now: Tick, fired: usize) {
        let Pace { sparse, crowded, growth_max, burst } = self.pace;
        let is_free = fired == 0 && self.free > 0;
        self.free = if is_free { self.free - 1 } else { fired.min(BURST as usize) };
        // Further off than it ever is if the clock has stepped back.
        if self.full_at < now || self.full_at.since(now) > sparse * (burst + 1) {
            self.full_at = now;
        }
        if !is_free {
            self.full_at = self.full_at.saturating_add(sparse);
        }
        let missing = self.full_at.since(now).saturating_sub(sparse * burst);
        let wait = if fired > FEW && (self.next.is_some() || !missing.is_zero()) {
            crowded * (fired / MANY).clamp(1, growth_max as usize) as u32
        } else {
            missing
        };
        self.next = (!wait.is_zero()).then(|| now.saturating_add(wait));
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    const SPARSE: Duration = Pace::THREAD.sparse;
    const CROWDED: Duration = Pace::THREAD.crowded;
    const GROWTH_MAX: u32 = Pace::THREAD.growth_max;

    fn starting_at(now: Tick) -> Pacer {
        Pacer::starting_at(now, Pace::THREAD)
    }

    fn after(span: Duration) -> Tick {
        Tick::ORIGIN.saturating_add(span)
    }

    /// Makes passes as soon as they are allowed; returns how many in the time.
    fn passes(pacer: &mut Pacer, from: Tick, time: Duration, fired: usize) -> u32 {
        let (mut now, end) = (from, from.saturating_add(time));
        let mut count = 0;
        while now < end {
            now = now.saturating_add(pacer.delay(now));
            pacer.passed(now, fired);
            now = now.saturating_add(Duration::from_nanos(100));
            count += 1;
        }
        count
    }

    #[test]
    fn sparse_passes_never_wait() {
        let mut pacer = starting_at(Tick::ORIGIN);
        for n in 1..1_000 {
            let now = after(SPARSE * n);
            assert!(pacer.delay(now).is_zero());
            pacer.passed(now, 1);
        }
    }

    #[test]
    fn a_burst_is_exact_and_then_spaced() {
        for rest in [Duration::ZERO, Duration::from_secs(1)] {
            let (mut pacer, now) = (starting_at(Tick::ORIGIN), after(rest));
            for _ in 0..BURST {
                assert!(pacer.delay(now).is_zero());
                pacer.passed(now, 1);
            }
            pacer.passed(now, FEW);
            assert_eq!(pacer.delay(now), SPARSE);
            pacer.passed(now, FEW + 1);
            assert_eq!(pacer.delay(now), CROWDED);
        }
    }

    #[test]
    fn a_pass_that_fires_nothing_is_free_once_for_each_timer_fired() {
        let mut pacer = starting_at(Tick::ORIGIN);
        for n in 1..1_000 {
            let now = after(SPARSE * n);
            for fired in [1, 0] {
                assert!(pacer.delay(now).is_zero());
                pacer.passed(now, fired);
            }
        }
        let mut pacer = starting_at(Tick::ORIGIN);
        pacer.passed(Tick::ORIGIN, 3);
        (0..3 + BURST - 1).for_each(|_| pacer.passed(Tick::ORIGIN, 0));
        assert!(pacer.delay(Tick::ORIGIN).is_zero());
        pacer.passed(Tick::ORIGIN, 0);
        assert_eq!(pacer.delay(Tick::ORIGIN), SPARSE);
    }

    #[test]
    fn crowds_are_served_the_less_often_the_larger_they_are() {
        let second = Duration::from_secs(1);
        let served = |fired| passes(&mut starting_at(Tick::ORIGIN), Tick::ORIGIN, second, fired);
        assert!((19_900..20_100).contains(&served(0)));
        assert!((19_900..20_100).contains(&served(FEW)));
        assert!((3_900..4_100).contains(&served(FEW + 1)));
        assert!((1_900..2_100).contains(&served(2 * MANY)));
        assert!((950..1_100).contains(&served(1_000_000)));
    }

    #[test]
    fn a_clock_that_steps_back_stops_nothing() {
        let mut pacer = starting_at(Tick::ORIGIN);
        passes(&mut pacer, after(Duration::from_secs(10)), Duration::from_millis(100), 5);
        assert!(pacer.delay(Tick::ORIGIN) <= CROWDED * GROWTH_MAX);
        pacer.passed(Tick::ORIGIN, 1);
        assert!(pacer.delay(Tick::ORIGIN).is_zero());
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn the_third_turn_in_a_wait_coalesces_and_sparse_ones_never_wait() {
        let Pace { sparse, crowded, .. } = Pace::REACTOR;
        let mut pacer = Pacer::starting_at(Tick::ORIGIN, Pace::REACTOR);
        for n in 0..1_000 {
            let now = after(sparse * n);
            assert!(pacer.delay(now).is_zero());
            pacer.passed(now, 1);
        }
        let now = after(Duration::from_secs(1));
        pacer.passed(now, 1);
        assert!(pacer.delay(now).is_zero());
        pacer.passed(now, FEW);
        assert_eq!(pacer.delay(now), sparse);
        pacer.passed(now, FEW + 1);
        assert_eq!(pacer.delay(now), crowded);
    }

    #[test]
    fn the_end_of_a_crowd_is_noticed_at_once() {
        let mut pacer = starting_at(Tick::ORIGIN);
        passes(&mut pacer, Tick::ORIGIN, Duration::from_millis(100), 50);
        let rested = after(Duration::from_secs(1));
        pacer.passed(rested, FEW);
        assert!(pacer.delay(rested).is_zero());
    }
}
