//! Migrations, on a cluster: `ci/durable-postgres.sh`, in the repository, makes one.

use std::time::Duration;

use tokio::time::Instant;

use super::super::cluster;
use super::super::link::Link;
use super::super::server::Server;
use super::{
    Answer, MIGRATIONS, Migration, SCHEMA, Session, check, migrate, migrate_by, statements,
};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::migration::are_in_order;

const OTHER: &str = "ALTER TABLE tourbillon.timer ADD COLUMN weight integer DEFAULT 7;
    CREATE TABLE tourbillon.other (x integer)";

/// A made-up step after this build's.
const NEXT: Migration = Migration { version: SCHEMA + 1, oldest: SCHEMA, sql: OTHER };

const TIMER: &str = "
    INSERT INTO tourbillon.timer (id, kind, scheduled_for, due, shard)
    VALUES (gen_random_uuid(), 'mail', now(), now(), 0)";

/// A database with this build's tables and a timer.
fn made() -> cluster::Database {
    let database = cluster::Database::new();
    call(&database, async |session| migrate(session).await).unwrap();
    database.client().execute(TIMER, &[]).unwrap();
    database
}

fn call(
    database: &cluster::Database,
    work: impl AsyncFnOnce(&mut Session) -> Answer<()>,
) -> Result<(), StoreError> {
    let deadline = Instant::now() + Duration::from_secs(600);
    let mut link = Link::connect(&Server::new(&database.address())?, deadline, None)?;
    link.call(deadline, work).map_err(|(error, _)| error)
}

fn take(database: &cluster::Database, next: Migration) -> Result<(), StoreError> {
    let migrations = [MIGRATIONS, &[next]].concat();
    call(database, async |session| migrate_by(session, &migrations).await)
}

fn weights(database: &cluster::Database) -> Result<Vec<i32>, postgres::Error> {
    let rows = database.client().query("SELECT weight FROM tourbillon.timer", &[])?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

#[test]
fn versions_count_from_one() {
    assert!(are_in_order(MIGRATIONS));
}

#[test]
fn the_server_gets_each_statement_of_a_migration_alone() {
    let begins = |line: &&str| line.starts_with("CREATE ") || line.starts_with("ALTER ");
    for statement in MIGRATIONS.iter().flat_map(|migration| statements(migration.sql)) {
        assert_eq!(statement.lines().filter(begins).count(), 1, "{statement}");
    }
}

#[test]
fn the_next_version_keeps_what_is_there_and_this_build_works_on() {
    let database = made();
    weights(&database).unwrap_err();
    take(&database, NEXT).unwrap();
    take(&database, NEXT).unwrap();
    call(&database, async |session| migrate(session).await).unwrap();
    call(&database, async |session| check(session).await).unwrap();
    database.client().execute(TIMER, &[]).unwrap();
    assert_eq!(weights(&database).unwrap(), [7, 7]);
}

#[test]
fn a_version_that_this_build_is_too_old_for_is_refused() {
    let database = made();
    let oldest = SCHEMA + 1;
    take(&database, Migration { oldest, ..NEXT }).unwrap();
    let error = call(&database, async |session| migrate(session).await).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Schema);
    let why = format!("builds from version {oldest} on; this build has {SCHEMA}");
    assert!(error.to_string().ends_with(&why), "{error}");
    let error = call(&database, async |session| check(session).await).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Schema);
}

#[test]
fn a_migration_that_fails_leaves_nothing() {
    let database = made();
    let sql = "DROP TABLE tourbillon.timer; SELECT oops";
    take(&database, Migration { sql, ..NEXT }).unwrap_err();
    call(&database, async |session| check(session).await).unwrap();
    database.client().execute(TIMER, &[]).unwrap();
}
