//! [`Driver`]: turns the wheel from your own loop.

use core::fmt;
use core::time::Duration;
#[cfg(any(target_os = "linux", target_os = "android"))]
#[cfg(not(all(test, tourbillon_model)))]
use std::io;

use crate::clock::Clock;
use crate::engine::{Host, Limits, Pass, Plan, Scanned, Scanner, WakeBatch};
use crate::tick::Tick;
use crate::time::Instant;
use crate::timer::Timer;
use crate::timer_fd::TimerFd;
#[cfg(any(target_os = "linux", target_os = "android"))]
#[cfg(not(all(test, tourbillon_model)))]
use crate::timer_fd::TurnFd;

/// Turns a timer's wheel from your own loop, instead of a driver thread.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// use tourbillon::Timer;
///
/// let (events, inbox) = mpsc::channel();
/// let done = events.clone();
/// let hook = move || events.send("an earlier timer").unwrap();
/// let (timer, mut driver) = Timer::builder().build_manual(hook)?;
///
/// // Another part of the program sleeps on another executor.
/// let sleeper = std::thread::spawn(move || {
///     pollster::block_on(timer.sleep(Duration::from_millis(2)));
///     done.send("done").unwrap();
/// });
///
/// loop {
///     // Stands for `select`, `epoll_wait` and the like: wait for events, but not too long.
///     driver.turn();
///     let event = match driver.max_wait() {
///         Some(limit) => inbox.recv_timeout(limit).ok(),
///         None => inbox.recv().ok(),
///     };
///     if event == Some("done") {
///         break;
///     }
/// }
/// sleeper.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
///
/// # Details
///
/// Event loops know this as the pair "find timer" and "expire timers" (nginx): turn, learn when the
/// next timer is due, wait until then in the loop's own way, turn again. If a thread arms a timer
/// that is earlier than the turn reported, that thread calls the hook given to
/// [`Builder::build_manual`](crate::timer::Builder::build_manual), which should end the wait.
///
/// On a target without an operating system it may be turned in an interrupt handler, which then
/// calls the wakers and callbacks.
///
/// Dropping the driver loses no timer, but nothing fires any more: a sleep then completes only in a
/// poll after its deadline.
pub struct Driver {
    timer: Timer,
    scanner: Scanner,
    timer_fd: TimerFd,
}

/// Limit on the work of one [`Driver::turn_within`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Budget {
    /// Fires no more than so many timers; with 0, none.
    Timers(usize),
    /// Fires no further timer once the clock shows this instant. Reads it after each batch of up to
    /// 32 timers. Fires one batch even if the instant is past.
    Until(Instant),
}

/// Result of a [`Driver::turn`], and the time of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Turn {
    /// Timers fired, each with its waker woken.
    pub fired: usize,
    /// When to turn again at the latest; `None` if nothing is pending.
    ///
    /// Not later than any timer's deadline, or with a [tolerance](crate::timer::Builder::tolerance)
    /// the end of its window. It may be earlier than all of these if a timer was cancelled or reset
    /// to later. Then the next turn fires nothing, and reports a later instant.
    pub next: Option<Instant>,
    /// True if the [`Budget`] ran out first. Then more may be due, `next` has come already, and the
    /// hook is not called: turn again before you wait.
    pub more: bool,
}

impl Driver {
    /// The timer's hook sets the descriptor.
    pub(crate) fn new(timer: Timer, timer_fd: TimerFd) -> Self {
        Self { timer, scanner: Scanner::new(WakeBatch::new()), timer_fd }
    }

    /// Fires every timer that is due, in batches and with no lock held, and returns the next turn's
    /// time.
    ///
    /// After it, the hook is called once if a timer is armed that has to be fired before
    /// [`Turn::next`], or any timer if that is `None`. Turn before each wait; a turn with nothing
    /// due and no window open takes no lock, and reads one cache line for each eight shards, or two
    /// while there are sleeps with a tolerance.
    ///
    /// A waker that panics does not keep others from being woken. The panic is caught, and counted
    /// in [`Stats::waker_panics`](crate::stats::Stats::waker_panics). A waker must not block on a
    /// sleep of this timer: the turn would not end.
    pub fn turn(&mut self) -> Turn {
        self.turn_bounded(u64::MAX, None)
    }

