//! [`Shortage`]: why this host cannot send, where no error of the system's says it.

use std::io;

/// Shortage of this host that no error of the system's says.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Shortage(pub(super) &'static str);

impl Shortage {
    /// All descriptors for callbacks are in use.
    pub(super) const DESCRIPTORS: Self = Self("all descriptors for callbacks are in use");
}

impl From<Shortage> for io::Error {
    fn from(shortage: Shortage) -> Self {
        Self::other(shortage)
    }
}
