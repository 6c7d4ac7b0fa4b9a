//! Transactions of sqlx: timers are made and changed, and attempts ended, by the functions of the
//! tables, as other programs do.

use std::borrow::Cow;

use bytes::BytesMut;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{self, ToSql};

use self::sealed::Functions;
use super::answer::meaning;
use super::tables::Tables;
use super::values::{Id, Span, Stamp, big, int};
use super::within::{CANCEL, RESCHEDULE, update};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Fence, TimerId};
use crate::store::{Inserted, NewTimer, Result, TimerUpdate};
use crate::time::Time;

const ONCE: &str = "
    SELECT timer::text, created FROM tourbillon.once(
        $1, $2, name => $3, payload => $4, id => $5, retry_attempts => $6, retry_first => $7,
        retry_longest => $8, lane => $9
    )";

const COMPLETE: &str = "SELECT tourbillon.complete($1, $2, $3, $4)";

/// Code of the error of an attempt that is not under way.
const FENCED: &str = "TB001";

/// Code of the error of an attempt whose timer has a record already.
const RECORDED: &str = "TB002";

/// Transaction of sqlx on PostgreSQL: `sqlx::Transaction<'_, sqlx::Postgres>` of sqlx 0.8 with the
/// feature `sqlx-0_8`, and of sqlx 0.9 with `sqlx-0_9`.
pub trait SqlxTransaction: Functions {}

/// Result of a completion.
#[derive(Debug)]
pub enum Completed {
    /// The attempt is ended.
    Done,
    /// The attempt is not under way.
    Fenced,
    /// The attempt is under way, of a timer that has a record already.
    Recorded,
}

mod sealed {
    use super::{Completed, Fence, Inserted, NewTimer, Result, Tables, Time, TimerId, TimerUpdate};

    /// Calls of the functions of the tables. After an error, and after an answer other than that a
    /// completion is done, the transaction can only be rolled back.
    pub trait Functions {
        /// Inserts a timer of no schedule.
        fn once(
            &mut self,
            tables: &Tables,
            timer: &NewTimer,
        ) -> impl Future<Output = Result<Inserted>> + Send;

        /// Completes an attempt.
        fn complete(
            &mut self,
            tables: &Tables,
            fence: Fence,
        ) -> impl Future<Output = Result<Completed>> + Send;

        /// Takes a timer back, by its name.
        fn cancel(
            &mut self,
            tables: &Tables,
            name: &str,
        ) -> impl Future<Output = Result<TimerUpdate>> + Send;

        /// Gives a timer another time, by its name. Returns its id, too.
        fn reschedule(
            &mut self,
            tables: &Tables,
            name: &str,
            to: Time,
        ) -> impl Future<Output = Result<(TimerUpdate, Option<TimerId>)>> + Send;
    }
}

/// Returns the tables of a store, for transactions of callers.
///
/// # Errors
///
/// [`Invalid`](StoreErrorKind::Invalid) if the store is not on PostgreSQL, and so has no schema.
pub(crate) fn tables(schema: Option<&str>) -> Result<Tables> {
    let why = "the store is not on PostgreSQL, so the transaction is not of its database";
    Tables::in_schema(schema.ok_or_else(|| StoreError::new(StoreErrorKind::Invalid, why))?)
}

fn inserted(id: &str, is_created: bool) -> Result<Inserted> {
    if is_created {
        return Ok(Inserted::Created);
    }
    let id = id.parse().map_err(|error| StoreError::new(StoreErrorKind::Schema, error))?;
    Ok(Inserted::Exists(id))
}

/// Returns the meaning of an error's code in a transaction that is not committed.
fn kind(code: Option<Cow<'_, str>>) -> StoreErrorKind {
    code.map_or(StoreErrorKind::Unavailable, |code| meaning(&SqlState::from_code(&code)).0)
}

