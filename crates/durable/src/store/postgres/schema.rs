//! The tables, and how they come to be.
//!
//! Migrations go forward only, each in one transaction that holds the lock of the one row of
//! `tourbillon.version`: of several processes that start at once, one makes it and the others find
//! it made. That row says which version the tables have, and the oldest build that works with them,
//! so that a build and the next run side by side if the migration between them lets them.

use tokio_postgres::error::SqlState;

use super::link::{Answer, Failure, Query, Session};
use crate::error::{StoreError, StoreErrorKind};

/// The version of the tables that this build makes, and the oldest build that works with them.
struct Migration {
    version: i32,
    oldest: i32,
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
pub const SCHEMA: u32 = MIGRATIONS.len() as u32;

/// Says only whether there is something to read from.
const IS_THERE: &str = "SELECT to_regclass('tourbillon.version') IS NOT NULL";

const READ: &str = "SELECT version, oldest FROM tourbillon.version";

const LOCK: &str = "SELECT version, oldest FROM tourbillon.version FOR UPDATE";

const SET: &str = "UPDATE tourbillon.version SET version = $1, oldest = $2";

/// Made twice at the same time, the second fails, and is repeated.
const FOUND: &str = "
    CREATE SCHEMA IF NOT EXISTS tourbillon;
    CREATE TABLE IF NOT EXISTS tourbillon.version (
        the boolean PRIMARY KEY DEFAULT true CHECK (the),
        version integer NOT NULL,
        oldest integer NOT NULL
    );
    INSERT INTO tourbillon.version (version, oldest) VALUES (0, 0) ON CONFLICT DO NOTHING";

/// A migration may take its time.
const PATIENTLY: &str = "SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = 0";

/// Makes the tables what this build needs.
pub(super) async fn migrate(session: &mut Session) -> Answer<()> {
    if !is_there(session).await? {
        session.begin().await?;
        match session.batch(FOUND).await {
            Ok(()) => session.commit().await?,
            Err(Failure::Postgres(error)) if is_rivals(error.code()) => session.rollback().await?,
            Err(failure) => return Err(failure),
        }
    }
    while version(session, READ).await? < SCHEMA as i32 {
        session.begin().await?;
        session.batch(PATIENTLY).await?;
        let version = version(session, LOCK).await?;
        let next = MIGRATIONS.iter().find(|migration| migration.version == version + 1);
        if let Some(next) = next {
            session.batch(next.sql).await?;
            session.write(SET, &[&next.version, &next.oldest]).await?;
        }
        session.commit().await?;
    }
    Ok(())
}

/// Fails unless this build works with the tables.
pub(super) async fn check(session: &mut Session) -> Answer<()> {
    let found = if is_there(session).await? { version(session, READ).await? } else { 0 };
    if found < SCHEMA as i32 {
        return Err(refuse(format!("they have version {found}, and this build needs {SCHEMA}")));
    }
    Ok(())
}

async fn is_there(session: &mut Session) -> Answer<bool> {
    Ok(session.read(IS_THERE, &[]).await?[0].try_get(0)?)
}

/// The version of the tables, unless this build is too old for them.
async fn version(session: &mut Session, sql: &'static str) -> Answer<i32> {
    let rows = session.read(sql, &[]).await?;
    let Some(row) = rows.first() else { return Err(refuse("`version` has no row".to_owned())) };
    let (version, oldest): (i32, i32) = (row.try_get(0)?, row.try_get(1)?);
    if oldest > SCHEMA as i32 {
        return Err(refuse(format!(
            "they have version {version}, which works with builds from version {oldest} on; this \
             build has {SCHEMA}"
        )));
    }
    Ok(version)
}

fn refuse(why: String) -> Failure {
    Failure::Other(StoreError::new(StoreErrorKind::Schema, why))
}

/// Returns whether another process made the same at the same time.
fn is_rivals(code: Option<&SqlState>) -> bool {
    code.is_some_and(|code| {
        [
            SqlState::UNIQUE_VIOLATION,
            SqlState::DUPLICATE_SCHEMA,
            SqlState::DUPLICATE_TABLE,
            SqlState::DUPLICATE_OBJECT,
        ]
        .contains(code)
    })
}
