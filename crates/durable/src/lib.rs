#![doc = include_str!("../README.md")]

mod canary;
mod client;
mod engine;
mod error;
mod fire;
mod id;
#[cfg(feature = "metrics-0_24")]
pub mod metrics_0_24;
mod plan;
mod policy;
mod record;
mod schedule;
#[cfg(test)]
mod simulation;
mod stats;
pub mod store;
mod time;
mod trace;
mod worker;

pub use client::{Client, Created, Every, Once, Ran, Replacement, Revived, Switched, Upserted};
pub use engine::{Builder, Engine};
pub use error::{StoreError, StoreErrorKind};
pub use fire::{EndError, Ended, Fire, Key};
pub use id::{Fence, Lease, NodeId, SHARDS, ScheduleId, Shards, TimerId};
pub use policy::{Missed, Overlap, Policies, PolicyError, Retry};
pub use record::{Outcome, Reason, Record};
pub use schedule::{Schedule, ScheduleError};
pub use stats::Stats;
pub use store::Store;
pub use time::Time;
pub use worker::Worker;
