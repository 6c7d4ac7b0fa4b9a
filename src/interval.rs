//! [`Interval`]: ticks at a fixed period.

mod jitter;

use alloc::boxed::Box;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use futures_core::Stream;

use crate::clock::Clock;
use crate::engine::{Caller, Notify};
use crate::sleep::Sleep;
use crate::tick::Tick;
use crate::time::Instant;

use jitter::Jitter;

/// Behavior of an [`Interval`] that is polled so late that ticks were missed.
///
/// A tick is missed once the instant of the next one has come. The variants have the names of
/// tokio's `MissedTickBehavior`. Unlike in tokio, a tick that is late by less than a period is not
/// missed, so [`Delay`](Self::Delay) does not drift by the driver's lateness.
///
/// Ticks every 10 ms, and a consumer that is away from 5 ms to 38 ms:
///
/// ```text
/// ms         0        10        20        30        40        50        60        70
/// schedule             |         |         |         |         |         |         |
/// consumer   =====............. away ..............=================================
/// Burst                                            3 1         1         1         1
/// Delay                                            1         1         1         1
/// Skip                                             1 1         1         1         1
/// ```
///
/// Each digit is the number of ticks that are delivered at that time.
///
/// # Examples
///
/// The instants that the same ticks are scheduled for:
///
/// ```
/// use std::time::Duration;
/// use tourbillon::virtual_time::VirtualClock;
/// use tourbillon::{MissedTickBehavior, Timer};
///
/// let ms = Duration::from_millis;
/// for (behavior, expected) in [
///     (MissedTickBehavior::Burst, [10, 20, 30, 40, 50]),
///     (MissedTickBehavior::Delay, [10, 48, 58, 68, 78]),
///     (MissedTickBehavior::Skip, [10, 40, 50, 60, 70]),
/// ] {
///     let clock = VirtualClock::new();
///     let timer = Timer::builder().virtual_clock(&clock).build()?;
///     let start = clock.now();
///     let mut interval = timer.interval_at(start + ms(10), ms(10));
///     interval.set_missed_tick_behavior(behavior);
///     clock.advance(ms(38));
///     for at in expected {
///         assert_eq!(clock.block_on(interval.tick()), start + ms(at));
///     }
/// }
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissedTickBehavior {
    /// Delivers every missed tick, as fast as it is polled, until it has caught up.
    #[default]
    Burst,
    /// Delivers one late tick, and counts the period from then on.
    Delay,
    /// Delivers one late tick, and continues with the next future tick of the original schedule, as
    /// Go's `timerproc` did for its tickers.
    Skip,
}

impl MissedTickBehavior {
    /// The tick that follows the one scheduled for `due`, asked for at `now`; and how many between
    /// the two are missed.
    fn next(self, due: Tick, now: impl FnOnce() -> Tick, period: Duration) -> (Tick, u64) {
        let next = due.saturating_add(period);
        if self == Self::Burst {
            return (next, 0);
        }
        let now = now();
        if next > now {
            return (next, 0);
        }
        let (since, period_ns) = (now.since(due).as_nanos(), period.as_nanos());
        // A period is at most the time since `due`, so a tick can count it.
        let counted = |nanos: u128| u64::try_from(nanos).unwrap_or(u64::MAX);
        let delay = match self {
            Self::Burst | Self::Delay => period,
            Self::Skip => Duration::from_nanos(counted(period_ns - since % period_ns)),
        };
        (now.saturating_add(delay), counted(since / period_ns))
    }
}

/// Ticks at a fixed period, without drift.
///
/// Made by [`interval`](crate::interval()), [`interval_at`](crate::interval_at) and the methods of
/// [`Timer`](crate::Timer) of the same names. Also a [`Stream`] of [`Instant`]s without an end.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # pollster::block_on(async {
/// let mut interval = tourbillon::interval(Duration::from_millis(1));
/// let first = interval.tick().await; // at once
/// assert_eq!(interval.tick().await, first + Duration::from_millis(1));
/// # });
/// ```
///
/// # Guarantees
///
/// Each tick is scheduled one period after the *scheduled* time of the last one, not after its
/// delivery, except with [`MissedTickBehavior::Delay`]. No tick is delivered before its instant. An
/// interval whose next tick lies beyond the end of the time line does not tick again.
///
/// # Cancel safety
///
/// Dropping the interval cancels it at once. Dropping a [`tick`](Self::tick) future loses no tick.
///
/// # Panics
///
/// Polling it panics as polling a [`Sleep`] does. Making it panics if the period is zero.
#[must_use = "an interval does nothing unless it is polled"]
pub struct Interval {
    sleep: Sleep,
    /// Not zero.
    period: Duration,
    missed: MissedTickBehavior,
    /// Apart, so that an interval without stays small.
    jitter: Option<Box<Jitter>>,
}

