//! Wall time: sleeps until a time of day, and clocks in suspend.
//!
//! A [`Sleep`], and everything made of it, uses a monotonic clock: it is never set, and stops in
//! suspend on most systems. A [`WallSleep`] uses the clock that [`SystemTime::now`] reads, and
//! follows it when it is set.
//!
//! # Steps
//!
//! A wall clock steps when it is set by hand or at start-up, when a time daemon gives up on slewing
//! it, at a leap second on some systems, and when the machine resumes.
//!
//! - **Linux and Android**: the kernel gives notice of each step, whatever its cause (a timerfd on
//!   `CLOCK_REALTIME` with `TFD_TIMER_CANCEL_ON_SET`), and every waiting [`WallSleep`] is woken and
//!   reads the clock again at once. A thread that does nothing else, named `tourbillon-wall`, waits
//!   for notices. The first [`WallSleep`] that waits starts it; it lives as long as the process, or
//!   until [`Timer::end_driver`](crate::Timer::end_driver) finds that none waits.
//!
//!   A clock may also step without a notice: if a library fakes it (libfaketime), or in some
//!   containers and virtual machines. So while a [`WallSleep`] waits, that thread wakes every 30
//!   seconds and compares the wall clock with the monotonic one. It sees a step of more than a
//!   millisecond, at most 30 seconds after it. If there was none, no task and no driver wakes. Once
//!   no [`WallSleep`] waits, the thread wakes once more, and then not again.
//! - **Other systems**, and if that thread or its timer cannot be made: each waiting [`WallSleep`]
//!   reads the clock every 30 seconds. So it notices a step forward past its target, or a resume,
//!   at most that much later. It asks for notices again each time.
//! - **A virtual clock** notifies its sleeps of a step on the thread that makes the step.
//!
//! A clock that is slewed runs a little faster or slower. On Linux the monotonic clock is slewed
//! with it. On other systems a sleep may wake early, read the clock, and wait for the rest.
//!
//! # Suspend
//!
//! | | Linux, Android | macOS | Windows |
//! |---|---|---|---|
//! | [`Instant`](std::time::Instant), [`Monotonic`](crate::timer::ClockKind::Monotonic) | stops; deadlines are delayed by the suspend | stops; the same | continues; what is due fires within 30 s of the resume |
//! | [`Boottime`](crate::timer::ClockKind::Boottime) | continues; what is due fires on resume | continues; what is due fires within 30 s of the resume | the same |
//! | [`SystemTime`], [`WallSleep`] | continues; what is due fires on resume | continues; what is due fires within 30 s of the resume | the same |
//!
//! Nothing here wakes a suspended machine. The column of macOS holds for Apple's other systems.
//! Other systems are as macOS, but without a [`Boottime`](crate::timer::ClockKind::Boottime).
//!
//! The kernel of a virtual machine does not see it when the machine is paused or moved. The
//! hypervisor decides what its clocks show afterwards. Setting its wall clock right is a step.

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_core::FusedFuture;

use crate::clock::{Clock, Need, RECHECK, Registration, Watch};
use crate::handle::EngineRef;
use crate::sleep::Sleep;
use crate::tick::Tick;
use crate::time::SystemTime;

/// Makes a [`WallSleep`] that ends when the system's wall clock shows `target`, even if the clock
/// is set meanwhile.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// # pollster::block_on(async {
/// let target = SystemTime::now() + Duration::from_millis(2);
/// tourbillon::wall::sleep_until_wall(target).await;
/// assert!(SystemTime::now() >= target);
/// # });
/// ```
///
/// # Panics
///
/// Panics as [`sleep()`](crate::sleep()) does.
#[cfg_attr(feature = "pending", track_caller)]
#[inline]
pub fn sleep_until_wall(target: SystemTime) -> WallSleep {
    WallSleep::new(Sleep::new(EngineRef::here(), Tick::NEVER), target)
}

