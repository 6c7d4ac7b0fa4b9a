//! The clock of instants, which counts suspend on Windows.

use crate::clock::TimeLine;
use crate::tick::Tick;
use crate::time::Instant;

/// The system's clock that counts suspend.
#[derive(Clone)]
pub(crate) struct Boottime {
    pub(in crate::clock) line: TimeLine,
}

impl Boottime {
    /// `None` on the other systems.
    pub(in crate::clock) fn new() -> Option<Self> {
        let line = TimeLine::starting_at(Instant::now());
        cfg!(windows).then_some(Self { line })
    }

    pub(in crate::clock) fn now(&self) -> Tick {
        self.line.tick(Instant::now()).min(Tick::LAST)
    }
}
