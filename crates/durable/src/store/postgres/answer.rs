//! [`Answer`]: rows of a statement, or a failure and its meaning.

use std::error::Error as _;
use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::error::{StoreError, StoreErrorKind};

/// Longest time that a call may take, whatever the network and the server do.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

pub(super) type Answer<T> = std::result::Result<T, Failure>;

/// Reason for which there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server's, or the connection's.
    Postgres(Error),
    /// The call took too long.
    Late,
    /// The server committed without the standby that it was to wait for.
    Unreplicated,
    /// Nothing to do with the database.
    Other(StoreError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

pub(super) fn unavailable(source: Box<dyn std::error::Error + Send + Sync>) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, source)
}

/// Errors of tables that are of another version.
const MISSING: [SqlState; 4] = [
    SqlState::UNDEFINED_TABLE,
    SqlState::UNDEFINED_COLUMN,
    SqlState::UNDEFINED_FUNCTION,
    SqlState::INVALID_SCHEMA_NAME,
];

/// Returns the caller's remedy for an error from the server, and whether the connection may be used
/// again.
pub(super) fn meaning(code: &SqlState) -> (StoreErrorKind, bool) {
    use StoreErrorKind::{Conflict, Invalid, Schema, Unavailable};
    match &code.code()[..2] {
        _ if *code == SqlState::LOCK_NOT_AVAILABLE => (Conflict, true),
        "40" => (Conflict, true),
        _ if *code == SqlState::QUERY_CANCELED => (Unavailable, true),
        // The statement was prepared by another session: a pooler has replaced this one.
        _ if *code == SqlState::DUPLICATE_PSTATEMENT => (Unavailable, false),
        // No such table, column, function or schema.
        _ if MISSING.contains(code) => (Schema, true),
        // Permission, syntax, values, constraints, limits.
        "22" | "23" | "3F" | "42" | "54" => (Invalid, true),
        // Shutting down, out of something, a standby, a statement forgotten: another connection
        // may do.
        _ => (Unavailable, false),
    }
}

impl Failure {
    /// Returns the caller's remedy, and whether the connection may be used again.
    pub(super) fn judge(&self, exposed: bool) -> (StoreErrorKind, bool) {
        use StoreErrorKind::{Unavailable, Uncertain};
        let error = match self {
            Self::Postgres(error) => error,
            Self::Late if exposed => return (Uncertain, false),
            Self::Late => return (Unavailable, false),
            Self::Unreplicated => return (Uncertain, true),
            Self::Other(error) => return (error.kind(), true),
        };
        let Some(code) = error.code() else {
            return (if exposed { Uncertain } else { Unavailable }, false);
        };
        let (kind, is_good) = meaning(code);
        (if exposed { Uncertain } else { kind }, is_good)
    }

    /// Returns whether the server ended a statement because a lock was not free in time.
    pub(super) fn is_lock_timeout(&self) -> bool {
        let Self::Postgres(error) = self else { return false };
        error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Converts it to an error in a transaction that is not committed.
    pub(super) fn unwritten(self) -> StoreError {
        let (kind, _) = self.judge(false);
        self.into_error(kind)
    }

    /// Converts it to an error of connecting.
    pub(super) fn unconnected(self) -> StoreError {
        self.into_error(StoreErrorKind::Unavailable)
    }

    pub(super) fn into_error(self, kind: StoreErrorKind) -> StoreError {
        match self {
            // By itself it says little more than that there was one.
            Self::Postgres(error) => match (error.as_db_error(), error.source()) {
                (Some(said), _) => StoreError::new(kind, said.to_string()),
                (None, Some(source)) => StoreError::new(kind, format!("{error}: {source}")),
                (None, None) => StoreError::new(kind, error),
            },
            Self::Late => StoreError::new(kind, format!("no answer within {PATIENCE:?}")),
            Self::Unreplicated => {
                let why = "the server committed without the standby that it was to wait for";
                StoreError::new(kind, why)
            }
            Self::Other(error) => error,
        }
    }
}

#[cfg(test)]
mod tests;
