//! [`StoreError`]: failures between an engine and its database.

use std::error::Error;
use std::fmt;

/// Kinds of [`StoreError`], by the caller's remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// Nothing was written. The database is not there, or too busy: try again later.
    Unavailable,
    /// The answer was lost: the write may have happened, or may still happen.
    Uncertain,
    /// Nothing was written because a concurrent transaction was in the way: try again.
    Conflict,
    /// The database's tables are of a version that this build does not work with.
    Schema,
    /// Nothing was written, and nothing would be the next time.
    Invalid,
    /// Nothing was written, and this store writes no more: the database's file was deleted, moved
    /// or replaced.
    Gone,
}

/// A store's call that failed.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    source: Box<dyn Error + Send + Sync>,
}

impl StoreError {
    /// An error of `kind`, because of `source`.
    pub fn new(kind: StoreErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, source: source.into() }
    }

    /// Makes the same error again, with the text of its source.
    pub(crate) fn copy(&self) -> Self {
        Self::new(self.kind, self.source.to_string())
    }

    /// Returns the kind, which names the caller's remedy.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            StoreErrorKind::Unavailable => "the database is not available",
            StoreErrorKind::Uncertain => "the database's answer was lost",
            StoreErrorKind::Conflict => "a concurrent transaction got in the way",
            StoreErrorKind::Schema => "the database's tables are of another version",
            StoreErrorKind::Invalid => "the database refused",
            StoreErrorKind::Gone => "the database is gone",
        })?;
        write!(f, ": {}", self.source)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
