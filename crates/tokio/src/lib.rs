//! Timers on a tokio runtime: [`drive()`] has it turn a timer in its own park, and [`timer`]
//! makes one in its time, for tests in paused time and for simulations.
//!
//! tokio's `pause`, `advance` and auto-advance, and so `#[tokio::test(start_paused = true)]` and
//! turmoil, move the clock of one runtime. A [`timer`] of this crate reads that clock, and a task
//! of that runtime drives it. So timers of both crates pass in one time:
//!
//! ```
//! use std::time::Duration;
//!
//! use tourbillon::sleep;
//!
//! /// A library's function, which takes no timer.
//! async fn retry() {
//!     sleep(Duration::from_secs(3600)).await;
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! // In a `#[tokio::test(start_paused = true)]`:
//! let start = tokio::time::Instant::now();
//! let limit = Duration::from_secs(7200);
//! let retried = tourbillon_tokio::timer().scope(retry());
//! assert!(tokio::time::timeout(limit, retried).await.is_ok());
//! assert_eq!(start.elapsed(), Duration::from_secs(3600));
//! # }
//! ```
//!
//! [`Timer::scope`] makes it the timer of code that takes none. Spawned tasks are not in the scope:
//! give each a scope of its own, or pass the timer.
//!
//! # Time
//!
//! - A poll reads the runtime's clock. So it sees an `advance` at once, whatever else has run.
//! - The task waits by tokio's sleep, rounded up to a millisecond. So auto-advance stops within a
//!   millisecond after each deadline of ours, like tokio's own; no timer is early.
//!   Deadlines within one millisecond fire in their own order, before or after tokio's in it.
//! - The task ends when no timer is armed, and the next has another spawned. So auto-advance does
//!   not stop for a cancelled timer, unless others are armed.
//! - [`Timer::now`] shows the runtime's time, and std's `Instant::now` real time. So a deadline for
//!   [`Timer::sleep_until`] is counted from `Timer::now`, or is an instant of tokio's, by
//!   `into_std`.
//! - The wall clock ([`Timer::wall_now`]) begins at the system's time, and moves with the
//!   runtime's.
//!
//! # The end of the runtime
//!
//! Waiting sleeps of such a timer are woken then, on other threads too. The next poll that has to
//! wait panics, like a poll of tokio's own sleep.
//!
//! # turmoil
//!
//! Each host of a simulation is a runtime with a clock of its own. So each makes its timer where
//! its software begins, also after a crash:
//!
//! ```
//! use std::time::Duration;
//!
//! use tourbillon::sleep;
//!
//! let mut sim = turmoil::Builder::new().build();
//! sim.client("client", async {
//!     let work = async {
//!         sleep(Duration::from_millis(50)).await;
//!         "done"
//!     };
//!     let work = tourbillon_tokio::timer().scope(work);
//!     let limit = Duration::from_secs(1);
//!     assert_eq!(tokio::time::timeout(limit, work).await, Ok("done"));
//!     Ok(())
//! });
//! sim.run().unwrap();
//! ```

#![forbid(unsafe_code)]

mod drive;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tourbillon::Timer;
use tourbillon::driver::{DriverTask, Runtime};

pub use drive::drive;

/// Tokio's message for a poll after the end of its runtime.
const GONE: &str = "A Tokio 1.x context was found, but it is being shutdown.";

/// Makes a timer in the time of the current runtime, driven by a task of it.
///
/// Each call makes another. For one with options, give a [`TokioRuntime`] to
/// [`Builder::build_on`](tourbillon::timer::Builder::build_on).
///
/// # Panics
///
/// Panics as [`TokioRuntime::current`] does.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let timer = tourbillon_tokio::timer();
/// let start = timer.now();
/// tokio::time::advance(Duration::from_secs(5)).await;
/// assert_eq!(timer.now() - start, Duration::from_secs(5));
/// # }
/// ```
#[track_caller]
#[must_use]
pub fn timer() -> Timer {
    let built = Timer::builder().build_on(TokioRuntime::current());
    built.expect("the options are the default ones")
}

/// A tokio runtime that drives a timer, for
/// [`Builder::build_on`](tourbillon::timer::Builder::build_on).
///
/// # Examples
///
/// A timer that other threads use, with a tolerance:
///
/// ```
/// use std::time::Duration;
///
/// use tourbillon::Timer;
/// use tourbillon_tokio::TokioRuntime;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
/// let tokio = TokioRuntime::of(runtime.handle().clone());
/// let timer = Timer::builder().tolerance(Duration::from_millis(1)).build_on(tokio)?;
/// pollster::block_on(timer.sleep(Duration::from_millis(1)));
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    handle: Handle,
}

impl TokioRuntime {
    /// The runtime that the caller runs on.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, and as [`of`](Self::of) does.
    #[track_caller]
    #[must_use]
    pub fn current() -> Self {
        Self::of(Handle::current())
    }

    /// The runtime of `handle`.
    ///
    /// # Panics
    ///
    /// If its time is not enabled.
    #[track_caller]
    #[must_use]
    pub fn of(handle: Handle) -> Self {
        {
            let _context = handle.enter();
            // Panics by itself, here rather than in the task.
            drop(tokio::time::sleep(Duration::ZERO));
        }
        Self { handle }
    }
}

impl Runtime for TokioRuntime {
    type Wait = tokio::time::Sleep;

    /// Reads the clock of this runtime, also on threads of others.
    fn now(&self) -> Instant {
        let _context = self.handle.enter();
        tokio::time::Instant::now().into_std()
    }

    fn wait_until(&self, deadline: Instant) -> Self::Wait {
        let _context = self.handle.enter();
        tokio::time::sleep_until(deadline.into())
    }

    fn spawn(&self, task: DriverTask<Self>) -> io::Result<()> {
        let task = self.handle.spawn(task);
        if was_refused(task) { Err(io::Error::other(GONE)) } else { Ok(()) }
    }
}

/// Returns whether a task was cancelled as it was spawned: its runtime is gone, or about to go.
fn was_refused(mut task: JoinHandle<()>) -> bool {
    let polled = Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop()));
    matches!(polled, Poll::Ready(Err(error)) if error.is_cancelled())
}
