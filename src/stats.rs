//! Measurements of a timer: [counters](Stats), and a [histogram](Histogram) of its lateness.
//!
//! [`Timer::stats`](crate::Timer::stats) and [`Timer::lateness`](crate::Timer::lateness) take them.

mod histogram;
#[cfg(all(feature = "pending", not(target_os = "none")))]
mod pending;

use core::time::Duration;

pub use histogram::Histogram;
#[cfg(all(feature = "pending", not(target_os = "none")))]
pub use pending::Pending;

/// A snapshot of a timer's counters; see [`Timer::stats`](crate::Timer::stats).
///
/// Counters are kept shard by shard, so a snapshot is not one moment: taken while timers are armed
/// and fired, its counters need not add up exactly.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
/// use tourbillon::virtual_time::VirtualClock;
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
    /// Number of times that a sleep was armed.
    pub armed: u64,
    /// Number of armed sleeps that reached their deadline: fired by the driver, or completed by a
    /// poll.
    pub fired: u64,
    /// Number of armed sleeps that were dropped, or reset to never, before their deadline.
    pub cancelled: u64,
    /// Number of sleeps that are armed now.
    pub pending: usize,
    /// The number of shards.
    pub shards: usize,
    /// Number of shards that have ever had a timer.
    pub shards_used: usize,
    /// Number of times that the driver thread woke from a park, by time or by an unpark.
    pub driver_wakeups: u64,
    /// Unparks sent to the driver thread, or calls of the hook of a hand-driven timer.
    pub unparks: u64,
    /// Caught panics of wakers, and of the hook of a hand-driven timer. In browsers, where none can
    /// be caught, turns that a panic or an exception cut off. Each is a bug in the program: the
    /// task of that waker may never run again.
    /// [`Builder::on_waker_panic`](crate::timer::Builder::on_waker_panic) reports the first.
    pub waker_panics: u64,
    /// Longest call of a waker or a [callback](crate::callback::Callback) so far, by the timer's
    /// clock. The call in progress counts with the time that it has taken: a call that never
    /// returns shows as a length that grows.
    ///
    /// On Linux, wakers of a crowd that take less than 10 us on average are measured up to 64
    /// together, but for no more than 10 ms. So a long one may be off by what those before it took.
    /// Where few are due at a time, or the [limit](crate::timer::Builder::slow_call_limit) is below
    /// 20 ms, each is measured by itself.
    pub longest_call: Duration,
    /// Number of calls that took longer than the [limit](crate::timer::Builder::slow_call_limit),
    /// 100 ms by default.
    pub slow_calls: u64,
    /// The worst lateness so far; see [`Timer::lateness`](crate::Timer::lateness) for the
    /// distribution.
    pub lateness_max: Duration,
}
