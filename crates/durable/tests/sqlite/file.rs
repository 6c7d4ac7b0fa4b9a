//! The file: its permissions, its waiting callers, and its other tables.

use std::slice::from_ref;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tourbillon_durable::store::calls::{Advanced, UpcomingQuery};
use tourbillon_durable::store::conformance::{advance, done};
use tourbillon_durable::store::sqlite::{cancel, finish, insert, reschedule};
use tourbillon_durable::store::{
    End, Finished, Inserted, NewTimer, RecordQuery, ScheduleRow, Sqlite, Store, TimerQuery,
    TimerUpdate,
};
use tourbillon_durable::{Client, Lease, NodeId, Outcome, Schedule, StoreErrorKind, TimerId};

use super::folder::Folder;

const LONG: Duration = Duration::from_secs(600);

/// A timer that is due at once.
pub(crate) fn timer() -> NewTimer {
    let now = SystemTime::now().into();
    NewTimer::new(TimerId::new(now), "mail", now)
}

fn kind<T: std::fmt::Debug>(answer: Result<T, tourbillon_durable::StoreError>) -> StoreErrorKind {
    answer.unwrap_err().kind()
}

#[test]
fn tables_of_a_later_version_are_refused_if_they_say_so() {
    let folder = Folder::new();
    let mut store = Sqlite::open(folder.file()).unwrap();
    let db = Connection::open(folder.file()).unwrap();
    db.execute("UPDATE tourbillon_schema SET version = 9, oldest = 1", ()).unwrap();
    drop(Sqlite::open(folder.file()).unwrap());
    store.insert(&[timer()]).unwrap();
    db.execute("UPDATE tourbillon_schema SET oldest = 9", ()).unwrap();
    assert_eq!(kind(Sqlite::open(folder.file())), StoreErrorKind::Schema);
    assert_eq!(kind(store.connect().map(drop)), StoreErrorKind::Schema);
    assert_eq!(kind(store.insert(&[timer()])), StoreErrorKind::Schema);
    assert_eq!(store.timers(&TimerQuery::new()).unwrap().len(), 1);
    assert_eq!(db.query_row("SELECT version FROM tourbillon_schema", (), |row| row.get(0)), Ok(9));
}

#[test]
fn what_is_not_a_file_of_its_own_is_refused() {
    for name in ["", ":memory:", "file:timers.db?mode=memory", "file::memory:?cache=shared"] {
        assert_eq!(kind(Sqlite::open(name)), StoreErrorKind::Invalid);
    }
    let folder = Folder::new();
    std::fs::write(folder.file(), "a letter, and no database; long enough to have a header")
        .unwrap();
    assert_eq!(kind(Sqlite::open(folder.file())), StoreErrorKind::Invalid);
}

#[test]
fn a_batch_of_advances_is_made_as_a_whole_or_not_at_all() {
    let folder = Folder::new();
    let mut store = Sqlite::open(folder.file()).unwrap();
    let client = Client::new(Box::new(Sqlite::open(folder.file()).unwrap())).unwrap();
    for name in ["one", "two", "three"] {
        let every = client.every(name, Schedule::every(LONG)).kind("mail");
        pollster::block_on(every.upsert()).unwrap();
    }
    let rows = |store: &mut Sqlite| {
        let upcoming = store.upcoming(&UpcomingQuery::new(LONG * 2, 10)).unwrap().schedules;
        upcoming.into_iter().map(|(row, _)| row).collect::<Vec<_>>()
    };
    let before = rows(&mut store);
    let moved = |row: &ScheduleRow| advance(row, row.next.unwrap() + LONG);
    let advances: Vec<_> = before.iter().map(moved).collect();
    let db = Connection::open(folder.file()).unwrap();
    db.execute_batch(&format!(
        "CREATE TRIGGER refusal BEFORE UPDATE OF next ON tourbillon_schedule
         WHEN old.name = '{}' BEGIN SELECT RAISE(ABORT, 'refused'); END",
        before[1].name,
    ))
    .unwrap();
    assert_eq!(kind(store.advance_batch(&advances)), StoreErrorKind::Invalid);
    assert_eq!(rows(&mut store), before);
    db.execute_batch("DROP TRIGGER refusal").unwrap();
    assert_eq!(store.advance_batch(&advances).unwrap(), [Advanced::Done; 3]);
}

