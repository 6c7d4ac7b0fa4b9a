//! Timers made, and attempts ended, in transactions of sqlx.

use std::time::{Duration, SystemTime};

use postgres::fallible_iterator::FallibleIterator as _;
use sqlx_0_8 as sqlx;
use sqlx_0_8::postgres::{PgPool, PgPoolOptions};
use tourbillon_durable::store::{Memory, Postgres, RecordQuery, Store, TimerQuery};
use tourbillon_durable::{Client, CompleteError, Created, Engine, Fire, StoreErrorKind, Worker};

use crate::LONG;
use crate::cluster::Database;

/// Long enough for a slow machine, so that no test hangs.
const LIMIT: Duration = Duration::from_secs(120);

const BILLS: &str = "
    CREATE TABLE bill (number integer PRIMARY KEY, reminders integer NOT NULL DEFAULT 0)";

/// Runs `test` on a runtime, with a pool of connections and a table of bills.
fn run<T>(database: &Database, test: impl AsyncFnOnce(PgPool) -> T) -> T {
    database.client().batch_execute(BILLS).unwrap();
    // On a thread of the runtime the blocking client could not be used.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    let _entered = runtime.enter();
    pollster::block_on(async {
        let options = PgPoolOptions::new().max_connections(8);
        let pool = options.connect(&database.address()).await.unwrap();
        let done = tourbillon::timeout(LIMIT, test(pool.clone())).await;
        pool.close().await;
        done.expect("the test waits for what does not come")
    })
}

fn start(database: &Database) -> Engine {
    let fast = Duration::from_millis(50);
    let builder = Engine::builder().scan(fast).heartbeat(fast).maintenance_interval(fast);
    builder.start(Box::new(database.connect())).unwrap()
}

/// An engine with a client and a worker.
fn with_worker(engine: Engine, kind: &str) -> (Engine, Client, Worker) {
    let (client, worker) = (engine.client().unwrap(), engine.worker(kind, 1));
    (engine, client, worker)
}

/// Returns the number of reminders of each bill.
fn reminders(database: &Database) -> Vec<(i32, i32)> {
    let sql = "SELECT number, reminders FROM bill ORDER BY number";
    let rows = database.client().query(sql, &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn bill(transaction: &mut sqlx::Transaction<'_, sqlx::Postgres>, number: i32) {
    let sql = "INSERT INTO bill (number) VALUES ($1)";
    sqlx::query(sql).bind(number).execute(&mut **transaction).await.unwrap();
}

async fn remind(transaction: &mut sqlx::Transaction<'_, sqlx::Postgres>, fire: &Fire) {
    let number: i32 = std::str::from_utf8(fire.payload()).unwrap().parse().unwrap();
    let sql = "UPDATE bill SET reminders = reminders + 1 WHERE number = $1";
    sqlx::query(sql).bind(number).execute(&mut **transaction).await.unwrap();
}

/// Makes a bill, and an attempt to remind of it.
async fn attempt(pool: &PgPool, client: &Client, fires: &mut Worker) -> Fire {
    let mut transaction = pool.begin().await.unwrap();
    bill(&mut transaction, 1).await;
    transaction.commit().await.unwrap();
    client.once("bill.remind", SystemTime::now()).payload("1").create().await.unwrap();
    fires.next().await.unwrap()
}

/// A transaction that has counted the reminder and ended the attempt.
async fn reminded(pool: &PgPool, fire: &Fire) -> sqlx::Transaction<'static, sqlx::Postgres> {
    let mut transaction = pool.begin().await.unwrap();
    remind(&mut transaction, fire).await;
    fire.complete_in(&mut transaction).await.unwrap();
    transaction
}

#[test]
fn a_timer_is_there_if_the_transaction_commits() {
    let database = Database::new();
    let mut store = database.connect();
    let client = Client::new(Box::new(database.connect())).unwrap();
    run(&database, async |pool| {
        for (number, commits) in [(1, false), (2, true)] {
            let mut transaction = pool.begin().await.unwrap();
            bill(&mut transaction, number).await;
            let due = SystemTime::now() + LONG;
            let once = client.once("bill.remind", due).name("bill").payload("2");
            let made = once.clone().create_in(&mut transaction).await.unwrap();
            let Created::Created(id) = made.answer() else { panic!("{made:?}") };
            let again = once.clone().create_in(&mut transaction).await.unwrap();
            assert_eq!(again.answer(), Created::Exists(id));
            assert_eq!(store.timers(&TimerQuery::new()).unwrap(), []);
            if commits {
                transaction.commit().await.unwrap();
                assert_eq!(made.committed(), Created::Created(id));
                let timers = store.timers(&TimerQuery::new()).unwrap();
                assert_eq!([&timers[0].new], [&once.id(id).into_timer()]);
            } else {
                transaction.rollback().await.unwrap();
                assert_eq!(store.timers(&TimerQuery::new()).unwrap(), []);
            }
        }
    });
    assert_eq!(reminders(&database), [(2, 0)]);
}

#[test]
fn what_no_store_takes_and_what_has_no_schema_leave_the_transaction_as_it_was() {
    let database = Database::new();
    let client = Client::new(Box::new(database.connect())).unwrap();
    let memory = Memory::new(&tourbillon::Timer::global());
    let without_schema = Client::new(Box::new(memory)).unwrap();
    run(&database, async |pool| {
        let mut transaction = pool.begin().await.unwrap();
        let now = SystemTime::now();
        for once in [client.once("", now), without_schema.once("mail", now)] {
            let refused = once.create_in(&mut transaction).await;
            assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Invalid);
        }
        bill(&mut transaction, 1).await;
        transaction.commit().await.unwrap();
    });
    assert_eq!(reminders(&database), [(1, 0)]);
}

