//! The tables, and how they come to be.
//!
//! Migrations go forward only, each in one transaction: of several processes that open a file at
//! once, one makes it and the others find it made. The one row of `tourbillon_schema` says which
//! version the tables have, and the oldest build that works with them, so that a build and the next
//! run side by side if the migration between them lets them. Every transaction that writes asks for
//! it: a build that has become too old writes nothing more.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::failure::{Answer, Failure};
use crate::store::migration::{Found, Migration};

const MIGRATIONS: &[Migration] = &[Migration { version: 1, oldest: 1, sql: include_str!("1.sql") }];

const IS_THERE: &str =
    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'tourbillon_schema')";

const READ: &str = "SELECT version, oldest FROM tourbillon_schema";

/// There is one row, if any.
const FOUND: &str = "
    CREATE TABLE IF NOT EXISTS tourbillon_schema (
        the INTEGER PRIMARY KEY CHECK (the = 1),
        version INTEGER NOT NULL,
        oldest INTEGER NOT NULL
    ) STRICT";

const SET: &str =
    "INSERT OR REPLACE INTO tourbillon_schema (the, version, oldest) VALUES (1, ?, ?)";

/// Makes the tables that this build needs.
pub(super) fn migrate(connection: &Connection) -> Answer<()> {
    migrate_by(connection, MIGRATIONS)
}

/// Fails unless this build works with the tables.
pub(super) fn check(connection: &Connection) -> Answer<()> {
    Ok(found(connection)?.check(MIGRATIONS)?)
}

fn migrate_by(connection: &Connection, migrations: &[Migration]) -> Answer<()> {
    // Without the lock: it is not needed to find that no step is left.
    if is_there(connection)? && found(connection)?.step(migrations)?.is_none() {
        return Ok(());
    }
    loop {
        let immediate = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(connection, immediate)?;
        transaction.execute_batch(FOUND)?;
        let Some(next) = found(&transaction)?.step(migrations)? else { return Ok(()) };
        transaction.execute_batch(next.sql)?;
        transaction.execute(SET, [next.version, next.oldest])?;
        transaction.commit().map_err(Failure::Commit)?;
    }
}

fn is_there(connection: &Connection) -> Answer<bool> {
    Ok(connection.query_row(IS_THERE, [], |row| row.get(0))?)
}

/// Returns the version of the tables; that of none if there are none.
fn found(connection: &Connection) -> Answer<Found> {
    let mut statement = connection.prepare_cached(READ)?;
    let found = statement
        .query_row([], |row| Ok(Found { version: row.get(0)?, oldest: row.get(1)? }))
        .optional()?;
    Ok(found.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{Found, MIGRATIONS, Migration, check, found, migrate, migrate_by};
    use crate::error::{StoreError, StoreErrorKind};
    use crate::store::migration::{are_in_order, newest};

    const BUILD: u32 = newest(MIGRATIONS);

    const OTHER: &str = "ALTER TABLE tourbillon_timer ADD COLUMN weight INTEGER DEFAULT 7;
        CREATE TABLE tourbillon_other (x ANY) STRICT";

    /// A made-up step after this build's.
    const NEXT: Migration = Migration { version: BUILD + 1, oldest: BUILD, sql: OTHER };

    const TIMER: &str = "
        INSERT INTO tourbillon_timer (id, kind, scheduled_for, due, payload)
        VALUES (randomblob(16), 'mail', 1, 1, x'01')";

    fn made() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection).unwrap();
        connection.execute(TIMER, ()).unwrap();
        connection
    }

    fn with(next: Migration) -> Vec<Migration> {
        [MIGRATIONS, &[next]].concat()
    }

    fn weights(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
        let mut statement = connection.prepare("SELECT weight FROM tourbillon_timer")?;
        statement.query_map((), |row| row.get(0))?.collect()
    }

    #[test]
    fn versions_count_from_one() {
        assert!(are_in_order(MIGRATIONS));
    }

    #[test]
    fn the_next_version_keeps_what_is_there_and_this_build_works_on() {
        let connection = made();
        weights(&connection).unwrap_err();
        for _ in 0..2 {
            migrate_by(&connection, &with(NEXT)).unwrap();
            assert_eq!(found(&connection).unwrap(), Found { version: BUILD + 1, oldest: BUILD });
        }
        migrate(&connection).unwrap();
        check(&connection).unwrap();
        connection.execute(TIMER, ()).unwrap();
        assert_eq!(weights(&connection), Ok(vec![7, 7]));
    }

    #[test]
    fn a_version_that_this_build_is_too_old_for_is_refused() {
        let connection = made();
        let oldest = BUILD + 1;
        migrate_by(&connection, &with(Migration { oldest, ..NEXT })).unwrap();
        for refused in [migrate(&connection), check(&connection)] {
            let error = StoreError::from(refused.unwrap_err());
            assert_eq!(error.kind(), StoreErrorKind::Schema);
            let why = format!("builds from version {oldest} on; this build has {BUILD}");
            assert!(error.to_string().ends_with(&why), "{error}");
        }
    }

    #[test]
    fn a_migration_that_fails_leaves_nothing() {
        let connection = made();
        let sql = "DROP TABLE tourbillon_timer; SELECT oops";
        migrate_by(&connection, &with(Migration { sql, ..NEXT })).unwrap_err();
        assert_eq!(found(&connection).unwrap().version, BUILD);
        assert!(connection.is_autocommit());
        connection.execute(TIMER, ()).unwrap();
    }
}
