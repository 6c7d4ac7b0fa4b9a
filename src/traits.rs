//! Other crates' traits for our timers, each behind the feature of its name.
//!
//! A trait of a crate at 1.x is implemented under the crate's bare name. For a crate at 0.x, the
//! names of the feature and of the module have its version, so that the next version can be added
//! beside it.

#[cfg(all(feature = "aws-smithy-async", not(target_os = "none")))]
mod aws_smithy_async;
#[cfg(feature = "embedded-hal-async")]
mod embedded_hal_async;
// Not in a browser, where the crate's root refuses the feature but for its docs.
#[cfg(all(
    feature = "hyper",
    not(target_os = "none"),
    not(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))
))]
mod hyper;
#[cfg(all(feature = "quinn-0_11", not(target_os = "none")))]
pub mod quinn_0_11;
