//! Instants and times of day, under the same names on every target.
//!
//! Re-exports of [`std::time`], except in a browser or in Node.js (the target
//! `wasm32-unknown-unknown` with the feature `wasm-bindgen`). `std` has no clock there, so the
//! types come from the crate `web-time`, with the same methods. So code that takes them from here
//! is the same on every target.
//!
//! Without an operating system there are no times of day, and `Instant` is a type of this crate:
//! [`Timer::now`](crate::Timer::now) returns it. See
//! [Platforms](crate::design::platforms#without-an-operating-system).
//!
//! ```
//! use tourbillon::time::{Duration, Instant};
//!
//! # pollster::block_on(async {
//! let deadline = Instant::now() + Duration::from_millis(1);
//! tourbillon::sleep_until(deadline).await;
//! assert!(Instant::now() >= deadline);
//! # });
//! ```

#[cfg(any(target_os = "none", all(test, not(tourbillon_model))))]
#[cfg_attr(not(target_os = "none"), allow(unreachable_pub, dead_code, reason = "its own tests"))]
mod instant;

pub use core::time::Duration;
#[cfg(target_os = "none")]
pub use instant::Instant;
#[cfg(not(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
)))]
pub use std::time::{Instant, SystemTime};
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
pub use web_time::{Instant, SystemTime};

/// Converts a time of day to the type that other crates take.
#[cfg(all(feature = "aws-smithy-async", not(target_os = "none")))]
pub(crate) fn to_std(time: SystemTime) -> std::time::SystemTime {
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    let time = web_time::web::SystemTimeExt::to_std(time);
    time
}
