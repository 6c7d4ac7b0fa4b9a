//! Models of the timers, which replace what threads share by loom's or shuttle's.

#[cfg_attr(tourbillon_shuttle, allow(dead_code, reason = "the schedules use part of it"))]
pub(crate) mod harness;
#[cfg(not(tourbillon_shuttle))]
mod interleavings;
#[cfg(tourbillon_shuttle)]
mod schedules;
