//! Timers for async code on any executor.
//!
//! [`sleep()`], [`interval()`] and [`timeout()`] make futures that need no runtime:
//!
//! ```
//! use std::time::Duration;
//!
//! use tourbillon::{interval, sleep, timeout};
//!
//! # pollster::block_on(async {
//! sleep(Duration::from_millis(1)).await;
//!
//! let answer = timeout(Duration::from_secs(1), async { 42 }).await;
//! assert_eq!(answer, Ok(42));
//!
//! let mut ticks = interval(Duration::from_millis(1));
//! for _ in 0..3 {
//!     ticks.tick().await;
//! }
//! # });
//! ```
//!
//! All timers are in a hierarchical timing wheel, split into shards with a lock each. One driver
//! thread fires them, and parks until the earliest deadline. It starts with the first timer that is
//! armed.
//!
//! # Which type do I need?
//!
//! | to | use |
//! |---|---|
//! | wait once, for a time or until an instant | [`sleep()`], [`sleep_until`] |
//! | wait again and again | [`interval()`], [`interval_at`] |
//! | limit how long a future or a stream's next item takes | [`timeout()`], [`FutureExt`], [`StreamExt`] |
//! | move a deadline, as at each sign of life of a connection | [`Sleep::reset`], [`Timeout::reset`](Timeout::reset) |
//! | throttle, debounce, sample or batch a stream | [`StreamExt`] |
//! | call a function later, without a task | [`Sleep::call`], [`Interval::call`]; see [`callback`] |
//! | hold many values that expire | [`DelayQueue`](queue::DelayQueue); [`TimeoutQueue`](queue::TimeoutQueue) if all expire after the same time |
//! | wait for a time of day, also through suspend and a clock that is set | [`wall`]; the crate `tourbillon-cron` for cron expressions |
//! | pass a deadline on with a request, as gRPC does | [`Deadline`](deadline::Deadline) |
//! | test without waiting | [`VirtualClock`](virtual_time::VirtualClock), with [recipes](guide::testing) for tokio, smol and other executors |
//! | turn the timers in your own event loop | [`Driver`](driver::Driver), also [without an operating system](design::platforms#without-an-operating-system) |
//! | keep timers apart, or set a tolerance, a thread's name, a clock | [`Timer::builder`] |
//! | have code that takes no timer use yours | [`Timer::scope`] |
//! | fire millions of timers a second, or arm on many processors | [the guide](guide::many_processors) |
//! | see how late timers are | [`Timer::stats`], [`Timer::lateness`]; metrics and tracing in [the guide](guide::watching) |
//! | replace another crate's timers | [the guide](guide::migration) for tokio, futures-timer and async-io; [`compat`] |
//!
//! # Guarantees
//!
//! - **Never early**: a timer completes at its deadline or after. Deadlines are kept to the
//!   nanosecond, and nothing is rounded. How late it is depends on the [system](#lateness).
//! - **Never lost**: every armed timer fires, or its own poll finds that its deadline has passed.
//! - Locks are held for a bounded number of entries, and never while foreign code runs. A timer
//!   that is not the earliest costs no system call. Nor does a cancel, but for that of the last
//!   timer after the last handle. Neither allocates in steady state.
//! - Wakers and callbacks that [panic](guide::foreign_code) are caught, and end no other timer.
//!   **They must not wait for a timer of the driver that calls them.**
//! - Timers work in a child of [`fork`](guide::fork). Nothing here may be called from a signal
//!   handler.
//!
//! # Time
//!
//! Durations and instants are the types of [`std::time`]. All arithmetic saturates: a deadline more
//! than 438 years ahead never comes. In suspend, [`Instant`] stops on Linux and macOS, and so do
//! timers; on Windows it continues. A [`Timer`] can have a clock that continues everywhere, see
//! [`ClockKind`](timer::ClockKind).
//!
//! [`sleep_until_wall`](wall::sleep_until_wall) sleeps until a [`SystemTime`], and follows the wall
//! clock when it is set; see [`wall`].
//!
//! # Lateness
//!
//! A timer fires once the system ends the driver thread's wait and runs that thread. An idle Linux
//! machine does so within some tens of microseconds, since the thread asks for the least timer
//! slack. On Windows the thread waits for a high-resolution timer, which needs no shorter tick of
//! the system. Before version 1803 of Windows 10 there is none; a wait then ends with a tick, so a
//! timer may fire up to 15.6 ms late, and still never early. A poll of a sleep completes it by the
//! clock. A loop that turns a [`Driver`](driver::Driver) by hand can use any finer wait that the
//! system has. [Platforms](design::platforms) has the table of systems. A sleep that has to be
//! punctual to the microsecond can [spin](Sleep::spin_last) for its last part.
//!
//! Most timers need not be that exact. With a tolerance
//! ([`Builder::tolerance`](timer::Builder::tolerance), [`Sleep::set_tolerance`]), a fixed time or a
//! [share](timer::Tolerance) of the delay, they are fired together, and the driver wakes up as
//! seldom as that allows.
//!
//! # Panics
//!
//! Every public item that can panic says when, under `# Panics`. These are a few arguments that
//! make no sense (an interval of period zero), a key whose entry is gone where the method has a
//! `try_` twin, more entries than a queue can hold, and the poll that has to start the driver
//! thread when the system refuses one ([`Timer::start`] reports that as an error). A panic of
//! foreign code (an inner future, a stream, a waker's clone) in a poll is passed on. No duration is
//! too long, and no instant too far away.
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `hyper` | hyper 1: `rt::Timer` for [`Timer`], `rt::Sleep` for [`Sleep`] |
//! | `aws-smithy-async` | the AWS SDK: `AsyncSleep` and `TimeSource` for [`Timer`] |
//! | `embedded-hal-async` | `DelayNs` for [`Timer`] |
//! | `quinn-0_11` | quinn 0.11: `AsyncTimer` for [`Sleep`], and a module with a `Runtime` |
//! | `wasm-bindgen` | timers in browsers and Node.js, on wasm32-unknown-unknown; see [the guide](guide::migration#on-wasm32) |
//! | `pending` | `Timer::pending`, a list of the armed timers with the places that made them |
//! | `tracing` | spans and events of tracing 0.1 for drivers and late timers |
//!
//! A version in a feature's name is the other crate's. The next version of that crate will be
//! another feature beside it. The `Stream` of [`Interval`] and the `FusedFuture` of [`Sleep`] are
//! futures-core's and need no feature.
//!
//! The minimum version of Rust holds without features. With them, a dependency may need a later
//! one.
//!
//! # More
//!
//! - [`guide`]: [coming from other timers](guide::migration), [tests](guide::testing), [wakers and
//!   callbacks](guide::foreign_code), [`fork`](guide::fork), [libraries that take any
//!   timer](guide::generic), [metrics and tracing](guide::watching), [many
//!   processors](guide::many_processors), [recipes](guide::recipes) for Python, C, games and more.
//! - [`design`]: [how it works](design::architecture), [hazards](design::hazards), the
//!   [checks](design::proof) against them, and [facts about each system](design::platforms).
//!
//! [`Instant`]: std::time::Instant
//! [`SystemTime`]: std::time::SystemTime
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(
    target_os = "none",
    allow(dead_code, reason = "a timer that is driven by hand does without what a thread uses")
)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"),
    allow(dead_code, reason = "an event loop does without what a driver thread uses")
)]

