//! Several sets of tables in one database, each in a schema of its own.

use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime};

use tourbillon_durable::store::postgres::Tables;
use tourbillon_durable::store::{
    NewTimer, Notice, Postgres, RecordQuery, Reschedule, ScheduleQuery, Store, TimerQuery,
};
use tourbillon_durable::{Engine, Schedule, Shards, StoreErrorKind, Time, TimerId, Upsert};

use crate::cluster::Database;
use crate::timer;

/// Long enough for what is to happen.
const LIMIT: Duration = Duration::from_secs(60);

const SCHEMAS: [&str; 2] = ["east", "west_2"];

#[test]
fn engines_in_two_schemas_do_not_see_each_other() {
    let database = Database::new();
    let [east, west] = SCHEMAS.map(|schema| {
        let engine = Engine::builder().start(Box::new(database.connect_in(schema))).unwrap();
        let (client, worker) = (engine.client().unwrap(), engine.worker("mail", 4));
        (engine, client, worker)
    });
    pollster::block_on(async {
        let mut ids = Vec::new();
        for ((engine, client, mails), payload) in [(east, "east"), (west, "west")] {
            // The names are those of the other schema, too.
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
    let database = Database::new();
    let [mut east, mut west] = SCHEMAS.map(|schema| database.connect_in(schema));
    let (send, heard) = mpsc::channel();
    let _listening = east.listen(Arc::new(move |notice| _ = send.send(notice))).unwrap();
    let next = || heard.recv_timeout(LIMIT).unwrap();
    assert_eq!(next(), Notice::Due(Shards::ALL));
    let [first, second] = [1, 2].map(Shards::from_mask);
    west.notify(first).unwrap();
    // Notices of one database arrive in the order in which they were committed.
    east.notify(second).unwrap();
    assert_eq!(next(), Notice::Due(second));
}

#[test]
fn each_schema_has_a_version_of_its_own() {
    let database = Database::new();
    let [mut east, west] = SCHEMAS.map(|schema| database.connect_in(schema));
    let set = "UPDATE west_2.version SET version = 99, oldest = 99";
    database.client().batch_execute(set).unwrap();
    assert_eq!(west.connect().map(drop).unwrap_err().kind(), StoreErrorKind::Schema);
    drop(east.connect().unwrap());

    database.client().batch_execute("DROP SCHEMA west_2 CASCADE").unwrap();
    let timer = timer(east.now().unwrap());
    east.insert(std::slice::from_ref(&timer)).unwrap();
    assert_eq!(database.connect_in("west_2").timers(&TimerQuery::new()).unwrap(), []);
    assert_eq!(east.timers(&TimerQuery::new()).unwrap().len(), 1);
    let there = "SELECT to_regnamespace('tourbillon') IS NULL";
    assert!(database.client().query_one(there, &[]).unwrap().get::<_, bool>(0));
}

#[test]
fn the_functions_of_a_schema_write_its_tables() {
    let database = Database::new();
    let [mut east, mut west] = SCHEMAS.map(|schema| database.connect_in(schema));
    let sql = "SELECT west_2.once('mail', 'infinity', name => 'one')";
    database.client().batch_execute(sql).unwrap();
    assert_eq!(east.find("one").unwrap(), None);
    let lease = crate::join(&mut west);
    let found: TimerId = west.find("one").unwrap().unwrap().new.id;
    west.reschedule(&Reschedule::new(found, Time::from_micros(0))).unwrap();
    assert_eq!(west.claim(lease, &[found]).unwrap().timers.len(), 1);
    let sql = format!("SELECT west_2.complete('{found}', 1, '{}', 1)", lease.node);
    database.client().batch_execute(&sql).unwrap();
    assert_eq!(west.records(&RecordQuery::new()).unwrap().len(), 1);
    assert_eq!(east.records(&RecordQuery::new()).unwrap(), []);
}

#[test]
fn a_transaction_writes_the_tables_of_the_schema_that_is_named() {
    let database = Database::new();
    let [mut east, mut west] = SCHEMAS.map(|schema| database.connect_in(schema));
    let new: NewTimer = timer(east.now().unwrap());
    let mut client = database.async_client();
    let tables = Tables::in_schema("west_2").unwrap();
    pollster::block_on(async {
        let transaction = client.transaction().await.unwrap();
        tables.insert(&transaction, std::slice::from_ref(&new)).await.unwrap();
        transaction.commit().await.unwrap();
    });
    assert_eq!(east.timers(&TimerQuery::new()).unwrap(), []);
    assert_eq!(west.timers(&TimerQuery::new()).unwrap()[0].new.id, new.id);
}

#[test]
fn a_name_that_is_none_is_refused() {
    let address = Database::new().address() + "&schema=East";
    let error = Postgres::connect(&address).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(error.to_string().ends_with("not `East`"), "{error}");
}
