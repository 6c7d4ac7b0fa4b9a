#![doc = include_str!("../README.md")]

mod client;
mod engine;
mod error;
mod id;
#[cfg(feature = "metrics-0_24")]
pub mod metrics_0_24;
mod node;
mod plan;
mod policy;
mod record;
mod rule;
mod schedule;
#[cfg(test)]
mod simulation;
mod span;
pub mod store;
mod threads;
mod time;
mod trace;
mod wall;

#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
pub use client::Uncommitted;
pub use client::{
    Backfill, Backfilled, Client, Created, Every, Once, Replacement, Revival, RunNow,
    ScheduleUpdate, Upsert,
};
pub use engine::{Builder, Engine};
pub use error::{StoreError, StoreErrorKind};
pub use id::{Fence, Lease, NodeId, SHARDS, ScheduleId, Shards, TimerId};
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
pub use node::CompleteError;
pub use node::{EndError, Ended, Fire, Key, Stats, Worker};
pub use policy::{Missed, Overlap, Policies, PolicyError, Retry};
pub use record::{Outcome, Reason, Record, RecordSummary};
pub use rule::{Rule, Unreadable};
pub use schedule::{Excluded, Schedule, ScheduleError};
pub use store::Store;
pub use time::Time;

/// The code of the page about several databases, compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/GROWING.md")]
struct Growing;
