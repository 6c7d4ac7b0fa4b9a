//! The timed part of tokio-stream.

mod chunks_timeout;
mod throttle;
mod timeout;
mod timeout_repeating;
pub mod wrappers;

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use futures_core::Stream;

use crate::time::Interval;

pub use chunks_timeout::ChunksTimeout;
pub use throttle::Throttle;
pub use timeout::Timeout;
pub use timeout_repeating::TimeoutRepeating;

/// `tokio_stream::adapters`.
pub mod adapters {
    pub use super::{ChunksTimeout, Timeout, TimeoutRepeating};
}

/// The timed adapters of tokio-stream's trait of this name.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use futures::{StreamExt as _, stream};
/// use tourbillon_compat_tokio::stream::StreamExt as _;
///
/// # pollster::block_on(async {
/// let numbers = stream::iter(1..=5).throttle(Duration::from_millis(1));
/// let chunks = numbers.chunks_timeout(2, Duration::from_secs(60));
/// assert_eq!(chunks.collect::<Vec<_>>().await, [vec![1, 2], vec![3, 4], vec![5]]);
/// # });
/// ```
pub trait StreamExt: Stream {
    /// Every item, and one error for each wait that takes longer than `duration`.
    #[track_caller]
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        Timeout::new(self, duration)
    }

    /// Every item, and an error for each tick without one. An item resets the interval.
    fn timeout_repeating(self, interval: Interval) -> TimeoutRepeating<Self>
    where
        Self: Sized,
    {
        TimeoutRepeating::new(self, interval)
    }

    /// Every item, and none sooner than `duration` after the one before.
    #[track_caller]
    fn throttle(self, duration: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle::new(self, duration)
    }

    /// Every item, in chunks of `max_size`, or of what came within `duration` of a chunk's first.
    ///
    /// # Panics
    ///
    /// If `max_size` is zero.
    #[track_caller]
    fn chunks_timeout(self, max_size: usize, duration: Duration) -> ChunksTimeout<Self>
    where
        Self: Sized,
    {
        ChunksTimeout::new(self, max_size, duration)
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}

/// The error of a stream whose item did not come in time.
///
/// Another type than [`time::error::Elapsed`](crate::time::error::Elapsed), as in tokio-stream, so
/// that an error of yours may be made of both.
#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl From<tourbillon::Elapsed> for Elapsed {
    fn from(_: tourbillon::Elapsed) -> Self {
        Self(())
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        tourbillon::Elapsed::new().fmt(f)
    }
}

impl Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> Self {
        io::ErrorKind::TimedOut.into()
    }
}
