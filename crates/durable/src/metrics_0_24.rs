//! A node's counters and lateness, for the `metrics` facade.
//!
//! Needs the feature `metrics-0_24`. Lateness is recorded with each claim. The counters are kept
//! once, and [`publish`] sets the metrics to them: call it as often as they are collected.
//!
//! | metric | kind | what |
//! |---|---|---|
//! | `tourbillon_durable_lateness_seconds` | histogram | how long after it was due each timer was claimed, by the database's clock |
//! | `tourbillon_durable_*_total` | counter | each counter of [`Stats`](crate::Stats), with the label `node` |

use ::metrics_0_24::{Key, Label, with_recorder};

use crate::engine::Engine;
use crate::node::METADATA;

/// Sets the metrics to a node's counters. `node` tells nodes of one process apart.
///
/// # Examples
///
/// ```
/// use tourbillon_durable::{Engine, metrics_0_24};
///
/// fn collect(engine: &Engine) {
///     metrics_0_24::publish(engine, "main");
/// }
/// ```
pub fn publish(engine: &Engine, node: &str) {
    with_recorder(|recorder| {
        for (name, value) in engine.stats().each() {
            let labels = vec![Label::new("node", node.to_owned())];
            let key = Key::from_parts(format!("tourbillon_durable_{name}_total"), labels);
            recorder.register_counter(&key, &METADATA).absolute(value);
        }
    });
}
