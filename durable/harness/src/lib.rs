//! Nodes as real processes, faults among them, and a checker that decides from the logs alone.

pub mod checker;
pub mod log;
pub mod proxy;
