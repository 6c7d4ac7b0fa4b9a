//! [`Builder`]: options of a timer.

#[cfg(target_os = "none")]
mod bare;

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;
#[cfg(not(target_os = "none"))]
use std::io;

use crate::clock::Clock;
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
use crate::driver::wait_in_worker;
#[cfg(not(target_os = "none"))]
use crate::driver::{Driver, watch_resumes};
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
use crate::engine::WhileHidden;
use crate::engine::{DrivenBy, Engine, SharedEngine};
#[cfg(not(target_os = "none"))]
use crate::engine::{DriverThread, MAX_SHARDS, default_shards};
use crate::sync::StdArc;
#[cfg(not(target_os = "none"))]
use crate::timer::Timer;
use crate::timer_fd::TimerFd;
use crate::tolerance::Tolerance;
#[cfg(not(target_os = "none"))]
use crate::virtual_time::VirtualClock;
#[cfg(not(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
)))]
use crate::{
    driver::{Runtime, starting},
    engine::TaskDriver,
};

/// Makes a [`Timer`] that differs from the process-wide one.
///
/// [`Timer::builder`] and [`Builder::default`] are the same.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// let timer = Timer::builder().shards(4).thread_name("my-timers").build()?;
/// pollster::block_on(timer.sleep(Duration::from_millis(1)));
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until one of its build methods is called"]
pub struct Builder {
    #[cfg(not(target_os = "none"))]
    shards: Option<usize>,
    #[cfg(not(target_os = "none"))]
    thread_name: Option<String>,
    #[cfg(not(target_os = "none"))]
    kind: ClockKind,
    /// Takes the place of `kind`.
    #[cfg(not(target_os = "none"))]
    clock: Option<VirtualClock>,
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    while_hidden: Option<WhileHidden>,
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    one_timeout: bool,
    lateness_histogram: bool,
    tolerance: Tolerance,
    slow_call_limit: Option<Duration>,
    panic_hook: PanicHook,
}

/// Function to call at the first panic of foreign code.
#[derive(Clone, Default)]
struct PanicHook(Option<StdArc<dyn Fn() + Send + Sync>>);

impl fmt::Debug for PanicHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Some(..)" } else { "None" })
    }
}

/// A clock of the system's that a [`Timer`] may run on; see [`Builder::clock`].
///
/// The [`wall`](crate::wall) module says what each does in suspend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg(not(target_os = "none"))]
pub enum ClockKind {
    /// The clock of [`Instant`](std::time::Instant). Stops in suspend on Linux and macOS.
    #[default]
    Monotonic,
    /// A clock that counts suspend: `CLOCK_BOOTTIME` on Linux and Android, `CLOCK_MONOTONIC_RAW` on
    /// Apple's systems, and `Instant`'s own on Windows. Other systems have none.
    Boottime,
}

