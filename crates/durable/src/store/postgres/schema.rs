//! The tables, and how they come to be.
//!
//! Migrations go forward only, each in one transaction that holds the lock of the one row of
//! `version`: of several processes that start at once, one makes it and the others find it made.
//! That row says which version the tables have, and the oldest build that works with them. A build
//! and the next run side by side if the migration between them lets them.

#[cfg(test)]
mod tests;

use tokio_postgres::error::SqlState;

use super::answer::{Answer, Failure};
use super::link::{Query, Session};
use super::values::int;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::migration::{Found, Migration, newest, refusal};

const MIGRATIONS: &[Migration] = &[Migration { version: 1, oldest: 1, sql: include_str!("1.sql") }];

/// The version of the tables that this build makes, and the lowest that it works with.
///
/// This build also works with tables of a higher version, if they say so.
pub const SCHEMA: u32 = newest(MIGRATIONS);

/// Says only whether there is something to read from.
const IS_THERE: &str = "SELECT to_regclass('tourbillon.version') IS NOT NULL";

/// The owner of the schema may have no right to make one.
const HAS_SCHEMA: &str = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1::text)";

const READ: &str = "SELECT version, oldest FROM tourbillon.version";

const LOCK: &str = "SELECT version, oldest FROM tourbillon.version FOR UPDATE";

/// A write that changes nothing.
const NOTHING: &str = "UPDATE tourbillon.version SET version = version WHERE false";

const STARTED: &str = "SELECT now()::text";

/// Sentence for a pooler that does not end the transactions that it begins.
const RAW_MODE: &str = "the address leads to a pooler that answers a write and does not commit \
    it, like Pgpool-II in raw mode: connect to the server itself, or set the pooler to streaming \
    replication mode (`backend_clustering_mode = 'streaming_replication'`)";

const SET: &str = "UPDATE tourbillon.version SET version = $1, oldest = $2";

/// Made twice at the same time, the second fails, and is repeated.
const FOUND: &str = "
    CREATE TABLE IF NOT EXISTS tourbillon.version (
        the boolean PRIMARY KEY DEFAULT true CHECK (the),
        version integer NOT NULL,
        oldest integer NOT NULL
    );
    INSERT INTO tourbillon.version (version, oldest) VALUES (0, 0) ON CONFLICT DO NOTHING";

/// A migration may take its time.
const PATIENTLY: &str = "SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = 0";

/// Makes the tables that this build needs.
pub(super) async fn migrate(session: &mut Session) -> Answer<()> {
    migrate_by(session, MIGRATIONS).await?;
    check_commits(session).await
}

/// Fails if a transaction is open after a write outside of any: two statements have begun at one
/// time.
async fn check_commits(session: &mut Session) -> Answer<()> {
    session.write(NOTHING, &[]).await?;
    let mut started: [String; 2] = Default::default();
    for started in &mut started {
        *started = session.read(STARTED, &[]).await?[0].try_get(0)?;
    }
    match started[0] == started[1] {
        true => Err(StoreError::new(StoreErrorKind::Invalid, RAW_MODE).into()),
        false => Ok(()),
    }
}

async fn migrate_by(session: &mut Session, migrations: &[Migration]) -> Answer<()> {
    if !is_there(session).await? {
        let rows = session.read_once(HAS_SCHEMA, &[&session.tables().schema()]).await?;
        let schema = match rows[0].try_get(0)? {
            true => String::new(),
            false => format!("CREATE SCHEMA IF NOT EXISTS {};", session.tables().quoted()),
        };
        session.begin().await?;
        match session.batch(&(schema + FOUND)).await {
            Ok(()) => session.commit().await?,
            Err(Failure::Postgres(error)) if is_rivals(error.code()) => session.rollback().await?,
            Err(failure) => return Err(failure),
        }
    }
    while found(session, READ).await?.step(migrations)?.is_some() {
        session.begin().await?;
        session.batch(PATIENTLY).await?;
        if let Some(next) = found(session, LOCK).await?.step(migrations)? {
            for statement in statements(next.sql) {
                session.batch(statement).await?;
            }
            session.write(SET, &[&int(next.version), &int(next.oldest)]).await?;
        }
        session.commit().await?;
    }
    Ok(())
}

/// Splits a migration, whose statements end with a line, and whose functions stand between `$$`.
///
/// The server would take them all at once. Citus hands the text with an index in it on to a worker,
/// which takes one statement.
fn statements(sql: &str) -> impl Iterator<Item = &str> {
    let (mut before, mut is_body) = (' ', false);
    sql.split_inclusive(move |each| {
        is_body ^= (before, each) == ('$', '$');
        let is_end = !is_body && (before, each) == (';', '\n');
        before = each;
        is_end
    })
}

/// Fails unless this build works with the tables.
pub(super) async fn check(session: &mut Session) -> Answer<()> {
    let found =
        if is_there(session).await? { found(session, READ).await? } else { Found::default() };
    Ok(found.check(MIGRATIONS)?)
}

async fn is_there(session: &mut Session) -> Answer<bool> {
    Ok(session.read(IS_THERE, &[]).await?[0].try_get(0)?)
}

async fn found(session: &mut Session, sql: &'static str) -> Answer<Found> {
    let rows = session.read(sql, &[]).await?;
    let Some(row) = rows.first() else {
        return Err(refusal("`version` has no row".to_owned()).into());
    };
    let (version, oldest): (i32, i32) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Found { version: version.unsigned_abs(), oldest: oldest.unsigned_abs() })
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
