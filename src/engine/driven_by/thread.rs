//! The driver thread, as the engine knows it.

use std::time::Duration;

use crate::engine::Engine;
use crate::engine::parker::Parker;
use crate::sync::{Arc, Mutex};

/// Begins to watch for resumes from suspend: each unparks the driver. Returns a function that the
/// driver calls before it parks, and which returns the longest time that it may park for.
pub(crate) type WatchResumes = fn(&Arc<Engine>) -> Box<dyn FnMut() -> Duration>;

/// State that an engine needs to run a driver thread.
pub(crate) struct DriverThread {
    pub(crate) name: String,
    /// `None` if the clock stops in suspend, as parks do. A pointer, so that only programs with
    /// another clock have the code.
    pub(crate) watch_resumes: Option<WatchResumes>,
    pub(crate) parker: Parker,
    /// True while the thread runs: set where it is started, reset by the thread as it ends.
    pub(crate) running: Mutex<bool>,
}

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
