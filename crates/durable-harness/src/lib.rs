//! Nodes as real processes, faults among them, and a checker that decides from the logs alone.
//!
//! ```text
//! log.rs               what everybody writes down, and by which clock
//! checker/             judges it: no other part knows what the promises are
//! node.rs load.rs      the processes: nodes with their handlers, clients with their calls
//! storm/ faults.rs     the nemesis; children.rs, proxy.rs, cluster.rs, database.rs: its hands
//! canary.rs            stores with a bug, for the checker to find
//! bench/ processor.rs  measurements, for `crates/durable/docs/BENCHES.md`
//! ```

pub mod bench;
pub mod canary;
pub mod checker;
mod children;
mod cluster;
mod database;
mod dump;
mod faults;
pub mod load;
pub mod log;
pub mod node;
pub mod options;
mod processor;
pub mod proxy;
pub mod storm;
mod workload;

pub use children::wall_seconds;

/// Result of a command.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
