//! [`Ticks`]: the stream that waits for a schedule's occurrences.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::{FusedStream, Stream};
use tourbillon::Timer;
use tourbillon::time::SystemTime;
use tourbillon::wall::WallSleep;

use super::{Schedule, following};
use crate::missed::Missed;
use crate::time::to_timestamp;

/// Occurrences that a poll takes from the schedule before other tasks get their turn.
const ASKED_MAX: usize = 64;

/// Longest lateness of an occurrence on time, by default: cron's minute.
const ON_TIME: Duration = Duration::from_secs(60);

/// One occurrence, delivered by [`Ticks`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tick {
    scheduled: SystemTime,
    woke: SystemTime,
    missed: u64,
}

impl Tick {
    /// The scheduled time, later than in every tick before.
    pub fn scheduled(&self) -> SystemTime {
        self.scheduled
    }

    /// The wall time of the delivery: the scheduled time or later.
    pub fn woke(&self) -> SystemTime {
        self.woke
    }

    /// Returns the number of occurrences since the last tick that were skipped, or are delivered
    /// with this one.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

/// A stream of the occurrences of a [`Schedule`], each as soon as the wall clock shows its time.
///
/// Made by [`Schedule::ticks`] or [`with_timer`](Self::with_timer). It begins with the first
/// occurrence after it was made, and ends with the schedule.
///
/// # Guarantees
///
/// - An occurrence is never delivered while the wall clock shows an earlier time.
/// - Occurrences strictly increase. Each is delivered or counted by [`Tick::missed`], once, as
///   [`Missed`] says.
/// - Steps of the wall clock keep these guarantees. A step forward makes the occurrences that it
///   passes due. After a step back nothing is due a second time: the stream waits until the clock
///   comes to where it was. If the clock was wrong by years, end that wait with
///   [`restart`](Self::restart).
/// - One sleep is armed at a time, and the task is woken once for each occurrence. It may also be
///   woken when the clock is set, and every 30 seconds where steps are not reported.
/// - Very many occurrences that are due at once are counted in several polls, and other tasks run
///   in between.
///
/// # Cancel safety
///
/// Dropping a future such as [`tick`](Self::tick) loses nothing. Dropping the stream cancels its
/// sleep at once.
///
/// # Panics
///
/// A poll panics like a poll of a [`Sleep`](tourbillon::Sleep), and if the schedule panics. The
/// stream may be polled again then, and nothing is lost.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use tourbillon_cron::{Cron, Ticks};
/// use tourbillon::Timer;
/// use tourbillon::virtual_time::VirtualClock;
///
/// let clock = VirtualClock::new();
/// clock.set_wall(SystemTime::UNIX_EPOCH);
/// let timer = Timer::builder().virtual_clock(&clock).build()?;
/// let mut noons = Ticks::with_timer(Cron::parse("0 12 * * *", "UTC")?, &timer);
///
/// let tick = clock.block_on(noons.tick()).unwrap();
/// let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(12 * 3600);
/// assert_eq!((tick.scheduled(), tick.woke(), tick.missed()), (noon, noon, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct Ticks<S> {
    schedule: S,
    timer: Timer,
    policy: Missed,
    on_time: Duration,
    /// The first occurrence that is neither delivered nor given up; `None` at the end.
    next: Option<SystemTime>,
    /// Ends at `next`, while there is no backlog.
    sleep: WallSleep,
    backlog: Option<Backlog>,
    /// Occurrences given up since the last tick.
    missed: u64,
}

/// Occurrences found due when the sleep ended.
#[derive(Clone, Copy, Debug)]
struct Backlog {
    found: SystemTime,
    /// The last known to be due at `found`; `Ticks::next` is the first.
    newest: SystemTime,
    /// Number of them from the first to `newest`, both included.
    held: u64,
    /// True if `newest` is the last there is.
    is_complete: bool,
}

impl<S: Schedule> Ticks<S> {
    /// Makes the stream of a schedule by the wall clock of `timer`; see [`Schedule::ticks`] for the
    /// current timer's.
    pub fn with_timer(schedule: S, timer: &Timer) -> Self {
        let now = timer.wall_now();
        let mut ticks = Self {
            next: None,
            sleep: timer.sleep_until_wall(now),
            schedule,
            timer: timer.clone(),
            policy: Missed::default(),
            on_time: ON_TIME,
            backlog: None,
            missed: 0,
        };
        ticks.restart(now);
        ticks
    }

    /// Sets the policy for missed occurrences; [`Missed::Coalesce`] by default.
    pub fn missed(mut self, policy: Missed) -> Self {
        self.policy = policy;
        self
    }

    /// Sets how late an occurrence may come and still be on time, if the next one is not due yet; a
    /// minute by default.
    ///
    /// The span makes no difference to [`Missed::Coalesce`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon_cron::{Cron, Missed, Schedule as _};
    ///
    /// // Runs when the machine is up at six, or comes up until eight, but not any later.
    /// let mornings = Cron::parse("0 6 * * *", "Europe/Oslo")?
    ///     .ticks()
    ///     .missed(Missed::Skip)
    ///     .on_time_within(Duration::from_secs(2 * 3600));
    /// # drop(mornings);
    /// # Ok::<(), tourbillon_cron::ParseError>(())
    /// ```
    pub fn on_time_within(mut self, span: Duration) -> Self {
        self.on_time = span;
        self
    }

