//! [`Stats`]: the counters of a timer.

use core::time::Duration;

/// A snapshot of a timer's counters; see [`Timer::stats`](crate::Timer::stats).
///
/// Counters are kept shard by shard, so a snapshot is not one moment: taken while timers are armed
/// and fired, its counters need not add up exactly.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Timer, VirtualClock};
///
/// let clock = VirtualClock::new();
/// let timer = Timer::builder().virtual_clock(&clock).build()?;
/// clock.block_on(timer.sleep(Duration::from_secs(60)));
/// let stats = timer.stats();
/// assert_eq!((stats.armed, stats.fired, stats.cancelled, stats.pending), (1, 1, 0, 0));
/// assert_eq!(stats.lateness_max, Duration::ZERO);
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// How often a sleep was armed.
    pub armed: u64,
    /// How many armed sleeps reached their deadline: fired by the driver, or completed by a poll.
    pub fired: u64,
    /// How many armed sleeps were dropped, or reset to never, before their deadline.
    pub cancelled: u64,
    /// How many sleeps are armed now.
    pub pending: usize,
    /// The number of shards.
    pub shards: usize,
    /// How many shards have ever had a timer.
    pub shards_used: usize,
    /// How often the driver thread woke from a park, by time or by an unpark.
    pub driver_wakeups: u64,
    /// Unparks sent to the driver thread, or calls of the hook of a hand-driven timer.
    pub unparks: u64,
    /// Caught panics of wakers, and of that hook.
    pub waker_panics: u64,
    /// The worst lateness so far; see [`Timer::lateness`](crate::Timer::lateness) for the
    /// distribution.
    pub lateness_max: Duration,
}
