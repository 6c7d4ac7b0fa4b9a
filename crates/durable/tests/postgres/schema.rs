//! Creation of the tables.

use std::sync::Barrier;
use std::thread;

use tourbillon_durable::store::Store;
use tourbillon_durable::store::postgres::SCHEMA;
use tourbillon_durable::{Retry, StoreErrorKind};

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

#[test]
fn a_further_connection_makes_no_tables() {
    let database = Database::new();
    let store = database.connect();
    database.client().batch_execute("DROP SCHEMA tourbillon CASCADE").unwrap();
    assert_eq!(store.connect().map(drop).unwrap_err().kind(), StoreErrorKind::Schema);
}

#[test]
fn a_timer_is_inserted_from_another_language_as_the_document_says() {
    let database = Database::new();
    let mut store = database.connect();
    let mut client = database.client();
    let (_, sql) = include_str!("../../docs/POSTGRES.md").split_once("```sql\n").unwrap();
    let (sql, _) = sql.split_once("```").unwrap();
    client.batch_execute(sql).unwrap();

    let timer = store.find("invoice-42").unwrap().unwrap();
    assert_eq!(timer.new.retry, Retry::default());
    assert_eq!((timer.new.payload, timer.new.has_queue), (b"{}".to_vec(), false));
    let shard: i16 = client.query_one("SELECT shard FROM tourbillon.timer", &[]).unwrap().get(0);
    assert_eq!(shard, i16::from(timer.new.id.shard()));

    for column in ["retry_attempts = -1", "retry_first = '-1 s'", "retry_longest = '-1 s'"] {
        let set = format!("UPDATE tourbillon.timer SET {column}");
        client.batch_execute(&set).unwrap_err();
    }
}

#[test]
fn a_timer_without_more_has_the_usual_retries() {
    let database = Database::new();
    let mut store = database.connect();
    let insert = "INSERT INTO tourbillon.timer (id, name, kind, scheduled_for, due, shard)
        VALUES (gen_random_uuid(), 'one', 'mail', now(), now(), 0)";
    database.client().batch_execute(insert).unwrap();
    assert_eq!(store.find("one").unwrap().unwrap().new.retry, Retry::default());
}
