//! Nodes as real processes, faults among them, and a checker that decides from the logs alone.

fn main() {}
