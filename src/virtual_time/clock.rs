//! [`VirtualClock`]: time that moves only when it is moved.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::iter;
use std::mem;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::{VirtualTime, saturating_add};
use crate::engine::{Engine, Limits, SharedEngine, WakeBatch, mixed};
use crate::sync::{Arc, SetOnce, StdArc};
use crate::tick::Tick;
use crate::time::{Instant, SystemTime};
use crate::virtual_time::hold::{Hold, Holds, Tracked};
use crate::virtual_time::spawn::{self, Spawned, Task};

/// A clock that stands still until it is moved, for simulations and for tests that do not wait for
/// real time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use futures::task::LocalSpawnExt;
/// use tourbillon::Timer;
/// use tourbillon::virtual_time::VirtualClock;
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
///
/// # Details
///
/// A clock belongs to one timer, set with
/// [`Builder::virtual_clock`](crate::timer::Builder::virtual_clock). Nothing is global, so tests
/// with their own clocks run side by side, on any executor and from any thread. Its instants are
/// ordinary [`Instant`]s, counted from the moment the clock was made.
///
/// Moving the clock fires the timers that are due. [`advance`](Self::advance) stops at each
/// deadline in turn, sets the clock to it, and wakes its sleeps. Equal deadlines are woken in the
/// order they were set in, within one shard; a timer on a virtual clock has one shard by default.
///
/// The clock moves by itself only in [`block_on`](Self::block_on).
///
/// A waker or a callback may move clocks: its own, and other timers'. It never waits for another
/// thread that moves one, since that thread's wakers may move clocks too: instead it adds its span
/// to that thread's move and returns. So clocks whose wakers advance each other, on any threads,
/// reach their targets.
///
/// Clones are the same clock.
#[derive(Clone)]
pub struct VirtualClock {
    inner: Arc<Inner>,
}

struct Inner {
    time: Arc<VirtualTime>,
    engine: SetOnce<SharedEngine>,
    holds: Holds,
    /// Seed of the order of equal deadlines.
    seed: Option<u64>,
    /// Clock that moves this one, if it is a node.
    leader: Option<VirtualClock>,
    /// Timers of its nodes.
    nodes: SetOnce<Box<Node>>,
}

/// The timer of a node, in a list that only grows, so that a child process needs no lock for it.
struct Node {
    time: Arc<VirtualTime>,
    engine: SharedEngine,
    next: SetOnce<Box<Node>>,
}

impl Drop for Node {
    /// One after the other: a long list would take much of the stack.
    #[inline]
    fn drop(&mut self) {
        let mut rest = mem::replace(&mut self.next, SetOnce::new());
        while let Some(node) = rest.get_mut() {
            rest = mem::replace(&mut node.next, SetOnce::new());
        }
    }
}

/// The earliest deadline of one timer.
struct NextTimer<'a> {
    /// Its tick by the clock that is moved.
    at: Tick,
    /// Deadline by the timer's own clock.
    deadline: Tick,
    /// Its turn among equal ones.
    turn: u64,
    time: &'a VirtualTime,
    engine: &'a Engine,
}

impl VirtualClock {
    /// Creates a clock that shows the present instant, and stands still.
    #[inline]
    pub fn new() -> Self {
        Self::with(None)
    }

    /// Creates a clock that wakes timers with equal deadlines in an order by `seed`, in place of
    /// the order they were set in. So a simulation finds code that relies on their order, and finds
    /// it again with the same seed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// fn order(seed: u64) -> Vec<u32> {
    ///     let clock = VirtualClock::seeded(seed);
    ///     let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    ///     let (tell, order) = mpsc::channel();
    ///     for n in 0..10 {
    ///         let tell = tell.clone();
    ///         timer.sleep(Duration::from_secs(1)).call(move || tell.send(n).unwrap()).detach();
    ///     }
    ///     clock.advance(Duration::from_secs(1));
    ///     order.try_iter().collect()
    /// }
    ///
    /// assert_eq!(order(7), order(7));
    /// assert_ne!(order(7), order(8));
    /// ```
    ///
    /// # Details
    ///
    /// The order depends on the seed, on how far the clock has moved, and on the order the timers
    /// were set in: neither on addresses nor on real time. So the same program with the same seed
    /// has the same order, on one thread and with one shard, the default. Different deadlines keep
    /// their order.
    #[inline]
    pub fn seeded(seed: u64) -> Self {
        Self::with(Some(seed))
    }

