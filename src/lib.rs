//! Timers for async code on any executor.
//!
//! [`sleep()`], [`interval()`] and [`timeout()`] make futures that need no runtime:
//!
//! ```
//! use std::time::Duration;
//!
//! # pollster::block_on(async {
//! tourbillon::sleep(Duration::from_millis(1)).await;
//!
//! let answer = tourbillon::timeout(Duration::from_secs(1), async { 42 }).await;
//! assert_eq!(answer, Ok(42));
//! # });
//! ```
//!
//! [`Sleep::call`] and [`Interval::call`] call a function instead, without a task; see
//! [`callback`].
//!
//! [`FutureExt`] and [`StreamExt`] have timeouts and more as methods of any future or stream.
//!
//! All timers are in a hierarchical timing wheel, split into shards with a lock each. One driver
//! thread fires them, and parks until the earliest deadline. It starts with the first timer that is
//! armed.
//!
//! Your own [`Timer`] can instead
//!
//! - be turned by hand from your own loop, see [`Driver`](driver::Driver), also [without an
//!   operating system](design::platforms#without-an-operating-system);
//! - run on a clock that stands still until it is moved, see
//!   [`VirtualClock`](virtual_time::VirtualClock).
//!
//! A [`Deadline`](deadline::Deadline) travels with a request, and is nested, sent and received as
//! gRPC does it.
//!
//! [`DelayQueue`](queue::DelayQueue) and [`TimeoutQueue`](queue::TimeoutQueue) hold many values
//! with a deadline each, and need one sleep for all of them.
//!
//! [`testing`] has recipes for virtual time with tokio, smol and your own executor.
//!
//! [`migration`] maps the calls of tokio, futures-timer and async-io to those here, and covers
//! wasm32.
//!
//! # Guarantees
//!
//! - **Never early**: a timer completes at its deadline or after. Deadlines are kept to the
//!   nanosecond, and nothing is rounded. How late it is depends on the [system](#lateness).
//! - **Never lost**: every armed timer fires, or its own poll finds that its deadline has passed.
//! - Locks are held for a bounded number of entries, and never while foreign code runs. A timer
//!   that is not the earliest costs no system call, a cancel never does, and neither allocates in
//!   steady state.
//!
//! # Foreign code
//!
//! Wakers are woken, and [callbacks](callback::Callback) called, on the driver's thread, in
//! batches, with no lock held. One that panics is caught and counted, see
//! [`Stats::waker_panics`](stats::Stats::waker_panics). In browsers it [cannot be
//! caught](migration#on-wasm32), but is counted, and ends no other timer. One that blocks delays
//! the wakers after it, of every shard: each by at most the sum of the times for which the wakers
//! before it block. A sleep that is polled completes by the clock all the same. Wakers may arm,
//! reset and drop timers.
//!
//! **A waker must not wait for a timer of the driver that woke it.** That driver fires nothing
//! before the waker returns, so the waker never does, and nothing of that timer fires any more,
//! except for sleeps that are polled. This happens to an executor that runs a task inside `wake`,
//! if the task blocks on a [`sleep()`] with another executor's `block_on`. The same holds for hooks
//! and subscribers that the driver calls. A driver cannot tell it at once: the sleep is polled and
//! returns `Pending`, as in a task that yields, and what the thread does after that is not known
//! here.
//!
//! - With debug assertions, a task that has polled such a sleep within the waker, and waits there
//!   for a second or two, is woken by a thread named `tourbillon-debug`. If it then polls again
//!   within the same call, that poll panics. So the wait ends, and the panic is caught and counted.
//! - In every build [`Stats::longest_call`](stats::Stats::longest_call) shows it from outside: the
//!   call that does not return counts with the time that it has taken.
//! - The calls here that block do not wait for their own driver:
//!   [`VirtualClock::block_on`](virtual_time::VirtualClock::block_on) panics instead,
//!   [`VirtualClock::advance`](virtual_time::VirtualClock::advance) leaves the move to the call
//!   that is making one, and [`Callback::cancel_and_wait`](callback::Callback::cancel_and_wait)
//!   does not wait for the function that it is called by.
//!
//! # Time
//!
//! Durations and instants are those of [`std::time`]. All arithmetic saturates: a deadline more
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
//! system has. [Platforms](design::platforms) has the table of systems.
//!
//! Most timers need not be that exact. With a tolerance
//! ([`Builder::tolerance`](timer::Builder::tolerance), [`Sleep::set_tolerance`]), a fixed time or a
//! [share](timer::Tolerance) of the delay, they meet at round instants, and the driver wakes up
//! less often.
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
//! # Watching it
//!
//! [`Timer::stats`] has counters, the worst lateness, and the longest call of a waker or callback.
//! [`Timer::lateness`] is a histogram of how late timers were fired, if it was
//! [asked for](timer::Builder::lateness_histogram).
//!
//! With the feature `metrics-0_24`, the function `metrics_0_24::publish` publishes the counters to
//! the `metrics` facade.
//!
//! With the feature `tracing`, there are these spans and events, under the target `tourbillon`:
//!
//! | what | level | fields |
//! |---|---|---|
//! | span `driver`: a driver thread, from its start to its end | `DEBUG` | `thread`, its name; `shards` |
//! | event `driver thread started`, `driver thread ends` | `DEBUG` | |
//! | event `late pass`, from 5 ms on | `DEBUG` | `fired`, `lateness_ns_max`, `lag_ns` |
//! | the same, from 100 ms on | `WARN` | |
//! | event `slow call`, of more than 100 ms or [another limit](timer::Builder::slow_call_limit) | `WARN` | `slow_calls`, `call_ns_max` |
//!
//! A pass is one visit to all shards, in which the driver fires what is due. It is late if it fired
//! a timer that long after its deadline (`lateness_ns_max` is the worst): the sign of a starved
//! driver. It is also late if it took that long (`lag_ns` is how far the wheel was behind the clock
//! at its end): the sign of a waker that blocks. A pass in which a waker or a callback took longer
//! than the limit is an event of its own: `slow_calls` is how many did, and `call_ns_max` what the
//! longest took. There are hardly more than 200 late passes a second, however many timers are late,
//! unless sleeps are reset to deadlines in the past, which count as late. There are no events for
//! arming, cancelling, and firing in time.
//!
//! The span is the parent of a driver thread's events. It is not entered, so wakers that run there
//! are outside of it. The event of a pass by hand, or by a virtual clock, belongs to the current
//! span of the caller. Subscribers are called with no lock held. As wakers, they may panic and call
//! back into the timer; their panics are not counted. A subscriber that blocks delays the driver.
//!
//! # Features
//!
//! None is on by default. `cron` is for times of day, `wasm-bindgen` for browsers. Each of the
//! others implements another crate's traits for [`Timer`] or [`Sleep`], and adds that crate as a
//! dependency:
//!
//! | feature | what it gives |
//! |---|---|
//! | `cron` | a module with cron expressions, and schedules of any other kind, as streams |
//! | `cron-bundled-zones` | `cron`, with a copy of the time zones for systems without one |
//! | `hyper` | hyper 1: `rt::Timer` for [`Timer`], `rt::Sleep` for [`Sleep`] |
//! | `aws-smithy-async` | the AWS SDK: `AsyncSleep` and `TimeSource` for [`Timer`] |
//! | `embedded-hal-async` | `DelayNs` for [`Timer`] |
//! | `quinn-0_11` | quinn 0.11: `AsyncTimer` for [`Sleep`], and a module with a `Runtime` |
//! | `tower-service-0_3` | a module with tower's timeout, and with one that answers, as layers and as services |
//! | `metrics-0_24` | a module that publishes a timer's counters |
//! | `wasm-bindgen` | timers in browsers and Node.js, on wasm32-unknown-unknown; see [`migration`](migration#on-wasm32) |
//! | `tracing` | spans and events of tracing 0.1 for drivers and late timers |
//!
//! A version in a name is that of the other crate. Its next version will be another feature beside
//! it. The `Stream` of [`Interval`] and the `FusedFuture` of [`Sleep`] are futures-core's and need
//! no feature.
//!
//! The minimum version of Rust holds without features. With them, a dependency may need a later
//! one.
//!
//! # What is not offered
//!
//! Nothing here may be called from a signal handler.
//!
//! # After `fork`
//!
//! On Unix, a child process starts with nothing armed, and without a driver thread until it arms a
//! timer. Every [`Timer`] works in it, the process-wide one included, and so does every sleep that
//! it inherited: polled, that is ready if its deadline has come, and is armed anew if not. A lock
//! that a thread of the parent held does not matter, and the parent's timers are untouched. What
//! does not carry over is the wake-up for a sleep that was armed before: poll it again. A
//! [`VirtualClock`](virtual_time::VirtualClock) shows in the child what it showed at that moment,
//! and is moved by the child alone. A child may fork in turn, also while its threads use what they
//! inherited.
//!
//! A [callback](callback::Callback#after-fork) or a waker may fork. A child that returns from it on
//! a thread of this crate's ends there, by `_exit`. Where your own loop calls it, in
//! [`Driver::turn`](driver::Driver::turn) or a move of a
//! [`VirtualClock`](virtual_time::VirtualClock), the child goes on in that loop. Wakers that were
//! taken together with that waker, up to 512, may be woken in the child first, as if they were its
//! own.
//!
//! Rust's standard library keeps a lock for a moment while a thread starts or ends. If a thread of
//! the parent is just there at the fork, every thread that the child starts waits for that lock for
//! ever, a driver thread as any other. So fork where no thread can be starting or ending, or let
//! the child start none.
//!
//! A process made without the C library's `fork` is not noticed, and must use no timer: one made by
//! `clone` itself may wait for ever for a lock of its parent's, and a child of `vfork` shares its
//! parent's memory. The child allocates, so the allocator must survive a `fork`, as those of C
//! libraries do. With the feature `cron`, find time zones by name where no thread is about to fork:
//! the database of zones has a lock of its own.
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

#[cfg(all(
    target_family = "wasm",
    target_os = "unknown",
    feature = "wasm-bindgen",
    feature = "hyper"
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
#[cfg_attr(target_os = "none", path = "clock/given.rs")]
mod clock;
pub mod compat;
#[cfg(feature = "cron")]
pub mod cron;
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
#[cfg(feature = "metrics-0_24")]
pub mod metrics_0_24;
pub mod queue;
// Nothing but documentation.
#[cfg(doc)]
#[doc = include_str!("migration.md")]
pub mod migration {}
// Nothing but documentation.
#[cfg(doc)]
#[doc = include_str!("testing.md")]
pub mod testing {}
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
pub mod stats;
pub mod stream;
mod sync;
mod tick;
pub mod time;
mod timeout;
pub mod timer;
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
#[cfg(feature = "quinn-0_11")]
pub use traits::quinn_0_11;
#[cfg(feature = "tower-service-0_3")]
pub use traits::tower_service_0_3;

/// The README's examples, tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
