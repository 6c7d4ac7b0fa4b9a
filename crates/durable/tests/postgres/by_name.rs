//! Timers taken back and rescheduled by their names, in transactions of the caller's.

use std::slice::from_ref;
use std::thread;
use std::time::Duration;

use pollster::block_on;
use tokio_postgres::{IsolationLevel, Transaction};
use tourbillon_durable::store::postgres::Tables;
use tourbillon_durable::store::{
    Finished, NewTimer, Postgres, RecordQuery, Store, TimerQuery, TimerUpdate,
};
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
use tourbillon_durable::{Created, Engine};
use tourbillon_durable::{Lease, Outcome, Reason, StoreErrorKind, Time, TimerId};

use crate::cluster::Database;
use crate::{LONG, first_done, join, timer};

/// A timer that is due, with the name of a bill.
fn named(store: &mut dyn Store) -> NewTimer {
    let due = store.now().unwrap();
    let mut new = timer(due);
    new.name = Some("bill-42".to_owned());
    store.insert(from_ref(&new)).unwrap();
    new
}

/// A store, a node's lease in it, and a connection of the caller's.
fn open(database: &Database) -> (Postgres, Lease, tokio_postgres::Client) {
    let mut store = database.connect();
    let lease = join(&mut store);
    (store, lease, database.async_client())
}

fn cancel(transaction: &Transaction<'_>) -> TimerUpdate {
    block_on(Tables::default().cancel(transaction, "bill-42")).unwrap()
}

fn reschedule(transaction: &Transaction<'_>, to: Time) -> TimerUpdate {
    block_on(Tables::default().reschedule(transaction, "bill-42", to)).unwrap()
}

/// Cancels it, or reschedules it to this time.
fn change(transaction: &Transaction<'_>, to: Option<Time>) -> TimerUpdate {
    to.map_or_else(|| cancel(transaction), |to| reschedule(transaction, to))
}

/// Returns which of these timers a node claims now.
fn claim(store: &mut Postgres, lease: Lease, timers: &[TimerId]) -> Vec<TimerId> {
    let mut ids = timers.to_vec();
    ids.sort_unstable();
    store.claim(lease, &ids).unwrap().timers.iter().map(|timer| timer.new.id).collect()
}

fn finish(store: &mut Postgres, lease: Lease, timer: TimerId) {
    assert_eq!(store.finish(lease, &first_done(timer)).unwrap(), [Finished::Accepted]);
}

#[test]
fn a_timer_is_taken_back_if_the_callers_transaction_commits() {
    let database = Database::new();
    let (mut store, lease, mut client) = open(&database);
    let bill = named(&mut store);
    let transaction = block_on(client.transaction()).unwrap();
    assert_eq!(cancel(&transaction), TimerUpdate::Done);
    assert_eq!(cancel(&transaction), TimerUpdate::Gone);
    block_on(transaction.rollback()).unwrap();
    assert_eq!(store.find("bill-42").unwrap().unwrap().new.id, bill.id);
    let transaction = block_on(client.transaction()).unwrap();
    assert_eq!(cancel(&transaction), TimerUpdate::Done);
    block_on(transaction.commit()).unwrap();
    assert_eq!(claim(&mut store, lease, &[bill.id]), []);
    let record = store.records(&RecordQuery::new()).unwrap().remove(0);
    let end = (record.timer, record.outcome, record.reason);
    assert_eq!(end, (bill.id, Outcome::Cancelled, Some(Reason::Cancelled)));
    assert_eq!((record.name.as_deref(), record.scheduled_for), (Some("bill-42"), bill.due));
}

