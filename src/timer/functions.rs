//! The functions at the crate's root. They use the timer in scope, or else the process-wide one.

use core::future::IntoFuture;
use core::time::Duration;

use crate::deadline::Deadline;
use crate::handle::EngineRef;
use crate::interval::Interval;
use crate::sleep::Sleep;
use crate::tick::Tick;
use crate::time::Instant;
use crate::timeout::Timeout;
#[cfg(doc)]
use crate::timer::Timer;

// Inlined, like all that makes a sleep or a timeout, so that it is made where it will be: a move
// right away would wait for the stores that made it, 10 ns.
#[inline(always)]
#[cfg_attr(feature = "pending", track_caller)]
pub(crate) fn sleep_in(engine: EngineRef, delay: Duration) -> Sleep {
    Sleep::after(engine, delay)
}

#[inline(always)]
#[cfg_attr(feature = "pending", track_caller)]
pub(crate) fn sleep_until_in(engine: EngineRef, deadline: Deadline) -> Sleep {
    Sleep::until(engine, |clock| clock.tick_of(deadline))
}

/// Makes a [`Sleep`] that ends `delay` from now.
///
/// With a delay past the end of the time line, some 438 years from now, it never ends.
///
/// # Examples
///
/// ```
/// # pollster::block_on(async {
/// tourbillon::sleep(std::time::Duration::from_millis(1)).await;
/// # });
/// ```
///
/// # Panics
///
/// Not here, except as [`Timer::global`]. The first poll panics if the driver thread cannot be
/// started; see [`Timer::start`].
#[inline(always)]
#[cfg_attr(feature = "pending", track_caller)]
pub fn sleep(delay: Duration) -> Sleep {
    sleep_in(EngineRef::here(), delay)
}

/// Makes a [`Sleep`] that ends at `deadline`, an [`Instant`] or a [`Deadline`].
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # pollster::block_on(async {
/// tourbillon::sleep_until(Instant::now() + Duration::from_millis(1)).await;
/// # });
/// ```
///
/// # Panics
///
/// Panics as [`sleep()`] does.
#[inline(always)]
#[cfg_attr(feature = "pending", track_caller)]
pub fn sleep_until(deadline: impl Into<Deadline>) -> Sleep {
    sleep_until_in(EngineRef::here(), deadline.into())
}

/// Returns a sleep of the current timer that never ends, until it is reset.
#[cfg_attr(feature = "pending", track_caller)]
pub(crate) fn never() -> Sleep {
    Sleep::new(EngineRef::here(), Tick::NEVER)
}

/// Makes an [`Interval`] that ticks at once, and then every `period`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # pollster::block_on(async {
/// let mut interval = tourbillon::interval(Duration::from_millis(1));
/// let first = interval.tick().await;
/// assert_eq!(interval.tick().await, first + Duration::from_millis(1));
/// # });
/// ```
///
/// # Panics
///
/// If `period` is zero; otherwise as [`sleep()`].
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Interval::new(sleep(Duration::ZERO), period)
}

/// Makes an [`Interval`] that ticks at `start`, and then every `period`.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # pollster::block_on(async {
/// let start = Instant::now() + Duration::from_millis(1);
/// let mut interval = tourbillon::interval_at(start, Duration::from_secs(1));
/// assert_eq!(interval.tick().await, start);
/// # });
/// ```
///
/// # Panics
///
/// Panics as [`interval()`] does.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(sleep_until(start), period)
}

/// Makes a [`Timeout`]: a future of `Ok` with the output of `future`, or of `Err(Elapsed)` once
/// `limit` has passed.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # pollster::block_on(async {
/// let answer = tourbillon::timeout(Duration::from_secs(5), async { 42 });
/// assert_eq!(answer.await, Ok(42));
/// # });
/// ```
///
/// The limit counts from the call, and not from the first poll:
///
/// ```
/// use std::future::pending;
/// use std::time::Duration;
///
/// use tourbillon::Timer;
/// use tourbillon::virtual_time::VirtualClock;
///
/// let clock = VirtualClock::new();
/// let timer = Timer::builder().virtual_clock(&clock).build()?;
/// let (start, limit) = (clock.now(), Duration::from_secs(5));
///
/// let from_here = timer.timeout(limit, pending::<()>());
/// let from_its_poll = async { timer.timeout(limit, pending::<()>()).await };
/// clock.advance(Duration::from_secs(3)); // spent in a queue
/// assert!(clock.block_on(from_here).is_err());
/// assert_eq!(clock.now() - start, limit);
/// assert!(clock.block_on(from_its_poll).is_err());
/// assert_eq!(clock.now() - start, 2 * limit);
/// # std::io::Result::Ok(())
/// ```
///
/// # Guarantees
///
/// [`Elapsed`](crate::Elapsed) comes of a poll after the limit that finds `future` pending.
/// `future` is dropped with the `Timeout`.
///
/// The call is the same as [`timeout_at`] with `limit` from now. So the time that a task waits for
/// its executor counts, and a request that was queued for too long is given up as soon as it is
/// polled and pending. A limit on the work alone begins with it, in an `async` block.
///
/// This call reads the clock: most of the cost of a timeout around a future that is ready at once.
/// `timeout_at` reads none for such a future, so one deadline for many of them is faster.
///
/// # Panics
///
/// Panics as [`sleep()`] does.
// Not done: the coarse clock in the place of that reading. It lags, so the limit would be too
// short. Nor a limit that counts from the first poll that finds the future pending, which would
// spare a ready future the reading: the time in a queue would not count, and there would be no
// deadline to ask for before. The `async` block gives such a limit.
#[inline(always)]
#[cfg_attr(feature = "pending", track_caller)]
pub fn timeout<F: IntoFuture>(limit: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep(limit))
}

/// Makes a [`Timeout`] around `future` that ends at `deadline`, an [`Instant`] or a [`Deadline`].
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// let silence = tourbillon::timeout_at(Instant::now(), std::future::pending::<()>());
/// assert!(pollster::block_on(silence).is_err());
/// ```
///
/// # Guarantees
///
/// A poll after the deadline that finds `future` pending gives [`Elapsed`](crate::Elapsed).
/// `future` is dropped with the `Timeout`.
///
/// Reads no clock before the first poll at which `future` is pending.
///
/// # Panics
///
/// Panics as [`sleep()`] does.
#[inline(always)]
#[cfg_attr(feature = "pending", track_caller)]
pub fn timeout_at<F: IntoFuture>(
    deadline: impl Into<Deadline>,
    future: F,
) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep_until(deadline))
}