    #[inline]
    fn with(seed: Option<u64>) -> Self {
        Self::of(VirtualTime::new(), Holds::new(), seed, None)
    }

    #[inline]
    fn of(time: VirtualTime, holds: Holds, seed: Option<u64>, leader: Option<Self>) -> Self {
        let (time, engine, nodes) = (Arc::new(time), SetOnce::new(), SetOnce::new());
        Self { inner: Arc::new(Inner { time, engine, holds, seed, leader, nodes }) }
    }

    /// Creates a node: a clock that is moved by this one and drifts. It gains `drift_ppm`
    /// nanoseconds in each millisecond, or loses them. For a simulation of machines, each with a
    /// timer on a clock of its own.
    ///
    /// # Examples
    ///
    /// A lease is not used for longer than it is granted, though both clocks drift:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::future::join;
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let world = VirtualClock::new();
    /// let [grants, holds] = [200, -200].map(|drift_ppm| {
    ///     Timer::builder().virtual_clock(&world.node(drift_ppm)).build().unwrap()
    /// });
    /// let start = world.now();
    /// let lease = Duration::from_secs(10);
    /// let margin = lease / 1000; // for twice 500 ppm
    /// let (ended_at, unused_at) = world.block_on(join(
    ///     async { grants.sleep(lease).await; world.now() },
    ///     async { holds.sleep(lease - margin).await; world.now() },
    /// ));
    /// assert!(unused_at < ended_at);
    /// assert!(ended_at - start < lease); // by the world's clock
    /// ```
    ///
    /// # Details
    ///
    /// A node begins at the present of this clock, and counts whole nanoseconds. A timer on it
    /// fires as the node's clock comes to the deadline, in the very nanosecond of this clock,
    /// however far both have gone. Durations and instants at the node are by its clock. Its wall
    /// drifts along; [`set_wall`](Self::set_wall) gives it an offset.
    ///
    /// To move either clock moves both, and all other nodes, to each deadline in turn. Timers that
    /// are due in one nanosecond of this clock fire clock by clock: this clock's, then the nodes'
    /// in the order in which their timers were built; or in an order by the [seed](Self::seeded).
    /// This clock's [`next_deadline`](Self::next_deadline) and [`pending`](Self::pending) cover all
    /// timers, a node's its own timer. [Holds](Self::hold) are shared. A node of a node is another
    /// node of this clock.
    ///
    /// The timer of a node stays with this clock, and each move looks at it. So let a machine that
    /// starts again have its old timer.
    ///
    /// # Panics
    ///
    /// If the clock would stand still or run back, at -1,000,000 or less.
    #[inline]
    pub fn node(&self, drift_ppm: i32) -> Self {
        let leader = self.leader();
        let Inner { time, holds, seed, .. } = &*leader.inner;
        Self::of(VirtualTime::node(time, drift_ppm), holds.clone(), *seed, Some(leader.clone()))
    }

    /// The clock that is moved.
    #[inline]
    fn leader(&self) -> &Self {
        self.inner.leader.as_ref().unwrap_or(self)
    }

    /// The instant that the clock shows.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let start = clock.now();
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(clock.now() - start, Duration::from_secs(5));
    /// ```
    #[inline]
    pub fn now(&self) -> Instant {
        self.inner.time.line().instant(self.inner.time.now())
    }

    /// Moves the clock by `span` and fires the timers due on the way. Returns how many fired.
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
    /// let mut sleep = timer.sleep(Duration::from_secs(60));
    /// assert!((&mut sleep).now_or_never().is_none());
    /// assert_eq!(clock.advance(Duration::from_secs(90)), 1);
    /// assert!((&mut sleep).now_or_never().is_some());
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// The clock stops at each deadline in turn, and shows it while that deadline's wakers run, on
    /// the calling thread. A waker only marks its task as ready. For a task to run *at* its
    /// deadline, and arm its next timer from there, let its executor run between two calls, or use
    /// [`block_on`](Self::block_on).
    ///
    /// If another thread calls this at the same time, it adds its span and waits until the clock
    /// has come that far. Called from a waker while the clock is moved, by the call that runs the
    /// waker or by another thread, it adds the span and returns 0 at once; the call that moves the
    /// clock moves it on. The clock stops at the end of the time line, some 438 years away.
    #[inline]
    pub fn advance(&self, span: Duration) -> usize {
        self.move_to(|goal| goal.saturating_add(span)).unwrap_or(0)
    }

