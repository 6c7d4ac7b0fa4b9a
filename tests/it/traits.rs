//! Other crates' traits, each with the feature of its name.

#[cfg(feature = "aws-smithy-async")]
mod aws_smithy_async;
#[cfg(feature = "embedded-hal-async")]
mod embedded_hal_async;
#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "quinn-0_11")]
mod quinn_0_11;
