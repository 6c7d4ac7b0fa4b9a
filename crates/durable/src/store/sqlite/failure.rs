//! [`Failure`]: meanings of SQLite's errors.

use rusqlite::{Error, ErrorCode, ffi};

use crate::error::{StoreError, StoreErrorKind};

/// Reason for which there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// SQLite's, before a commit.
    Sqlite(Error),
    /// SQLite's, of a commit.
    Commit(Error),
    /// Not SQLite's.
    Other(StoreError),
}

pub(super) type Answer<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Sqlite(error) => Self::new(judge(&error).0, error),
            // Of a log that was written and not brought to the disk, a crash may leave all.
            Failure::Commit(error) if judge(&error) != BUSY => {
                Self::new(StoreErrorKind::Uncertain, error)
            }
            Failure::Commit(error) => Self::new(BUSY.0, error),
            Failure::Other(error) => error,
        }
    }
}

impl Failure {
    /// Returns whether another connection would come to the same.
    pub(super) fn spares_the_connection(&self) -> bool {
        match self {
            Self::Sqlite(error) | Self::Commit(error) => judge(error).1,
            Self::Other(_) => true,
        }
    }
}

/// Another process writes.
const BUSY: (StoreErrorKind, bool) = (StoreErrorKind::Unavailable, true);

/// Returns the caller's remedy for an error before a commit, and whether the connection may be used
/// again.
fn judge(error: &Error) -> (StoreErrorKind, bool) {
    use StoreErrorKind::{Conflict, Invalid, Schema, Unavailable};
    let code = match error {
        Error::SqliteFailure(code, _) => code,
        // A later build may have written values that this build does not know.
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..) => return (Schema, true),
        _ => return (Invalid, true),
    };
    match code.code {
        // It read before another wrote, and then wanted to write.
        ErrorCode::DatabaseBusy if code.extended_code == ffi::SQLITE_BUSY_SNAPSHOT => {
            (Conflict, true)
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => BUSY,
        // No such table or column: all statements are constant.
        ErrorCode::Unknown | ErrorCode::SchemaChanged => (Schema, true),
        ErrorCode::ConstraintViolation
        | ErrorCode::TypeMismatch
        | ErrorCode::TooBig
        | ErrorCode::ApiMisuse
        | ErrorCode::ParameterOutOfRange => (Invalid, true),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => (Invalid, false),
        // No space, no permission, no file, no memory, or a disk that fails: that can end.
        _ => (Unavailable, false),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::{Error, ffi};

    use super::Failure;
    use crate::error::StoreError;
    use crate::error::StoreErrorKind::{self, Conflict, Invalid, Schema, Unavailable, Uncertain};

    fn error(code: i32) -> Error {
        Error::SqliteFailure(ffi::Error::new(code), None)
    }

    fn kind(failure: Failure) -> StoreErrorKind {
        StoreError::from(failure).kind()
    }

    #[test]
    fn only_a_commit_leaves_it_open_what_was_written() {
        for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_FULL] {
            assert_eq!(kind(Failure::Sqlite(error(code))), Unavailable);
            assert_eq!(kind(Failure::Commit(error(code))), Uncertain);
        }
        assert_eq!(kind(Failure::Commit(error(ffi::SQLITE_BUSY))), Unavailable);
    }

    #[test]
    fn each_error_is_what_a_caller_can_do_about_it() {
        for (code, expected, is_kept) in [
            (ffi::SQLITE_BUSY, Unavailable, true),
            (ffi::SQLITE_BUSY_SNAPSHOT, Conflict, true),
            (ffi::SQLITE_ERROR, Schema, true),
            (ffi::SQLITE_CONSTRAINT_UNIQUE, Invalid, true),
            (ffi::SQLITE_TOOBIG, Invalid, true),
            (ffi::SQLITE_CORRUPT, Invalid, false),
            (ffi::SQLITE_NOTADB, Invalid, false),
            (ffi::SQLITE_CANTOPEN, Unavailable, false),
            (ffi::SQLITE_READONLY, Unavailable, false),
            (ffi::SQLITE_NOMEM, Unavailable, false),
        ] {
            let failure = Failure::Sqlite(error(code));
            assert_eq!(failure.spares_the_connection(), is_kept, "{code}");
            assert_eq!(kind(failure), expected, "{code}");
        }
    }
}
