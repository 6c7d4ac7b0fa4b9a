//! Takes the place of futures-timer 3, with [`tourbillon`]'s timers:
//!
//! ```toml
//! [patch.crates-io]
//! futures-timer = { path = "tourbillon/shim/futures-timer" }
//! ```
//!
//! For programs on systems with threads. In a browser the package replaced uses the browser's own
//! timers, under the feature `wasm-bindgen`; here that feature is an error on wasm32, as there is
//! no thread to fire a timer.

#[cfg(all(target_arch = "wasm32", feature = "wasm-bindgen"))]
compile_error!("tourbillon needs threads: do not patch futures-timer in a build for the browser");

pub use tourbillon::compat::Delay;
