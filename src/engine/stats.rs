//! [`Stats`]: the counters of a timer.

use std::time::Duration;

/// A snapshot of a timer's counters; see [`Timer::stats`](crate::Timer::stats).
///
/// Each counter is kept where it is counted without extra cost, shard by shard, so a snapshot
/// taken while timers are armed and fired need not add up to the last one.
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
    /// Times a sleep was put into a wheel.
    pub armed: u64,
    /// Of those, how many saw their deadline come: fired by the driver, or found past by a poll.
    pub fired: u64,
    /// Of those, how many were dropped, or reset to never, before.
    pub cancelled: u64,
    /// Those that are armed now.
    pub pending: usize,
    /// Shards, each with a lock and a wheel of its own.
    pub shards: usize,
    /// Shards that a timer was ever armed in.
    pub shards_used: usize,
    /// Parks of the driver thread that ended, whether by time or by an unpark.
    pub driver_wakeups: u64,
    /// Unparks sent to the driver thread, or calls of the hook of a hand-driven timer.
    pub unparks: u64,
    /// Panics of wakers, and of that hook, that were caught.
    pub waker_panics: u64,
    /// The most that the driver fired a timer after its deadline. How the others fared says
    /// [`Timer::lateness`](crate::Timer::lateness).
    pub lateness_max: Duration,
}