#[test]
fn nodes_are_notified_after_the_commit_and_not_before() {
    let database = Database::new();
    let client = Client::new(Box::new(database.connect())).unwrap();
    let mut listener = database.client();
    listener.batch_execute("LISTEN tourbillon").unwrap();
    run(&database, async |pool| {
        let mut transaction = pool.begin().await.unwrap();
        let once = client.once("mail", SystemTime::now());
        let made = once.create_in(&mut transaction).await.unwrap();
        transaction.commit().await.unwrap();
        // An answer shows everything sent before.
        listener.batch_execute("SELECT").unwrap();
        assert!(listener.notifications().is_empty());
        let Created::Created(id) = made.committed() else { panic!("it is new") };
        let notice = listener.notifications().timeout_iter(LIMIT).next().unwrap().unwrap();
        assert_eq!(notice.payload(), format!("{:016x}", 1_u64 << id.shard()));
    });
}

#[test]
fn a_transaction_writes_the_schema_of_the_client_and_the_engine() {
    let database = Database::new();
    let store = Postgres::connect(&format!("{}&schema=east", database.address())).unwrap();
    let engine = Engine::builder().start(Box::new(store)).unwrap();
    let client = engine.client().unwrap();
    let mut mails = engine.worker("mail", 1);
    run(&database, async |pool| {
        let mut transaction = pool.begin().await.unwrap();
        let made = client.once("mail", SystemTime::now()).create_in(&mut transaction).await;
        transaction.commit().await.unwrap();
        made.unwrap().committed();
        let fire = mails.next().await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        fire.complete_in(&mut transaction).await.unwrap();
        transaction.commit().await.unwrap();
        fire.committed();
        assert_eq!(client.records(RecordQuery::new()).await.unwrap().len(), 1);
    });
}

#[test]
fn an_attempt_is_over_if_the_transaction_commits() {
    let database = Database::new();
    let (engine, client, mut fires) = with_worker(start(&database), "bill.remind");
    run(&database, async |pool| {
        let mut transaction = pool.begin().await.unwrap();
        bill(&mut transaction, 1).await;
        let once = client.once("bill.remind", SystemTime::now()).payload("1");
        let made = once.create_in(&mut transaction).await.unwrap();
        transaction.commit().await.unwrap();
        made.committed();

        let fire = fires.next().await.unwrap();
        let transaction = reminded(&pool, &fire).await;
        transaction.rollback().await.unwrap();
        drop(fire);

        let fire = fires.next().await.unwrap();
        assert_eq!(fire.attempt(), 2);
        let transaction = reminded(&pool, &fire).await;
        transaction.commit().await.unwrap();

        // The answer to the commit may have been lost: the repeat has no effect.
        let mut transaction = pool.begin().await.unwrap();
        remind(&mut transaction, &fire).await;
        let repeated = fire.complete_in(&mut transaction).await;
        assert!(matches!(repeated, Err(CompleteError::Fenced)), "{repeated:?}");
        transaction.commit().await.unwrap();
        fire.committed();

        // It has made room for another.
        client.once("bill.remind", SystemTime::now()).create().await.unwrap();
        fires.next().await.unwrap().complete().await.unwrap();
        engine.stop().await;
    });
    assert_eq!(reminders(&database), [(1, 1)]);
    let records = database.connect().records(&RecordQuery::new()).unwrap();
    let attempts: Vec<_> = records.iter().map(|record| record.attempts).collect();
    assert_eq!(attempts, [2, 1]);
}

