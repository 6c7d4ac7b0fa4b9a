//! Timers made, and attempts ended, in transactions of the caller's.

use std::slice::from_ref;
use std::thread;
use std::time::Duration;

use pollster::block_on;
use tokio_postgres::Transaction;
use tourbillon_durable::store::calls::{Batch, Change, Changed};
use tourbillon_durable::store::postgres::Tables;
use tourbillon_durable::store::{
    Finished, Inserted, NewTimer, RecordQuery, ScheduleRow, Store, TimerQuery,
};
use tourbillon_durable::{
    Client, Created, Lease, Outcome, Policies, Reason, Rule, Schedule, ScheduleId, ScheduleUpdate,
    StoreErrorKind, Time, TimerId,
};

use crate::cluster::Database;
use crate::{LONG, first_done, join, running, timer};

/// Table that the tests write beside the store's own.
const BILL: &str = "CREATE TABLE bill (number integer)";

fn timers(store: &mut dyn Store) -> usize {
    store.timers(&TimerQuery::new()).unwrap().len()
}

/// Makes a bill in the same transaction as a test's writes.
fn bill(transaction: &Transaction<'_>) {
    block_on(transaction.execute("INSERT INTO bill VALUES (42)", &[])).unwrap();
}

fn insert(transaction: &Transaction<'_>, timer: &NewTimer) -> Inserted {
    block_on(Tables::default().insert(transaction, from_ref(timer))).unwrap()[0]
}

fn end(transaction: Transaction<'_>, commits: bool) {
    let ended =
        async { if commits { transaction.commit().await } else { transaction.rollback().await } };
    block_on(ended).unwrap();
}

/// Ends an attempt as done.
fn finish(transaction: &Transaction<'_>, lease: Lease, timer: TimerId) -> Finished {
    block_on(Tables::default().finish(transaction, lease, &first_done(timer))).unwrap()[0]
}

#[test]
fn a_timer_is_there_if_the_callers_transaction_commits() {
    let database = Database::new();
    let mut store = database.connect();
    let timer = timer(store.now().unwrap());
    let (mut client, mut observer) = (database.async_client(), database.client());
    observer.batch_execute(BILL).unwrap();
    for commits in [false, true] {
        let transaction = block_on(client.transaction()).unwrap();
        bill(&transaction);
        assert_eq!(insert(&transaction, &timer), Inserted::Created);
        assert_eq!(insert(&transaction, &timer), Inserted::Exists(timer.id));
        assert_eq!(timers(&mut store), 0);
        end(transaction, commits);
        assert_eq!(timers(&mut store), usize::from(commits));
    }
    assert_eq!(observer.query("SELECT FROM bill", &[]).unwrap().len(), 1);
}

#[test]
fn a_transaction_that_is_repeated_after_its_timer_is_over_makes_no_second_one() {
    let database = Database::new();
    let mut store = database.connect();
    let timer = timer(store.now().unwrap());
    let mut client = database.async_client();
    let mut within = || {
        let transaction = block_on(client.transaction()).unwrap();
        let inserted = insert(&transaction, &timer);
        block_on(transaction.commit()).unwrap();
        inserted
    };
    assert_eq!(within(), Inserted::Created);
    let lease = join(&mut store);
    assert_eq!(store.claim(lease, &[timer.id]).unwrap().timers.len(), 1);
    assert_eq!(store.finish(lease, &first_done(timer.id)).unwrap(), [Finished::Accepted]);
    assert_eq!(within(), Inserted::Exists(timer.id));
    assert_eq!(timers(&mut store), 0);
}

