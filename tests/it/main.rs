//! Behaviour of the public interface.
//!
//! Time is virtual wherever it can be. Where it is real, only "never early" and "does complete"
//! are asserted.

mod compat;
#[cfg(feature = "cron")]
mod cron;
mod delay_queue;
mod driven_by_hand;
mod executors;
mod faults;
mod future_ext;
mod interval;
mod lateness;
#[cfg(feature = "metrics-0_24")]
mod metrics_0_24;
mod migration;
mod process;
mod queue_model;
mod sleep;
mod stream_ext;
mod support;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod system_clock;
mod timeout;
mod timeout_queue;
#[cfg(feature = "tracing")]
mod trace;
mod traits;
mod virtual_time;
mod wall;
