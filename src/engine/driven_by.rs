//! The driver of an engine, as the engine knows it: what to unpark.

#[cfg_attr(target_os = "none", path = "driven_by/no_thread.rs")]
mod thread;

use core::fmt;

use crate::sync::StdArc;
pub(crate) use thread::*;

/// Kinds of drivers.
pub(crate) enum DrivenBy {
    /// A thread of the engine's own.
    Thread(DriverThread),
    /// A [`Driver`](crate::driver::Driver); the hook tells its owner that it should turn.
    Hand(StdArc<dyn Fn() + Send + Sync>),
    /// A [`VirtualClock`](crate::virtual_time::VirtualClock), as it moves.
    Clock,
}

impl fmt::Debug for DrivenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(thread) => write!(f, "thread `{}`", thread.name()),
            Self::Hand(_) => f.write_str("by hand"),
            Self::Clock => f.write_str("virtual clock"),
        }
    }
}
