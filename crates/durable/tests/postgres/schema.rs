//! How the tables come to be.

use std::sync::Barrier;
use std::thread;

use tourbillon_durable::store::postgres::SCHEMA;
use tourbillon_durable::store::{Filter, Postgres, Store};
use tourbillon_durable::{StoreError, StoreErrorKind};

use crate::cluster::Database;

#[test]
fn processes_that_start_at_once_make_the_tables_once() {
    let database = Database::new();
    let start = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                database.connect().now().unwrap();
            });
        }
    });
    let found = database.client().query("SELECT version FROM tourbillon.version", &[]).unwrap();
    let versions: Vec<i32> = found.iter().map(|row| row.get(0)).collect();
    assert_eq!(versions, [SCHEMA as i32]);
}

fn refusal(database: &Database) -> StoreError {
    Postgres::connect(&database.address()).map(drop).unwrap_err()
}

#[test]
fn a_build_works_with_newer_tables_that_say_so_and_refuses_others() {
    let database = Database::new();
    let store = database.connect();
    let set = |version: i32, oldest: i32| {
        let set = "UPDATE tourbillon.version SET version = $1, oldest = $2";
        database.client().execute(set, &[&version, &oldest]).unwrap();
    };
    set(7, 1);
    database.connect().now().unwrap();

    set(8, SCHEMA as i32 + 1);
    let error = refusal(&database);
    assert_eq!(error.kind(), StoreErrorKind::Schema);
    let expected = format!(
        "the database's tables are of another version: they have version 8, which works with \
         builds from version {} on; this build has {SCHEMA}",
        SCHEMA + 1
    );
    assert_eq!(error.to_string(), expected);
    // Neither do connections made later by a store that was there before.
    assert_eq!(store.connect().map(drop).unwrap_err().kind(), StoreErrorKind::Schema);
}

#[test]
fn a_further_connection_makes_no_tables() {
    let database = Database::new();
    let store = database.connect();
    database.client().batch_execute("DROP SCHEMA tourbillon CASCADE").unwrap();
    assert_eq!(store.connect().map(drop).unwrap_err().kind(), StoreErrorKind::Schema);
}

/// What a build writes that knows the first version only.
const OLD: &str = "
    INSERT INTO tourbillon.timer (id, kind, scheduled_for, due, shard, payload, retry, attempt)
    VALUES (gen_random_uuid(), 'mail', now(), now(), 0, 'a', '3,0,0', 1);
    INSERT INTO tourbillon.history
        (timer, kind, scheduled_for, attempts, failures, outcome, reason, detail, recorded)
    VALUES (gen_random_uuid(), 'mail', now(), 1, 1, 2, 1, 'rain', now())";

#[test]
fn tables_of_the_first_version_are_taken_forward_and_an_old_build_goes_on() {
    let database = Database::new();
    let mut client = database.client();
    let found = "CREATE SCHEMA tourbillon;
        CREATE TABLE tourbillon.version (
            the boolean PRIMARY KEY DEFAULT true CHECK (the),
            version integer NOT NULL,
            oldest integer NOT NULL
        );
        INSERT INTO tourbillon.version (version, oldest) VALUES (1, 1)";
    client.batch_execute(found).unwrap();
    client.batch_execute(include_str!("../../src/store/postgres/1.sql")).unwrap();
    client.batch_execute(OLD).unwrap();
    let mut store = database.connect();
    client.batch_execute(OLD).unwrap();

    let lease = crate::join(&mut store);
    let timers = store.timers(&Filter::default()).unwrap();
    let mut ids: Vec<_> = timers.iter().map(|timer| timer.new.id).collect();
    ids.sort();
    let claimed = store.claim(lease, &ids).unwrap().timers;
    assert_eq!(claimed.len(), 2);
    assert!(claimed.iter().all(|timer| timer.attempt == 2 && timer.detail.is_empty()));
    let records = store.records(&Filter::default()).unwrap();
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|record| record.detail == "rain" && record.payload.is_none()));
}