    /// Moves the clock by `span`, and calls `run` at each stop: first where the clock is, and then
    /// at each deadline on the way, after it has fired. Returns how many timers fired.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::executor::LocalPool;
    /// use futures::task::LocalSpawnExt;
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let mut pool = LocalPool::new();
    /// let task = async move {
    ///     for _ in 0..60 {
    ///         timer.sleep(Duration::from_secs(1)).await; // from the deadline before
    ///     }
    /// };
    /// let task = pool.spawner().spawn_local_with_handle(task).unwrap();
    /// assert_eq!(clock.advance_with(Duration::from_secs(60), || pool.run_until_stalled()), 60);
    /// pool.run_until(task);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// `run` is to run the ready tasks, as an executor's `run_until_stalled` does. So tasks run
    /// *at* their deadlines, and the timers that they arm on the way are fired too.
    ///
    /// # Panics
    ///
    /// If it is called while another call moves the clock: within a waker, and within a waker of
    /// another timer for a clock that another thread moves.
    #[inline]
    pub fn advance_with(&self, span: Duration, run: impl FnMut()) -> usize {
        self.move_with(self.inner.time.now().saturating_add(span), run)
    }

    /// Moves the clock to `instant`, unless it has passed that, and calls `run` at each stop; see
    /// [`advance_with`](Self::advance_with).
    ///
    /// # Panics
    ///
    /// Panics as [`advance_with`](Self::advance_with) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let noon = clock.now() + Duration::from_secs(43_200);
    /// clock.advance_to_with(noon, || {});
    /// assert_eq!(clock.now(), noon);
    /// ```
    #[inline]
    pub fn advance_to_with(&self, instant: Instant, run: impl FnMut()) -> usize {
        self.move_with(self.inner.time.line().tick(instant), run)
    }

    #[inline]
    fn move_with(&self, goal: Tick, mut run: impl FnMut()) -> usize {
        let (leader, goal) = (self.leader(), self.inner.time.leaders(goal.min(Tick::LAST)));
        let mut fired = 0;
        loop {
            run();
            let next = leader.earliest(goal).map(|due| due.at);
            let moved = leader.move_to(|_| next.unwrap_or(goal));
            fired += moved.expect("a waker waits for a clock that another call moves");
            if next.is_none() {
                return fired;
            }
        }
    }

    /// Moves the clock to the [next deadline](Self::next_deadline) and fires the timers due there.
    /// Returns that instant, or `None` if nothing is pending; then the clock does not move.
    ///
    /// Called from a waker while the clock is moved, it leaves that to the call that moves it, as
    /// [`advance`](Self::advance) does.
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
    /// assert_eq!(clock.advance_to_next(), None);
    ///
    /// let mut sleep = timer.sleep(Duration::from_secs(3600));
    /// assert!((&mut sleep).now_or_never().is_none());
    /// assert_eq!(clock.advance_to_next(), Some(sleep.deadline()));
    /// assert!((&mut sleep).now_or_never().is_some());
    /// # std::io::Result::Ok(())
    /// ```
    #[inline]
    pub fn advance_to_next(&self) -> Option<Instant> {
        let (next, _) = self.move_to_next()?;
        Some(self.inner.time.line().instant(next))
    }

