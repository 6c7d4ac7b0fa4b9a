//! Virtual time: timers on a [`VirtualClock`], which stands still until it is moved.
//!
//! The [recipes](crate::guide::testing) use it with tokio, smol and other executors.

mod clock;
mod hold;
mod spawn;

pub use clock::VirtualClock;
pub use hold::{Hold, Tracked};
pub use spawn::{Spawned, Task};
