//! Several sets of tables in one database, each in a schema of its own.

use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime};

use tourbillon_durable::store::calls::{Notification, Reschedule};
use tourbillon_durable::store::postgres::Tables;
use tourbillon_durable::store::{NewTimer, RecordQuery, ScheduleQuery, Store, TimerQuery};
use tourbillon_durable::{Engine, Schedule, Shards, StoreErrorKind, Time, TimerId, Upsert};

use crate::cluster::{Schema, async_client, client, cluster};
use crate::timer;

/// Long enough for the expected events.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn engines_in_two_schemas_do_not_see_each_other() {
    let schemas = [Schema::new(), Schema::new()];
    let [east, west] = schemas.each_ref().map(|schema| {
        let engine = Engine::builder().start(Box::new(schema.connect())).unwrap();
        let (client, worker) = (engine.client().unwrap(), engine.worker("mail", 4));
        (engine, client, worker)
    });
    pollster::block_on(async {
        let mut ids = Vec::new();
        for ((engine, client, mails), payload) in [(east, "east"), (west, "west")] {
            // The names exist in the other schema, too.
            let hourly = client.every("hourly", Schedule::every(Duration::from_secs(3_600)));
            assert_eq!(hourly.upsert().await.unwrap(), Upsert::Created);
            let once = client.once("mail", SystemTime::now()).name("one").payload(payload);
            once.create().await.unwrap();
            ids.push((engine, client, mails, payload));
        }
        for (engine, client, mut mails, payload) in ids {
            let fire = mails.next().await.unwrap();
            assert_eq!((fire.payload(), fire.attempt()), (payload.as_bytes(), 1));
            let id = fire.id();
            fire.complete().await.unwrap();
            let records = client.records(RecordQuery::new().kind("mail")).await.unwrap();
            assert_eq!(records.iter().map(|record| record.timer).collect::<Vec<_>>(), [id]);
            let nodes = client.nodes().await.unwrap();
            assert_eq!(nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [engine.node()]);
            assert_eq!(client.schedules(ScheduleQuery::new()).await.unwrap().len(), 1);
            engine.stop().await;
        }
    });
}

#[test]
fn a_notice_is_heard_in_its_own_schema_alone() {
    let schemas = [Schema::new(), Schema::new()];
    let [mut east, mut west] = schemas.each_ref().map(Schema::connect);
    let (send, heard) = mpsc::channel();
    let _listening = east.listen(Arc::new(move |notice| _ = send.send(notice))).unwrap();
    let next = || heard.recv_timeout(LIMIT).unwrap();
    assert_eq!(next(), Notification::Due(Shards::ALL));
    let [first, second] = [1, 2].map(Shards::from_mask);
    west.notify(first).unwrap();
    // Notices of one database arrive in the order of their commits.
    east.notify(second).unwrap();
    assert_eq!(next(), Notification::Due(second));
}

#[test]
fn each_schema_has_a_version_of_its_own() {
    let schemas = [Schema::new(), Schema::new()];
    let [mut east, west] = schemas.each_ref().map(Schema::connect);
    let name = schemas[1].name();
    let set = format!("UPDATE {name}.version SET version = 99, oldest = 99");
    client().batch_execute(&set).unwrap();
    assert_eq!(west.connect().map(drop).unwrap_err().kind(), StoreErrorKind::Schema);
    drop(east.connect().unwrap());

    client().batch_execute(&format!("DROP SCHEMA {name} CASCADE")).unwrap();
    let timer = timer(east.now().unwrap());
    east.insert(std::slice::from_ref(&timer)).unwrap();
    assert_eq!(schemas[1].connect().timers(&TimerQuery::new()).unwrap(), []);
    assert_eq!(east.timers(&TimerQuery::new()).unwrap().len(), 1);
    let there = "SELECT to_regnamespace('tourbillon') IS NULL";
    assert!(client().query_one(there, &[]).unwrap().get::<_, bool>(0));
}

#[test]
fn the_functions_of_a_schema_write_its_tables() {
    let schemas = [Schema::new(), Schema::new()];
    let [mut east, mut west] = schemas.each_ref().map(Schema::connect);
    let name = schemas[1].name();
    let sql = format!("SELECT {name}.once('mail', 'infinity', name => 'one')");
    client().batch_execute(&sql).unwrap();
    assert_eq!(east.find("one").unwrap(), None);
    let lease = crate::join(&mut west);
    let found: TimerId = west.find("one").unwrap().unwrap().new.id;
    west.reschedule(&Reschedule::new(found, Time::from_micros(0))).unwrap();
    assert_eq!(west.claim(lease, &[found]).unwrap().timers.len(), 1);
    let sql = format!("SELECT {name}.complete('{found}', 1, '{}', 1)", lease.node);
    client().batch_execute(&sql).unwrap();
    assert_eq!(west.records(&RecordQuery::new()).unwrap().len(), 1);
    assert_eq!(east.records(&RecordQuery::new()).unwrap(), []);
}

#[test]
fn a_transaction_writes_the_tables_of_the_schema_that_is_named() {
    let schemas = [Schema::new(), Schema::new()];
    let [mut east, mut west] = schemas.each_ref().map(Schema::connect);
    let new: NewTimer = timer(east.now().unwrap());
    let mut client = async_client(&cluster());
    let tables = Tables::in_schema(schemas[1].name()).unwrap();
    pollster::block_on(async {
        let transaction = client.transaction().await.unwrap();
        tables.insert(&transaction, std::slice::from_ref(&new)).await.unwrap();
        transaction.commit().await.unwrap();
    });
    assert_eq!(east.timers(&TimerQuery::new()).unwrap(), []);
    assert_eq!(west.timers(&TimerQuery::new()).unwrap()[0].new.id, new.id);
}
