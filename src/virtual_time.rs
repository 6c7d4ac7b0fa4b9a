//! Virtual time: timers on a [`VirtualClock`], which stands still until it is moved.
//!
//! The [recipes](crate::guide::testing) use it with tokio, smol and other executors.

pub use crate::driver::hold::{Hold, Tracked};
pub use crate::driver::spawn::{Spawned, Task};
pub use crate::driver::virtual_clock::VirtualClock;
