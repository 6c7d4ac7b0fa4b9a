//! The system's clocks: the monotonic one, and one that counts suspend.

#[cfg_attr(
    all(
        any(unix, windows),
        not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))
    ),
    path = "system/boottime/instants.rs"
)]
#[cfg_attr(not(any(unix, windows)), path = "system/boottime/none.rs")]
mod boottime;
#[cfg_attr(not(target_os = "linux"), path = "system/no_coarse.rs")]
mod coarse;

use crate::clock::TimeLine;
use crate::tick::Tick;
use crate::time::Instant;

pub(crate) use boottime::Boottime;
use coarse::Coarse;

/// The system's monotonic clock.
#[derive(Clone)]
pub(crate) struct Monotonic {
    pub(super) line: TimeLine,
    coarse: Coarse,
}

impl Monotonic {
    pub(super) fn new() -> Self {
        let (line, coarse) = Coarse::starting_now();
        Self { line, coarse }
    }

    pub(super) fn now(&self) -> Tick {
        self.line.tick(Instant::now()).min(Tick::LAST)
    }

    /// The time, or a little earlier.
    pub(super) fn coarse_now(&self) -> Tick {
        self.coarse.now().unwrap_or_else(|| self.now())
    }

    #[inline]
    pub(super) fn has_passed(&self, deadline: Tick) -> bool {
        match self.coarse.has_passed(deadline) {
            Some(answer) => answer,
            None => self.has_passed_exactly(deadline),
        }
    }

    #[cfg_attr(target_os = "linux", cold)]
    fn has_passed_exactly(&self, deadline: Tick) -> bool {
        self.now() >= deadline
    }
}
