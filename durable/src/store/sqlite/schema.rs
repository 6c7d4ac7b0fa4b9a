//! Tables, and how those of an earlier version become those of this one.

use rusqlite::{Transaction, params};

use crate::error::{StoreError, StoreErrorKind};

/// Each takes the tables from the version of its place to the next. None is ever changed.
const MIGRATIONS: [&str; 1] = [include_str!("1.sql")];

/// The version that this build writes.
const VERSION: i64 = MIGRATIONS.len() as i64;

/// The oldest build that works with this version: one that writes the version with this number.
const OLDEST: i64 = 1;

/// Brings the tables to this build's version, unless they are of a later one that it works with.
pub(super) fn migrate(tx: &Transaction<'_>) -> Result<(), StoreError> {
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS tourbillon_schema (
             version INTEGER NOT NULL,
             oldest INTEGER NOT NULL
         ) STRICT",
    )?;
    let found = tx.query_row("SELECT version, oldest FROM tourbillon_schema", (), |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    });
    let (version, oldest) = match found {
        Err(rusqlite::Error::QueryReturnedNoRows) => (0, 0),
        found => found?,
    };
    if oldest > VERSION {
        let message = format!(
            "they are of version {version}, which needs a build for {oldest} or later; this is one \
             for {VERSION}"
        );
        return Err(StoreError::new(StoreErrorKind::Schema, message));
    }
    let done = usize::try_from(version).unwrap_or(0).min(MIGRATIONS.len());
    for migration in &MIGRATIONS[done..] {
        tx.execute_batch(migration)?;
    }
    if version < VERSION {
        tx.execute("DELETE FROM tourbillon_schema", ())?;
        tx.execute("INSERT INTO tourbillon_schema VALUES (?, ?)", params![VERSION, OLDEST])?;
    }
    Ok(())
}
