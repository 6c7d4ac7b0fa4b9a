//! Times and spans as text.

use std::time::{Duration, SystemTime};

use tourbillon_durable::Time;

/// Reads a span: `90s`, `1h 30m`, `2 days`, `PT5M`. A day has 24 hours.
///
/// # Errors
///
/// If it is not a span, is negative, or has months or years, whose lengths vary.
pub fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{}` is not a span such as `90s`, `1h 30m` or `PT5M`", shown(text));
    let span: jiff::Span = text.parse().map_err(|_| wrong())?;
    let days = jiff::SpanRelativeTo::days_are_24_hours();
    let span = span.to_duration(days).map_err(|_| wrong())?;
    Duration::try_from(span).map_err(|_| wrong())
}

/// Reads a time of RFC 3339, rounded up to a microsecond.
///
/// # Errors
///
/// If it is none.
pub fn time(text: &str) -> Result<Time, String> {
    let time: jiff::Timestamp = text
        .parse()
        .map_err(|_| format!("`{}` is not a time such as `2030-01-31T12:00:00Z`", shown(text)))?;
    Ok(Time::from(SystemTime::from(time)))
}

/// A time as RFC 3339, in UTC, with as many digits as it needs.
pub fn rfc3339(time: Time) -> String {
    timestamp(time).to_string()
}

/// Returns a time as jiff's.
pub(crate) fn timestamp(time: Time) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(time.as_micros()).unwrap_or(jiff::Timestamp::MAX)
}

/// Returns the part of a foreign text that is put into an error.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}
