//! The driver thread's place, where there are no threads.

use crate::engine::{DrivenBy, SharedEngine};
use crate::sync::SpawnError;

/// Would start the engine's thread.
#[cold]
pub(crate) fn start(engine: &SharedEngine) -> Result<(), SpawnError> {
    match engine.driven_by() {
        DrivenBy::Thread(thread) => match *thread {},
        DrivenBy::Hand(_) | DrivenBy::Clock => Ok(()),
        DrivenBy::Task(task) => task.start(engine),
    }
}