#[cfg(not(target_os = "none"))]
impl Builder {
    /// The number of shards, 1 to 256; rounded up to a power of two.
    ///
    /// # Examples
    ///
    /// ```
    /// let timer = tourbillon::Timer::builder().shards(6).build()?;
    /// assert_eq!(timer.stats().shards, 8);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// Each thread arms timers in its own shard. With more shards, threads wait less for each
    /// other's locks, and a pass reads more earliest deadlines. The default is four for each
    /// processor, rounded up to a power of two and at most 64. The first thread of the process to
    /// make such a timer counts the processors that it may run on. A control group's quota is not
    /// heeded: a container that is limited to one processor's time has shards for all that it may
    /// run on, where `shards(4)` is enough. On a virtual clock the default is one, because only
    /// timers of one shard fire in the order of arming when their deadlines are equal. In a browser
    /// there is always one.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// The name of the driver thread; `tourbillon` by default.
    ///
    /// # Examples
    ///
    /// ```
    /// let timer = tourbillon::Timer::builder().thread_name("timers").build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = Some(name.into());
        self
    }

    /// Runs the timer on a system clock, [`ClockKind::Monotonic`] by default. Replaces a
    /// [virtual clock](Self::virtual_clock).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    /// use tourbillon::timer::ClockKind;
    ///
    /// let timer = Timer::builder().clock(ClockKind::Boottime).build()?;
    /// let deadline = timer.now() + Duration::from_millis(1);
    /// pollster::block_on(timer.sleep_until(deadline));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// [`ClockKind::Boottime`] makes a timer that counts suspend: sleeps that become due in suspend
    /// fire on resume, at once where the system reports it (Linux, and Windows 10 from 1803 on),
    /// and otherwise within 30 seconds. The machine is not woken. Use instants of [`Timer::now`]
    /// with such a timer: `Instant::now` may lag behind it by all suspends since the timer was
    /// made. A loop that [turns it by hand](Self::build_manual) must notice a resume by itself.
    pub fn clock(mut self, kind: ClockKind) -> Self {
        self.kind = kind;
        self.clock = None;
        self
    }

    /// Runs the timer on `clock`. A virtual clock stands still until it is moved. Replaces a
    /// [system clock](Self::clock). A clock belongs to one timer.
    pub fn virtual_clock(mut self, clock: &VirtualClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Lets a worker wait for the timer's deadlines while the page is hidden; off by default. Only
    /// in browsers (feature `wasm-bindgen`).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tourbillon::Timer;
    ///
    /// let timer = Timer::builder().worker_while_hidden().build()?;
    /// Timer::set_global(timer).expect("nothing has slept yet");
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// Browsers hold back a hidden page to one timeout a second, but not a worker. The timer makes
    /// a dedicated worker for its first wait after the page is hidden, and ends it once the page is
    /// shown or the timer has gone. The worker sends the page a message at each deadline. A page
    /// that is never hidden has no worker. A browser that freezes the whole page still does so.
    ///
    /// The worker's program is a `blob:` URL, so a page with a content security policy has to allow
    /// `worker-src blob:`. Where the worker cannot be made, the timer waits as it does without this
    /// option. The option does nothing in workers and in Node.js: they have no page to hide.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub fn worker_while_hidden(mut self) -> Self {
        self.while_hidden = Some(wait_in_worker);
        self
    }

    /// Sets one timeout for all sleeps in Node.js, Deno and Bun too; off by default. Only with the
    /// feature `wasm-bindgen`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tourbillon::Timer;
    ///
    /// let timer = Timer::builder().one_timeout().build()?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// There each sleep that a task waits for has a timeout of its own by default, so that the task
    /// continues in its own context (`AsyncLocalStorage`). That costs more for each sleep. With one
    /// timeout, tasks continue in the context of another that has slept. Tolerances save wake-ups
    /// with one timeout alone.
    ///
    /// Callbacks share a timeout in any case. In pages of browsers and their workers there is one
    /// timeout always. In workerd (Cloudflare's Workers) there is one for each sleep and callback
    /// always: a timeout there ends with the request that has set it.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub fn one_timeout(mut self) -> Self {
        self.one_timeout = true;
        self
    }
}

impl Builder {
    /// Keeps a histogram of lateness for [`Timer::lateness`]; off by default.
    ///
    /// The histogram costs a few instructions for each timer that fires, nothing for a timer that
    /// is cancelled, and 4 KiB for each shard.
    pub fn lateness_histogram(mut self, wanted: bool) -> Self {
        self.lateness_histogram = wanted;
        self
    }

