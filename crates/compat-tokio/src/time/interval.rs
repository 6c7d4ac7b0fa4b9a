//! [`Interval`]: ticks at a fixed period, by tokio's rules.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tourbillon::{Timer, time};

use super::{FAR, Instant};

/// Greatest lateness of a tick that is not missed.
const ON_TIME: Duration = Duration::from_millis(5);

/// Ticks at once, and then every `period`.
///
/// More than thirty years count as thirty years, as in tokio.
///
/// # Panics
///
/// If `period` is zero.
///
/// # Examples
///
/// ```
/// use tourbillon_compat_tokio::time::{Duration, interval};
///
/// # pollster::block_on(async {
/// let mut interval = interval(Duration::from_millis(1));
/// let first = interval.tick().await; // at once
/// assert_eq!(interval.tick().await, first + Duration::from_millis(1));
/// # });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Interval::new(None, period)
}

/// Ticks at `start`, and then every `period`.
///
/// # Panics
///
/// If `period` is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(Some(start), period)
}

/// The choice of what follows a tick of an [`Interval`] that was more than 5 ms late.
///
/// # Examples
///
/// Ticks every 10 ms, and a consumer that is away from 5 ms to 38 ms:
///
/// ```
/// use tourbillon::Timer;
/// use tourbillon::virtual_time::VirtualClock;
/// use tourbillon_compat_tokio::time::{Duration, Instant, MissedTickBehavior, interval_at};
///
/// let ms = Duration::from_millis;
/// for (behavior, expected) in [
///     (MissedTickBehavior::Burst, [10, 20, 30, 40, 50]),
///     (MissedTickBehavior::Delay, [10, 48, 58, 68, 78]),
///     (MissedTickBehavior::Skip, [10, 40, 50, 60, 70]),
/// ] {
///     let clock = VirtualClock::new();
///     let timer = Timer::builder().virtual_clock(&clock).build()?;
///     clock.block_on(timer.scope(async {
///         let start = Instant::now();
///         let mut interval = interval_at(start + ms(10), ms(10));
///         interval.set_missed_tick_behavior(behavior);
///         clock.advance(ms(38));
///         for at in expected {
///             assert_eq!(interval.tick().await, start + ms(at));
///         }
///     }));
/// }
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// Delivers every tick that was missed, until it has caught up.
    #[default]
    Burst,
    /// Counts the period from the late tick.
    Delay,
    /// Continues with the next tick of the schedule that is to come.
    Skip,
}

/// Ticks at a fixed period; of [`interval`] and [`interval_at`].
///
/// The timer that was current as it was made stays its own. It is no stream, as in tokio:
/// [`IntervalStream`](crate::stream::wrappers::IntervalStream) is.
///
/// # Cancel safety
///
/// Dropping it cancels it at once. Dropping a [`tick`](Self::tick) future loses no tick.
#[derive(Debug)]
pub struct Interval {
    timer: Timer,
    sleep: tourbillon::Sleep,
    /// Not zero, and [`FAR`] at most.
    period: Duration,
    missed: MissedTickBehavior,
}

impl Interval {
    #[track_caller]
    fn new(start: Option<Instant>, period: Duration) -> Self {
        assert!(!period.is_zero(), "`period` must be non-zero.");
        let timer = Timer::current();
        let sleep = match start {
            Some(start) => timer.sleep_until(start.into_std()),
            None => timer.sleep(Duration::ZERO),
        };
        Self { timer, sleep, period: period.min(FAR), missed: MissedTickBehavior::default() }
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
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.sleep).poll(cx));
        let scheduled = self.sleep.deadline();
        self.sleep.reset(self.tick_after(scheduled));
        Poll::Ready(Instant::from_std(scheduled))
    }

    /// Returns the tick after `scheduled`, whose tick is delivered now.
    fn tick_after(&self, scheduled: time::Instant) -> time::Instant {
        let in_step = scheduled + self.period;
        if self.missed == MissedTickBehavior::Burst {
            return in_step;
        }
        let now = self.timer.now();
        if now <= scheduled + ON_TIME {
            return in_step;
        }
        if self.missed == MissedTickBehavior::Delay {
            return now + self.period;
        }
        let late = now.saturating_duration_since(scheduled).as_nanos();
        let behind = u64::try_from(late % self.period.as_nanos()).expect("it is under 30 years");
        now + (self.period - Duration::from_nanos(behind))
    }

    /// Schedules the next tick one period from now.
    pub fn reset(&mut self) {
        self.sleep.reset_after(self.period);
    }

    /// Schedules the next tick for now.
    pub fn reset_immediately(&mut self) {
        self.sleep.reset_after(Duration::ZERO);
    }

    /// Schedules the next tick `after` from now, thirty years at most; the period applies after it.
    pub fn reset_after(&mut self, after: Duration) {
        self.sleep.reset_after(after.min(FAR));
    }

    /// Schedules the next tick for `deadline`; the period applies after it.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.sleep.reset(deadline.into_std());
    }

    /// The behavior after a late tick.
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Chooses the behavior after a late tick; [`MissedTickBehavior::Burst`] by default.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    /// The time between ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }
}
