//! Timers for async code on any executor.

mod canary;
mod sync;
mod tick;
mod wheel;
