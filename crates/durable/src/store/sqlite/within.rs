//! Timers made and changed, and attempts ended, in a transaction of the caller's.

use rusqlite::Transaction;

use super::{link, schema, timers};
use crate::id::Lease;
use crate::store::{End, Finished, Inserted, NewTimer, Reschedule, Result, TimerUpdate};
use crate::time::Time;

/// Inserts timers in a transaction of the caller's, as [`Store::insert`](crate::Store::insert)
/// does. The tables have to be in its database: [`Sqlite::open`](super::Sqlite::open) makes them.
///
/// The timers are there once the caller's transaction commits; if it is rolled back, they never
/// were. A transaction that is repeated with the same timers makes none twice, also if one is over
/// already. After an error it can only be rolled back.
///
/// # Examples
///
/// ```no_run
/// # fn order(database: &mut rusqlite::Connection, reminder: tourbillon_durable::store::NewTimer)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use rusqlite::TransactionBehavior;
/// use tourbillon_durable::store::sqlite::insert;
///
/// let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
/// transaction.execute("INSERT INTO bill (number) VALUES (42)", ())?;
/// insert(&transaction, &[reminder])?;
/// transaction.commit()?;
/// # Ok(())
/// # }
/// ```
pub fn insert(transaction: &Transaction<'_>, timers: &[NewTimer]) -> Result<Vec<Inserted>> {
    schema::check(transaction)?;
    Ok(timers::insert(transaction, link::wall_now(), timers)?)
}

/// Takes back the timer of this name that belongs to no schedule, in the caller's transaction, as
/// [`Store::cancel`](crate::Store::cancel) does: "the bill is paid" and "no reminder" are one
/// commit. [`Done`](TimerUpdate::Done) is final from that commit on.
///
/// # Errors
///
/// [`Conflict`](crate::StoreErrorKind::Conflict) if another has written since the transaction's
/// first read: roll it back, and repeat it. One that begins as `Immediate` has no such error.
pub fn cancel(transaction: &Transaction<'_>, name: &str) -> Result<TimerUpdate> {
    schema::check(transaction)?;
    Ok(match timers::find(transaction, name)? {
        Some(timer) => timers::cancel(transaction, link::wall_now(), timer.new.id)?,
        None => TimerUpdate::Gone,
    })
}

/// Gives the timer of this name that belongs to no schedule another time, in the caller's
/// transaction, as [`Store::reschedule`](crate::Store::reschedule) does.
///
/// # Errors
///
/// The errors of [`cancel`].
pub fn reschedule(transaction: &Transaction<'_>, name: &str, to: Time) -> Result<TimerUpdate> {
    schema::check(transaction)?;
    Ok(match timers::find(transaction, name)? {
        Some(timer) => {
            let reschedule = Reschedule::new(timer.new.id, to);
            timers::reschedule(transaction, link::wall_now(), &reschedule)?
        }
        None => TimerUpdate::Gone,
    })
}

/// Ends attempts in the caller's transaction, like [`Store::finish`](crate::Store::finish), except
/// that an attempt that has ended before is [`Fenced`](Finished::Fenced).
///
/// The caller's writes in that transaction take effect once, provided that it is rolled back unless
/// the answer is [`Accepted`](Finished::Accepted): then an attempt that is no longer this lease's
/// has no effect, nor has a transaction that is repeated after the answer to its commit was lost.
pub fn finish(transaction: &Transaction<'_>, lease: Lease, ends: &[End]) -> Result<Vec<Finished>> {
    schema::check(transaction)?;
    Ok(timers::end(transaction, link::wall_now(), lease, ends)?)
}
