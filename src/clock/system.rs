//! The system's clocks: the monotonic clock, and the clock that counts suspend.

#[cfg_attr(
    all(
        any(unix, windows),
        not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))
    ),
    path = "system/boottime/instants.rs"
)]
#[cfg_attr(not(any(unix, windows)), path = "system/boottime/none.rs")]
mod boottime;
#[cfg_attr(
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"),
    path = "system/performance.rs"
)]
#[cfg_attr(
    not(any(
        target_os = "linux",
        all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
    )),
    path = "system/no_coarse.rs"
)]
mod coarse;

use crate::clock::TimeLine;
use crate::tick::Tick;

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
        self.coarse.exact_now(&self.line).min(Tick::LAST)
    }

    pub(super) fn coarse(&self) -> Option<Tick> {
        self.coarse.now()
    }

    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(super) fn last_reading(&self) -> Tick {
        self.coarse.last()
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
