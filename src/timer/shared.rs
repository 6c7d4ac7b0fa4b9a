//! [`Timer`]: a handle to a timer, which clones share.

use core::fmt;
use core::future::IntoFuture;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::time::Duration;
#[cfg(not(target_os = "none"))]
use std::io;

#[cfg(not(target_os = "none"))]
use crate::clock::Steps;
use crate::deadline::Deadline;
#[cfg(not(target_os = "none"))]
use crate::driver;
use crate::engine::{Engine, SharedEngine};
#[cfg(not(target_os = "none"))]
use crate::foreign::Running;
use crate::handle::{EngineRef, Handle, SharedHandle};
use crate::interval::Interval;
use crate::sleep::Sleep;
#[cfg(all(feature = "pending", not(target_os = "none")))]
use crate::stats::Pending;
use crate::stats::{Histogram, Stats};
use crate::sync::Arc;
use crate::tick::Tick;
use crate::time::Instant;
#[cfg(not(target_os = "none"))]
use crate::time::SystemTime;
use crate::timeout::Timeout;
#[cfg(not(target_os = "none"))]
use crate::timer::EndDriverError;
use crate::timer::functions::{sleep_in, sleep_until_in};
use crate::timer::{Builder, SetGlobalError};
#[cfg(not(target_os = "none"))]
use crate::wall::WallSleep;

/// A handle to a timer, and not a future: it makes [`Sleep`]s, intervals and timeouts.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// let timer = Timer::builder().shards(1).build()?;
/// let sleep = timer.sleep(Duration::from_millis(1));
/// drop(timer);
/// pollster::block_on(sleep);
/// # std::io::Result::Ok(())
/// ```
///
/// # Details
///
/// Most programs need none: the functions at the crate's root use the process-wide timer. Make your
/// own for another clock ([`VirtualClock`](crate::virtual_time::VirtualClock)), to drive it by hand
/// ([`Driver`](crate::driver::Driver)), or to keep timers apart. Cloning is cheap, and clones are
/// the same timer.
///
/// The driver thread starts with the first sleep that is armed. It ends once the last handle and
/// the last armed sleep are gone. A sleep that outlives the handles still works, and starts the
/// thread again if it is armed later. The process-wide timer's thread ends if it is
/// [asked to](Self::end_driver).
#[derive(Clone)]
pub struct Timer {
    handle: SharedHandle,
}

impl Timer {
    pub(crate) fn of(engine: SharedEngine) -> Self {
        Self { handle: Handle::shared(engine) }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.handle.engine().current()
    }

    /// The engine of this process, for a driver to hold.
    #[cfg(any(target_os = "linux", target_os = "android", all(test, tourbillon_model)))]
    pub(crate) fn shared_engine(&self) -> &SharedEngine {
        let engine = self.handle.engine();
        if engine.generation.is_past() { engine.successor().engine() } else { engine }
    }

    /// Options for a new timer.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The process-wide timer. The functions at the crate's root use it outside of a
    /// [`scope`](Self::scope).
    ///
    /// # Panics
    ///
    /// Without an operating system, if none [was set](Self::set_global).
    ///
    /// # Examples
    ///
    /// ```
    /// let stats = tourbillon::Timer::global().stats();
    /// assert!(stats.shards >= 1);
    /// ```
    pub fn global() -> Self {
        Self { handle: Arc::clone(Handle::global()) }
    }

