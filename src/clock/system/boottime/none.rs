//! No clock that counts suspend.

use core::convert::Infallible;

use crate::clock::TimeLine;
use crate::tick::Tick;

#[derive(Clone)]
pub(crate) struct Boottime {
    pub(in crate::clock) line: TimeLine,
    /// There is no such clock.
    none: Infallible,
}

impl Boottime {
    pub(in crate::clock) fn new() -> Option<Self> {
        None
    }

    pub(in crate::clock) fn now(&self) -> Tick {
        match self.none {}
    }
}
