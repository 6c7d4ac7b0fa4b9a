//! Models of the timers, which replace what threads share by loom's.

pub(crate) mod harness;
mod interleavings;
