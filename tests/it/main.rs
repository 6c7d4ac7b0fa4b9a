//! Behaviour of the public interface.
//!
//! Time is virtual wherever it can be. Where it is real, only "never early" and "does complete"
//! are asserted.

mod callback;
mod calls;
mod compat;
mod deadline;
mod debug;
mod delay_queue;
mod driven_by_hand;
#[cfg(target_os = "linux")]
mod driven_by_reactor;
mod driven_by_task;
mod end_driver;
mod executors;
#[cfg(target_os = "linux")]
mod faked_clock;
mod faults;
#[cfg(unix)]
mod fork;
mod future_ext;
mod fuzz;
mod hostile;
mod interval;
mod lateness;
mod migration;
mod nodes;
#[cfg(feature = "pending")]
mod pending;
mod process;
mod queue_model;
mod scope;
mod shards;
#[cfg(unix)]
mod signals;
mod sleep;
mod spin;
mod stream_ext;
mod support;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod system_clock;
mod timeout;
mod timeout_queue;
mod tolerance;
#[cfg(feature = "tracing")]
mod trace;
mod traits;
mod virtual_time;
mod wall;

/// Stands in the list of tests where some of them were not built.
#[cfg(not(all(
    feature = "aws-smithy-async",
    feature = "embedded-hal-async",
    feature = "hyper",
    feature = "pending",
    feature = "quinn-0_11",
    feature = "tracing",
)))]
#[test]
#[ignore = "some features are off: `cargo test --all-features` has their tests too"]
fn tests_of_features_that_are_off() {}
