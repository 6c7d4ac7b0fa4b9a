//! Timers made, and attempts ended, in a transaction of the caller's.

use tokio_postgres::{Row, Transaction};

use super::link::{Answer, Failure, Params, Query};
use super::tables::Tables;
use super::{attempts, timers};
use crate::id::Lease;
use crate::store::{End, Finished, Inserted, NewTimer, Result};

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
