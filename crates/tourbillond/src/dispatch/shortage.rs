//! [`Shortage`]: why this host cannot send, where no error of the system's says it.

use std::error::Error;
use std::fmt;
use std::io;

/// Shortage of this host that no error of the system's says.
#[derive(Debug)]
pub(super) struct Shortage(pub(super) &'static str);

impl Shortage {
    /// All descriptors for callbacks are in use.
    pub(super) const DESCRIPTORS: Self = Self("all descriptors for callbacks are in use");
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Shortage {}

impl From<Shortage> for io::Error {
    fn from(shortage: Shortage) -> Self {
        Self::other(shortage)
    }
}