    /// Moves the clock by `span` at once and fires nothing. This simulates a starved driver, or a
    /// suspended machine where [`Instant`] continues in suspend. For one where `Instant` stops, see
    /// [`suspend`](Self::suspend).
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
    /// let mut sleep = timer.sleep(Duration::from_secs(1));
    /// assert!((&mut sleep).now_or_never().is_none());
    /// clock.jump(Duration::from_secs(60));
    /// assert_eq!(clock.advance(Duration::ZERO), 1);
    /// assert_eq!(timer.stats().lateness_max, Duration::from_secs(59));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// The wall time moves too. To keep it, [set](Self::set_wall) it back afterwards. Called from a
    /// waker while another call moves the clock, it starts from the end of that move.
    ///
    /// A sleep that is polled afterwards sees the new time. The other sleeps fire late: when the
    /// clock is next advanced, even by zero, or when a [`Driver`](crate::driver::Driver) turns,
    /// whose hook this calls.
    #[inline]
    pub fn jump(&self, span: Duration) {
        self.inner.time.jump(span);
        self.leader().timers().for_each(|(_, engine)| engine.notify_driver());
    }

    /// The wall time that goes with [`now`](Self::now).
    ///
    /// The wall clock starts at 2000-01-01 00:00:00 UTC and moves with the clock.
    /// [`set_wall`](Self::set_wall) and [`suspend`](Self::suspend) move it alone.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let start = clock.wall_now();
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(clock.wall_now(), start + Duration::from_secs(5));
    /// ```
    #[inline]
    pub fn wall_now(&self) -> SystemTime {
        self.inner.time.wall_now()
    }

    /// Sets the wall to `time`, forward or back, without moving the clock.
    ///
    /// Wakes every waiting [`WallSleep`](crate::wall::WallSleep), on the calling thread and in the
    /// order they were made in, to read the wall time again. May be called from a waker.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let start = clock.now();
    /// clock.set_wall(UNIX_EPOCH + Duration::from_secs(1_616_889_600)); // 2021-03-28, in Europe
    /// assert_eq!(clock.now(), start);
    /// ```
    #[inline]
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
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
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
    #[inline]
    pub fn suspend(&self, span: Duration) {
        self.step_wall(|wall| saturating_add(wall, span));
    }

    #[inline]
    fn step_wall(&self, set: impl FnOnce(SystemTime) -> SystemTime) {
        let panics = self.inner.time.set_wall(set);
        if let Some(engine) = self.engine() {
            engine.count_panics(panics);
        }
    }

