//! Timers made and changed in a transaction of sqlx.

use super::once::created;
use super::{Client, Created, Notifiable, Once};
use crate::store::postgres::SqlxTransaction;
use crate::store::postgres::sqlx::tables;
use crate::store::{Result, TimerUpdate};
use crate::time::Time;

impl Once {
    /// Makes the timer in a transaction of sqlx, in the client's database: it is there once that
    /// commits, and never was if that is rolled back.
    ///
    /// A `due` before now becomes the time of the transaction's start. If the answer to a commit
    /// was lost and the transaction is repeated, it makes a second timer unless the timer has a
    /// [name](Self::name) or an [id chosen by the caller](Self::id).
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::StoreErrorKind::Invalid) as for [`create`](Self::create), or if the
    /// client's store is not on PostgreSQL; the transaction is then as it was. After any other
    /// error it can only be rolled back.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it may have made the timer in the transaction: roll that back.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # use sqlx_0_8 as sqlx;
    /// # async fn bill(pool: sqlx::PgPool, client: tourbillon_durable::Client)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// let mut transaction = pool.begin().await?;
    /// sqlx::query("INSERT INTO bill (number) VALUES (42)").execute(&mut *transaction).await?;
    /// let in_a_week = SystemTime::now() + Duration::from_secs(7 * 86_400);
    /// let reminder = client.once("bill.remind", in_a_week).name("bill-42");
    /// let reminder = reminder.create_in(&mut transaction).await?;
    /// transaction.commit().await?;
    /// reminder.committed();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_in(
        self,
        transaction: &mut impl SqlxTransaction,
    ) -> Result<Uncommitted<Created>> {
        let (client, timer) = self.checked()?;
        let tables = tables(client.schema.as_deref())?;
        let answer = created(timer.id, transaction.once(&tables, &timer).await?);
        let notice = matches!(answer, Created::Created(_)).then_some(Notifiable::Made(timer));
        Ok(Uncommitted { client, notice, answer })
    }
}

/// # In a transaction of sqlx
impl Client {
    /// Takes back the timer of this name that belongs to no schedule, as [`cancel`](Self::cancel)
    /// does, in a transaction of sqlx in the client's database: "the bill is paid" and "no
    /// reminder" are one commit.
    ///
    /// [`Done`](TimerUpdate::Done) is final from the commit on: no attempt starts. Until then none
    /// starts either, and nodes pass over the timer; other timers wait for nothing. If an attempt
    /// runs, the answer is [`Running`](TimerUpdate::Running), and the attempt is not held up.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::StoreErrorKind::Conflict) also for a serialization failure of the
    /// transaction, which is to be repeated as a whole, and
    /// [`Invalid`](crate::StoreErrorKind::Invalid) if the client's store is not on PostgreSQL.
    /// After an error the transaction can only be rolled back.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it may have taken the timer back in the transaction: roll that back.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "sqlx-0_8")] use sqlx_0_8 as sqlx;
    /// # #[cfg(feature = "sqlx-0_8")]
    /// # async fn paid(pool: sqlx::PgPool, client: tourbillon_durable::Client)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// let mut transaction = pool.begin().await?;
    /// sqlx::query("UPDATE bill SET paid = true WHERE number = 42")
    ///     .execute(&mut *transaction)
    ///     .await?;
    /// client.cancel_in(&mut transaction, "bill-42").await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cancel_in(
        &self,
        transaction: &mut impl SqlxTransaction,
        name: &str,
    ) -> Result<TimerUpdate> {
        transaction.cancel(&tables(self.schema.as_deref())?, name).await
    }

    /// Gives the timer of this name that belongs to no schedule another time, as
    /// [`reschedule`](Self::reschedule) does, in a transaction of sqlx in the client's database.
    /// The rest is as for [`cancel_in`](Self::cancel_in): once [`Done`](TimerUpdate::Done) is
    /// committed, no attempt starts for the old time.
    ///
    /// # Errors
    ///
    /// The errors of [`cancel_in`](Self::cancel_in).
    ///
    /// # Cancel safety
    ///
    /// Dropped, it may have changed the timer in the transaction: roll that back.
    pub async fn reschedule_in(
        &self,
        transaction: &mut impl SqlxTransaction,
        name: &str,
        to: impl Into<Time>,
    ) -> Result<Uncommitted<TimerUpdate>> {
        let (to, tables) = (to.into(), tables(self.schema.as_deref())?);
        let (answer, timer) = transaction.reschedule(&tables, name, to).await?;
        let timer = timer.filter(|_| answer == TimerUpdate::Done);
        let notice = timer.map(|timer| Notifiable::Due(timer, to));
        Ok(Uncommitted { client: self.clone(), notice, answer })
    }
}

/// A timer that was made or changed in a transaction of the caller's.
///
/// Once that has committed, [`committed`](Self::committed) has nodes take note of it. Without that
/// call, a timer that is due within a second is late by up to half a second, until a scan finds it.
#[derive(Debug)]
#[must_use = "nodes take note of the timer once `committed` is called"]
pub struct Uncommitted<T> {
    client: Client,
    /// What nodes take note of.
    notice: Option<Notifiable>,
    answer: T,
}

impl<T: Copy> Uncommitted<T> {
    /// Returns what the transaction has done, if it commits.
    pub fn answer(&self) -> T {
        self.answer
    }

    /// Notifies nodes of the timer, if it is new or changed, and due within a second. Does not wait
    /// for that.
    ///
    /// Called after the commit: before, nodes look for a timer that is not there yet.
    pub fn committed(self) -> T {
        if let Some(notice) = self.notice {
            self.client.notify(notice);
        }
        self.answer
    }
}
