//! [`Pending`]: an armed timer in a list.

use core::panic::Location;
use core::time::Duration;

use crate::time::Instant;

/// An armed timer, as [`Timer::pending`](crate::Timer::pending) lists it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Pending {
    /// Place in the program that made the sleep, or made the object around it.
    pub place: &'static Location<'static>,
    /// When it is due.
    pub deadline: Instant,
    /// Time since it was armed.
    pub age: Duration,
}
