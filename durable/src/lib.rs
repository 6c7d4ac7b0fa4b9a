//! Durable timers: schedules that survive the process, on one machine or many.
//!
//! The wheel is a cache of when to ask; the database decides who fires. `ARCHITECTURE.md` says how.

mod error;
mod id;
mod policy;
mod record;
mod schedule;
pub mod store;
mod time;

pub use error::{StoreError, StoreErrorKind};
pub use id::{Fence, Lease, NodeId, SHARDS, ScheduleId, Shards, TimerId};
pub use policy::{Missed, Overlap, Policies, PolicyError, Retry};
pub use record::{Outcome, Reason, Record};
pub use schedule::{Schedule, ScheduleError};
pub use store::Store;
pub use time::Time;