/// A future that completes once the wall clock shows its target.
///
/// Made by [`sleep_until_wall`] and
/// [`Timer::sleep_until_wall`](crate::Timer::sleep_until_wall). Works on any executor, and needs no
/// pinning.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use futures::FutureExt;
/// use tourbillon::Timer;
/// use tourbillon::virtual_time::VirtualClock;
///
/// let clock = VirtualClock::new();
/// let timer = Timer::builder().virtual_clock(&clock).build()?;
/// let hour = Duration::from_secs(3600);
///
/// let mut sleep = timer.sleep_until_wall(clock.wall_now() + 8 * hour);
/// assert!((&mut sleep).now_or_never().is_none());
/// clock.set_wall(clock.wall_now() - hour);
/// clock.advance(8 * hour);
/// assert!((&mut sleep).now_or_never().is_none());
/// clock.suspend(hour);
/// assert!((&mut sleep).now_or_never().is_some());
/// # std::io::Result::Ok(())
/// ```
///
/// # Guarantees
///
/// - Never early: it completes in a poll that has just seen the wall clock show the target or a
///   later time. A target already past completes the first poll, without the driver.
/// - Steps of the wall clock are followed in both directions: at once where the system gives notice
///   of them (Linux, Android, virtual clocks), and otherwise within 30 seconds; see the
///   [module](self).
/// - While it is pending, the waker of the last poll is woken: at the target, and at each step, so
///   that the next poll reads the clock again.
/// - Polled again after completion, it is ready again, even if the clock was set back since.
///
/// Any [`SystemTime`] is a valid target. A target more than 438 years ahead never comes, unless the
/// clock is set closer to it.
///
/// The timer's driver wakes its wakers; at a step, the thread that waits for steps does. A panic of
/// a waker is caught there. At a step of a virtual clock it is counted too, in
/// [`Stats::waker_panics`](crate::stats::Stats::waker_panics).
///
/// # Cancel safety
///
/// Dropping it cancels it at once: its place in the wheel and its wakers are gone when the drop
/// returns. If it was polled, that takes one shard lock, and the lock of the list of waiting
/// sleeps.
///
/// # Panics
///
/// Panics as a [`Sleep`] does, in a poll that has to start the driver thread and cannot. Failure to
/// start the thread that waits for steps is not an error; see the [module](self).
#[must_use = "futures do nothing unless polled or awaited"]
pub struct WallSleep {
    /// Ends when the wall clock will show the target, if it is not set; or, where steps are not
    /// announced, when to read the clock again. A wheel for wall times would have to turn back.
    sleep: Sleep,
    target: SystemTime,
    key: Registration,
    state: WallState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WallState {
    /// To be aimed by the next poll, and not registered.
    Idle,
    /// `sleep` is set for the target. `registered`: whether a waker is registered for steps.
    Waiting {
        registered: bool,
    },
    Completed,
}

impl WallSleep {
    /// `sleep` never ends so far.
    #[inline]
    pub(crate) fn new(sleep: Sleep, target: SystemTime) -> Self {
        debug_assert!(sleep.deadline_tick() == Tick::NEVER);
        Self { sleep, target, key: Registration::new(), state: WallState::Idle }
    }

    /// Returns the target.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::SystemTime;
    ///
    /// let target = SystemTime::now();
    /// assert_eq!(tourbillon::wall::sleep_until_wall(target).target(), target);
    /// ```
    #[inline]
    pub fn target(&self) -> SystemTime {
        self.target
    }

    /// Returns whether the wall clock now shows the target or a later time, polled or not.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// assert!(tourbillon::wall::sleep_until_wall(SystemTime::UNIX_EPOCH).is_elapsed());
    /// let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    /// assert!(!tourbillon::wall::sleep_until_wall(tomorrow).is_elapsed());
    /// ```
    #[inline]
    pub fn is_elapsed(&self) -> bool {
        self.clock().wall_now() >= self.target
    }

    /// Moves the target, before the sleep is polled, while it waits, or after it completed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// # pollster::block_on(async {
    /// let target = SystemTime::now() + Duration::from_secs(60);
    /// let mut sleep = tourbillon::wall::sleep_until_wall(target);
    /// sleep.reset(SystemTime::now() + Duration::from_millis(1));
    /// sleep.await;
    /// # });
    /// ```
    ///
    /// # Guarantees
    ///
    /// Later polls report the new target only, and a completed sleep is pending again. A waiting
    /// sleep keeps waiting with its waker and needs no poll, unless it was woken. A wake-up that is
    /// already under way may still arrive; it is harmless.
    #[inline]
    pub fn reset(&mut self, target: SystemTime) {
        self.target = target;
        match self.state {
            WallState::Idle => {}
            WallState::Waiting { registered } => self.aim(registered),
            WallState::Completed => self.state = WallState::Idle,
        }
    }