/// A value for one version of sqlx, in the same format as in the store's own connections.
macro_rules! encode {
    ($sqlx:ident: $name:ident as $type:ident) => {
        impl ::$sqlx::Type<Postgres> for $name {
            fn type_info() -> ::$sqlx::postgres::PgTypeInfo {
                let oid = ::$sqlx::postgres::types::Oid(types::Type::$type.oid());
                ::$sqlx::postgres::PgTypeInfo::with_oid(oid)
            }
        }

        impl ::$sqlx::Encode<'_, Postgres> for $name {
            fn encode_by_ref(
                &self,
                buffer: &mut ::$sqlx::postgres::PgArgumentBuffer,
            ) -> std::result::Result<::$sqlx::encode::IsNull, ::$sqlx::error::BoxDynError> {
                let mut bytes = BytesMut::new();
                let _ = self.to_sql(&types::Type::$type, &mut bytes)?;
                buffer.extend_from_slice(&bytes);
                Ok(::$sqlx::encode::IsNull::No)
            }
        }
    };
}

/// The functions by one version of sqlx, which takes a text of SQL as `$text` makes it.
macro_rules! version {
    ($sqlx:ident, $text:path) => {
        mod $sqlx {
            use ::$sqlx::{Error, Postgres, Transaction, query, query_as};

            use super::*;

            impl SqlxTransaction for Transaction<'_, Postgres> {}

            impl Functions for Transaction<'_, Postgres> {
                async fn once(&mut self, tables: &Tables, timer: &NewTimer) -> Result<Inserted> {
                    let (id, is_created): (String, bool) = query_as($text(&tables.fill(ONCE)))
                        .bind(&timer.kind)
                        .bind(Stamp(timer.scheduled_for))
                        .bind(&timer.name)
                        .bind(&timer.payload)
                        .bind(Id::from(timer.id))
                        .bind(int(timer.retry.attempts))
                        .bind(Span(timer.retry.first))
                        .bind(Span(timer.retry.longest))
                        .bind(&timer.lane)
                        .fetch_one(&mut **self)
                        .await
                        .map_err(failure)?;
                    inserted(&id, is_created)
                }

                async fn complete(&mut self, tables: &Tables, fence: Fence) -> Result<Completed> {
                    let completed = query($text(&tables.fill(COMPLETE)))
                        .bind(Id::from(fence.timer))
                        .bind(int(fence.attempt))
                        .bind(Id::from(fence.lease.node))
                        .bind(big(fence.lease.epoch))
                        .execute(&mut **self)
                        .await;
                    let Err(error) = completed else { return Ok(Completed::Done) };
                    match error.as_database_error().and_then(|said| said.code()).as_deref() {
                        Some(FENCED) => Ok(Completed::Fenced),
                        Some(RECORDED) => Ok(Completed::Recorded),
                        _ => Err(failure(error)),
                    }
                }

                async fn cancel(&mut self, tables: &Tables, name: &str) -> Result<TimerUpdate> {
                    let (answer, id, attempt): (String, Option<String>, Option<i32>) =
                        query_as($text(&tables.fill(CANCEL)))
                            .bind(name)
                            .fetch_one(&mut **self)
                            .await
                            .map_err(failure)?;
                    Ok(update(&answer, id.as_deref(), attempt)?.0)
                }

                async fn reschedule(
                    &mut self,
                    tables: &Tables,
                    name: &str,
                    to: Time,
                ) -> Result<(TimerUpdate, Option<TimerId>)> {
                    let (answer, id, attempt): (String, Option<String>, Option<i32>) =
                        query_as($text(&tables.fill(RESCHEDULE)))
                            .bind(name)
                            .bind(Stamp(to))
                            .fetch_one(&mut **self)
                            .await
                            .map_err(failure)?;
                    update(&answer, id.as_deref(), attempt)
                }
            }

            /// Converts an error in a transaction that is not committed.
            fn failure(error: Error) -> StoreError {
                let kind = kind(error.as_database_error().and_then(|said| said.code()));
                StoreError::new(kind, error)
            }

            encode!($sqlx: Stamp as TIMESTAMPTZ);
            encode!($sqlx: Span as INTERVAL);
            encode!($sqlx: Id as UUID);
        }
    };
}

#[cfg(feature = "sqlx-0_8")]
version!(sqlx_0_8, AsRef::as_ref);

#[cfg(feature = "sqlx-0_9")]
version!(sqlx_0_9, asserted);

/// Asserts that a text of this crate's is safe: it has no values of users.
#[cfg(feature = "sqlx-0_9")]
fn asserted(sql: &str) -> ::sqlx_0_9::AssertSqlSafe<String> {
    ::sqlx_0_9::AssertSqlSafe(sql.to_owned())
}
