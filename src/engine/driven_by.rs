//! The driver of an engine, as the engine knows it: what to unpark.

use core::fmt;
#[cfg(not(target_os = "none"))]
use core::time::Duration;

#[cfg(not(target_os = "none"))]
use crate::engine::Engine;
#[cfg(not(target_os = "none"))]
use crate::engine::parker::Parker;
use crate::sync::StdArc;
#[cfg(not(target_os = "none"))]
use crate::sync::{Arc, Mutex};

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

/// Begins to watch for resumes from suspend: each unparks the driver. Returns a function that the
/// driver calls before it parks, and which returns the longest time that it may park for.
#[cfg(not(target_os = "none"))]
pub(crate) type WatchResumes = fn(&Arc<Engine>) -> Box<dyn FnMut() -> Duration>;

/// State that an engine needs to run a driver thread.
#[cfg(not(target_os = "none"))]
pub(crate) struct DriverThread {
    pub(crate) name: String,
    /// `None` if the clock stops in suspend, as parks do. A pointer, so that only programs with
    /// another clock have the code.
    pub(crate) watch_resumes: Option<WatchResumes>,
    pub(crate) parker: Parker,
    /// True while the thread runs: set where it is started, reset by the thread as it ends.
    pub(crate) running: Mutex<bool>,
}

#[cfg(not(target_os = "none"))]
impl DriverThread {
    /// Name of a thread that is given none.
    pub(crate) const NAME: &str = "tourbillon";

    pub(crate) fn new(name: String, watch_resumes: Option<WatchResumes>) -> Self {
        Self { name, watch_resumes, parker: Parker::new(), running: Mutex::new(false) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// One for a thread of the same name in another process.
    pub(crate) fn anew(&self) -> Self {
        Self::new(self.name.clone(), self.watch_resumes)
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

/// Without an operating system, there are none.
#[cfg(target_os = "none")]
pub(crate) enum DriverThread {}

#[cfg(target_os = "none")]
impl DriverThread {
    pub(crate) fn name(&self) -> &str {
        match *self {}
    }

    pub(crate) fn anew(&self) -> Self {
        match *self {}
    }

    pub(crate) fn unpark(&self) {
        match *self {}
    }
}
