//! A driver that is a task of a runtime: [`Runtime`], and the [`DriverTask`] that it runs.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::engine::{
    DrivenBy, Engine, Host, Limits, Pass, Plan, Scanned, Scanner, SharedEngine, StartTask,
    TaskDriver, WakeBatch,
};
use crate::sync::unmodelled::AtomicU8;
use crate::sync::{Arc, Ordering, StdArc, lock};
use crate::tick::Tick;
use crate::time::Instant;

/// Parts of a pass, of one lock each, after which other tasks of the runtime have their turn.
const PARTS: u32 = 64;

/// A runtime that drives a timer by a task of its own, in its own time.
///
/// # Examples
///
/// Tasks of smol's global executor, on a thread of their own:
///
/// ```
/// use std::io;
/// use std::pin::Pin;
/// use std::time::{Duration, Instant};
///
/// use tourbillon::Timer;
/// use tourbillon::driver::{DriverTask, Runtime};
///
/// struct Smol;
///
/// impl Runtime for Smol {
///     type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;
///
///     fn now(&self) -> Instant {
///         Instant::now()
///     }
///
///     fn wait_until(&self, deadline: Instant) -> Self::Wait {
///         Box::pin(async move { drop(smol::Timer::at(deadline).await) })
///     }
///
///     fn spawn(&self, task: DriverTask<Self>) -> io::Result<()> {
///         smol::spawn(task).detach();
///         Ok(())
///     }
/// }
///
/// let timer = Timer::builder().build_on(Smol)?;
/// pollster::block_on(timer.sleep(Duration::from_millis(1)));
/// # io::Result::Ok(())
/// ```
///
/// # Details
///
/// [`Builder::build_on`](crate::timer::Builder::build_on) makes such a timer. It has no thread. The
/// first poll that waits has the runtime start a [`DriverTask`], which ends with the last armed
/// sleep; the next has another started. For simulations, whose clock is theirs, and for hosts whose
/// waits are their own.
///
/// If the task is dropped before, at the runtime's end, all sleeps that wait are woken. Their next
/// poll that has to wait has another task started, and panics if there can be none.
pub trait Runtime: Send + Sync + Sized + 'static {
    /// A future that is ready at an instant.
    type Wait: Future<Output = ()>;

    /// Returns the present instant, by the clock of the runtime.
    ///
    /// Called in most polls, from any thread, and with locks of the timer held where its timers are
    /// listed (feature `pending`). Must not use the timer.
    fn now(&self) -> Instant;

    /// Makes a wait that ends once [`now`](Self::now) shows `deadline`. If it ends before, another
    /// follows.
    ///
    /// Called by the task, and dropped there: when an earlier timer is armed, and when the last is
    /// cancelled.
    fn wait_until(&self, deadline: Instant) -> Self::Wait;

    /// Starts `task` on the runtime. Called in a poll of a sleep or in
    /// [`Timer::start`](crate::Timer::start), on its thread. Must not use the timer.
    ///
    /// # Errors
    ///
    /// If the runtime runs no more tasks. The poll panics with the error, and `Timer::start`
    /// returns it. A runtime may drop the task instead.
    fn spawn(&self, task: DriverTask<Self>) -> io::Result<()>;
}

/// The life of a [`DriverTask`]: dropped before its start has returned, or after.
#[derive(Debug)]
struct Link(AtomicU8);

impl Link {
    const NEW: u8 = 0;
    const STARTED: u8 = 1;
    const DROPPED: u8 = 2;

