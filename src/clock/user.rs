//! Source of the time without an operating system: a clock that the user gives.

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use crate::deadline::Deadline;
use crate::sync::StdArc;
use crate::tick::{Distance, Tick};
use crate::time::Instant;

/// The clock of one timer.
#[derive(Clone)]
pub(crate) struct Clock(StdArc<dyn Fn() -> Instant + Send + Sync>);

impl Clock {
    /// Reads `now`: foreign code, called with no lock held.
    pub(crate) fn of_user(now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        let now: Box<dyn Fn() -> Instant + Send + Sync> = Box::new(now);
        Self(now.into())
    }

    pub(crate) fn now(&self) -> Tick {
        self.tick((self.0)()).min(Tick::LAST)
    }

    pub(crate) fn now_in_order(&self) -> Tick {
        self.now()
    }

    /// Returns whether `deadline` has come. Never true too soon.
    pub(crate) fn has_passed(&self, deadline: Tick) -> bool {
        self.now() >= deadline
    }

    pub(crate) fn until(&self, deadline: Tick) -> Duration {
        deadline.since(self.now())
    }

    /// There is no coarse clock.
    pub(crate) fn coarse(&self) -> Option<Tick> {
        None
    }

    pub(crate) fn moved_past(&self, _: Tick) -> Option<Tick> {
        None
    }

    /// Returns whether the clock moves only when it is moved.
    pub(crate) fn is_virtual(&self) -> bool {
        false
    }

    /// Returns whether the clock counts suspend. It may, and no driver of its timers parks.
    pub(crate) fn counts_suspend(&self) -> bool {
        false
    }

    pub(crate) fn tick(&self, instant: Instant) -> Tick {
        let tick = Tick::from_raw(Tick::ORIGIN.raw().saturating_add(instant.as_nanos()));
        if tick <= Tick::LAST { tick } else { Tick::NEVER }
    }

    /// Returns the tick of `deadline`; [`Tick::NEVER`] if there is none.
    pub(crate) fn tick_of(&self, deadline: Deadline) -> Tick {
        deadline.instant().map_or(Tick::NEVER, |instant| self.tick(instant))
    }

    pub(crate) fn instant(&self, tick: Tick) -> Instant {
        Instant::from_nanos(tick.nanos_since(Tick::ORIGIN))
    }

    /// `deadline` for `Debug` output: how far off it is.
    pub(crate) fn show(&self, deadline: Tick) -> Distance {
        deadline.distance_from(|| self.now())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("user")
    }
}