impl Interval {
    /// `sleep` ends at the first tick.
    #[track_caller]
    pub(crate) fn new(sleep: Sleep, period: Duration) -> Self {
        assert_period(period);
        let missed = MissedTickBehavior::default();
        Self { sleep, period, missed, jitter: None }
    }

    /// Waits for the next tick; returns the instant that it was scheduled for.
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future before it completes loses no tick.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick, and returns its instant as [`tick`](Self::tick) does.
    ///
    /// While pending, the waker of the last poll is woken at the tick.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    ///
    /// let mut interval = tourbillon::interval(Duration::from_secs(60));
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(interval.poll_tick(&mut cx).is_ready());
    /// assert!(interval.poll_tick(&mut cx).is_pending());
    /// ```
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.sleep).poll(cx));
        let scheduled = self.next_tick();
        self.schedule_next(Clock::now);
        Poll::Ready(scheduled)
    }

    /// Schedules the tick after this one. Returns how many were missed in between, by the time
    /// `now`. `now` is called only if ticks are [left out](Self::skips_ticks).
    pub(crate) fn schedule_next(&mut self, now: impl FnOnce(&Clock) -> Tick) -> u64 {
        let clock = self.sleep.engine().clock();
        let (next, missed) = self.missed.next(self.scheduled(), || now(clock), self.period);
        let period = self.period;
        self.set_next(next, |_| period);
        missed
    }

    /// The time that the next tick is scheduled for.
    fn scheduled(&self) -> Tick {
        let fired = self.sleep.deadline_tick();
        self.jitter.as_ref().map_or(fired, |jitter| jitter.scheduled(fired))
    }

    /// Schedules the next tick. `delay` is the time until then, for a tolerance that is a share of
    /// it.
    fn set_next(&mut self, tick: Tick, delay: impl FnOnce(&Clock) -> Duration) {
        let fired = self.fired(tick);
        self.sleep.reset_by(fired, delay);
    }

    /// [`Sleep::move_to`] for a callback, to the tick scheduled for `tick`.
    pub(crate) fn move_to(&mut self, tick: Tick, delay: Duration) -> Notify {
        let fired = self.fired(tick);
        self.sleep.move_to(fired, |_| delay, Caller::Callback)
    }

    /// Returns when to fire the tick scheduled for `tick`.
    fn fired(&mut self, tick: Tick) -> Tick {
        self.jitter.as_mut().map_or(tick, |jitter| jitter.delayed(tick))
    }

    /// Returns whether ticks that are missed are left out.
    pub(crate) fn skips_ticks(&self) -> bool {
        self.missed != MissedTickBehavior::Burst
    }

    /// The sleep until the next tick.
    pub(crate) fn sleep(&self) -> &Sleep {
        &self.sleep
    }

    /// The sleep until the next tick.
    pub(crate) fn sleep_mut(&mut self) -> &mut Sleep {
        &mut self.sleep
    }

    /// Schedules the next tick one period from now.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let mut interval = tourbillon::interval(Duration::from_secs(60));
    /// interval.reset(); // skips the tick that was due at once
    /// assert!(interval.next_tick() > Instant::now());
    /// ```
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Schedules the next tick for now.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # pollster::block_on(async {
    /// let mut interval = tourbillon::interval(Duration::from_secs(60));
    /// interval.tick().await;
    /// interval.reset_immediately();
    /// interval.tick().await;
    /// # });
    /// ```
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// Schedules the next tick `delay` from now; the period applies after it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # pollster::block_on(async {
    /// let mut interval = tourbillon::interval(Duration::from_secs(60));
    /// interval.reset_after(Duration::from_millis(1));
    /// interval.tick().await;
    /// # });
    /// ```
    pub fn reset_after(&mut self, delay: Duration) {
        let tick = self.sleep.engine().clock().now().saturating_add(delay);
        self.set_next(tick, |_| delay);
    }

    /// Leaves the interval as if it had not been polled for the next tick.
    pub(crate) fn disarm(&mut self) {
        self.sleep.unarm();
    }

    /// Schedules no further tick.
    pub(crate) fn clear(&mut self) {
        self.sleep.cancel();
    }

    /// Schedules the next tick for `instant`; the period applies after it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let mut interval = tourbillon::interval(Duration::from_secs(60));
    /// let at = Instant::now() + Duration::from_secs(5);
    /// interval.reset_at(at);
    /// assert_eq!(interval.next_tick(), at);
    /// ```
    pub fn reset_at(&mut self, instant: Instant) {
        let tick = self.sleep.engine().clock().tick(instant);
        self.set_next(tick, |clock| clock.until(tick));
    }

    /// The instant that the next tick is scheduled for.
    pub fn next_tick(&self) -> Instant {
        self.sleep.engine().clock().instant(self.scheduled())
    }

    /// The time between ticks.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let interval = tourbillon::interval(Duration::from_secs(60));
    /// assert_eq!(interval.period(), Duration::from_secs(60));
    /// ```
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Changes the time between ticks, from the next tick on: the next tick stays where it is, and
    /// the tick after it comes a new period later. To count from now instead, [reset](Self::reset)
    /// it too.
    ///
    /// # Panics
    ///
    /// If `period` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # pollster::block_on(async {
    /// let mut interval = tourbillon::interval(Duration::from_secs(60));
    /// interval.set_period(Duration::from_millis(1));
    /// let first = interval.tick().await;
    /// assert_eq!(interval.tick().await, first + Duration::from_millis(1));
    /// # });
    /// ```
    #[track_caller]
    pub fn set_period(&mut self, period: Duration) {
        assert_period(period);
        self.period = period;
    }

    /// Allows each tick to be fired up to `tolerance` after its instant, to share a wake-up with
    /// others; see [`Builder::tolerance`](crate::timer::Builder::tolerance). The interval does not
    /// drift by that: [`tick`](Self::tick) returns the instants of the schedule.
    ///
    /// A tolerance as long as the period or longer makes it miss ticks.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # pollster::block_on(async {
    /// let ms = Duration::from_millis;
    /// let mut interval = tourbillon::interval(ms(2)).with_tolerance(ms(1));
    /// let first = interval.tick().await;
    /// assert_eq!(interval.tick().await, first + ms(2));
    /// # });
    /// ```
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.sleep.set_tolerance(tolerance);
        self
    }

    /// Changes the tolerance; see [`with_tolerance`](Self::with_tolerance).
    pub fn set_tolerance(&mut self, tolerance: Duration) {
        self.sleep.set_tolerance(tolerance);
    }

    /// How much later than at its instant a tick may be fired; see [`Sleep::tolerance`].
    pub fn tolerance(&self) -> Duration {
        self.sleep.tolerance()
    }

    /// Delays each tick, from the next one on, by a time of its own between zero and `span`, so
    /// that many instances of a program do not all act at once.
    ///
    /// The interval does not drift by that: each tick is scheduled a period after the last, and
    /// [`tick`](Self::tick) returns the instants of the schedule. A span as long as the period or
    /// longer makes it miss ticks.
    ///
    /// The same `seed` gives the same delays: tests are reproducible with a constant. Elsewhere the
    /// seed has to differ between instances: their number, or a random number.
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
    /// let [second, minute] = [1, 60].map(Duration::from_secs);
    /// let mut polls = timer.interval_at(clock.now() + minute, minute).with_jitter(second, 7);
    /// for _ in 0..3 {
    ///     let tick = clock.block_on(polls.tick());
    ///     assert!(clock.now() >= tick && clock.now() <= tick + second);
    ///     assert_eq!(polls.next_tick(), tick + minute);
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn with_jitter(mut self, span: Duration, seed: u64) -> Self {
        let tick = self.scheduled();
        self.jitter = Some(Box::new(Jitter::new(span, seed)));
        self.set_next(tick, |clock| clock.until(tick));
        self
    }

    /// Returns the behavior when ticks are missed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::MissedTickBehavior;
    ///
    /// let interval = tourbillon::interval(Duration::from_secs(60));
    /// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Burst);
    /// ```
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Chooses what happens when ticks are missed; [`MissedTickBehavior::Burst`] by default.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }
}

#[track_caller]
pub(crate) fn assert_period(period: Duration) {
    assert!(!period.is_zero(), "the period of an interval must not be zero");
}

impl Stream for Interval {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("next_tick", &self.sleep.engine().clock().show(self.scheduled()))
            .field("period", &self.period)
            .field("missed_tick_behavior", &self.missed)
            .finish_non_exhaustive()
    }
}
