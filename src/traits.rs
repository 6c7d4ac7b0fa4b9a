//! Other crates' traits for our timers, each behind the feature of its name.
//!
//! A trait of a crate at 1.x is implemented under the crate's bare name. One of a crate at 0.x has
//! its version in the names of its feature and of its module, so that the next version can be added
//! beside it.

#[cfg(feature = "aws-smithy-async")]
mod aws_smithy_async;
#[cfg(feature = "embedded-hal-async")]
mod embedded_hal_async;
#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "quinn-0_11")]
pub mod quinn_0_11;
#[cfg(feature = "tower-service-0_3")]
pub mod tower_service_0_3;