    /// Sets how long a waker or a [callback](crate::callback::Callback) may keep the driver before
    /// it counts as slow; 100 ms by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let ms = Duration::from_millis;
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).slow_call_limit(ms(20)).build()?;
    /// let slow = clock.clone();
    /// let callback = timer.sleep(ms(5)).call(move || slow.jump(ms(50))); // takes 50 ms
    /// clock.advance(ms(5));
    /// let stats = timer.stats();
    /// assert_eq!((stats.slow_calls, stats.longest_call), (1, ms(50)));
    /// # drop(callback);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// All other timers of the driver wait meanwhile.
    /// [`Stats::slow_calls`](crate::stats::Stats::slow_calls) counts the slow ones, and with the
    /// feature `tracing` a pass that had one is an event (see [the list](crate::guide::watching)).
    /// Calls are measured by the timer's clock. A thread that loses the processor is slow too, so a
    /// limit of a few milliseconds counts a busy machine as well.
    ///
    /// With a limit of less than 20 ms each call is measured by itself, at the cost of a reading of
    /// the clock. Above, on Linux, up to 64 of a crowd that take less than 10 us each are measured
    /// together: a call that follows them may count as longer, by up to 10 ms.
    pub fn slow_call_limit(mut self, limit: Duration) -> Self {
        self.slow_call_limit = Some(limit);
        self
    }

    /// Sets a function to call at the timer's first panic of a waker, a
    /// [callback](crate::callback::Callback) or the hook of [`build_manual`](Self::build_manual).
    ///
    /// # Examples
    ///
    /// ```
    /// use tourbillon::Timer;
    ///
    /// let loud = || {
    ///     eprintln!("a waker panicked: a task may hang");
    ///     std::process::abort();
    /// };
    /// Timer::set_global(Timer::builder().on_waker_panic(loud).build()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Details
    ///
    /// Such a panic is caught, so that it ends no other timer, and counted in
    /// [`Stats::waker_panics`](crate::stats::Stats::waker_panics). But the task of a waker that
    /// panics may never run again. The usual cause is an executor whose wakers must not leave their
    /// thread, as [monoio's without its feature
    /// `sync`](crate::guide::migration#thread-per-core-executors). A program that would rather end
    /// than hang aborts in `hook`.
    ///
    /// It is called once, where the panic was caught: on the driver thread, or within the call that
    /// turns or moves the clock. No lock of the timer's is held. A panic of `hook` itself is caught
    /// and not counted. Browsers cannot catch a panic, so there it is called in the turn after the
    /// interrupted turn. Without an operating system it is never called.
    pub fn on_waker_panic(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        let hook: Box<dyn Fn() + Send + Sync> = Box::new(hook);
        self.panic_hook = PanicHook(Some(hook.into()));
        self
    }

    /// Sets how late the timer's sleeps may be fired, so that the driver wakes up less often: a
    /// [`Duration`], or a [share of their delay](Tolerance::percent_of_delay). Zero by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let second = Duration::from_secs(1);
    /// let timer = Timer::builder().virtual_clock(&clock).tolerance(second).build()?;
    /// let limits = (0..1_000).map(|n| timer.sleep(Duration::from_millis(59_001 + n)));
    /// let start = clock.now();
    /// clock.block_on(futures::future::join_all(limits));
    /// assert_eq!(clock.now(), start + Duration::from_millis(60_001)); // the first window's end
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// Most timers need not be exact: an idle limit of a minute may come a second late. A sleep
    /// with a tolerance is fired in the window from its deadline to its deadline plus the
    /// tolerance. The driver wakes at the end of the first window, or for an exact timer, and fires
    /// all sleeps whose windows are open then, of whatever thread. But for the rounding below, no
    /// other choice takes fewer wake-ups: ten thousand limits of a minute, each with a second of
    /// tolerance, take one a second.
    ///
    /// A sleep that nothing else wakes the driver for is fired at the end of its window. A window
    /// is kept as two numbers, and the smaller is rounded: it is taken to begin up to a ninth of
    /// its length after the deadline, and where it is longer than two hours, as late as two hours
    /// before its end. A window of less than 2 us is its end alone.
    ///
    /// The tolerance applies to every sleep that the timer makes, and to the sleeps in its
    /// intervals, timeouts, queues, callbacks, streams and [`WallSleep`](crate::wall::WallSleep)s.
    /// [`Sleep::set_tolerance`](crate::Sleep::set_tolerance) and the `with_tolerance` methods of
    /// sleeps, intervals, timeouts and queues replace it. A callback with a tolerance of its own is
    /// made by [`Sleep::call`](crate::Sleep::call) or [`Interval::call`](crate::Interval::call).
    ///
    /// - Nothing is early: no window begins before the deadline. The driver's lateness comes on
    ///   top; [`Timer::lateness`](crate::Timer::lateness) counts it from the end of the window.
    /// - `deadline()` and the like tell the deadline itself, and an [`Interval`](crate::Interval)
    ///   counts its ticks from the schedule, so it does not drift.
    /// - A poll that finds the deadline past completes the sleep, whether or not it was fired.
    /// - The window ends with the time line, so any duration is valid. It may be longer than the
    ///   delay: with [`Duration::MAX`], a sleep may be fired in a hundred years.
    ///
    /// Others call it leeway (Grand Central Dispatch), a coarse timer (Qt), or timer slack (Linux).
    pub fn tolerance(mut self, tolerance: impl Into<Tolerance>) -> Self {
        self.tolerance = tolerance.into();
        self
    }

    #[inline]
    fn engine(&self, clock: Clock, shards: usize, driven_by: DrivenBy) -> SharedEngine {
        let engine = Engine::new(clock, shards, driven_by);
        let engine = engine.with_tolerance(self.tolerance);
        let engine = engine.with_panic_hook(self.panic_hook.0.clone());
        let mut engine = match self.slow_call_limit {
            Some(limit) => engine.with_slow_call_limit(limit),
            None => engine,
        };
        if self.lateness_histogram {
            engine.keep_lateness();
        }
        engine.shared()
    }
}

