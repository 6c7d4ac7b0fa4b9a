//! The coarse clock's place, where there is none.

use crate::clock::TimeLine;
use crate::tick::Tick;
use crate::time::Instant;

#[derive(Clone)]
pub(super) struct Coarse;

impl Coarse {
    /// A time line that begins now.
    pub(super) fn starting_now() -> (TimeLine, Self) {
        (TimeLine::starting_at(Instant::now()), Self)
    }

    pub(super) fn exact_now(&self, line: &TimeLine) -> Tick {
        line.tick(Instant::now())
    }

    pub(super) fn now(&self) -> Option<Tick> {
        None
    }

    pub(super) fn has_passed(&self, _: Tick) -> Option<bool> {
        None
    }
}