    /// Continues with the first occurrence after `time`, in the past or in the future, even if it
    /// was delivered before. Forgets missed occurrences.
    ///
    /// # Examples
    ///
    /// With the time of the last recorded run, occurrences since then count as missed:
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use tourbillon_cron::{Cron, Ticks};
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_secs(10 * 86_400 + 5));
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let last_run = SystemTime::UNIX_EPOCH + Duration::from_secs(7 * 86_400);
    /// let mut ticks = Ticks::with_timer(Cron::parse("@daily", "UTC")?, &timer);
    /// ticks.restart(last_run);
    ///
    /// // At once, for three days.
    /// let tick = clock.block_on(ticks.tick()).unwrap();
    /// assert_eq!(tick.scheduled(), SystemTime::UNIX_EPOCH + Duration::from_secs(10 * 86_400));
    /// assert_eq!(tick.missed(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// After a clock was set back by years:
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use tourbillon_cron::{Cron, Ticks};
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let mut ticks = Ticks::with_timer(Cron::parse("@daily", "UTC")?, &timer);
    ///
    /// clock.set_wall(SystemTime::UNIX_EPOCH);
    /// ticks.restart(timer.wall_now());
    /// let tomorrow = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
    /// assert_eq!(ticks.next_scheduled(), Some(tomorrow));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restart(&mut self, time: SystemTime) {
        let next = following(&self.schedule, time);
        self.missed = 0;
        self.go_on(next);
    }

    /// Waits for the next tick; `None` once the schedule has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future before it completes loses no tick.
    pub async fn tick(&mut self) -> Option<Tick> {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick. While pending, the waker of the last poll is woken for it.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Option<Tick>> {
        let mut asked = 0;
        while let Some(next) = self.next {
            let Some(backlog) = self.backlog else {
                ready!(Pin::new(&mut self.sleep).poll(cx));
                let found = self.timer.wall_now();
                let backlog = Backlog { found, newest: next, held: 1, is_complete: false };
                self.backlog = Some(backlog);
                continue;
            };
            if asked == ASKED_MAX {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            asked += 1;
            if backlog.is_complete {
                if let Some(tick) = self.deliver(next, backlog) {
                    return Poll::Ready(Some(tick));
                }
            } else {
                self.survey(next, backlog);
            }
        }
        Poll::Ready(None)
    }

    /// Checks for one more due occurrence, and gives up the oldest if that is one too many.
    fn survey(&mut self, next: SystemTime, mut backlog: Backlog) {
        let later = following(&self.schedule, backlog.newest).filter(|at| *at <= backlog.found);
        let Some(later) = later else {
            backlog.is_complete = true;
            self.backlog = Some(backlog);
            return;
        };
        backlog.newest = later;
        backlog.held += 1;
        let kept = self.policy.kept();
        let mut first = next;
        if backlog.held > kept {
            first =
                if kept == 1 { later } else { following(&self.schedule, next).unwrap_or(later) };
            backlog.held -= 1;
            self.missed = self.missed.saturating_add(1);
        }
        self.next = Some(first);
        self.backlog = Some(backlog);
    }

    /// Delivers the oldest of a complete backlog, or gives it up.
    fn deliver(&mut self, next: SystemTime, mut backlog: Backlog) -> Option<Tick> {
        let woke = self.timer.wall_now();
        let Ok(age) = woke.duration_since(next) else {
            // The clock was set back since the sleep, or the tick before, looked at it.
            self.go_on(Some(next));
            return None;
        };
        let is_newest = next == backlog.newest;
        let newest_age = backlog.found.duration_since(backlog.newest).unwrap_or_default();
        let is_wanted = self.policy.runs(backlog.held - 1, age, newest_age <= self.on_time);
        let after = following(&self.schedule, next);
        if is_newest {
            self.go_on(after);
        } else {
            backlog.held -= 1;
            self.next = after;
            self.backlog = Some(backlog);
        }
        if is_wanted {
            let missed = std::mem::take(&mut self.missed);
            return Some(Tick { scheduled: next, woke, missed });
        }
        self.missed = self.missed.saturating_add(1);
        None
    }

    /// Waits for `next`.
    fn go_on(&mut self, next: Option<SystemTime>) {
        self.backlog = None;
        self.next = next;
        match next {
            Some(next) => self.sleep.reset(next),
            // Leaves none armed.
            None => self.sleep = self.timer.sleep_until_wall(SystemTime::UNIX_EPOCH),
        }
    }
}

impl<S> Ticks<S> {
    /// The occurrence that the stream waits for, or has to deal with next; `None` at its end.
    pub fn next_scheduled(&self) -> Option<SystemTime> {
        self.next
    }

    /// The schedule.
    pub fn schedule(&self) -> &S {
        &self.schedule
    }
}

// Nothing in it is pinned.
impl<S> Unpin for Ticks<S> {}

impl fmt::Display for Tick {
    /// The scheduled time, in UTC: `2026-03-29T01:00:00Z`. For the time in a zone, see
    /// [`Cron::zoned`](crate::Cron::zoned).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Utc(self.scheduled))
    }
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tick")
            .field("scheduled", &Utc(self.scheduled))
            .field("woke", &Utc(self.woke))
            .field("missed", &self.missed)
            .finish()
    }
}

/// Shows a time of day as people write it.
struct Utc(SystemTime);

impl fmt::Debug for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match to_timestamp(self.0) {
            Some(time) => time.fmt(f),
            // Outside the calendar's range.
            None => self.0.fmt(f),
        }
    }
}

impl<S: Schedule> Stream for Ticks<S> {
    type Item = Tick;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Tick>> {
        self.poll_tick(cx)
    }
}

impl<S: Schedule> FusedStream for Ticks<S> {
    fn is_terminated(&self) -> bool {
        self.next.is_none()
    }
}

impl<S: fmt::Debug> fmt::Debug for Ticks<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks")
            .field("schedule", &self.schedule)
            .field("next_scheduled", &self.next.map(Utc))
            .field("missed", &self.policy)
            .finish_non_exhaustive()
    }
}
