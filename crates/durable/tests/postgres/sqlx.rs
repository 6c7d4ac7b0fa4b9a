//! Timers made, and attempts ended, in transactions of sqlx.

use std::time::{Duration, SystemTime};

use postgres::fallible_iterator::FallibleIterator as _;
use sqlx_0_8 as sqlx;
use sqlx_0_8::postgres::{PgPool, PgPoolOptions};
use tourbillon_durable::store::{Memory, Postgres, RecordQuery, Store, TimerQuery};
use tourbillon_durable::{
    Client, CompleteError, Created, Engine, Fire, Outcome, StoreErrorKind, TimerId, Worker,
};

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
fn a_timer_that_no_store_takes_leaves_the_transaction_as_it_was() {
    let database = Database::new();
    let client = Client::new(Box::new(database.connect())).unwrap();
    run(&database, async |pool| {
        let mut transaction = pool.begin().await.unwrap();
        let refused = client.once("", SystemTime::now()).create_in(&mut transaction).await;
        assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Invalid);
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
fn a_client_without_a_schema_writes_in_no_transaction() {
    let database = Database::new();
    let memory = Memory::new(&tourbillon::Timer::global());
    let client = Client::new(Box::new(memory)).unwrap();
    run(&database, async |pool| {
        let mut transaction = pool.begin().await.unwrap();
        let refused = client.once("mail", SystemTime::now()).create_in(&mut transaction).await;
        assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Invalid);
        bill(&mut transaction, 1).await;
        transaction.commit().await.unwrap();
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
fn after_its_lease_an_attempt_cannot_complete_and_its_transaction_has_no_effect() {
    let database = Database::new();
    let mut store = database.connect();
    let (_engine, client, mut fires) = with_worker(start_slow(&database), "bill.remind");
    run(&database, async |pool| {
        let fire = attempt(&pool, &client, &mut fires).await;
        bury(&database, &mut store);
        assert_eq!(store.held(fire.fence().lease, None).unwrap().timers, []);

        let mut transaction = pool.begin().await.unwrap();
        remind(&mut transaction, &fire).await;
        let late = fire.complete_in(&mut transaction).await;
        assert!(matches!(late, Err(CompleteError::Fenced)), "{late:?}");
        let refused = sqlx::query("SELECT 1").execute(&mut *transaction).await;
        let code = refused.unwrap_err().into_database_error().unwrap().code().unwrap().into_owned();
        assert_eq!(code, "25P02");
        transaction.commit().await.unwrap();
        drop(fire);
    });
    assert_eq!(reminders(&database), [(1, 0)]);
    assert_eq!(store.timers(&TimerQuery::new()).unwrap().len(), 1);
    assert_eq!(store.records(&RecordQuery::new()).unwrap(), []);
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

/// Point of a transaction at which something goes wrong: the connection is killed at the first
/// three, and the answer to the commit is lost at the last. Any other number is none.
const LOST: u8 = 3;

type Failed = Box<dyn std::error::Error>;

/// Makes the server end its process of this connection, if `point` was drawn.
async fn strike(
    transaction: &mut sqlx::Transaction<'_, sqlx::Postgres>,
    point: u8,
    drawn: u8,
) -> Result<(), Failed> {
    if point == drawn {
        let sql = "SELECT pg_terminate_backend(pg_backend_pid())";
        sqlx::query(sql).execute(&mut **transaction).await.unwrap_err();
        return Err("the connection was killed".into());
    }
    Ok(())
}

/// Makes a bill and its reminder in one transaction. Each third is rolled back.
async fn make(pool: &PgPool, client: &Client, number: u8, drawn: u8) -> Result<(), Failed> {
    let mut transaction = pool.begin().await?;
    strike(&mut transaction, 0, drawn).await?;
    let sql = "INSERT INTO bill (number) VALUES ($1) ON CONFLICT DO NOTHING";
    sqlx::query(sql).bind(i32::from(number)).execute(&mut *transaction).await?;
    strike(&mut transaction, 1, drawn).await?;
    let id = TimerId::from_bits(number.into());
    let once = client.once("bill.remind", SystemTime::now()).id(id).payload(number.to_string());
    let made = once.create_in(&mut transaction).await?;
    strike(&mut transaction, 2, drawn).await?;
    if number % 3 == 0 {
        return Ok(transaction.rollback().await?);
    }
    transaction.commit().await?;
    if drawn == LOST {
        return Err("the answer was lost".into());
    }
    made.committed();
    Ok(())
}

/// Counts a reminder and ends its attempt, in one transaction.
async fn end(pool: &PgPool, fire: &Fire, drawn: u8) -> Result<(), Failed> {
    let mut transaction = pool.begin().await?;
    strike(&mut transaction, 0, drawn).await?;
    remind(&mut transaction, fire).await;
    strike(&mut transaction, 1, drawn).await?;
    fire.complete_in(&mut transaction).await?;
    strike(&mut transaction, 2, drawn).await?;
    transaction.commit().await?;
    if drawn == LOST { Err("the answer was lost".into()) } else { Ok(()) }
}

fn is_fenced(error: &Failed) -> bool {
    matches!(error.downcast_ref(), Some(CompleteError::Fenced))
}

/// Sixty bills, twenty of them rolled back. Transactions are cut at any point, their commits
/// included, and repeated, by the same attempt or by the next.
#[test]
fn each_bill_is_reminded_of_once_whatever_becomes_of_its_transactions() {
    let database = Database::new();
    let engine = start(&database);
    let client = engine.client().unwrap();
    let mut fires = engine.worker("bill.remind", 8);
    let mut store = database.connect();
    let mut random = fastrand::Rng::with_seed(7);
    run(&database, async |pool| {
        for number in 1..=60 {
            while make(&pool, &client, number, random.u8(..7)).await.is_err() {}
        }
        while store.records(&RecordQuery::new()).unwrap().len() < 40 {
            let fire = fires.next().await.unwrap();
            loop {
                match end(&pool, &fire, random.u8(..7)).await {
                    Ok(()) => break fire.committed(),
                    Err(error) if is_fenced(&error) || random.bool() => break,
                    Err(_) => {}
                }
            }
        }
    });
    pollster::block_on(engine.stop());
    let kept: Vec<u8> = (1..=60).filter(|number| number % 3 != 0).collect();
    let expected: Vec<_> = kept.iter().map(|number| (i32::from(*number), 1)).collect();
    assert_eq!(reminders(&database), expected);
    assert_eq!(store.timers(&TimerQuery::new()).unwrap(), []);
    let mut records = store.records(&RecordQuery::new()).unwrap();
    records.sort_by_key(|record| record.timer);
    let ended: Vec<_> = records.iter().map(|record| (record.timer, record.outcome)).collect();
    let expected = kept.into_iter().map(|number| TimerId::from_bits(number.into()));
    let expected: Vec<_> = expected.map(|timer| (timer, Outcome::Succeeded)).collect();
    assert_eq!(ended, expected);
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