    /// The earliest deadline of all armed sleeps, or with a
    /// [tolerance](crate::timer::Builder::tolerance) the end of its window; `None` if there are
    /// none.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        Some(self.inner.time.line().instant(self.next()?))
    }

    #[inline]
    fn next(&self) -> Option<Tick> {
        let due = self.earliest(Tick::LAST)?;
        Some(if self.inner.leader.is_some() { due.deadline } else { due.at })
    }

    /// The number of armed sleeps.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tourbillon::virtual_time::VirtualClock::new().pending(), 0);
    /// ```
    #[inline]
    pub fn pending(&self) -> usize {
        self.timers().map(|(_, engine)| engine.stats().pending).sum()
    }

    /// Runs `future` on the calling thread, and moves the clock to the next deadline whenever the
    /// future is waiting.
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
    /// let start = clock.now();
    /// clock.block_on(async {
    ///     for _ in 0..365 {
    ///         timer.sleep(Duration::from_secs(86_400)).await;
    ///     }
    /// });
    /// assert_eq!(clock.now() - start, Duration::from_secs(365 * 86_400));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// The clock does not see work on other threads: a pending future is taken to wait for the next
    /// timer, unless the clock is [held](Self::hold). While it is, and if no timer is pending, this
    /// blocks until the future is woken or the last hold has gone.
    ///
    /// The future may also await timers in real time, such as timers made by the functions at the
    /// root. Their deadlines are not on this clock, which meanwhile moves past all that are. The
    /// guide to [tests](crate::guide::testing#calls-that-stay-in-real-time) shows how to find an
    /// unintended one.
    ///
    /// # Panics
    ///
    /// If it has to wait while the calling thread moves the clock, that is, within a waker. The
    /// clock does not move on before that returns. And if it has to wait, within a waker of another
    /// timer, for a thread that moves the clock. The driver that runs the waker catches the panic,
    /// and counts it in [`Stats::waker_panics`](crate::stats::Stats::waker_panics).
    #[inline]
    pub fn block_on<F: IntoFuture>(&self, future: F) -> F::Output {
        let mut future = pin!(future.into_future());
        let woken = self.inner.holds.woken();
        let waker = Waker::from(StdArc::clone(&woken));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            while !woken.take() {
                assert!(
                    !self.inner.time.is_moved_here(),
                    "a waker waits for the clock that runs it"
                );
                let Some(ended) = woken.wait(None) else { break };
                if let Some((_, moved)) = self.leader().move_to_next() {
                    assert!(moved.is_some(), "a waker waits for a clock that another thread moves");
                } else if woken.wait(Some(ended)).is_none() {
                    break;
                }
            }
        }
    }

    /// Keeps [`block_on`](Self::block_on) from moving the clock until the [`Hold`] is dropped, on
    /// whichever thread. For work on other threads: the clock cannot see it. Holds add up.
    ///
    /// # Examples
    ///
    /// An hour's limit does not pass while a thread works for some milliseconds:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::channel::oneshot;
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let (send, answer) = oneshot::channel();
    /// let hold = clock.hold();
    /// std::thread::spawn(move || {
    ///     std::thread::sleep(Duration::from_millis(5));
    ///     send.send(42).unwrap();
    ///     drop(hold);
    /// });
    /// let limit = Duration::from_secs(3600);
    /// assert_eq!(clock.block_on(timer.timeout(limit, answer)), Ok(Ok(42)));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// Calls that move the clock by hand, such as [`advance`](Self::advance), do so all the same. A
    /// move that is under way continues to its deadline.
    ///
    /// Drop the hold after the work has sent its result, which wakes the receiver. Do not rely on
    /// joining the task or thread: the joiner is woken only after its locals are dropped, and the
    /// clock may move in between.
    ///
    /// If a hold is never dropped, `block_on` runs for as long as its future is woken, and then
    /// blocks for good. `Debug` of the clock shows how many there are.
    #[inline]
    pub fn hold(&self) -> Hold {
        self.inner.holds.hold()
    }

    /// Makes a future, to be run by another executor, that [holds](Self::hold) the clock while it
    /// can run: from now until its first poll returns, and from each wake-up until the poll that
    /// follows returns. If all tasks are tracked, the clock moves only when all of them wait.
    /// [`spawn`](Self::spawn) does this, and sends the task's output in time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::channel::oneshot;
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let (send, answer) = oneshot::channel();
    /// let nap = timer.sleep(Duration::from_secs(60));
    /// let task = async move {
    ///     nap.await;
    ///     send.send("rested").unwrap();
    /// };
    /// smol::spawn(clock.track(task)).detach();
    /// assert_eq!(clock.block_on(answer), Ok("rested"));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// These count as waiting, so [hold](Self::hold) the clock meanwhile:
    ///
    /// - a task that waits for something other than this clock's timers and tracked tasks, such as
    ///   a socket;
    /// - a task that has ended, until its executor has woken the joiner;
    /// - a task that the executor wakes later, for instance after `tokio::task::yield_now`.
    #[inline]
    pub fn track<F: IntoFuture>(&self, future: F) -> Tracked<F::IntoFuture> {
        Tracked::new(future.into_future(), &self.inner.holds)
    }

    /// Has an executor run `future` as a task of its own, [tracked](Self::track), and returns a
    /// future of the task's output. `spawn` is the executor's function, such as `tokio::spawn`.
    ///
    /// # Examples
    ///
    /// Two tasks on threads of tokio's, and a limit that they meet exactly:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::future::join_all;
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    /// let _context = runtime.enter();
    /// let start = clock.now();
    /// let outputs = [1, 2].map(|minutes| {
    ///     let timer = timer.clone();
    ///     clock.spawn(tokio::spawn, async move {
    ///         for _ in 0..minutes {
    ///             timer.sleep(Duration::from_secs(60)).await;
    ///         }
    ///         minutes
    ///     })
    /// });
    /// let limit = Duration::from_secs(120) + Duration::from_nanos(1);
    /// assert_eq!(clock.block_on(timer.timeout(limit, join_all(outputs))), Ok(vec![1, 2]));
    /// assert_eq!(clock.now() - start, Duration::from_secs(120));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// The output is sent while the clock is held, so a task that waits for it runs before the
    /// clock moves. Executors wake who joins a task only after that.
    #[inline]
    pub fn spawn<F, S, R>(
        &self,
        spawn: S,
        future: F,
    ) -> Spawned<<F::IntoFuture as Future>::Output, R>
    where
        F: IntoFuture,
        S: FnOnce(Task<F::IntoFuture>) -> R,
    {
        spawn::spawn(&self.inner.holds, future.into_future(), spawn)
    }

    #[inline]
    fn engine(&self) -> Option<&Engine> {
        self.inner.engine.get().map(|engine| engine.current())
    }

    #[inline]
    pub(crate) fn time(&self) -> Arc<VirtualTime> {
        Arc::clone(&self.inner.time)
    }

    /// Makes the clock that of `engine`; false if it has one.
    #[inline]
    pub(crate) fn attach(&self, engine: &SharedEngine) -> bool {
        if self.inner.engine.set(Arc::clone(engine)).is_err() {
            return false;
        }
        if let Some(leader) = &self.inner.leader {
            let (time, engine) = (self.time(), Arc::clone(engine));
            let mut node = Box::new(Node { time, engine, next: SetOnce::new() });
            let mut end = &leader.inner.nodes;
            while let Err(refused) = end.set(node) {
                node = refused;
                end = &end.get().expect("it is set").next;
            }
        }
        true
    }

    /// The timers that go by this clock: its own, and its nodes'.
    #[inline]
    fn timers(&self) -> impl Iterator<Item = (&VirtualTime, &Engine)> {
        let own = self.engine().map(|engine| (&*self.inner.time, engine));
        let nodes = iter::successors(self.inner.nodes.get(), |node| node.next.get());
        own.into_iter().chain(nodes.map(|node| (&*node.time, node.engine.current())))
    }

    /// Finds the timer that is due first, until `last` by the clock that is moved.
    #[inline]
    fn earliest<'a>(&'a self, last: Tick) -> Option<NextTimer<'a>> {
        let due = |(place, (time, engine)): (u64, (&'a VirtualTime, &'a Engine))| {
            let deadline = engine.exact_earliest(time.own(last))?;
            let at = time.leaders(deadline);
            let turn = self.inner.seed.map_or(place, |seed| mixed(seed ^ at.raw() ^ mixed(place)));
            Some(NextTimer { at, deadline, turn, time, engine })
        };
        (0..).zip(self.timers()).filter_map(due).min_by_key(|due| (due.at, due.turn))
    }

    /// The next deadline, and what [`move_to`](Self::move_to) there returned.
    #[inline]
    fn move_to_next(&self) -> Option<(Tick, Option<usize>)> {
        let next = self.next()?;
        Some((next, self.move_to(|_| next)))
    }

    /// Moves on to a goal, never back. `None` if that is left to the thread that moves the clock.
    #[inline]
    fn move_to(&self, goal: impl FnOnce(Tick) -> Tick) -> Option<usize> {
        let leader = self.leader();
        let goal = |before| self.inner.time.goal(before, goal);
        leader.inner.time.reach(goal, |goal| leader.step_to(goal))
    }

    /// Goes from deadline to deadline up to `goal`. One thread at a time. Not of a node.
    #[inline]
    fn step_to(&self, goal: Tick) -> usize {
        let time = &self.inner.time;
        let mut batch = WakeBatch::new();
        let mut fired = 0;
        loop {
            // Asked for anew each time: a waker may have forked, and this be the child.
            while let Some(due) = self.earliest(goal) {
                time.move_to(due.at);
                let now = due.time.now();
                batch.seed(self.inner.seed.map(|seed| seed ^ now.nanos_since(Tick::ORIGIN)));
                let pass = due.engine.pass(0, now, &mut batch, Limits::NONE);
                pass.report(due.engine.clock(), None);
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
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = self.inner.time.now().since(Tick::ORIGIN);
        f.debug_struct("VirtualClock")
            .field("elapsed", &elapsed)
            .field("holds", &self.inner.holds.count())
            .finish_non_exhaustive()
    }
}

impl Default for VirtualClock {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}
