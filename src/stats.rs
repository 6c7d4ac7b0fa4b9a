//! Measurements of a timer: [counters](Stats), and a [histogram](Histogram) of its lateness.
//!
//! [`Timer::stats`](crate::Timer::stats) and [`Timer::lateness`](crate::Timer::lateness) take them.

#[cfg(all(feature = "pending", not(target_os = "none")))]
pub use crate::engine::Pending;
pub use crate::engine::{Histogram, Stats};
