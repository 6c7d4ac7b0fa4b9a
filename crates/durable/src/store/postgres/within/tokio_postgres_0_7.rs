//! Timers made and changed, and attempts ended, in a transaction of tokio-postgres.

use tokio_postgres::{Row, Transaction};

use super::{CANCEL, RESCHEDULE, update};
use crate::id::{Lease, TimerId};
use crate::store::postgres::answer::{Answer, Failure, Params};
use crate::store::postgres::link::Query;
use crate::store::postgres::tables::Tables;
use crate::store::postgres::values::Stamp;
use crate::store::postgres::{attempts, timers};
use crate::store::{End, Finished, Inserted, NewTimer, Result, TimerUpdate};
use crate::time::Time;

/// # In a transaction of the caller's
impl Tables {
    /// Inserts timers in a transaction of the caller's, as [`Store::insert`](crate::Store::insert)
    /// does.
    ///
    /// The timers exist once the caller's transaction commits, and never if it does not. If its
    /// commit is not answered, repeat the transaction with the same timers: it reports the ones
    /// that were made as existing, even if they are over. After an error the transaction can only
    /// be rolled back. A `due` before now becomes the time at which the transaction began.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn order(
    /// #     database: &mut tokio_postgres::Client,
    /// #     reminder: tourbillon_durable::store::NewTimer,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// use tourbillon_durable::store::postgres::Tables;
    ///
    /// let transaction = database.transaction().await?;
    /// transaction.execute("INSERT INTO bill (number) VALUES (42)", &[]).await?;
    /// Tables::default().insert(&transaction, &[reminder]).await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn insert(
        &self,
        transaction: &Transaction<'_>,
        timers: &[NewTimer],
    ) -> Result<Vec<Inserted>> {
        let inserted = timers::insert(&mut Within(transaction, self), timers).await;
        inserted.map_err(Failure::unwritten)
    }

    /// Ends attempts in the caller's transaction, like [`Store::finish`](crate::Store::finish),
    /// except that an attempt that has ended before is [`Fenced`](Finished::Fenced).
    ///
    /// The caller's writes in that transaction take effect once, provided that it is rolled back
    /// unless the answer is [`Accepted`](Finished::Accepted): then an attempt that is no longer
    /// this lease's has no effect, nor has a transaction that is repeated after the answer to its
    /// commit was lost.
    ///
    /// The transaction locks the timer's row: end it soon, and keep the [`Fire`](crate::Fire) until
    /// then. If the fire is dropped or completed earlier, its end waits for the row, and all ends
    /// and claims of the node wait with it. After the commit, call
    /// [`Fire::committed`](crate::Fire::committed).
    pub async fn finish(
        &self,
        transaction: &Transaction<'_>,
        lease: Lease,
        ends: &[End],
    ) -> Result<Vec<Finished>> {
        let accepted = attempts::end(&mut Within(transaction, self), lease, ends).await;
        Ok(attempts::answers(ends, &accepted.map_err(Failure::unwritten)?))
    }

    /// Takes back the timer of this name that belongs to no schedule, in a transaction of the
    /// caller's, as [`Store::cancel`](crate::Store::cancel) does: "the bill is paid" and "no
    /// reminder" are one commit.
    ///
    /// [`Done`](TimerUpdate::Done) is final from the commit on: no attempt starts. Until then none
    /// starts either, and nodes pass over the timer; other timers wait for nothing. If an attempt
    /// runs, the answer is [`Running`](TimerUpdate::Running), and the attempt is not held up.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::StoreErrorKind::Conflict) also for a serialization failure of the
    /// caller's transaction, which is to be repeated as a whole. After an error it can only be
    /// rolled back.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn paid(database: &mut tokio_postgres::Client)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// use tourbillon_durable::store::postgres::Tables;
    ///
    /// let transaction = database.transaction().await?;
    /// transaction.execute("UPDATE bill SET paid = true WHERE number = 42", &[]).await?;
    /// Tables::default().cancel(&transaction, "bill-42").await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cancel(&self, transaction: &Transaction<'_>, name: &str) -> Result<TimerUpdate> {
        Ok(self.change(transaction, CANCEL, &[&name]).await?.0)
    }

    /// Gives the timer of this name that belongs to no schedule another time, in a transaction of
    /// the caller's, as [`Store::reschedule`](crate::Store::reschedule) does. The rest is as for
    /// [`cancel`](Self::cancel): once [`Done`](TimerUpdate::Done) is committed, no attempt starts
    /// for the old time.
    ///
    /// # Errors
    ///
    /// The errors of [`cancel`](Self::cancel).
    pub async fn reschedule(
        &self,
        transaction: &Transaction<'_>,
        name: &str,
        to: Time,
    ) -> Result<TimerUpdate> {
        Ok(self.change(transaction, RESCHEDULE, &[&name, &Stamp(to)]).await?.0)
    }

    async fn change(
        &self,
        transaction: &Transaction<'_>,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<(TimerUpdate, Option<TimerId>)> {
        let changed = async {
            let rows = Within(transaction, self).write(sql, params).await?;
            Ok(update(rows[0].try_get(0)?, rows[0].try_get(1)?, rows[0].try_get(2)?)?)
        };
        changed.await.map_err(Failure::unwritten)
    }
}

/// Statements in a transaction of the caller's.
struct Within<'a, 'b>(&'a Transaction<'b>, &'a Tables);

impl Query for Within<'_, '_> {
    async fn read(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>> {
        Ok(self.0.query(&*self.1.fill(sql), params).await?)
    }

    async fn write(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>> {
        Ok(self.0.query(&*self.1.fill(sql), params).await?)
    }
}
