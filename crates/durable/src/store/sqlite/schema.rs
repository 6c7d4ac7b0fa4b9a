//! The tables, and how they come to be.
//!
//! Migrations go forward only, each in one transaction: of several processes that open a file at
//! once, one makes it and the others find it made. The one row of `tourbillon_schema` says which
//! version the tables have, and the oldest build that works with them, so that a build and the next
//! run side by side if the migration between them lets them. Every transaction that writes asks for
//! it: a build that has become too old writes nothing more.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::failure::{Answer, Failure};
use crate::error::{StoreError, StoreErrorKind};

/// The version of the tables that it makes, and the oldest build that works with them.
struct Migration {
    version: u32,
    oldest: u32,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, oldest: 1, sql: include_str!("1.sql") },
    Migration { version: 2, oldest: 1, sql: include_str!("2.sql") },
    Migration { version: 3, oldest: 1, sql: include_str!("3.sql") },
    Migration { version: 4, oldest: 1, sql: include_str!("4.sql") },
    Migration { version: 5, oldest: 1, sql: include_str!("5.sql") },
];

/// The version of the tables that this build makes, and the lowest that it works with.
///
/// This build also works with tables of a higher version, if they say so.
const SCHEMA: u32 = MIGRATIONS.len() as u32;

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

/// Makes the tables what this build needs.
pub(super) fn migrate(connection: &Connection) -> Answer<()> {
    migrate_by(connection, MIGRATIONS)
}

/// Fails unless this build works with the tables.
pub(super) fn check(connection: &Connection) -> Answer<()> {
    check_by(connection, SCHEMA)
}

fn check_by(connection: &Connection, build: u32) -> Answer<()> {
    let found = version(connection, build)?;
    if found < build {
        return Err(refuse(format!("they have version {found}, and this build needs {build}")));
    }
    Ok(())
}

fn migrate_by(connection: &Connection, migrations: &[Migration]) -> Answer<()> {
    let newest = migrations.len() as u32;
    // Without the lock, which is not needed to find that all is done.
    if is_there(connection)? && version(connection, newest)? >= newest {
        return Ok(());
    }
    loop {
        let immediate = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(connection, immediate)?;
        transaction.execute_batch(FOUND)?;
        let found = version(&transaction, newest)?;
        let Some(next) = migrations.get(found as usize) else { return Ok(()) };
        transaction.execute_batch(next.sql)?;
        transaction.execute(SET, [next.version, next.oldest])?;
        transaction.commit().map_err(Failure::Commit)?;
    }
}

fn is_there(connection: &Connection) -> Answer<bool> {
    Ok(connection.query_row(IS_THERE, [], |row| row.get(0))?)
}

/// The version of the tables, 0 if there are none; fails if they are not for a build like this.
fn version(connection: &Connection, build: u32) -> Answer<u32> {
    let mut statement = connection.prepare_cached(READ)?;
    let row = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let (version, oldest): (u32, u32) = row.unwrap_or_default();
    if oldest > build {
        return Err(refuse(format!(
            "they have version {version}, which works with builds from version {oldest} on; this \
             build has {build}"
        )));
    }
    Ok(version)
}

fn refuse(why: String) -> Failure {
    Failure::Other(StoreError::new(StoreErrorKind::Schema, why))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{MIGRATIONS, Migration, check_by, migrate_by, version};
    use crate::error::{StoreError, StoreErrorKind};

    const FIRST: Migration = Migration { version: 1, oldest: 1, sql: "CREATE TABLE a (x)" };
    const SECOND: Migration =
        Migration { version: 2, oldest: 1, sql: "CREATE TABLE b (x); ALTER TABLE a ADD y" };
    const THIRD: Migration = Migration { version: 3, oldest: 3, sql: "CREATE TABLE c (x)" };
    const BROKEN: Migration = Migration { version: 2, oldest: 2, sql: "DROP TABLE a; SELECT oops" };

    fn empty() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    fn tables(connection: &Connection) -> i64 {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE name <> 'tourbillon_schema'";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn versions_count_from_one() {
        for (place, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version as usize, place + 1);
            assert!(migration.oldest <= migration.version);
        }
    }

    #[test]
    fn tables_are_taken_forward_from_where_they_are() {
        let connection = empty();
        migrate_by(&connection, &[FIRST]).unwrap();
        migrate_by(&connection, &[FIRST, SECOND]).unwrap();
        migrate_by(&connection, &[FIRST, SECOND]).unwrap();
        assert_eq!((version(&connection, 2).unwrap(), tables(&connection)), (2, 2));
    }

    #[test]
    fn a_build_works_with_later_tables_that_let_it() {
        let connection = empty();
        migrate_by(&connection, &[FIRST, SECOND]).unwrap();
        migrate_by(&connection, &[FIRST]).unwrap();
        check_by(&connection, 1).unwrap();
        migrate_by(&connection, &[FIRST, SECOND, THIRD]).unwrap();
        for failure in [migrate_by(&connection, &[FIRST, SECOND]), check_by(&connection, 2)] {
            let error = StoreError::from(failure.unwrap_err());
            assert_eq!(error.kind(), StoreErrorKind::Schema);
            assert!(error.to_string().contains("builds from version 3 on"), "{error}");
        }
    }

    #[test]
    fn a_migration_that_fails_leaves_nothing() {
        let connection = empty();
        migrate_by(&connection, &[FIRST]).unwrap();
        migrate_by(&connection, &[FIRST, BROKEN]).unwrap_err();
        assert_eq!((version(&connection, 2).unwrap(), tables(&connection)), (1, 1));
        assert!(connection.is_autocommit());
    }
}