#[test]
fn a_file_that_has_gone_is_not_made_again() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file()).unwrap();
    std::fs::remove_file(folder.file()).unwrap();
    assert_eq!(kind(store.connect().map(drop)), StoreErrorKind::Gone);
    assert!(!folder.file().exists());
}

#[test]
fn a_writer_gives_up_on_one_that_does_not_end() {
    let folder = Folder::new();
    let mut store = Sqlite::open(folder.file()).unwrap();
    let mut other = Connection::open(folder.file()).unwrap();
    let held = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let timer = timer();
    assert_eq!(kind(store.insert(from_ref(&timer))), StoreErrorKind::Unavailable);
    drop(held);
    assert_eq!(store.insert(&[timer]).unwrap(), [Inserted::Created]);
}

#[test]
fn a_reader_waits_for_no_writer() {
    let folder = Folder::new();
    let mut store = Sqlite::open(folder.file()).unwrap();
    store.insert(&[timer()]).unwrap();
    let mut other = Connection::open(folder.file()).unwrap();
    let held = other.transaction_with_behavior(TransactionBehavior::Exclusive).unwrap();
    held.execute("DELETE FROM tourbillon_timer", ()).unwrap();
    assert_eq!(store.timers(&TimerQuery::new()).unwrap().len(), 1);
}

#[test]
fn a_timer_is_made_with_the_callers_transaction_or_not_at_all() {
    let folder = Folder::new();
    let mut store = Sqlite::open(folder.file()).unwrap();
    let mut own = Connection::open(folder.file()).unwrap();
    own.execute("CREATE TABLE bill (number INTEGER)", ()).unwrap();
    for (is_kept, expected) in [(false, 0), (true, 1)] {
        let transaction = own.transaction().unwrap();
        transaction.execute("INSERT INTO bill VALUES (42)", ()).unwrap();
        assert_eq!(insert(&transaction, &[timer()]).unwrap(), [Inserted::Created]);
        end(transaction, is_kept);
        assert_eq!(store.timers(&TimerQuery::new()).unwrap().len(), expected);
    }
}

fn end(transaction: Transaction<'_>, is_kept: bool) {
    if is_kept { transaction.commit() } else { transaction.rollback() }.unwrap();
}

/// A store with a timer that has a name.
fn with_a_bill() -> (Folder, Sqlite, NewTimer) {
    let folder = Folder::new();
    let mut store = Sqlite::open(folder.file()).unwrap();
    let mut bill = timer();
    bill.name = Some("bill-42".to_owned());
    store.insert(from_ref(&bill)).unwrap();
    (folder, store, bill)
}

#[test]
fn a_timer_is_rescheduled_and_taken_back_with_the_callers_transaction_or_not_at_all() {
    let (folder, mut store, bill) = with_a_bill();
    let mut own = Connection::open(folder.file()).unwrap();
    let later = bill.scheduled_for + LONG;
    for is_kept in [false, true] {
        let transaction = own.transaction().unwrap();
        assert_eq!(reschedule(&transaction, "bill-42", later).unwrap(), TimerUpdate::Done);
        end(transaction, is_kept);
        let found = store.find("bill-42").unwrap().unwrap();
        assert_eq!(found.new.scheduled_for == later, is_kept);
    }
    for is_kept in [false, true] {
        let transaction = own.transaction().unwrap();
        assert_eq!(cancel(&transaction, "bill-42").unwrap(), TimerUpdate::Done);
        assert_eq!(cancel(&transaction, "bill-42").unwrap(), TimerUpdate::Gone);
        end(transaction, is_kept);
        assert_eq!(store.find("bill-42").unwrap().is_none(), is_kept);
    }
    assert_eq!(store.records(&RecordQuery::new()).unwrap()[0].outcome, Outcome::Cancelled);
}

#[test]
fn what_runs_is_neither_rescheduled_nor_taken_back_with_the_callers_transaction() {
    let (folder, mut store, bill) = with_a_bill();
    let mut own = Connection::open(folder.file()).unwrap();
    let lease = Lease { node: NodeId::new(), epoch: 1 };
    store.join(lease, LONG).unwrap();
    let transaction = own.transaction().unwrap();
    // It has read before another writes.
    transaction.query_row("SELECT count(*) FROM tourbillon_timer", (), |_| Ok(())).unwrap();
    assert_eq!(store.claim(lease, &[bill.id]).unwrap().timers.len(), 1);
    assert_eq!(kind(cancel(&transaction, "bill-42")), StoreErrorKind::Conflict);
    drop(transaction);
    let transaction = own.transaction().unwrap();
    let running = TimerUpdate::Running { attempt: 1 };
    assert_eq!(cancel(&transaction, "bill-42").unwrap(), running);
    let moved = reschedule(&transaction, "bill-42", bill.due + LONG);
    assert_eq!(moved.unwrap(), running);
}

