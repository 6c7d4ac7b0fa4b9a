//! Timers in components for WASI 0.3, without a loop of one's own.
//!
//! An export, or a task that it spawns, runs in a [`scope`]. There [`tourbillon::sleep`] and the
//! like work, in each library too:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use tourbillon::sleep;
//!
//! /// A library's function, which takes no timer.
//! async fn library() {
//!     sleep(Duration::from_millis(5)).await;
//! }
//!
//! struct Program;
//!
//! wasip3::cli::command::export!(Program);
//!
//! impl wasip3::exports::cli::run::Guest for Program {
//!     async fn run() -> Result<(), ()> {
//!         tourbillon_wasip3::scope(library()).await;
//!         Ok(())
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! # How it waits
//!
//! In WASI 0.3 a wait of the host's belongs to the task of the component model that began it, and
//! a task cannot wake another. So each scope has a timer of its own, and drives it when polled:
//!
//! - It waits for one subtask of the host's, that of the earliest deadline, however many sleep.
//! - Nothing is spawned, so an export returns as soon as its future is done. A scope that
//!   is dropped, because the host cancels its export, takes its wait back.
//! - Hosts may end a wait early. Sleeps read the clock, and the scope then waits again.
//!
//! Two other ways were turned down. A driver task by `spawn_local` would keep the export from
//! returning. A wait of the host's for each sleep would let one timer serve all tasks; but only
//! sleeps that move between tasks need that, and their other wake-ups need the feature below.
//!
//! # Spawned tasks
//!
//! Each is to have a scope of its own, made by its own task:
//! `wit_bindgen::spawn_local(tourbillon_wasip3::scope(task))`. A sleep of one scope may be awaited
//! beside it, in the same task of the component model. In another task the wake-up is one between
//! two tasks: with wit-bindgen's feature `inter-task-wakeup`, else it panics.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use pin_project_lite::pin_project;
use tourbillon::Timer;
use tourbillon::driver::{DriverTask, Runtime};
use tourbillon::timer::Scoped;
use wasip3::clocks::monotonic_clock::wait_for;

/// Runs `future` with a timer of its own, the current one within.
///
/// [`Timer::current`] is that timer, for futures that are polled elsewhere. [`Timer::scope`] says
/// how far a scope reaches.
///
/// # Panics
///
/// A poll that has to wait panics outside of a task of the component model, like each wait of
/// wit-bindgen's. So does a sleep of this timer once the scope is gone.
///
/// # Cancel safety
///
/// Dropping the scope drops `future`, and then the wait. Sleeps of the timer that are left
/// elsewhere are woken.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// use tourbillon::timeout;
///
/// # async fn answer() {}
/// # async fn export() {
/// let limit = Duration::from_secs(1);
/// let answered = tourbillon_wasip3::scope(async { timeout(limit, answer()).await }).await;
/// assert!(answered.is_ok());
/// # }
/// ```
pub fn scope<F: IntoFuture>(future: F) -> Scope<F::IntoFuture> {
    let link = Arc::new(Link::default());
    let runtime = Host { link: Arc::clone(&link) };
    let timer = Timer::builder().build_on(runtime).expect("the options are the default ones");
    Scope { future: timer.scope(future), driver: None, link }
}

pin_project! {
    /// The future of [`scope`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Scope<F> {
        #[pin]
        future: Scoped<F>,
        #[pin]
        driver: Option<DriverTask<Host>>,
        link: Arc<Link>,
    }

    impl<F> PinnedDrop for Scope<F> {
        fn drop(this: Pin<&mut Self>) {
            this.link.end();
        }
    }
}

impl<F: Future> Future for Scope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        this.link.begin_poll();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(output);
        }
        // After the future: it may have armed an earlier timer.
        let (started, woken) = this.link.take_work();
        if started.is_some() {
            this.driver.set(started);
        }
        if woken {
            let waker = Waker::from(Arc::clone(this.link));
            if let Some(driver) = this.driver.as_mut().as_pin_mut() {
                if driver.poll(&mut Context::from_waker(&waker)).is_ready() {
                    this.driver.set(None);
                }
            }
        }
        this.link.end_poll(cx.waker());
        Poll::Pending
    }
}

impl<F> fmt::Debug for Scope<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("driver", &self.driver).finish_non_exhaustive()
    }
}

/// State that a scope shares with its timer: a driver on its way there, and a waker.
#[derive(Default)]
struct Link(Mutex<State>);

#[derive(Default)]
struct State {
    /// A driver that was started, for the next poll of the scope.
    started: Option<DriverTask<Host>>,
    /// True if the driver is to be polled.
    woken: bool,
    /// The waker of the scope; `None` while it is polled, and before its first poll.
    waker: Option<Waker>,
    /// True once the scope is gone.
    is_over: bool,
}

impl Link {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the scope is polled: wake-ups from here on need not wake its task.
    fn begin_poll(&self) {
        let waker = self.state().waker.take();
        drop(waker);
    }

    /// Returns a driver that was started, and whether one is to be polled.
    fn take_work(&self) -> (Option<DriverTask<Host>>, bool) {
        let mut state = self.state();
        (state.started.take(), mem::take(&mut state.woken))
    }

    /// Keeps the waker of the poll that ends, or wakes it if there is work again.
    fn end_poll(&self, waker: &Waker) {
        let kept = waker.clone();
        let mut state = self.state();
        if state.woken {
            drop(state);
            kept.wake();
        } else {
            state.waker = Some(kept);
        }
    }

    /// Wakes the scope, unless it is polled, to poll its driver.
    fn call(&self, mut state: MutexGuard<'_, State>) {
        state.woken = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        let left = (state.started.take(), state.waker.take());
        drop(state);
        drop(left);
    }
}

impl Wake for Link {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.call(self.state());
    }
}

/// The host, for the wait of a scope.
struct Host {
    link: Arc<Link>,
}

impl Runtime for Host {
    type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wait_until(&self, deadline: Instant) -> Self::Wait {
        let left = deadline.saturating_duration_since(Instant::now());
        // After 584 years another wait follows.
        Box::pin(wait_for(left.as_nanos().try_into().unwrap_or(u64::MAX)))
    }

    fn spawn(&self, task: DriverTask<Self>) -> io::Result<()> {
        let mut state = self.link.state();
        if state.is_over {
            drop(state);
            return Err(io::Error::other("the scope of its timer is gone"));
        }
        let old = state.started.replace(task);
        debug_assert!(old.is_none(), "the engine starts another once this has ended");
        self.link.call(state);
        Ok(())
    }
}
