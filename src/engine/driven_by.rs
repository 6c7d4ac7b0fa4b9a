//! Who turns the wheels of an engine, as the engine knows it: whom to unpark.

use core::fmt;

use crate::engine::parker::Parker;
use crate::sync::{Mutex, StdArc};

/// Who turns the wheels.
pub(crate) enum DrivenBy {
    /// A thread of the engine's own.
    Thread(DriverThread),
    /// A [`Driver`](crate::Driver); the hook tells its owner that it should turn.
    Hand(StdArc<dyn Fn() + Send + Sync>),
    /// A [`VirtualClock`](crate::VirtualClock), as it moves.
    Clock,
}

impl fmt::Debug for DrivenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(thread) => write!(f, "thread `{}`", thread.name),
            Self::Hand(_) => f.write_str("by hand"),
            Self::Clock => f.write_str("virtual clock"),
        }
    }
}

/// What an engine needs to run a driver thread.
pub(crate) struct DriverThread {
    pub(crate) name: String,
    pub(crate) parker: Parker,
    /// Whether the thread runs: set by who starts it, reset by the thread as it ends.
    pub(crate) running: Mutex<bool>,
}

impl DriverThread {
    pub(crate) fn new(name: String) -> Self {
        Self { name, parker: Parker::new(), running: Mutex::new(false) }
    }

    /// One for a thread of the same name in another process.
    pub(crate) fn anew(&self) -> Self {
        Self::new(self.name.clone())
    }

    pub(crate) fn unpark(&self) {
        self.parker.unpark();
    }

    /// Lets the driver see that the model's clock has moved.
    #[cfg(all(test, tourbillon_model))]
    pub(crate) fn advanced(&self) {
        self.parker.advanced();
    }
}

impl Default for DriverThread {
    fn default() -> Self {
        Self::new("tourbillon".to_owned())
    }
}
