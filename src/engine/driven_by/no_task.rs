//! The place of a driver that is a task, where there is none.

use crate::engine::SharedEngine;
use crate::sync::SpawnError;

/// State of a task: there is none.
pub(crate) enum TaskDriver {}

impl TaskDriver {
    pub(crate) fn anew(&self) -> Self {
        match *self {}
    }

    pub(crate) fn start(&self, _: &SharedEngine) -> Result<(), SpawnError> {
        match *self {}
    }

    pub(crate) fn unpark(&self) {
        match *self {}
    }
}