    /// A [`turn`](Self::turn) that ends when its budget is spent, for a loop that has other work to
    /// do between two crowds of timers. [`Turn::more`] says whether something is left to be done.
    ///
    /// Turns that are cut short visit the shards in rotation, so that no timer waits for good
    /// behind another shard's. Within a shard the order is kept.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::FutureExt;
    /// use tourbillon::Timer;
    /// use tourbillon::driver::Budget;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let (timer, mut driver) = Timer::builder().virtual_clock(&clock).build_manual(|| {})?;
    /// let mut sleeps: Vec<_> = (0..5).map(|_| timer.sleep(Duration::from_secs(1))).collect();
    /// assert!(sleeps.iter_mut().all(|sleep| sleep.now_or_never().is_none()));
    ///
    /// clock.jump(Duration::from_secs(1));
    /// let turn = driver.turn_within(Budget::Timers(3));
    /// assert_eq!((turn.fired, turn.more), (3, true));
    /// // Other work goes here.
    /// let turn = driver.turn_within(Budget::Timers(3));
    /// assert_eq!((turn.fired, turn.more, turn.next), (2, false, None));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn turn_within(&mut self, budget: Budget) -> Turn {
        match budget {
            Budget::Timers(count) => self.turn_bounded(count as u64, None),
            Budget::Until(instant) => {
                let until = self.timer.engine().clock().tick(instant);
                self.turn_bounded(u64::MAX, Some(until))
            }
        }
    }

    fn turn_bounded(&mut self, timers: u64, until: Option<Tick>) -> Turn {
        let engine = self.timer.engine();
        let instant = |tick| engine.clock().instant(tick);
        self.scanner.allow(timers);
        let mut host = ByHand { clock: engine.clock(), timer_fd: &self.timer_fd, fired: 0 };
        loop {
            let (next, more) =
                match self.scanner.scan(engine, Limits { until, parts: u32::MAX }, &mut host) {
                    Scanned::Planned(Plan::ParkUntil(next)) => (Some(instant(next)), false),
                    Scanned::Planned(Plan::Park) => (None, false),
                    Scanned::CutShort(now) => {
                        self.timer_fd.set(|| Some(Duration::ZERO));
                        (Some(instant(now)), true)
                    }
                    // Something earlier was armed, perhaps by a waker. This driver has no end.
                    Scanned::Interrupted | Scanned::Ended => continue,
                };
            return Turn { fired: host.fired, next, more };
        }
    }

    /// Returns how long the loop may wait before it turns again, by the timer's clock; `None` if
    /// nothing is pending. Zero if a turn is due: before the first turn, after a turn cut short,
    /// and once the hook has been called.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::FutureExt;
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let (timer, mut driver) = Timer::builder().virtual_clock(&clock).build_manual(|| {})?;
    /// assert_eq!(driver.max_wait(), Some(Duration::ZERO), "it has not turned yet");
    /// driver.turn();
    /// assert_eq!(driver.max_wait(), None);
    ///
    /// let mut sleep = timer.sleep(Duration::from_secs(5));
    /// assert!((&mut sleep).now_or_never().is_none());
    /// assert_eq!(driver.max_wait(), Some(Duration::ZERO), "the hook has been called");
    /// driver.turn();
    /// assert_eq!(driver.max_wait(), Some(Duration::from_secs(5)));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// The result is [`Turn::next`] of the last turn, seen from now. Reads the clock, and takes no
    /// lock.
    ///
    /// The limit of `poll(2)` and `epoll_wait(2)` is in whole milliseconds. Round up: a limit that
    /// is rounded down ends before the timer is due, and in the last millisecond the loop spins
    /// with a limit of 0. Where the wait has a `timespec` (`ppoll`, `epoll_pwait2`), nothing is to
    /// be rounded.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let wait = Some(Duration::from_micros(1_200));
    /// let millis = |wait: Duration| wait.as_nanos().div_ceil(1_000_000).try_into();
    /// let limit: i32 = wait.map_or(-1, |wait| millis(wait).unwrap_or(i32::MAX));
    /// # assert_eq!(limit, 2);
    /// ```
    pub fn max_wait(&self) -> Option<Duration> {
        let engine = self.timer.engine();
        match engine.alarm().plan() {
            Some(Plan::Park) => None,
            Some(Plan::ParkUntil(next)) => Some(next.since(engine.clock().now())),
            None => Some(Duration::ZERO),
        }
    }

    /// A file descriptor that is readable when a turn is due, for loops that wait for nothing but
    /// descriptors: an epoll of your own, glib's `unix_fd_add`, Qt's `QSocketNotifier`, tokio's
    /// `AsyncFd`.
    ///
    /// # Examples
    ///
    /// In a task of tokio's current-thread runtime, whose own timer is left out. A timer that has
    /// a driver thread needs no such task: [`Timer::drive_on`](crate::Timer::drive_on).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tokio::io::Interest;
    /// use tokio::io::unix::AsyncFd;
    /// use tourbillon::Timer;
    ///
    /// let (timer, mut driver) = Timer::builder().build_manual(|| {})?;
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// runtime.block_on(async {
    ///     let (fd, interest) = (driver.turn_fd()?, Interest::READABLE);
    ///     // SAFETY: the pointer keeps the descriptor open, and never shows another one.
    ///     let due = unsafe { AsyncFd::register_with_interest(fd, interest)? };
    ///     tokio::spawn(async move {
    ///         while let Ok(mut ready) = due.readable().await {
    ///             ready.clear_ready();
    ///             driver.turn();
    ///         }
    ///     });
    ///     timer.sleep(Duration::from_millis(2)).await;
    ///     std::io::Result::Ok(())
    /// })?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// The descriptor is readable until the first turn, from the instant that a turn reported on
    /// ([`Turn::next`]), after a turn that was cut short, and once the hook would be called. The
    /// hook may then do nothing. Each turn makes it unreadable again by itself. Do not read from
    /// it, and turn when it is readable, rather than in every round.
    ///
    /// All calls return the same descriptor, a `timerfd` that is close-on-exec. After the first,
    /// each turn costs one more system call. On a virtual clock it does not become readable by
    /// time, but when the clock [jumps](crate::virtual_time::VirtualClock::jump). A child of `fork`
    /// must ask for its own, and not use its parent's.
    ///
    /// # Errors
    ///
    /// Fails as `timerfd_create(2)` does: no more descriptors (`EMFILE`, `ENFILE`), no memory
    /// (`ENOMEM`), or a sandbox that does not allow it. The next call tries again.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[cfg(not(all(test, tourbillon_model)))]
    pub fn turn_fd(&mut self) -> io::Result<TurnFd> {
        self.timer_fd.descriptor(self.timer.engine().clock()).cloned()
    }

    /// Has the models wait for the timerfd.
    #[cfg(all(test, tourbillon_model))]
    pub(crate) fn timer_fd(&self) -> &TimerFd {
        &self.timer_fd
    }

    /// A handle to the timer that this driver turns.
    pub fn timer(&self) -> &Timer {
        &self.timer
    }
}

/// The loop that turns a driver.
struct ByHand<'a> {
    clock: &'a Clock,
    timer_fd: &'a TimerFd,
    /// Number of timers that the turn has fired.
    fired: usize,
}

impl Host for ByHand<'_> {
    fn now(&self, clock: &Clock) -> Tick {
        // A jump of the clock is followed by a reading of the alarm: if this does not see the new
        // time, the jump sees the scan announced. Loom `jump_races_arm_and_turn`.
        clock.now_in_order()
    }

    fn passed(&mut self, _: &mut WakeBatch, pass: &mut Pass) {
        self.fired += pass.fired;
    }

    fn plan(&mut self, pass: &Pass) -> Result<Plan, Scanned> {
        let wait = || {
            let is_timed = pass.next != Tick::NEVER && !self.clock.is_virtual();
            is_timed.then(|| pass.next.since(self.clock.now()))
        };
        // Before anybody can see the plan, and set the timerfd because of it. Edge `timerfd`.
        self.timer_fd.set(wait);
        Ok(pass.plan())
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("timer", &self.timer).finish_non_exhaustive()
    }
}