#[cfg(not(target_os = "none"))]
impl Builder {
    /// Makes a timer that drives itself. The first armed sleep starts its driver thread. On a
    /// virtual clock there is no thread: moving the clock fires the timers.
    ///
    /// # Examples
    ///
    /// ```
    /// use tourbillon::Timer;
    ///
    /// let timer = Timer::builder().build()?;
    /// timer.start()?;
    /// assert!(Timer::builder().shards(0).build().is_err());
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the number of shards is not within 1 to
    /// 256, if the thread's name contains a NUL, or if the clock belongs to another timer.
    /// [`Unsupported`](io::ErrorKind::Unsupported) if the system has no such clock. The thread is
    /// started later; [`Timer::start`] starts it at once and reports failure.
    #[inline]
    pub fn build(self) -> io::Result<Timer> {
        if let Some(name) = self.thread_name.as_ref().filter(|name| name.contains('\0')) {
            return Err(invalid(format!("thread name {name:?} contains a NUL")));
        }
        let clock = self.make_clock()?;
        let driven_by = if clock.is_virtual() {
            DrivenBy::Clock
        } else {
            let name = self.thread_name.clone().map_or(DriverThread::NAME.into(), String::into);
            let thread = DriverThread::new(name, watch_resumes(clock.counts_suspend()));
            #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
            thread.parker.set_while_hidden(self.while_hidden);
            #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
            if self.one_timeout {
                thread.parker.share_timeout();
            }
            DrivenBy::Thread(thread)
        };
        self.build_with(clock, driven_by)
    }

    /// Makes a timer that you drive by hand, from your own loop.
    ///
    /// `unpark` is called once between two turns: when a timer is armed that has to be fired before
    /// the instant that the last [`Driver::turn`] reported. The thread that arms the timer calls
    /// it, with no lock held. That may be the loop's own thread, if a task arms a timer between two
    /// turns; a loop that turns right before it waits sees that timer anyway. It may do nothing if
    /// the loop waits for the descriptor of `Driver::turn_fd` (Linux). A panic of the hook is
    /// caught and counted in [`Stats::waker_panics`](crate::stats::Stats::waker_panics).
    ///
    /// # Errors
    ///
    /// Fails as [`build`](Self::build) does, except that there is no thread.
    pub fn build_manual(
        self,
        unpark: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<(Timer, Driver)> {
        let (timer_fd, driven_by) = by_hand(unpark);
        let timer = self.build_with(self.make_clock()?, driven_by)?;
        let driver = Driver::new(timer.clone(), timer_fd);
        Ok((timer, driver))
    }

    /// Makes a timer that a task of `runtime` drives, in the runtime's time. It has one shard by
    /// default, so equal deadlines fire in the order of arming.
    ///
    /// Replaces the [clock](Self::clock), also a virtual one. The wall clock begins at the system's
    /// time, and moves with the runtime's; it is never set.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the number of shards is not within 1 to
    /// 256.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")))]
    pub fn build_on<R: Runtime>(mut self, runtime: R) -> io::Result<Timer> {
        self.shards = self.shards.or(Some(1));
        self.clock = None;
        let runtime = StdArc::new(runtime);
        let clock = Clock::of_runtime({
            let runtime = StdArc::clone(&runtime);
            move || runtime.now()
        });
        self.build_with(clock, DrivenBy::Task(TaskDriver::new(starting(runtime))))
    }

    #[inline]
    fn make_clock(&self) -> io::Result<Clock> {
        Ok(match (&self.clock, self.kind) {
            (Some(clock), _) => Clock::Virtual(clock.time()),
            (None, ClockKind::Monotonic) => Clock::monotonic(),
            (None, ClockKind::Boottime) => Clock::boottime().ok_or_else(|| {
                io::Error::new(io::ErrorKind::Unsupported, "no clock here counts suspend")
            })?,
        })
    }

    #[inline]
    fn build_with(&self, clock: Clock, driven_by: DrivenBy) -> io::Result<Timer> {
        let shards = match (self.shards, &self.clock) {
            (Some(shards), _) => shards,
            (None, Some(_)) => 1,
            (None, None) => default_shards(),
        };
        if !(1..=MAX_SHARDS).contains(&shards) {
            return Err(invalid(format!("{shards} shards; there can be 1 to {MAX_SHARDS}")));
        }
        let engine = self.engine(clock, shards.next_power_of_two(), driven_by);
        if let Some(clock) = &self.clock {
            if !clock.attach(&engine) {
                return Err(invalid("the virtual clock belongs to another timer".to_owned()));
            }
        }
        Ok(Timer::of(engine))
    }
}

/// Returns the descriptor of a [`Driver`], and a [`DrivenBy`] that sets it.
pub(crate) fn by_hand(unpark: impl Fn() + Send + Sync + 'static) -> (TimerFd, DrivenBy) {
    let timer_fd = TimerFd::new();
    let hook: Box<dyn Fn() + Send + Sync> = {
        let timer_fd = timer_fd.clone();
        Box::new(move || {
            timer_fd.set(|| Some(Duration::ZERO));
            unpark();
        })
    };
    (timer_fd, DrivenBy::Hand(hook.into()))
}

#[cfg(not(target_os = "none"))]
#[inline]
fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