#[test]
fn a_timer_has_another_time_if_the_callers_transaction_commits() {
    let database = Database::new();
    let (mut store, lease, mut client) = open(&database);
    let bill = named(&mut store);
    for (to, commits) in [(bill.due + LONG, false), (bill.due + LONG, true), (bill.due, true)] {
        let transaction = block_on(client.transaction()).unwrap();
        assert_eq!(reschedule(&transaction, to), TimerUpdate::Done);
        let ended = async {
            if commits { transaction.commit().await } else { transaction.rollback().await }
        };
        block_on(ended).unwrap();
        let found = store.find("bill-42").unwrap().unwrap();
        let expected = if commits { to } else { bill.due };
        assert_eq!(found.new.scheduled_for, expected);
        assert!(found.new.due >= expected);
        if expected > bill.due {
            assert_eq!((found.version, claim(&mut store, lease, &[bill.id])), (2, vec![]));
        }
    }
    assert_eq!(claim(&mut store, lease, &[bill.id]), [bill.id]);
}

#[test]
fn others_are_claimed_while_a_transaction_holds_a_timer() {
    let database = Database::new();
    let (mut store, lease, mut client) = open(&database);
    for takes_back in [false, true] {
        let bill = named(&mut store);
        let other = timer(store.now().unwrap());
        store.insert(from_ref(&other)).unwrap();
        let transaction = block_on(client.transaction()).unwrap();
        let to = (!takes_back).then_some(bill.due);
        assert_eq!(change(&transaction, to), TimerUpdate::Done);
        assert_eq!(claim(&mut store, lease, &[bill.id, other.id]), [other.id]);
        finish(&mut store, lease, other.id);
        block_on(transaction.rollback()).unwrap();
        assert_eq!(claim(&mut store, lease, &[bill.id]), [bill.id]);
        finish(&mut store, lease, bill.id);
    }
}

/// The attempt is claimed before the call, or while that waits for the claim's row.
#[test]
fn an_attempt_that_runs_is_named_and_can_end_meanwhile() {
    let database = Database::new();
    let (mut store, lease, mut client) = open(&database);
    let claim_by_hand = "UPDATE tourbillon.timer
        SET attempt = 1, epoch = 1, node = (SELECT id FROM tourbillon.node)";
    let waits = "SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    for (takes_back, is_rival) in [(false, false), (false, true), (true, false), (true, true)] {
        let bill = named(&mut store);
        let (mut rival, mut observer) = (database.client(), database.client());
        let mut claims = rival.transaction().unwrap();
        claims.execute(claim_by_hand, &[]).unwrap();
        let transaction = block_on(client.transaction()).unwrap();
        let to = (!takes_back).then_some(bill.due + LONG);
        let change = || change(&transaction, to);
        let answer = if is_rival {
            thread::scope(|scope| {
                let answer = scope.spawn(change);
                while !answer.is_finished() && observer.query(waits, &[]).unwrap().is_empty() {
                    thread::sleep(Duration::from_millis(1));
                }
                claims.commit().unwrap();
                answer.join().unwrap()
            })
        } else {
            claims.commit().unwrap();
            change()
        };
        assert_eq!(answer, TimerUpdate::Running { attempt: 1 });
        finish(&mut store, lease, bill.id);
        assert_eq!(change(), TimerUpdate::Gone);
        block_on(transaction.commit()).unwrap();
    }
    assert_eq!(store.timers(&TimerQuery::new()).unwrap(), []);
}

#[test]
fn a_serialization_failure_is_the_callers() {
    let database = Database::new();
    let (mut store, lease, mut client) = open(&database);
    for takes_back in [false, true] {
        let bill = named(&mut store);
        let builder = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
        let transaction = block_on(builder.start()).unwrap();
        block_on(transaction.execute("SELECT", &[])).unwrap();
        assert_eq!(claim(&mut store, lease, &[bill.id]), [bill.id]);
        let tables = Tables::default();
        let refused = match takes_back {
            true => block_on(tables.cancel(&transaction, "bill-42")),
            false => block_on(tables.reschedule(&transaction, "bill-42", bill.due)),
        };
        assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Conflict);
        drop(transaction);
        finish(&mut store, lease, bill.id);
    }
}