    /// Allows the sleep to be fired up to `tolerance` after its target, to share a wake-up with
    /// others; see [`Builder::tolerance`](crate::timer::Builder::tolerance). Where the system gives
    /// no notice of steps, those may be noticed that much later, too.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// # pollster::block_on(async {
    /// let target = SystemTime::now() + Duration::from_millis(1);
    /// tourbillon::wall::sleep_until_wall(target).with_tolerance(Duration::from_millis(2)).await;
    /// assert!(SystemTime::now() >= target);
    /// # });
    /// ```
    #[inline]
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.sleep.set_tolerance(tolerance);
        self
    }

    #[inline]
    fn clock(&self) -> &Clock {
        self.sleep.engine().clock()
    }

    /// Sets the sleep for the target, by the present wall time.
    #[inline]
    fn aim(&mut self, registered: bool) {
        let clock = self.clock();
        // In this order: time that passes in between makes the sleep end early, and look again.
        let now = clock.now();
        let left = self.target.duration_since(clock.wall_now()).unwrap_or(Duration::ZERO);
        let delay = if registered { left } else { left.min(RECHECK) };
        self.sleep.reset_by(now.saturating_add(delay), |_| delay);
        self.state = WallState::Waiting { registered };
    }

    /// Registers the waker for steps of the wall clock, and sets the sleep for the target.
    #[inline]
    fn prepare(&mut self, waker: &Waker) {
        if self.state == (WallState::Waiting { registered: false }) {
            return;
        }
        // Before the clock is read; see `Steps`.
        let steps = self.sleep.engine().clock().steps();
        let watch = steps.watch(&mut self.key, waker, Need::Rechecks);
        if watch != Watch::Kept || self.state == WallState::Idle {
            self.aim(watch != Watch::Unannounced);
        }
    }

    /// Ends the sleep, once a poll has found that the wall clock shows the target.
    #[inline]
    fn complete(&mut self) {
        self.leave(WallState::Completed);
        self.sleep.cancel();
    }

    /// Changes to `state`, and then forgets the waker: its drop is foreign code and may panic.
    #[inline]
    fn leave(&mut self, state: WallState) {
        if std::mem::replace(&mut self.state, state) == (WallState::Waiting { registered: true }) {
            self.clock().steps().forget(&self.key);
        }
    }
}

impl Future for WallSleep {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        while this.state != WallState::Completed {
            if this.is_elapsed() {
                this.complete();
                break;
            }
            this.prepare(cx.waker());
            ready!(Pin::new(&mut this.sleep).poll(cx));
            // Time to look at the wall clock again, and to aim anew if it does not show the target.
            match this.state {
                WallState::Waiting { registered: true } => this.aim(true),
                _ => this.state = WallState::Idle,
            }
        }
        Poll::Ready(())
    }
}

impl FusedFuture for WallSleep {
    /// Returns whether the sleep has completed and was not reset since.
    #[inline]
    fn is_terminated(&self) -> bool {
        self.state == WallState::Completed
    }
}

impl Drop for WallSleep {
    #[inline]
    fn drop(&mut self) {
        self.leave(WallState::Completed);
    }
}

impl fmt::Debug for WallSleep {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            WallState::Idle => "idle",
            WallState::Waiting { .. } => "waiting",
            WallState::Completed => "completed",
        };
        f.debug_struct("WallSleep")
            .field("target", &self.clock().show_wall(self.target))
            .field("state", &state)
            .finish_non_exhaustive()
    }
}

// A panic can only leave a sleep between two polls, in a state that every method expects.
impl UnwindSafe for WallSleep {}
impl RefUnwindSafe for WallSleep {}

const _: () = {
    const fn unpin_send_sync<T: Unpin + Send + Sync + 'static>() {}
    unpin_send_sync::<WallSleep>();
};
