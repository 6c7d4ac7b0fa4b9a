//! Times of day in jiff's types. By durations alone, because a browser's time of day is no type of
//! jiff's.

use jiff::{SignedDuration, Timestamp};
use tourbillon::time::SystemTime;

/// Returns the same time as a timestamp; `None` outside the years -9999 to 9999.
pub(crate) fn to_timestamp(time: SystemTime) -> Option<Timestamp> {
    let since_1970 = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => SignedDuration::try_from(since).ok()?,
        Err(before) => -SignedDuration::try_from(before.duration()).ok()?,
    };
    Timestamp::from_duration(since_1970).ok()
}

/// Returns the same time in the system's type; `None` if the system has no such time: a browser has
/// none before 1970.
pub(crate) fn from_timestamp(time: Timestamp) -> Option<SystemTime> {
    let since_1970 = time.as_duration();
    let span = since_1970.unsigned_abs();
    if since_1970.is_negative() {
        SystemTime::UNIX_EPOCH.checked_sub(span)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(span)
    }
}
