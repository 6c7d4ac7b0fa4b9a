//! `tokio::time`, by its names.

mod instant;
mod interval;
mod sleep;
mod timeout;

/// Errors of this module.
pub mod error {
    /// The error of a timeout whose time is up. Equal to any other, and converts into an
    /// [`io::Error`](std::io::Error) of kind `TimedOut`.
    pub use tourbillon::Elapsed;
}

pub use instant::Instant;
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use sleep::{Sleep, sleep, sleep_until};
#[doc(no_inline)]
pub use std::time::Duration;
pub use timeout::{Timeout, timeout, timeout_at};

/// Thirty years: tokio's delay where an instant has no room for a longer delay.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
