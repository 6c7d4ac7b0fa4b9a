//! [`VirtualClock`]: time that moves only when it is moved.

use std::fmt;
#[cfg(not(all(test, tourbillon_model)))]
use std::future::{Future, IntoFuture};
#[cfg(not(all(test, tourbillon_model)))]
use std::pin::pin;
#[cfg(not(all(test, tourbillon_model)))]
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant, SystemTime};

use crate::clock::{VirtualTime, saturating_add};
use crate::engine::{Engine, WakeBatch};
use crate::sync::{Arc, OnceLock};
#[cfg(not(all(test, tourbillon_model)))]
use crate::sync::{Condvar, Mutex, lock, wait};
use crate::tick::Tick;

/// A clock that stands still until it is moved, for simulations and for tests that do not wait for
/// real time.
///
/// A clock belongs to one timer, set with
/// [`Builder::virtual_clock`](crate::Builder::virtual_clock). Nothing is global, so tests with
/// their own clocks run side by side, on any executor and from any thread. Its instants are
/// ordinary [`Instant`]s, counted from the moment the clock was made.
///
/// Moving the clock fires the timers that are due. [`advance`](Self::advance) stops at each
/// deadline in turn, sets the clock to it, and wakes its sleeps. Equal deadlines are woken in the
/// order in which they were set, within one shard; a timer on a virtual clock has one shard by
/// default.
///
/// The clock moves by itself only in [`block_on`](Self::block_on).
///
/// Clones are the same clock.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use futures::task::LocalSpawnExt;
/// use tourbillon::{Timer, VirtualClock};
///
/// let clock = VirtualClock::new();
/// let timer = Timer::builder().virtual_clock(&clock).build()?;
///
/// let mut pool = futures::executor::LocalPool::new();
/// let sleep = timer.sleep(Duration::from_secs(3600));
/// let task = pool.spawner().spawn_local_with_handle(sleep).unwrap();
/// pool.run_until_stalled();
///
/// assert_eq!(clock.advance(Duration::from_secs(3599)), 0);
/// assert_eq!(clock.advance(Duration::from_secs(1)), 1);
/// pool.run_until(task);
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct VirtualClock {
    inner: Arc<Inner>,
}

struct Inner {
    time: Arc<VirtualTime>,
    engine: OnceLock<Arc<Engine>>,
}

impl VirtualClock {
    /// Creates a clock that shows the present instant, and stands still.
    pub fn new() -> Self {
        let time = Arc::new(VirtualTime::new());
        Self { inner: Arc::new(Inner { time, engine: OnceLock::new() }) }
    }

    /// The instant that the clock shows.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let start = clock.now();
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(clock.now() - start, Duration::from_secs(5));
    /// ```
    pub fn now(&self) -> Instant {
        self.inner.time.line().instant(self.inner.time.now())
    }

    /// Moves the clock by `span` and fires what is due on the way. Returns how many timers fired.
    ///
    /// The clock stops at each deadline in turn, and shows it while that deadline's wakers run, on
    /// the calling thread. A waker only marks its task as ready. For a task to run *at* its
    /// deadline, and arm its next timer from there, let its executor run between two calls, or use
    /// [`block_on`](Self::block_on).
    ///
    /// If another thread calls this at the same time, it adds its span and waits until the clock
    /// has come that far. Called from a waker, it adds the span and returns 0 at once; the call
    /// that runs the waker moves the clock on. The clock stops at the end of the time line, some
    /// 438 years away.
    pub fn advance(&self, span: Duration) -> usize {
        self.move_to(|goal| goal.saturating_add(span))
    }

