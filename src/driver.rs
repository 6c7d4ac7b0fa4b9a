//! Drivers, which turn the wheel: a thread, your own loop, or a virtual clock as it moves.
//!
#![doc = include_str!("driver/PROTOCOL.md")]

#[cfg_attr(tourbillon_shuttle, allow(dead_code, reason = "the schedules ask for none"))]
mod bell;
#[cfg(not(target_os = "none"))]
mod hold;
mod manual;
#[cfg(not(target_os = "none"))]
mod pacing;
#[cfg(not(target_os = "none"))]
mod resume;
#[cfg_attr(
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"),
    path = "driver/event_loop.rs"
)]
#[cfg_attr(target_os = "none", path = "driver/no_thread.rs")]
mod thread;
#[cfg(not(target_os = "none"))]
mod virtual_clock;

pub(crate) use bell::Bell;
#[cfg(not(target_os = "none"))]
pub use hold::{Hold, Tracked};
pub use manual::{Budget, Driver, Turn};
pub(crate) use thread::start;
#[cfg(not(target_os = "none"))]
pub use virtual_clock::VirtualClock;