#[test]
fn a_timer_that_has_a_record_already_is_removed_and_not_claimed_for_ever() {
    let database = Database::new();
    let mut store = database.connect();
    let (_engine, client, mut fires) = with_worker(start(&database), "mail");
    run(&database, async |pool| {
        client.once("mail", SystemTime::now()).create().await.unwrap();
        let fire = fires.next().await.unwrap();
        let id = fire.id();
        fire.complete().await.unwrap();
        let insert = format!(
            "INSERT INTO tourbillon.timer (id, kind, scheduled_for, due, shard)
            VALUES ('{id}', 'mail', now(), now(), {})",
            id.shard()
        );
        database.client().batch_execute(&insert).unwrap();
        let fire = fires.next().await.unwrap();
        assert_eq!((fire.id(), fire.attempt()), (id, 1));
        let mut transaction = pool.begin().await.unwrap();
        let answer = fire.complete_in(&mut transaction).await;
        assert!(matches!(answer, Err(CompleteError::Fenced)), "{answer:?}");
        transaction.rollback().await.unwrap();
        drop(fire);
        while !store.timers(&TimerQuery::new()).unwrap().is_empty() {
            tourbillon::sleep(Duration::from_millis(10)).await;
        }
    });
    assert_eq!(store.records(&RecordQuery::new()).unwrap().len(), 1);
}

#[test]
fn an_attempt_that_was_completed_twice_in_a_transaction_is_not_over() {
    let database = Database::new();
    let (_engine, client, mut fires) = with_worker(start(&database), "mail");
    run(&database, async |pool| {
        client.once("mail", SystemTime::now()).create().await.unwrap();
        let fire = fires.next().await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        fire.complete_in(&mut transaction).await.unwrap();
        let again = fire.complete_in(&mut transaction).await;
        assert!(matches!(again, Err(CompleteError::Fenced)), "{again:?}");
        transaction.rollback().await.unwrap();
        drop(fire);
        let fire = fires.next().await.unwrap();
        assert_eq!(fire.attempt(), 2);
        fire.complete().await.unwrap();
    });
}

/// Ends the lives of all nodes, as when their leases have run out.
fn bury(database: &Database, store: &mut dyn Store) {
    let sql = "UPDATE tourbillon.node SET expires = now() - interval '1 second'";
    // Other nodes may come first.
    while database.client().execute(sql, &[]).unwrap() > 0 && store.maintain().unwrap().nodes == 0 {
    }
}

/// A node whose beats do not come in the test's time.
fn start_slow(database: &Database) -> Engine {
    let slow = Duration::from_secs(3_600);
    let builder = Engine::builder().lease(slow * 4).heartbeat(slow).maintenance_interval(slow);
    builder.start(Box::new(database.connect())).unwrap()
}

#[test]
fn no_other_attempt_starts_while_a_transaction_that_completes_one_is_open() {
    let database = Database::new();
    let mut store = database.connect();
    let (_engine, client, mut fires) = with_worker(start_slow(&database), "bill.remind");
    run(&database, async |pool| {
        let fire = attempt(&pool, &client, &mut fires).await;
        let transaction = reminded(&pool, &fire).await;
        bury(&database, &mut store);
        assert_eq!(store.maintain().unwrap().orphans, 0);
        transaction.commit().await.unwrap();
        fire.committed();
    });
    assert_eq!(reminders(&database), [(1, 1)]);
    assert_eq!(store.timers(&TimerQuery::new()).unwrap(), []);
    assert_eq!(store.records(&RecordQuery::new()).unwrap().len(), 1);
}

/// Does not run: the futures go to executors of several threads.
#[test]
fn the_futures_are_send() {
    fn is_send(_: impl Send) {}
    #[expect(dead_code, reason = "it is enough that it compiles")]
    fn check(
        transaction: &mut sqlx::Transaction<'_, sqlx::Postgres>,
        client: &Client,
        fire: &Fire,
    ) {
        is_send(client.once("mail", SystemTime::now()).create_in(transaction));
        is_send(fire.complete_in(transaction));
    }
}
