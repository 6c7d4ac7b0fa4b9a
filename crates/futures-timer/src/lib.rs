//! Takes the place of futures-timer 3, with [`tourbillon`]'s timers:
//!
//! ```toml
//! [patch.crates-io]
//! futures-timer = { path = "tourbillon/crates/futures-timer" }
//! ```
//!
//! As in the package replaced, the feature `wasm-bindgen` is for browsers and Node.js.

pub use tourbillon::compat::Delay;