#[test]
fn a_name_that_a_transaction_holds_is_waited_for_and_no_other_timer_waits() {
    let database = Database::new();
    let client = Client::new(Box::new(database.connect())).unwrap();
    let create = |name: &str| block_on(client.once("mail", Time::NEVER).name(name).create());
    let (mut other, mut observer) = (database.async_client(), database.client());
    for commits in [false, true] {
        let name = format!("held {commits}");
        let mut held = timer(Time::NEVER);
        held.name = Some(name.clone());
        let transaction = block_on(other.transaction()).unwrap();
        assert_eq!(insert(&transaction, &held), Inserted::Created);
        let created = thread::scope(|scope| {
            let waits = scope.spawn(|| create(&name));
            while !observer.query_one(WAITING, &[]).unwrap().get::<_, bool>(0) {
                thread::sleep(Duration::from_millis(1));
            }
            let free = create(&format!("free {commits}")).unwrap();
            assert!(matches!(free, Created::Created(_)) && !waits.is_finished());
            end(transaction, commits);
            waits.join().unwrap().unwrap()
        });
        match commits {
            true => assert_eq!(created, Created::Exists(held.id)),
            false => assert!(matches!(created, Created::Created(_))),
        }
    }
}

/// A row of another's SQL is not checked against the history.
#[test]
fn a_timer_whose_id_was_recorded_before_goes_with_its_end() {
    let database = Database::new();
    let mut store = database.connect();
    let mut client = database.client();
    for together in [false, true] {
        let (lease, id) = running(&mut store);
        client.batch_execute("CREATE TEMP TABLE kept AS TABLE tourbillon.timer").unwrap();
        assert_eq!(store.finish(lease, &first_done(id)).unwrap(), [Finished::Accepted]);
        let again = "UPDATE kept SET attempt = 2; INSERT INTO tourbillon.timer TABLE kept;
            DROP TABLE kept";
        client.batch_execute(again).unwrap();
        let [mut end] = first_done(id);
        end.attempt = 2;
        let finished = match together {
            true => {
                store.finish_and_claim(&Batch { lease, ends: &[end], timers: &[id] }).unwrap().0
            }
            false => store.finish(lease, &[end]).unwrap(),
        };
        assert_eq!(finished, [Finished::Fenced]);
        assert_eq!(timers(&mut store), 0);
    }
    assert_eq!(store.records(&RecordQuery::new()).unwrap().len(), 2);
}

#[test]
fn an_attempt_ends_if_the_callers_transaction_commits_and_only_once() {
    let database = Database::new();
    let mut store = database.connect();
    let (lease, id) = running(&mut store);
    let (mut client, mut observer) = (database.async_client(), database.client());
    observer.batch_execute(BILL).unwrap();
    let new = timer(store.now().unwrap());
    let mut attempt = |commits: bool| {
        let transaction = block_on(client.transaction()).unwrap();
        bill(&transaction);
        let inserted = insert(&transaction, &new);
        let finished = finish(&transaction, lease, id);
        if commits && finished == Finished::Accepted {
            block_on(transaction.commit()).unwrap();
        }
        let left = store.timers(&TimerQuery::new()).unwrap();
        let left: Vec<_> = left.iter().map(|timer| timer.new.id).collect();
        (inserted, finished, left)
    };
    assert_eq!(attempt(false), (Inserted::Created, Finished::Accepted, vec![id]));
    assert_eq!(attempt(true), (Inserted::Created, Finished::Accepted, vec![new.id]));
    // The answer to the commit may have been lost: the repeat has no effect.
    let exists = Inserted::Exists(new.id);
    assert_eq!(attempt(true), (exists, Finished::Fenced, vec![new.id]));
    assert_eq!(store.records(&RecordQuery::new()).unwrap().len(), 1);
    assert_eq!(observer.query("SELECT FROM bill", &[]).unwrap().len(), 1);
}

/// An error comes after a few tries; each try waits.
#[test]
fn a_schedule_that_another_transaction_has_locked_is_a_conflict() {
    let database = Database::new();
    let client = Client::new(Box::new(database.connect())).unwrap();
    block_on(client.every("t", Schedule::every(LONG)).upsert()).unwrap();
    let mut other = database.client();
    let mut transaction = other.transaction().unwrap();
    transaction.execute("SELECT FROM tourbillon.schedule FOR UPDATE", &[]).unwrap();
    let error = block_on(client.disable("t")).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Conflict);
    transaction.rollback().unwrap();
    assert!(matches!(block_on(client.disable("t")).unwrap(), ScheduleUpdate::Done { .. }));
}

