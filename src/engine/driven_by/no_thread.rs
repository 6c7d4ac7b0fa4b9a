//! The driver thread's place, where there are no threads.

/// State of a thread: there is none.
pub(crate) enum DriverThread {}

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

    pub(super) fn is_asked_to_end(&self) -> bool {
        match *self {}
    }
}
