//! Timers made, and attempts ended, in a transaction of sqlx: by the functions of the tables, as
//! other programs do.

use bytes::BytesMut;
use sqlx_0_8::encode::IsNull;
use sqlx_0_8::error::BoxDynError;
use sqlx_0_8::postgres::types::Oid;
use sqlx_0_8::postgres::{PgArgumentBuffer, PgTypeInfo};
use sqlx_0_8::{Encode, Error, Postgres, Transaction, Type, query, query_as};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{self, ToSql};

use super::link::meaning;
use super::tables::Tables;
use super::values::{Id, Span, Stamp, big, int};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::Fence;
use crate::store::{Inserted, NewTimer, Result};

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

/// Result of a completion.
pub(crate) enum Completed {
    Done,
    /// The attempt is not under way.
    Fenced,
    /// The attempt is under way, of a timer that has a record already.
    Recorded,
}

/// Inserts a timer of no schedule.
pub(crate) async fn insert(
    transaction: &mut Transaction<'_, Postgres>,
    tables: &Tables,
    timer: &NewTimer,
) -> Result<Inserted> {
    let (id, created): (String, bool) = query_as(&tables.fill(ONCE))
        .bind(&timer.kind)
        .bind(Stamp(timer.scheduled_for))
        .bind(&timer.name)
        .bind(&timer.payload)
        .bind(Id::from(timer.id))
        .bind(int(timer.retry.attempts))
        .bind(Span(timer.retry.first))
        .bind(Span(timer.retry.longest))
        .bind(&timer.lane)
        .fetch_one(&mut **transaction)
        .await
        .map_err(failure)?;
    if created {
        return Ok(Inserted::Created);
    }
    let id = id.parse().map_err(|error| StoreError::new(StoreErrorKind::Schema, error))?;
    Ok(Inserted::Exists(id))
}

/// Completes an attempt. If it does not, the transaction can only be rolled back.
pub(crate) async fn complete(
    transaction: &mut Transaction<'_, Postgres>,
    tables: &Tables,
    fence: Fence,
) -> Result<Completed> {
    let completed = query(&tables.fill(COMPLETE))
        .bind(Id::from(fence.timer))
        .bind(int(fence.attempt))
        .bind(Id::from(fence.lease.node))
        .bind(big(fence.lease.epoch))
        .execute(&mut **transaction)
        .await;
    match completed {
        Ok(_) => Ok(Completed::Done),
        Err(error) => match error.as_database_error().and_then(|said| said.code()).as_deref() {
            Some(FENCED) => Ok(Completed::Fenced),
            Some(RECORDED) => Ok(Completed::Recorded),
            _ => Err(failure(error)),
        },
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

/// Converts an error in a transaction that is not committed.
fn failure(error: Error) -> StoreError {
    let code = error.as_database_error().and_then(|said| said.code());
    let kind = match code {
        Some(code) => meaning(&SqlState::from_code(&code)).0,
        None => StoreErrorKind::Unavailable,
    };
    StoreError::new(kind, error)
}

/// Values in the same format as in the store's own connections.
macro_rules! encode {
    ($($name:ident as $type:ident)*) => {
        $(
            impl Type<Postgres> for $name {
                fn type_info() -> PgTypeInfo {
                    PgTypeInfo::with_oid(Oid(types::Type::$type.oid()))
                }
            }

            impl Encode<'_, Postgres> for $name {
                fn encode_by_ref(
                    &self,
                    buffer: &mut PgArgumentBuffer,
                ) -> std::result::Result<IsNull, BoxDynError> {
                    let mut bytes = BytesMut::new();
                    let _ = self.to_sql(&types::Type::$type, &mut bytes)?;
                    buffer.extend_from_slice(&bytes);
                    Ok(IsNull::No)
                }
            }
        )*
    };
}

encode!(Stamp as TIMESTAMPTZ Span as INTERVAL Id as UUID);
