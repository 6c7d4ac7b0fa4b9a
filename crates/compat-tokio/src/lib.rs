//! The names of tokio's timers, for timers that need no runtime: one changed `use`.
//!
//! ```
//! use tourbillon_compat_tokio::time::{Duration, Instant, sleep, timeout}; // was: tokio::time
//!
//! # pollster::block_on(async {
//! let start = Instant::now();
//! sleep(Duration::from_millis(2)).await;
//! assert!(start.elapsed() >= Duration::from_millis(2));
//! assert!(timeout(Duration::from_millis(1), std::future::pending::<()>()).await.is_err());
//! # });
//! ```
//!
//! | there | here |
//! |---|---|
//! | `tokio::time` | [`time`] |
//! | `tokio_util::time`, `tokio_util::future::FutureExt` | [`util::time`], [`util::future::FutureExt`] |
//! | `tokio_stream::{StreamExt, Elapsed, adapters, wrappers}` | [`stream`], of these what waits for time |
//!
//! The code runs on any executor, tokio's runtime among them, and with the feature `wasm-bindgen`
//! in browsers, Node.js and other hosts with JavaScript. tokio is no dependency.
//!
//! # Which timer
//!
//! All is on the [current timer](tourbillon::Timer::current): that of a
//! [scope](tourbillon::Timer::scope), or else the process-wide one. [`Instant`](time::Instant)s are
//! of its clock, so a test moves them with a
//! [virtual clock](tourbillon::virtual_time::VirtualClock):
//!
//! ```
//! use tourbillon::Timer;
//! use tourbillon::virtual_time::VirtualClock;
//! use tourbillon_compat_tokio::time::{Duration, Instant, interval};
//!
//! async fn three_hours() -> Duration {
//!     let start = Instant::now();
//!     let mut hours = interval(Duration::from_secs(3600));
//!     for _ in 0..4 {
//!         hours.tick().await;
//!     }
//!     start.elapsed()
//! }
//!
//! let clock = VirtualClock::new();
//! let timer = Timer::builder().virtual_clock(&clock).build()?;
//! assert_eq!(clock.block_on(timer.scope(three_hours())), Duration::from_secs(3 * 3600));
//! # std::io::Result::Ok(())
//! ```
//!
//! The crate `tourbillon-tokio` has a timer in the time of a tokio runtime, which
//! `#[tokio::test(start_paused = true)]` and `tokio::time::advance` move. Instants of one timer
//! say nothing to another.
//!
//! # Differences
//!
//! | | tokio | here |
//! |---|---|---|
//! | runtime | making a sleep panics outside of one with its time enabled | none is needed |
//! | `pause`, `advance`, `resume` | move the runtime's time | not there, so they do not compile; see above |
//! | resolution | a millisecond, rounded up | a nanosecond |
//! | first poll past the deadline | may be pending until the millisecond is over | ready, or pending until a driver that is about to wake fires it |
//! | the task's budget | sleeps and timeouts use it up | none is used |
//! | deadlines 438 years away or more | end | never end, and are shown as the end of the time line |
//! | reset of a sleep never polled | arms it | the next poll arms it |
//! | [`DelayQueue`](util::time::DelayQueue): equal deadlines | in any order | in the order in which they were set |
//! | its wake-ups | also where a level of its wheel ends | also at the old deadline of what was put off |
//! | its `compact` | moves entries | gives memory back behind the last entry; keys always stay |
//! | [`ChunksTimeout`](stream::ChunksTimeout) | takes all that is ready | takes 32 items at most in a poll, then lets other tasks run |
//! | `time::error::Error` | has makers for three errors | not there |
//!
//! A missing name is an error of the compiler, and no panic:
//!
//! ```compile_fail,E0432
//! use tourbillon_compat_tokio::time::pause;
//! ```
//!
//! # In place, not beside
//!
//! Import one trait of each name. tokio-stream's `StreamExt` has `timeout` and the others too with
//! its feature `time`, a default; without it, or with `futures::StreamExt`, both traits can be
//! imported.

#![forbid(unsafe_code)]

mod delay_queue;
mod future_ext;
pub mod stream;
pub mod time;
pub mod util;

/// The README's examples, tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
