//! Timers made, and attempts ended, in a transaction of the caller's.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio_postgres::Row;

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
    /// They are there once the caller's transaction commits; with one that ends otherwise, they
    /// never were. A transaction whose commit was not answered is repeated with the same timers:
    /// what it made exists then, also if it is over. After an error the transaction can only be
    /// rolled back. A `due` before now becomes the time that the transaction began at.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn order(database: &mut postgres::Client, reminder: tourbillon_durable::store::NewTimer)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// use tourbillon_durable::store::postgres::Tables;
    ///
    /// let mut transaction = database.transaction()?;
    /// transaction.execute("INSERT INTO bill (number) VALUES (42)", &[])?;
    /// Tables::default().insert(&mut transaction, &[reminder])?;
    /// transaction.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert(
        &self,
        transaction: &mut ::postgres::Transaction<'_>,
        timers: &[NewTimer],
    ) -> Result<Vec<Inserted>> {
        let inserted = at_once(timers::insert(&mut Blocking(transaction, self), timers));
        inserted.map_err(Failure::unwritten)
    }

    /// Ends attempts in a transaction of the caller's, as [`Store::finish`](crate::Store::finish)
    /// does, except that one which has ended before is [`Fenced`](Finished::Fenced).
    ///
    /// The caller's writes in that transaction take effect once, provided that it is rolled back
    /// unless the answer is [`Accepted`](Finished::Accepted): then an attempt that is no longer
    /// this lease's has no effect, nor has a transaction that is repeated after the answer to its
    /// commit was lost.
    ///
    /// The transaction locks the timer's row: end it soon, and keep the [`Fire`](crate::Fire) until
    /// then. One that is dropped or completed before is an end that waits for the row, and with it
    /// all ends and claims of the node. After the commit, call
    /// [`Fire::committed`](crate::Fire::committed).
    pub fn finish(
        &self,
        transaction: &mut ::postgres::Transaction<'_>,
        lease: Lease,
        ends: &[End],
    ) -> Result<Vec<Finished>> {
        let accepted = at_once(attempts::end(&mut Blocking(transaction, self), lease, ends));
        Ok(attempts::answers(ends, &accepted.map_err(Failure::unwritten)?))
    }

    /// [`insert`](Self::insert), in a transaction of `tokio_postgres`.
    pub async fn insert_async(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        timers: &[NewTimer],
    ) -> Result<Vec<Inserted>> {
        let inserted = timers::insert(&mut Async(transaction, self), timers).await;
        inserted.map_err(Failure::unwritten)
    }

    /// [`finish`](Self::finish), in a transaction of `tokio_postgres`.
    pub async fn finish_async(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        lease: Lease,
        ends: &[End],
    ) -> Result<Vec<Finished>> {
        let accepted = attempts::end(&mut Async(transaction, self), lease, ends).await;
        Ok(attempts::answers(ends, &accepted.map_err(Failure::unwritten)?))
    }
}

/// Answers without waiting, as it blocks.
struct Blocking<'a, 'b>(&'a mut ::postgres::Transaction<'b>, &'a Tables);

struct Async<'a, 'b>(&'a tokio_postgres::Transaction<'b>, &'a Tables);

impl Query for Blocking<'_, '_> {
    async fn read(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>> {
        Ok(self.0.query(&*self.1.fill(sql), params)?)
    }

    async fn write(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>> {
        Ok(self.0.query(&*self.1.fill(sql), params)?)
    }
}

impl Query for Async<'_, '_> {
    async fn read(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>> {
        Ok(self.0.query(&*self.1.fill(sql), params).await?)
    }

    async fn write(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>> {
        Ok(self.0.query(&*self.1.fill(sql), params).await?)
    }
}

/// The result of a future that never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a blocking transaction leaves nothing to wait for"),
    }
}
