//! A timer in your own event loop, without a driver thread.
//!
//! [`Builder::build_manual`](crate::timer::Builder::build_manual) makes a timer and its [`Driver`].
//! The loop [turns](Driver::turn) the driver in each round, and then waits in its own way, for as
//! long as [`Driver::max_wait`] says, or until the descriptor of `Driver::turn_fd` (Linux) is
//! readable.
//!
//! `Timer::drive_on` (Linux) has the reactor of a runtime turn a timer, in the place of its thread.
//!
//! `Builder::build_on` (not in browsers) makes a timer on a `Runtime`: a task of the runtime drives
//! it, in the runtime's own time.

#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
mod hidden;
mod manual;
#[cfg(not(target_os = "none"))]
mod pacing;
#[cfg(any(target_os = "linux", target_os = "android", all(test, tourbillon_model)))]
mod reactor;
#[cfg(not(target_os = "none"))]
mod resume;
#[cfg(not(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
)))]
mod task;
#[cfg_attr(
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"),
    path = "driver/event_loop.rs"
)]
#[cfg_attr(target_os = "none", path = "driver/no_thread.rs")]
mod thread;

#[cfg(all(any(target_os = "linux", target_os = "android"), not(all(test, tourbillon_model))))]
pub use crate::timer_fd::TurnFd;
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
pub(crate) use hidden::wait_in_worker;
pub use manual::{Budget, Driver, Turn};
#[cfg(any(target_os = "linux", target_os = "android", all(test, tourbillon_model)))]
pub(crate) use reactor::Reactor;
#[cfg(not(target_os = "none"))]
pub(crate) use resume::watch_resumes;
#[cfg(not(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
)))]
pub(crate) use task::starting;
#[cfg(not(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
)))]
pub use task::{DriverTask, Runtime};
#[cfg(not(target_os = "none"))]
pub(crate) use thread::end;
pub(crate) use thread::start;
