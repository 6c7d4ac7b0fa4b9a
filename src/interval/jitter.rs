//! The [jitter](super::Interval::with_jitter) of an interval.

use core::time::Duration;

use crate::engine::mixed;
use crate::tick::{Tick, saturated_nanos};

/// Delays of ticks, by a seed.
pub(super) struct Jitter {
    span_ns: u64,
    /// Draws so far, from the seed on.
    draws: u64,
    /// Delay of the tick that is set, in nanoseconds.
    drawn_ns: u64,
}

impl Jitter {
    pub(super) fn new(span: Duration, seed: u64) -> Self {
        // Intervals with seeds that follow each other have sequences of their own.
        Self { span_ns: saturated_nanos(span), draws: mixed(seed), drawn_ns: 0 }
    }

    /// Returns when to fire the tick scheduled for `tick`.
    pub(super) fn delayed(&mut self, tick: Tick) -> Tick {
        self.draws = self.draws.wrapping_add(1);
        let share = u128::from(mixed(self.draws));
        self.drawn_ns = ((share * (u128::from(self.span_ns) + 1)) >> 64) as u64;
        tick.saturating_add(Duration::from_nanos(self.drawn_ns))
    }

    /// Returns when the tick is scheduled for that is fired at `fired`.
    pub(super) fn scheduled(&self, fired: Tick) -> Tick {
        if fired == Tick::NEVER {
            return Tick::NEVER;
        }
        fired.saturating_sub(Duration::from_nanos(self.drawn_ns))
    }
}