    /// Says that the start has returned. False if the task was dropped before.
    fn start(&self) -> bool {
        // ORDERING: Relaxed, twice; the task's drop hands over nothing. Which of the two comes
        // first decides.
        self.0
            .compare_exchange(Self::NEW, Self::STARTED, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Says that the task is dropped. False if its start has not returned, and reports that.
    fn end(&self) -> bool {
        // ORDERING: Relaxed; as in `start`.
        self.0.swap(Self::DROPPED, Ordering::Relaxed) == Self::STARTED
    }
}

pin_project! {
    /// The driver of a timer that was made by
    /// [`Builder::build_on`](crate::timer::Builder::build_on), for [`Runtime::spawn`]. Ends when
    /// nothing is armed, so a runtime that waits for all its tasks ends too.
    ///
    /// It is `Send` if the [waits](Runtime::Wait) are. A poll fires the timers that are due, in
    /// parts; between two parts it lets other tasks run.
    #[must_use = "a runtime has to poll it"]
    pub struct DriverTask<R: Runtime> {
        engine: SharedEngine,
        runtime: StdArc<R>,
        link: StdArc<Link>,
        scanner: Scanner,
        // The tick of `wait`.
        next: Tick,
        #[pin]
        wait: Option<R::Wait>,
        // True once it is ready.
        is_over: bool,
    }

    impl<R: Runtime> PinnedDrop for DriverTask<R> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // Before anything else: it may be foreign code that ends more.
            this.wait.set(None);
            let started = this.link.end();
            if *this.is_over || !started {
                return;
            }
            if let DrivenBy::Task(task) = this.engine.driven_by() {
                task.leave();
                let mut running = lock(&task.running);
                // Under the lock: the next task overwrites it.
                this.engine.alarm().leave();
                *running = false;
                drop(running);
                this.engine.abandon();
            }
        }
    }
}

/// A task that drives an engine.
struct OnTask<'a> {
    engine: &'a Engine,
    task: &'a TaskDriver,
}

impl Host for OnTask<'_> {
    fn passed(&mut self, _: &mut WakeBatch, _: &mut Pass) {}

    fn plan(&mut self, pass: &Pass) -> Result<Plan, Scanned> {
        if self.engine.left_at_close() != Some(0) {
            return Ok(Plan::ParkUntil(pass.next));
        }
        // A wake-up in between is for nothing: either this ends, or another poll follows.
        self.task.leave();
        let mut running = lock(&self.task.running);
        if !self.engine.try_to_leave() {
            return Err(Scanned::Interrupted);
        }
        *running = false;
        Err(Scanned::Ended)
    }
}

impl<R: Runtime> Future for DriverTask<R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let engine = Arc::clone(&self.engine);
        let DrivenBy::Task(task) = engine.driven_by() else { return Poll::Ready(()) };
        task.keep_waker(cx.waker());
        engine.count_wakeup();
        let mut this = self.project();
        let mut host = OnTask { engine: &engine, task };
        match this.scanner.scan(&engine, Limits { until: None, parts: PARTS }, &mut host) {
            Scanned::CutShort(_) | Scanned::Interrupted => cx.waker().wake_by_ref(),
            Scanned::Ended => {
                *this.is_over = true;
                return Poll::Ready(());
            }
            Scanned::Planned(plan) => {
                let next = plan.end();
                if *this.next != next {
                    *this.next = next;
                    let wait = this.runtime.wait_until(engine.clock().instant(next));
                    this.wait.set(Some(wait));
                }
                let ends =
                    this.wait.as_mut().as_pin_mut().is_some_and(|wait| wait.poll(cx).is_ready());
                if ends {
                    // The next pass fires the timers that are due, and makes a new wait.
                    *this.next = Tick::NEVER;
                    this.wait.set(None);
                    cx.waker().wake_by_ref();
                }
            }
        }
        Poll::Pending
    }
}

/// Returns how `runtime` starts a task that drives an engine.
pub(crate) fn starting<R: Runtime>(runtime: StdArc<R>) -> StdArc<StartTask> {
    StdArc::new(move |engine: &SharedEngine| {
        let link = StdArc::new(Link(AtomicU8::new(Link::NEW)));
        runtime.spawn(DriverTask {
            engine: Arc::clone(engine),
            runtime: StdArc::clone(&runtime),
            link: StdArc::clone(&link),
            scanner: Scanner::new(WakeBatch::new()),
            next: Tick::NEVER,
            wait: None,
            is_over: false,
        })?;
        let gone = || io::Error::other("the runtime has dropped the task that is the driver");
        link.start().then_some(()).ok_or_else(gone)
    })
}

impl<R: Runtime> fmt::Debug for DriverTask<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverTask").field("engine", &self.engine).finish_non_exhaustive()
    }
}
