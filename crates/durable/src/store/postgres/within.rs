//! Timers changed by their names in a transaction of the caller's, whichever library that is of.

#[cfg(feature = "tokio-postgres-0_7")]
mod tokio_postgres_0_7;

use crate::error::{StoreError, StoreErrorKind};
use crate::id::TimerId;
use crate::store::{Result, TimerUpdate};

pub(super) const CANCEL: &str = "SELECT answer, timer::text, attempt FROM tourbillon.cancel($1)";

pub(super) const RESCHEDULE: &str =
    "SELECT answer, timer::text, attempt FROM tourbillon.reschedule($1, $2)";

/// Reads the answer of the functions that change a timer.
pub(super) fn update(
    answer: &str,
    id: Option<&str>,
    attempt: Option<i32>,
) -> Result<(TimerUpdate, Option<TimerId>)> {
    let unreadable = |error| StoreError::new(StoreErrorKind::Schema, error);
    let id = id.map(str::parse).transpose().map_err(unreadable)?;
    let update = match (answer, attempt) {
        ("done", _) => TimerUpdate::Done,
        ("running", Some(attempt)) => TimerUpdate::Running { attempt: attempt.unsigned_abs() },
        _ => TimerUpdate::Gone,
    };
    Ok((update, id))
}
