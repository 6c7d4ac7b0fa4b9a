//! A node: its threads, their shared state, and the attempts that it hands out.

mod auditor;
mod cache;
mod claimer;
mod clock;
mod fire;
mod heartbeat;
mod main_loop;
mod notifier;
mod options;
mod planner;
mod rescuer;
mod scanner;
mod shards;
mod shared;
mod stats;
#[cfg(test)]
mod tests;
mod worker;
mod zones;

pub(crate) use claimer::run as run_claimer;
#[cfg(test)]
pub(crate) use claimer::{Next, begin, call};
pub(crate) use clock::DbClock;
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
pub use fire::CompleteError;
pub(crate) use fire::clean;
pub use fire::{EndError, Ended, Fire, Key};
pub(crate) use main_loop::MainLoop;
pub(crate) use options::Options;
pub(crate) use rescuer::LANES;
pub(crate) use scanner::{NOTICE, SOON};
pub(crate) use shared::{Shared, Stopping};
#[cfg(feature = "metrics-0_24")]
pub(crate) use stats::METADATA;
pub use stats::Stats;
pub use worker::Worker;
