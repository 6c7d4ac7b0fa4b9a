//! The bell's place, where there is no descriptor that could be one.

use core::time::Duration;

/// Rings nothing.
#[derive(Clone)]
pub(crate) struct Bell;

impl Bell {
    pub(crate) fn new() -> Self {
        Self
    }

    /// There is no descriptor, so nobody waits for one.
    pub(crate) fn is_made(&self) -> bool {
        false
    }

    pub(crate) fn set(&self, _wait: impl FnOnce() -> Option<Duration>) {}
}
