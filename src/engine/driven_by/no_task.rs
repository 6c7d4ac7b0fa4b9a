//! The place of a driver that is a task, where there is none.

use crate::engine::Engine;
use crate::sync::{Arc, SpawnError};

/// State of a task: there is none.
pub(crate) enum TaskDriver {}

impl TaskDriver {
    pub(crate) fn anew(&self) -> Self {
        match *self {}
    }

    pub(crate) fn start(&self, _: &Arc<Engine>) -> Result<(), SpawnError> {
        match *self {}
    }

    pub(crate) fn unpark(&self) {
        match *self {}
    }
}
