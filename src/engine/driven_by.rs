//! The engine's side of its driver: the part to unpark.

#[cfg_attr(
    any(
        target_os = "none",
        all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
    ),
    path = "driven_by/no_task.rs"
)]
mod task;
#[cfg_attr(target_os = "none", path = "driven_by/no_thread.rs")]
mod thread;

use core::fmt;

use crate::clock::Clock;
use crate::sync::StdArc;
pub(crate) use task::*;
pub(crate) use thread::*;

/// Kinds of drivers.
pub(crate) enum DrivenBy {
    /// A thread of the engine's own.
    Thread(DriverThread),
    /// A [`Driver`](crate::driver::Driver); the hook tells its owner that it should turn.
    Hand(StdArc<dyn Fn() + Send + Sync>),
    /// The moves of a [`VirtualClock`](crate::virtual_time::VirtualClock).
    Clock,
    /// A task of a [`Runtime`](crate::driver::Runtime).
    Task(TaskDriver),
}

impl DrivenBy {
    /// Returns whether a thread's parks end in time: they and the clock both stop in suspend.
    pub(super) fn parks_in_time(&self, clock: &Clock) -> bool {
        matches!(self, Self::Thread(_)) && !clock.counts_suspend()
    }

    /// Returns whether a handle has asked the thread to end, and waits.
    pub(super) fn is_asked_to_end(&self) -> bool {
        matches!(self, Self::Thread(thread) if thread.is_asked_to_end())
    }
}

impl fmt::Debug for DrivenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(thread) => write!(f, "thread `{}`", thread.name()),
            Self::Hand(_) => f.write_str("by hand"),
            Self::Clock => f.write_str("virtual clock"),
            Self::Task(_) => f.write_str("a task"),
        }
    }
}
