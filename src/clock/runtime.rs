//! The clock of a runtime, read through the runtime.

use crate::clock::{Steps, TimeLine, saturating_add};
use crate::sync::StdArc;
use crate::tick::Tick;
use crate::time::{Instant, SystemTime};

/// A clock that a [`Runtime`](crate::driver::Runtime) shows. Clones are the same.
#[derive(Clone)]
pub(crate) struct RuntimeClock {
    pub(super) line: TimeLine,
    shown: StdArc<Shown>,
}

struct Shown {
    /// Foreign code.
    now: Box<dyn Fn() -> Instant + Send + Sync>,
    /// The wall as the clock was made, at [`Tick::ORIGIN`].
    wall: SystemTime,
    steps: Steps,
}

impl RuntimeClock {
    pub(super) fn new(now: Box<dyn Fn() -> Instant + Send + Sync>) -> Self {
        let line = TimeLine::starting_at(now());
        let steps = Steps::of_a_virtual_clock();
        Self { line, shown: StdArc::new(Shown { now, wall: SystemTime::now(), steps }) }
    }

    pub(super) fn now(&self) -> Tick {
        self.line.tick((self.shown.now)()).min(Tick::LAST)
    }

    /// The wall moves with the clock.
    pub(super) fn wall_now(&self) -> SystemTime {
        saturating_add(self.shown.wall, self.now().since(Tick::ORIGIN))
    }

    pub(super) fn steps(&self) -> &Steps {
        &self.shown.steps
    }
}
