//! Threads of engines, clients and stores.

use std::io;
use std::thread;

use crate::error::{StoreError, StoreErrorKind};

/// Starts a thread of this name.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let builder = thread::Builder::new().name(format!("durable-{name}"));
    builder.spawn(work).map(drop).map_err(unavailable)
}

/// Returns the error for a resource that the system refused.
pub(crate) fn unavailable(error: io::Error) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, error)
}