    /// Moves the clock to the next deadline and fires what is due there. Returns that deadline, or
    /// `None` if nothing is pending; then the clock does not move.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::FutureExt;
    /// use tourbillon::{Timer, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// assert_eq!(clock.advance_to_next(), None);
    ///
    /// let mut sleep = timer.sleep(Duration::from_secs(3600));
    /// assert!((&mut sleep).now_or_never().is_none());
    /// assert_eq!(clock.advance_to_next(), Some(sleep.deadline()));
    /// assert!((&mut sleep).now_or_never().is_some());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn advance_to_next(&self) -> Option<Instant> {
        let next = self.engine()?.exact_earliest()?;
        self.move_to(|goal| goal.max(next));
        Some(self.inner.time.line().instant(next))
    }

    /// Moves the clock by `span` at once and fires nothing. This simulates a starved driver, or a
    /// suspended machine where [`Instant`] continues in suspend. For one where `Instant` stops, see
    /// [`suspend`](Self::suspend).
    ///
    /// The wall time moves too. To keep it, [set](Self::set_wall) it back afterwards. Called from a
    /// waker while another call moves the clock, it starts from the end of that move.
    ///
    /// A sleep that is polled afterwards sees the new time. The other sleeps fire late: when the
    /// clock is next advanced, even by zero, or when a [`Driver`](crate::Driver) turns, whose hook
    /// this calls.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::FutureExt;
    /// use tourbillon::{Timer, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let mut sleep = timer.sleep(Duration::from_secs(1));
    /// assert!((&mut sleep).now_or_never().is_none());
    /// clock.jump(Duration::from_secs(60));
    /// assert_eq!(clock.advance(Duration::ZERO), 1);
    /// assert_eq!(timer.stats().lateness_max, Duration::from_secs(59));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn jump(&self, span: Duration) {
        self.inner.time.jump(span);
        if let Some(engine) = self.engine() {
            engine.notify_driver();
        }
    }

    /// The wall time that goes with [`now`](Self::now).
    ///
    /// It starts at 2000-01-01 00:00:00 UTC and moves with the clock. [`set_wall`](Self::set_wall)
    /// and [`suspend`](Self::suspend) move it alone.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let start = clock.wall_now();
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(clock.wall_now(), start + Duration::from_secs(5));
    /// ```
    pub fn wall_now(&self) -> SystemTime {
        self.inner.time.wall_now()
    }

    /// Sets the wall to `time`, forward or back, without moving the clock.
    ///
    /// Wakes every waiting [`WallSleep`](crate::WallSleep), on the calling thread and in the order
    /// in which they were made, to read the wall time again. May be called from a waker.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use tourbillon::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let start = clock.now();
    /// clock.set_wall(UNIX_EPOCH + Duration::from_secs(1_616_889_600)); // 2021-03-28, in Europe
    /// assert_eq!(clock.now(), start);
    /// ```
    pub fn set_wall(&self, time: SystemTime) {
        self.step_wall(|_| time);
    }

    /// Moves the wall time by `span`, and not the clock. This simulates a suspended machine where
    /// [`Instant`] stops in suspend (Linux, macOS). Where it continues, see [`jump`](Self::jump).
    ///
    /// Wakes as [`set_wall`](Self::set_wall) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::FutureExt;
    /// use tourbillon::{Timer, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let hour = Duration::from_secs(3600);
    /// let mut by_wall = timer.sleep_until_wall(clock.wall_now() + hour);
    /// let mut by_clock = timer.sleep(hour);
    /// clock.suspend(hour);
    /// assert!((&mut by_wall).now_or_never().is_some());
    /// assert!((&mut by_clock).now_or_never().is_none());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn suspend(&self, span: Duration) {
        self.step_wall(|wall| saturating_add(wall, span));
    }

    fn step_wall(&self, set: impl FnOnce(SystemTime) -> SystemTime) {
        let panics = self.inner.time.set_wall(set);
        if let Some(engine) = self.engine() {
            engine.count_panics(panics);
        }
    }

    /// The earliest deadline of all armed sleeps; `None` if there are none.
    pub fn next_deadline(&self) -> Option<Instant> {
        let next = self.engine()?.exact_earliest()?;
        Some(self.inner.time.line().instant(next))
    }

    /// The number of armed sleeps.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tourbillon::VirtualClock::new().pending(), 0);
    /// ```
    pub fn pending(&self) -> usize {
        self.engine().map_or(0, |engine| engine.stats().pending)
    }

    /// Runs `future` on the calling thread, and moves the clock to the next deadline whenever the
    /// future is waiting.
    ///
    /// The clock does not wait for work on other threads: a pending future is taken to wait for the
    /// next timer. If no timer is pending, this blocks until the future is woken.
    ///
    /// # Panics
    ///
    /// If it has to wait while the calling thread moves the clock, which is to say within a waker.
    /// The clock does not move on before that returns. The call that moves it catches the panic.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{Timer, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let start = clock.now();
    /// clock.block_on(async {
    ///     for _ in 0..365 {
    ///         timer.sleep(Duration::from_secs(86_400)).await;
    ///     }
    /// });
    /// assert_eq!(clock.now() - start, Duration::from_secs(365 * 86_400));
    /// # std::io::Result::Ok(())
    /// ```
    #[cfg(not(all(test, tourbillon_model)))]
    pub fn block_on<F: IntoFuture>(&self, future: F) -> F::Output {
        let mut future = pin!(future.into_future());
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            while !woken.take() {
                assert!(
                    !self.inner.time.is_moved_here(),
                    "a waker waits for the clock that runs it"
                );
                if self.advance_to_next().is_none() {
                    woken.wait();
                }
            }
        }
    }

    fn engine(&self) -> Option<&Arc<Engine>> {
        self.inner.engine.get().map(Engine::current)
    }

    pub(crate) fn time(&self) -> Arc<VirtualTime> {
        Arc::clone(&self.inner.time)
    }

    /// Makes the clock that of `engine`; false if it has one.
    pub(crate) fn attach(&self, engine: &Arc<Engine>) -> bool {
        self.inner.engine.set(Arc::clone(engine)).is_ok()
    }

    fn move_to(&self, goal: impl FnOnce(Tick) -> Tick) -> usize {
        self.inner.time.reach(goal, |goal| self.step_to(goal))
    }

    /// Goes from deadline to deadline up to `goal`. One thread at a time.
    fn step_to(&self, goal: Tick) -> usize {
        let time = &self.inner.time;
        let Some(engine) = self.engine() else {
            time.move_to(goal);
            return 0;
        };
        let mut batch = WakeBatch::new();
        let mut fired = 0;
        loop {
            while let Some(next) = engine.exact_earliest().filter(|next| *next <= goal) {
                time.move_to(next);
                let now = time.now();
                let pass = engine.pass(now, &mut batch);
                pass.report(now, engine.clock(), None);
                fired += pass.fired;
            }
            // The last step is scanned after as well, since another thread may have armed a timer
            // between the scan before and the move; see `Engine::catch_up`.
            if time.now() >= goal {
                return fired;
            }
            time.move_to(goal);
        }
    }
}

impl fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = self.inner.time.now().since(Tick::ORIGIN);
        f.debug_struct("VirtualClock").field("elapsed", &elapsed).finish_non_exhaustive()
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

/// The waker of [`VirtualClock::block_on`].
#[cfg(not(all(test, tourbillon_model)))]
#[derive(Debug, Default)]
struct Woken {
    flag: Mutex<bool>,
    raised: Condvar,
}

#[cfg(not(all(test, tourbillon_model)))]
impl Woken {
    fn take(&self) -> bool {
        std::mem::take(&mut *lock(&self.flag))
    }

    /// Waits until the flag is raised, and leaves it so.
    fn wait(&self) {
        let mut flag = lock(&self.flag);
        while !*flag {
            flag = wait(&self.raised, flag);
        }
    }
}

#[cfg(not(all(test, tourbillon_model)))]
impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *lock(&self.flag) = true;
        self.raised.notify_one();
    }
}
