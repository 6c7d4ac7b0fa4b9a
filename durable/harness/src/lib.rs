//! Nodes as real processes, faults among them, and a checker that decides from the logs alone.

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
pub mod proxy;
pub mod storm;
mod workload;

pub use children::wall_seconds;

/// What the commands return.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