// docs.rs builds the docs of each target with all features.
#[cfg(all(
    target_family = "wasm",
    target_os = "unknown",
    feature = "wasm-bindgen",
    feature = "hyper",
    not(docsrs)
))]
compile_error!(
    "hyper reads std's clock, which panics in a browser: leave out tourbillon's feature `hyper` \
     there"
);
#[cfg(all(
    target_family = "wasm",
    target_os = "unknown",
    feature = "quinn-0_11",
    not(feature = "wasm-bindgen")
))]
compile_error!(
    "quinn takes instants of a browser's there: enable tourbillon's feature `wasm-bindgen` too"
);
#[cfg(all(
    target_family = "wasm",
    target_os = "unknown",
    target_feature = "atomics",
    feature = "wasm-bindgen"
))]
compile_error!(
    "tourbillon's timers belong to one event loop of a browser, and cannot be shared by workers: \
     build for each worker without the target feature `atomics`"
);

extern crate alloc;

#[cfg(target_has_atomic = "ptr")]
pub mod callback;
#[cfg_attr(target_os = "none", path = "clock/user.rs")]
mod clock;
pub mod compat;
pub mod deadline;
pub mod driver;
mod engine;
mod error;
mod foreign;
mod fork;
mod future_ext;
#[cfg(any(fuzzing, all(test, not(tourbillon_model))))]
#[doc(hidden)]
pub mod fuzz;
mod handle;
mod interval;
#[cfg(all(test, tourbillon_model))]
mod models;
mod platform;
pub mod queue;
// Nothing but documentation.
#[cfg(doc)]
pub mod guide {
    //! Guides: how to use the crate where that takes more than the page of a type.
    #[doc = include_str!("guide/foreign_code.md")]
    pub mod foreign_code {}
    #[doc = include_str!("guide/fork.md")]
    pub mod fork {}
    #[doc = include_str!("guide/generic.md")]
    pub mod generic {}
    #[doc = include_str!("guide/many_processors.md")]
    pub mod many_processors {}
    #[doc = include_str!("guide/migration.md")]
    pub mod migration {}
    #[doc = include_str!("guide/recipes.md")]
    pub mod recipes {}
    #[doc = include_str!("guide/testing.md")]
    pub mod testing {}
    #[doc = include_str!("guide/watching.md")]
    pub mod watching {}
}
// Nothing but documentation.
#[cfg(doc)]
pub mod design {
    //! The design: how the crate works, and why to trust it.
    #[doc = include_str!("../ARCHITECTURE.md")]
    pub mod architecture {}
    #[doc = include_str!("../docs/HAZARDS.md")]
    pub mod hazards {}
    #[doc = include_str!("../docs/PLATFORMS.md")]
    pub mod platforms {}
    #[doc = include_str!("../docs/PROOF.md")]
    pub mod proof {}
    #[doc = include_str!("driver/PROTOCOL.md")]
    pub mod protocol {}
}
mod sleep;
#[cfg(not(target_os = "none"))]
pub mod spin;
pub mod stats;
pub mod stream;
mod sync;
mod tick;
pub mod time;
mod timeout;
pub mod timer;
mod timer_fd;
mod tolerance;
mod trace;
mod traits;
#[cfg(not(target_os = "none"))]
pub mod virtual_time;
#[cfg(not(target_os = "none"))]
pub mod wall;
mod wheel;

pub use error::Elapsed;
pub use future_ext::FutureExt;
pub use interval::{Interval, MissedTickBehavior};
pub use sleep::Sleep;
pub use stream::StreamExt;
pub use timeout::Timeout;
pub use timer::functions::{interval, interval_at, sleep, sleep_until, timeout, timeout_at};
pub use timer::shared::Timer;
#[cfg(all(feature = "quinn-0_11", not(target_os = "none")))]
pub use traits::quinn_0_11;

/// The README's examples, tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
