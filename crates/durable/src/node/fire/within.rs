//! An attempt completed in a transaction of sqlx.

use std::fmt;
use std::sync::atomic::Ordering;

use super::Fire;
use crate::error::StoreError;
use crate::store::postgres::SqlxTransaction;
use crate::store::postgres::sqlx::{Completed, tables};

impl Fire {
    /// Completes the attempt in a transaction of sqlx, in the node's database: the end of the
    /// occurrence and the caller's own writes take effect together, once that commits, or not at
    /// all.
    ///
    /// The attempt completes only if it is under way at that moment, by its [fence](Self::fence):
    /// after another node took it over, or after it ended, the transaction fails. From then to the
    /// transaction's end its row is locked, so no other attempt can start in between.
    ///
    /// Keep the fire until the transaction has ended, and the transaction short: an end of this
    /// attempt waits for the row, and with it all ends and claims of the node. Then:
    ///
    /// - after the commit, call [`committed`](Self::committed);
    /// - after a rollback, end the attempt by another call, or drop it;
    /// - if the answer to the commit was lost, drop it: another attempt follows if the commit did
    ///   not take effect. Or repeat the transaction: it is [`Fenced`](CompleteError::Fenced) if the
    ///   first took effect.
    ///
    /// # Errors
    ///
    /// [`Store`](CompleteError::Store) also if the engine's store is not on PostgreSQL.
    ///
    /// After an error the transaction can only be rolled back: PostgreSQL turns a commit into a
    /// rollback without an error. A rollback to a savepoint before the call is not enough: roll
    /// back the whole transaction.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it may have completed the attempt in the transaction: roll that back.
    ///
    /// # Examples
    ///
    /// ```
    /// # use sqlx_0_8 as sqlx;
    /// # async fn remind(pool: sqlx::PgPool, fire: tourbillon_durable::Fire)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// let mut transaction = pool.begin().await?;
    /// sqlx::query("UPDATE bill SET reminded = true").execute(&mut *transaction).await?;
    /// fire.complete_in(&mut transaction).await?;
    /// transaction.commit().await?;
    /// fire.committed();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn complete_in(
        &self,
        transaction: &mut impl SqlxTransaction,
    ) -> Result<(), CompleteError> {
        let tables = tables(self.shared.options.schema.as_deref()).map_err(CompleteError::Store)?;
        match transaction.complete(&tables, self.fence()).await {
            Ok(Completed::Done) => Ok(()),
            Ok(Completed::Fenced) => Err(CompleteError::Fenced),
            Ok(Completed::Recorded) => {
                // ORDERING: Relaxed; only the drop of the fire reads it, with exclusive access.
                self.is_recorded.store(true, Ordering::Relaxed);
                Err(CompleteError::Fenced)
            }
            Err(error) => Err(CompleteError::Store(error)),
        }
    }
}

/// Reasons for an attempt not to complete in the caller's transaction. The whole transaction has to
/// be rolled back.
#[derive(Debug)]
#[non_exhaustive]
pub enum CompleteError {
    /// The attempt is not under way: it has ended, or another node has taken its timer over. Or its
    /// timer, inserted by other means, has a record already: a drop of the fire then removes it.
    Fenced,
    /// The database did not answer, or refused.
    Store(StoreError),
}

impl fmt::Display for CompleteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced => f.write_str("the attempt is not under way"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CompleteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Fenced => None,
            Self::Store(error) => error.source(),
        }
    }
}
