//! Timers in components for WASI 0.2 that run on [`wstd`], without a loop of one's own.
//!
//! A program sets the timer once, before anything sleeps. Then [`tourbillon::sleep`] and the like
//! work in it and in each library that it uses:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use tourbillon::{Timer, sleep};
//!
//! /// A library's function, which takes no timer.
//! async fn library() {
//!     sleep(Duration::from_millis(5)).await;
//! }
//!
//! #[wstd::main]
//! async fn main() {
//!     Timer::set_global(tourbillon_wstd::timer()).expect("nothing has slept yet");
//!     library().await;
//! }
//! ```
//!
//! A server by `#[wstd::http_server]` may be called more than once: it ignores that the second
//! request finds the timer set. [`Timer::scope`] serves where only some futures are to have it.
//!
//! # How it waits
//!
//! - A task of the reactor drives the timer, and waits for one pollable, that of the earliest
//!   deadline: the host is asked about one, however many sleep.
//! - The task ends whenever nothing is armed. So `block_on` returns as soon as its futures are
//!   done, and the next one has the timer too.
//! - Hosts may end a wait early. Sleeps read the clock, and the task then waits again.
//!
//! # Panics
//!
//! A poll that has to wait, outside of `wstd::runtime::block_on`: there is no reactor, and wstd
//! says so. As with wstd's own timers, another version of wstd has a reactor of its own.

use std::io;
use std::time::Instant;

use tourbillon::Timer;
use tourbillon::driver::{DriverTask, Runtime};
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wstd::runtime::{AsyncPollable, Reactor, WaitFor};

/// Makes a timer that a task of wstd's reactor drives.
///
/// Each call makes another, also before `block_on`. For one with options, give a
/// [`WstdRuntime`] to [`Builder::build_on`](tourbillon::timer::Builder::build_on).
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// let timer = tourbillon_wstd::timer();
/// wstd::runtime::block_on(async { timer.sleep(Duration::from_millis(5)).await });
/// ```
#[must_use]
pub fn timer() -> Timer {
    Timer::builder().build_on(WstdRuntime).expect("the options are the default ones")
}

/// The reactor of the `block_on` that runs, for
/// [`Builder::build_on`](tourbillon::timer::Builder::build_on).
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// use tourbillon::Timer;
/// use tourbillon_wstd::WstdRuntime;
///
/// let timer = Timer::builder().tolerance(Duration::from_millis(1)).build_on(WstdRuntime)?;
/// wstd::runtime::block_on(timer.sleep(Duration::from_millis(5)));
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WstdRuntime;

impl Runtime for WstdRuntime {
    type Wait = WaitFor;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wait_until(&self, deadline: Instant) -> WaitFor {
        let left = deadline.saturating_duration_since(Instant::now());
        // After 584 years another wait follows.
        let nanos = left.as_nanos().try_into().unwrap_or(u64::MAX);
        AsyncPollable::new(subscribe_duration(nanos)).wait_for()
    }

    fn spawn(&self, task: DriverTask<Self>) -> io::Result<()> {
        Reactor::current().spawn(task).detach();
        Ok(())
    }
}