#[test]
fn an_attempt_ends_with_the_callers_transaction_or_not_at_all() {
    let folder = Folder::new();
    let mut store = Sqlite::open(folder.file()).unwrap();
    let mut own = Connection::open(folder.file()).unwrap();
    let timer = timer();
    store.insert(from_ref(&timer)).unwrap();
    let lease = store.join(Lease { node: NodeId::new(), epoch: 1 }, LONG).unwrap().unwrap().lease;
    assert_eq!(store.claim(lease, &[timer.id]).unwrap().timers.len(), 1);
    let ends = [End { timer: timer.id, attempt: 1, how: done() }];

    let transaction = own.transaction().unwrap();
    assert_eq!(finish(&transaction, lease, &ends).unwrap(), [Finished::Accepted]);
    transaction.rollback().unwrap();
    assert_eq!(store.held(lease, None).unwrap().timers, [(timer.id, 1)]);

    store.leave(lease).unwrap();
    let transaction = own.transaction().unwrap();
    assert_eq!(finish(&transaction, lease, &ends).unwrap(), [Finished::Fenced]);
    drop(transaction);

    let lease = store.join(Lease { node: NodeId::new(), epoch: 1 }, LONG).unwrap().unwrap().lease;
    assert_eq!(store.claim(lease, &[timer.id]).unwrap().timers[0].attempt, 2);
    let transaction = own.transaction().unwrap();
    let ends = ends.map(|end| End { attempt: 2, ..end });
    assert_eq!(finish(&transaction, lease, &ends).unwrap(), [Finished::Accepted]);
    transaction.commit().unwrap();
    assert_eq!(store.records(&RecordQuery::new()).unwrap().len(), 1);

    // The answer to the commit may have been lost: the repeat has no effect.
    let transaction = own.transaction().unwrap();
    assert_eq!(finish(&transaction, lease, &ends).unwrap(), [Finished::Fenced]);
}

/// A row of another's SQL is not checked against the history.
#[test]
fn a_timer_that_was_recorded_before_has_no_second_record() {
    let folder = Folder::new();
    let mut store = Sqlite::open(folder.file()).unwrap();
    let own = Connection::open(folder.file()).unwrap();
    let lease = store.join(Lease { node: NodeId::new(), epoch: 1 }, LONG).unwrap().unwrap().lease;
    let [first, second] = [timer(), timer()];
    store.insert(&[first.clone(), second.clone()]).unwrap();
    let both = TimerQuery::new();
    assert_eq!(store.claim(lease, &[first.id, second.id]).unwrap().timers.len(), 2);
    own.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM tourbillon_timer").unwrap();
    let end = |timer: &NewTimer, attempt| [End { timer: timer.id, attempt, how: done() }];
    for timer in [&first, &second] {
        assert_eq!(store.finish(lease, &end(timer, 1)).unwrap(), [Finished::Accepted]);
    }
    let again = "UPDATE kept SET attempt = 2; INSERT INTO tourbillon_timer SELECT * FROM kept";
    own.execute_batch(again).unwrap();
    assert_eq!(store.finish(lease, &end(&first, 2)).unwrap(), [Finished::Fenced]);
    store.leave(lease).unwrap();
    assert_eq!(store.cancel(second.id).unwrap(), TimerUpdate::Gone);
    assert_eq!(store.timers(&both).unwrap(), []);
    let records = store.records(&RecordQuery::new()).unwrap();
    let attempts: Vec<_> = records.iter().map(|record| (record.timer, record.attempts)).collect();
    assert_eq!(attempts, [(first.id, 1), (second.id, 1)]);
    let later = "CREATE TEMP TABLE later AS SELECT * FROM tourbillon_history;
        UPDATE later SET recorded = recorded + 1";
    own.execute_batch(later).unwrap();
    own.execute("INSERT INTO tourbillon_history SELECT * FROM later", ()).unwrap_err();
}
