//! What turns the wheel: a thread, your own loop, or a virtual clock as it moves.
//!
#![doc = include_str!("driver/PROTOCOL.md")]

#[cfg_attr(tourbillon_shuttle, allow(dead_code, reason = "the schedules ask for none"))]
mod bell;
#[cfg(not(all(test, tourbillon_model)))]
mod hold;
mod manual;
mod pacing;
mod resume;
#[cfg_attr(
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"),
    path = "driver/event_loop.rs"
)]
mod thread;
mod virtual_clock;

pub(crate) use bell::Bell;
#[cfg(not(all(test, tourbillon_model)))]
pub use hold::{Hold, Tracked};
pub use manual::{Budget, Driver, Turn};
pub(crate) use thread::start;
pub use virtual_clock::VirtualClock;
