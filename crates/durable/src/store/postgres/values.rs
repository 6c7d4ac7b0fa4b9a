//! Values as PostgreSQL has them, in its binary format.

use std::error::Error;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::id::{NodeId, ScheduleId, Shards, TimerId};
use crate::time::{LONGEST_PAUSE, Time};

/// Time from the Unix epoch to PostgreSQL's, the year 2000.
const EPOCH: i64 = 946_684_800_000_000;

/// PostgreSQL's earliest time, from its epoch: 24 November 4714 before Christ.
const FIRST: i64 = -211_813_488_000_000_000;

type Failed = Box<dyn Error + Sync + Send>;

/// `timestamptz`. [`Time::NEVER`] is `infinity`; times before its range become its first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stamp(pub(super) Time);

impl ToSql for Stamp {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        out.put_i64(match self.0 {
            Time::NEVER => i64::MAX,
            time => time.as_micros().saturating_sub(EPOCH).max(FIRST),
        });
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Stamp {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failed> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        // Times beyond `Time` are as good as never.
        Ok(Self(Time::from_micros(micros.saturating_add(EPOCH))))
    }

    accepts!(TIMESTAMPTZ);
}

/// `interval`, and not longer than [`LONGEST_PAUSE`]: its sum with a time stays within the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl ToSql for Span {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        // Rounded up, as `Time` does it.
        let micros = self.0.min(LONGEST_PAUSE).as_nanos().div_ceil(1_000);
        out.put_i64(i64::try_from(micros)?);
        out.put_i32(0);
        out.put_i32(0);
        Ok(IsNull::No)
    }

    accepts!(INTERVAL);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Span {
    /// A day has 24 hours and a month 30 days, as in the server's own comparisons.
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failed> {
        let raw: [u8; 16] = raw.try_into()?;
        let (micros, rest) = raw.split_at(8);
        let (days, months) = rest.split_at(4);
        let days = i64::from(i32::from_be_bytes(days.try_into()?))
            + 30 * i64::from(i32::from_be_bytes(months.try_into()?));
        let micros = i64::from_be_bytes(micros.try_into()?);
        let micros = days.saturating_mul(86_400 * 1_000_000).saturating_add(micros);
        // A negative duration becomes zero.
        Ok(Self(Duration::from_micros(u64::try_from(micros).unwrap_or(0))))
    }

    accepts!(INTERVAL);
}

/// `uuid`. Both sort by their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(pub(super) u128);

impl ToSql for Id {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        out.put_u128(self.0);
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Id {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failed> {
        Ok(Self(u128::from_be_bytes(raw.try_into()?)))
    }

    accepts!(UUID);
}

macro_rules! id {
    ($($name:ident)*) => {
        $(
            impl From<$name> for Id {
                fn from(id: $name) -> Self {
                    Self(id.bits())
                }
            }

            impl From<Id> for $name {
                fn from(id: Id) -> Self {
                    Self::from_bits(id.0)
                }
            }
        )*
    };
}

id!(TimerId ScheduleId NodeId);

/// A number that PostgreSQL keeps as `bigint`; none gets so high that it does not fit.
pub(super) fn big(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that PostgreSQL keeps as `integer`.
pub(super) fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A set of shards, a bit for each.
pub(super) fn mask(shards: Shards) -> i64 {
    i64::from_ne_bytes(shards.mask().to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(time: Time) -> Time {
        let mut bytes = BytesMut::new();
        let _ = Stamp(time).to_sql(&Type::TIMESTAMPTZ, &mut bytes).unwrap();
        Stamp::from_sql(&Type::TIMESTAMPTZ, &bytes).unwrap().0
    }

    #[test]
    fn a_span_comes_back_to_the_microsecond_up_to_a_thousand_years() {
        let round = |span| {
            let mut bytes = BytesMut::new();
            let _ = Span(span).to_sql(&Type::INTERVAL, &mut bytes).unwrap();
            Span::from_sql(&Type::INTERVAL, &bytes).unwrap().0
        };
        for span in [Duration::ZERO, Duration::from_micros(1), LONGEST_PAUSE] {
            assert_eq!(round(span), span);
        }
        assert_eq!(round(Duration::from_nanos(1)), Duration::from_micros(1));
        assert_eq!(round(Duration::MAX), LONGEST_PAUSE);
    }

    #[test]
    fn an_interval_of_others_has_days_and_months() {
        let read = |micros: i64, days: i32, months: i32| {
            let mut bytes = BytesMut::new();
            bytes.put_i64(micros);
            bytes.put_i32(days);
            bytes.put_i32(months);
            Span::from_sql(&Type::INTERVAL, &bytes).unwrap().0
        };
        assert_eq!(read(1, 2, 1), Duration::from_secs(32 * 86_400) + Duration::from_micros(1));
        assert_eq!(read(-1, 0, 0), Duration::ZERO);
        let most = Duration::from_micros(i64::MAX.unsigned_abs());
        assert_eq!(read(i64::MAX, i32::MAX, i32::MAX), most);
    }

    #[test]
    fn a_time_comes_back_as_it_was() {
        let last = Time::from_micros(i64::MAX - 1);
        for time in [Time::NEVER, last, Time::from_micros(-1), Time::default()] {
            assert_eq!(round(time), time);
        }
        let before = Time::from_micros(i64::MIN);
        assert_eq!(round(before), Time::from_micros(FIRST + EPOCH));
    }
}