    /// The timer that the functions at the crate's root use here: the timer of the calling thread's
    /// innermost [`scope`](Self::scope), or else the [process-wide](Self::global) timer.
    ///
    /// # Panics
    ///
    /// Panics as [`global`](Self::global) does.
    ///
    /// # Examples
    ///
    /// `start.elapsed()` would be in real time:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon::virtual_time::VirtualClock;
    /// use tourbillon::{Timer, sleep};
    ///
    /// async fn slept() -> Duration {
    ///     let start = Timer::current().now();
    ///     sleep(Duration::from_secs(60)).await;
    ///     Timer::current().now() - start
    /// }
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// assert_eq!(clock.block_on(timer.scope(slept())), Duration::from_secs(60));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn current() -> Self {
        Self { handle: Handle::here() }
    }

    /// Makes `timer` the process-wide one. It then lives as long as the process.
    ///
    /// # Errors
    ///
    /// If the process-wide timer was set or used before.
    ///
    /// # Examples
    ///
    /// ```
    /// use tourbillon::Timer;
    ///
    /// let timer = Timer::builder().thread_name("my-timers").build()?;
    /// Timer::set_global(timer).expect("nothing has slept yet");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn set_global(timer: Self) -> Result<(), SetGlobalError> {
        Handle::set_global(timer.handle).map_err(|_| SetGlobalError(()))
    }

    /// Starts the driver now, instead of with the first armed sleep: the thread, or the task of a
    /// [`Builder::build_on`](crate::timer::Builder::build_on) timer. Does nothing if it runs, or if
    /// the timer has neither.
    ///
    /// # Examples
    ///
    /// ```
    /// tourbillon::Timer::global().start()?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # The thread
    ///
    /// It inherits from the thread that starts it, by this call or with the first armed sleep, and
    /// keeps for life: on Linux the processors that it may run on, its scheduling policy, nice
    /// value and I/O priority, and the capabilities, seccomp filters, Landlock rules and namespaces
    /// of that thread. A driver keeps the rights that another thread gives up later, by `capset`,
    /// `prctl`, `unshare`, Landlock, or seccomp without `TSYNC`, and it runs the program's wakers
    /// and callbacks. So call this from `main`, before threads are pinned. In a program that
    /// confines itself, sleep after that only, or [end the driver](Self::end_driver) before.
    ///
    /// On Unix it blocks all signals from its first instruction on, except faults (SIGSEGV, SIGBUS,
    /// SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT) and profilers (SIGPROF, SIGVTALRM). So a signal to
    /// the process goes to a thread of the program. That thread may wait for it with `sigwait` or a
    /// `signalfd`, whether or not it has slept before. The calling thread's mask is unchanged.
    /// Threads and commands that wakers and callbacks start inherit the driver's mask:
    /// `callback::unblock_signals` opens it. The thread that waits for steps of the wall clock
    /// ([`wall`](crate::wall)) is started in the same way.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread, or the runtime a task. The next call tries again.
    #[cfg(not(target_os = "none"))]
    pub fn start(&self) -> io::Result<()> {
        let engine = self.engine_ref().current();
        engine.notify(engine.get().look_for_driver())?;
        Ok(())
    }

    /// Ends the driver thread and waits until it is gone, if no timer is armed. The thread that
    /// waits for steps of the wall clock ends too, once no [`WallSleep`] of any timer waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let timer = tourbillon::Timer::builder().build()?;
    /// pollster::block_on(timer.sleep(Duration::from_millis(1)));
    /// timer.end_driver().expect("nothing is armed");
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// For a library that is to be unloaded, or a process that is to have one thread (`fork`,
    /// `unshare`). Handles and unarmed sleeps stay valid; the next sleep that is armed starts a new
    /// thread. `Ok` means that the old thread has ended, including its thread-local destructors.
    ///
    /// Blocks while the driver runs wakers and callbacks: do not hold what these wait for. If
    /// another thread calls this at the same time, the second waits for the first. A timer without
    /// a thread (by hand, on a virtual clock, by a runtime's task) has nothing to end. On Windows,
    /// do not call this in `DllMain`: no thread ends while that runs.
    ///
    /// # Errors
    ///
    /// If timers are armed, with their number: drop them first. Also in a waker or callback: the
    /// driver cannot end before that returns.
    #[cfg(not(target_os = "none"))]
    pub fn end_driver(&self) -> Result<(), EndDriverError> {
        if Running::is_on() {
            return Err(EndDriverError(None));
        }
        driver::end(self.engine()).map_err(|armed| EndDriverError(Some(armed)))?;
        Steps::of_the_system().end_watcher();
        Ok(())
    }

    /// The present instant by the timer's clock.
    ///
    /// # Examples
    ///
    /// One reading serves a burst of sleeps:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let timer = tourbillon::Timer::global();
    /// let now = timer.now();
    /// let sleeps: Vec<_> =
    ///     (0..100).map(|n| timer.sleep_until(now + Duration::from_millis(n))).collect();
    /// # drop(sleeps);
    /// ```
    pub fn now(&self) -> Instant {
        let clock = self.engine().clock();
        clock.instant(clock.now())
    }

    /// The instant of the last turn of the wheel, for the price of a load (nginx's cached time).
    ///
    /// In a loop that turns once a round, it is as old as the round. With a driver thread, which
    /// turns only when a timer is due, it may be of any age. On a virtual clock it is the present.
    ///
    /// # Examples
    ///
    /// ```
    /// let (timer, mut driver) = tourbillon::Timer::builder().build_manual(|| {})?;
    /// let before = timer.now();
    /// driver.turn();
    /// assert!(timer.cached_now() >= before && timer.cached_now() <= timer.now());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn cached_now(&self) -> Instant {
        let engine = self.engine();
        engine.clock().instant(engine.cached_now())
    }

    /// The present wall time: [`SystemTime::now`], or the time that a
    /// [`VirtualClock`](crate::virtual_time::VirtualClock::set_wall) shows.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// let now = tourbillon::Timer::global().wall_now();
    /// assert!(now > SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    /// ```
    #[cfg(not(target_os = "none"))]
    pub fn wall_now(&self) -> SystemTime {
        self.engine().clock().wall_now()
    }

    /// A snapshot of the timer's counters. Takes each shard's lock in turn.
    pub fn stats(&self) -> Stats {
        self.engine().stats()
    }

    /// A snapshot of how late the timer's sleeps were fired; `None` without
    /// [`Builder::lateness_histogram`]. With a [tolerance](Builder::tolerance), lateness counts
    /// from the end of the window. Takes each shard's lock in turn.
    ///
    /// # Examples
    ///
    /// For the process-wide timer, set one before the first use:
    ///
    /// ```
    /// use tourbillon::Timer;
    ///
    /// let timer = Timer::builder().lateness_histogram(true).build()?;
    /// Timer::set_global(timer).expect("nothing has slept yet");
    /// assert!(Timer::global().lateness().is_some());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn lateness(&self) -> Option<Histogram> {
        self.engine().lateness()
    }

    /// Lists the armed timers in the order of arming: where each was made, when it is due, and how
    /// old it is. Use it to find leaks, and the timers that wake an idle process. Requires the
    /// feature `pending`.
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
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let mut idle = timer.sleep(Duration::from_secs(60));
    /// assert!((&mut idle).now_or_never().is_none());
    /// clock.advance(Duration::from_secs(7));
    ///
    /// let pending = timer.pending();
    /// assert_eq!(pending[0].place.file(), file!());
    /// assert_eq!(pending[0].deadline, idle.deadline());
    /// assert_eq!(pending[0].age, Duration::from_secs(7));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// A timer that has fired is in the list until its future is polled or dropped. So is a sleep
    /// that never ends, once it was polled. Takes one lock of the timer, as do all arms, resets and
    /// cancels with this feature.
    #[cfg(all(feature = "pending", not(target_os = "none")))]
    #[cfg_attr(docsrs, doc(cfg(feature = "pending")))]
    pub fn pending(&self) -> Vec<Pending> {
        self.engine().armed().list(self.engine())
    }

    /// A sleep that ends `delay` from now; see [`sleep()`](crate::sleep()).
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn sleep(&self, delay: Duration) -> Sleep {
        sleep_in(self.engine_ref(), delay)
    }

    /// A sleep that ends at `deadline`; see [`sleep_until`](crate::sleep_until).
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn sleep_until(&self, deadline: impl Into<Deadline>) -> Sleep {
        sleep_until_in(self.engine_ref(), deadline.into())
    }

    /// A sleep that ends when the wall clock shows `target`; see
    /// [`sleep_until_wall`](crate::wall::sleep_until_wall).
    #[cfg(not(target_os = "none"))]
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn sleep_until_wall(&self, target: SystemTime) -> WallSleep {
        WallSleep::new(self.never(), target)
    }

    /// Returns a [`Sleep`] that never ends, unless it is [reset](Sleep::reset) to a deadline. A
    /// reset wakes the task that has polled it, at that deadline. Until then it needs no driver.
    ///
    /// # Examples
    ///
    /// ```
    /// let sleep = tourbillon::Timer::global().never();
    /// assert!(!sleep.is_elapsed());
    /// ```
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn never(&self) -> Sleep {
        Sleep::new(self.engine_ref(), Tick::NEVER)
    }

    /// Makes an interval that ticks at once, and then every `period`; see
    /// [`interval()`](crate::interval()).
    ///
    /// # Panics
    ///
    /// If `period` is zero.
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        Interval::new(self.sleep(Duration::ZERO), period)
    }

    /// Makes an interval that ticks at `start`, and then every `period`; see
    /// [`interval_at`](crate::interval_at).
    ///
    /// # Panics
    ///
    /// If `period` is zero.
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        Interval::new(self.sleep_until(start), period)
    }

    /// Limits `future` to `limit` from now; see [`timeout()`](crate::timeout()).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let timer = tourbillon::Timer::builder().build()?;
    /// let answer = timer.timeout(Duration::from_secs(5), async { 42 });
    /// assert_eq!(pollster::block_on(answer), Ok(42));
    /// # std::io::Result::Ok(())
    /// ```
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn timeout<F: IntoFuture>(&self, limit: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep(limit))
    }

    /// Limits `future` to `deadline`; see [`timeout_at`](crate::timeout_at).
    ///
    /// # Examples
    ///
    /// ```
    /// let timer = tourbillon::Timer::builder().build()?;
    /// let answer = timer.timeout_at(timer.now(), async { 42 });
    /// assert_eq!(pollster::block_on(answer), Ok(42));
    /// # std::io::Result::Ok(())
    /// ```
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: impl Into<Deadline>,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep_until(deadline))
    }

    #[cfg(not(target_os = "none"))]
    pub(crate) fn handle(&self) -> &SharedHandle {
        &self.handle
    }

    pub(crate) fn engine_ref(&self) -> EngineRef {
        EngineRef::of(&self.handle)
    }
}

impl Default for Timer {
    /// The [current timer](Timer::current), like the functions at the crate's root: the
    /// process-wide timer outside of a [`scope`](Timer::scope). [`Timer::builder`] makes another
    /// timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tourbillon::Timer;
    ///
    /// #[derive(Default)]
    /// struct Client {
    ///     retries: u32,
    ///     timer: Timer,
    /// }
    /// # assert_eq!(Client::default().retries, 0);
    /// # assert!(Client::default().timer.stats().shards >= 1);
    /// ```
    fn default() -> Self {
        Self::current()
    }
}

/// Handles are equal if they are of the same timer.
impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }
}

impl Eq for Timer {}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("engine", self.engine()).finish_non_exhaustive()
    }
}

// A panic of foreign code never unwinds through a change of the engine's state.
impl UnwindSafe for Timer {}
impl RefUnwindSafe for Timer {}