/// Query for whether a store waits for a row.
const WAITING: &str = "
    SELECT EXISTS (
        SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'tourbillon'
            AND wait_event_type = 'Lock'
    )";

/// The other transaction begins before the change or after it, and makes an occurrence scheduled
/// for after the change began.
#[test]
fn a_change_records_what_was_made_while_it_waited_for_its_schedule() {
    let database = Database::new();
    let mut store = database.connect();
    let now = store.now().unwrap();
    let rule = Ok(Rule::new(Schedule::every(LONG), Policies::default()));
    let row = ScheduleRow::new(ScheduleId::new(now), "report", "mail", rule, None);
    assert_eq!(store.create_schedules(&[row]).unwrap(), [true]);
    let (name, expect, withdraw) = ("report", Some(1), Some(Reason::Removed));
    let removal = Change { name, expect, row: None, withdraw, skipped: &[] };
    let id = TimerId::new(now);
    let (mut other, mut observer) = (database.client(), database.client());
    loop {
        let mut transaction = other.transaction().unwrap();
        transaction.execute("SELECT FROM tourbillon.schedule FOR UPDATE", &[]).unwrap();
        let removed = thread::scope(|scope| {
            let removal = scope.spawn(|| store.change(&removal));
            while !observer.query_one(WAITING, &[]).unwrap().get::<_, bool>(0)
                && !removal.is_finished()
            {
                thread::sleep(Duration::from_millis(1));
            }
            let make = format!(
                "INSERT INTO tourbillon.timer (id, schedule, name, kind, scheduled_for, due, shard)
                 SELECT '{id}', id, name, kind, clock_timestamp(), clock_timestamp(), 0
                 FROM tourbillon.schedule"
            );
            transaction.execute(&make, &[]).unwrap();
            transaction.commit().unwrap();
            removal.join().unwrap()
        });
        match removed {
            Ok(removed) => {
                break assert_eq!(removed, Changed::Done { claimed: Vec::new() });
            }
            Err(error) => {
                // On a slow machine the change may have waited for too long.
                let kind = error.kind();
                let is_late = [StoreErrorKind::Conflict, StoreErrorKind::Unavailable];
                assert!(is_late.contains(&kind), "{error}");
                other.execute("DELETE FROM tourbillon.timer", &[]).unwrap();
            }
        }
    }
    assert_eq!(timers(&mut store), 0);
    let records = store.records(&RecordQuery::new().timer(id)).unwrap();
    let ends: Vec<_> = records.iter().map(|record| (record.outcome, record.reason)).collect();
    assert_eq!(ends, [(Outcome::Cancelled, Some(Reason::Removed))]);
}

/// More than go in one call.
#[test]
fn all_records_are_pruned() {
    let database = Database::new();
    let store = database.connect();
    let client = Client::new(Box::new(store)).unwrap();
    let fill = "INSERT INTO tourbillon.history
            (timer, kind, scheduled_for, attempts, failures, outcome, detail, recorded)
        SELECT gen_random_uuid(), 'mail', now(), 1, 0, 1, '', now() - interval '1 day'
        FROM generate_series(1, 5001)";
    database.client().batch_execute(fill).unwrap();
    let now = block_on(client.now()).unwrap();
    assert_eq!(block_on(client.prune(now)).unwrap(), 5_001);
}

/// Does not run: the futures go to executors of several threads.
#[test]
fn the_futures_are_send() {
    fn is_send(_: impl Send) {}
    #[expect(dead_code, reason = "it is enough that it compiles")]
    fn check(tables: &Tables, transaction: &Transaction<'_>, lease: Lease) {
        is_send(tables.insert(transaction, &[]));
        is_send(tables.finish(transaction, lease, &[]));
        is_send(tables.cancel(transaction, ""));
        is_send(tables.reschedule(transaction, "", Time::NEVER));
    }
}