/// By transactions of sqlx, of each version: made, rescheduled, taken back and completed, with a
/// commit, a rollback and a connection that is lost before either.
macro_rules! by_sqlx {
    ($sqlx:ident, $test:ident) => {
        #[test]
        fn $test() {
            use $sqlx::Connection as _;
            use $sqlx::postgres::PgConnection;

            let database = Database::new();
            let engine = Engine::builder().start(Box::new(database.connect())).unwrap();
            let (client, mut bills) = (engine.client().unwrap(), engine.worker("bill", 1));
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(1).enable_all().build().unwrap();
            let _entered = runtime.enter();
            block_on(async {
                let now = client.now().await.unwrap();
                for end in [Ended::Rollback, Ended::Lost, Ended::Commit] {
                    let mut own = PgConnection::connect(&database.address()).await.unwrap();
                    let mut killer = PgConnection::connect(&database.address()).await.unwrap();
                    let name = format!("bill {end:?}");
                    let made = |name: &str| client.once("bill", now + LONG).name(name);
                    made(&name).create().await.unwrap();
                    let mut open = own.begin().await.unwrap();
                    let pid = "SELECT pg_backend_pid()";
                    let pid: i32 = $sqlx::query_scalar(pid).fetch_one(&mut *open).await.unwrap();
                    let other = made(&format!("{name} 2")).create_in(&mut open).await.unwrap();
                    assert!(matches!(other.answer(), Created::Created(_)));
                    let later = now + LONG * 2;
                    let moved = client.reschedule_in(&mut open, &name, later).await.unwrap();
                    assert_eq!(moved.answer(), TimerUpdate::Done);
                    assert_eq!(
                        client.cancel_in(&mut open, &name).await.unwrap(),
                        TimerUpdate::Done
                    );
                    assert_eq!(
                        client.cancel_in(&mut open, &name).await.unwrap(),
                        TimerUpdate::Gone
                    );
                    match end {
                        Ended::Rollback => open.rollback().await.unwrap(),
                        Ended::Commit => open.commit().await.unwrap(),
                        Ended::Lost => {
                            let kill = "SELECT pg_terminate_backend($1, 10000)";
                            let killed = $sqlx::query(kill).bind(pid).execute(&mut killer).await;
                            killed.unwrap();
                            open.commit().await.unwrap_err();
                        }
                    }
                    let left = client.find(&name).await.unwrap();
                    let made = client.find(&format!("{name} 2")).await.unwrap();
                    let is_done = matches!(end, Ended::Commit);
                    assert_eq!((left.is_none(), made.is_some()), (is_done, is_done), "{end:?}");
                    assert!(left.is_none_or(|left| left.new.scheduled_for == now + LONG));
                }
                let mut own = PgConnection::connect(&database.address()).await.unwrap();
                let mut open = own.begin().await.unwrap();
                let due = client.now().await.unwrap();
                let moved = client.reschedule_in(&mut open, "bill Rollback", due).await.unwrap();
                open.commit().await.unwrap();
                assert_eq!(moved.committed(), TimerUpdate::Done);
                let fire = bills.next().await.unwrap();
                let mut open = own.begin().await.unwrap();
                let running = client.cancel_in(&mut open, "bill Rollback").await.unwrap();
                assert_eq!(running, TimerUpdate::Running { attempt: 1 });
                fire.complete_in(&mut open).await.unwrap();
                open.commit().await.unwrap();
                fire.committed();
                let ended = RecordQuery::new().name("bill Rollback");
                let ended = client.records(ended).await.unwrap().remove(0);
                assert_eq!(ended.outcome, Outcome::Succeeded);
                engine.stop().await;
            });
        }
    };
}

/// How a transaction ends.
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
#[derive(Clone, Copy, Debug)]
enum Ended {
    Commit,
    Rollback,
    Lost,
}

#[cfg(feature = "sqlx-0_8")]
by_sqlx!(sqlx_0_8, timers_change_with_a_transaction_of_sqlx_0_8);

#[cfg(feature = "sqlx-0_9")]
by_sqlx!(sqlx_0_9, timers_change_with_a_transaction_of_sqlx_0_9);
