//! Options of a [`Timer`]: its [`Builder`], the [clock](ClockKind) that it runs on, and the
//! [`Tolerance`] of its sleeps.

mod builder;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(all(test, tourbillon_model))))]
mod drive_on;
pub(crate) mod functions;
#[cfg(not(target_os = "none"))]
mod scope;
pub(crate) mod shared;

#[cfg(not(target_os = "none"))]
pub use crate::error::EndDriverError;
pub use crate::error::SetGlobalError;
pub use crate::tolerance::Tolerance;
pub use builder::Builder;
#[cfg(not(target_os = "none"))]
pub use builder::ClockKind;
#[cfg(all(test, tourbillon_model))]
pub(crate) use builder::by_hand;
pub(crate) use functions::{never, sleep};
#[cfg(not(target_os = "none"))]
pub use scope::Scoped;
pub(crate) use shared::Timer;
