//! Events for `tracing`; nothing without that feature.

use std::time::Duration;

use crate::error::StoreError;
use crate::id::{Lease, NodeId};
use crate::rule::Unreadable;

/// Least lateness of a claim that is worth an event.
#[cfg(feature = "tracing")]
const LATE: Duration = Duration::from_millis(100);

/// A call failed, and will be made again.
pub(crate) fn store_failed(call: &str, error: &StoreError) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "tourbillon_durable", call, %error, "store failed");
    let _ = (call, error);
}

/// A claim brought timers, the latest of them this late.
pub(crate) fn claimed(count: usize, lateness_max: Duration) {
    #[cfg(feature = "tracing")]
    if lateness_max >= LATE {
        let lateness_us = lateness_max.as_micros() as u64;
        tracing::debug!(target: "tourbillon_durable", count, lateness_us, "late claim");
    }
    let _ = (count, lateness_max);
}

/// The connection that listens is lost or refused: until the next try, scans find the inserts of
/// other processes.
#[cfg(feature = "postgres")]
pub(crate) fn deaf(error: &StoreError) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "tourbillon_durable", %error, "not listening");
    let _ = error;
}

/// The node's life ended without its doing.
pub(crate) fn lease_lost(lease: Lease) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "tourbillon_durable",
        node = %lease.node,
        epoch = lease.epoch,
        "lease lost"
    );
    let _ = lease;
}

/// The node removed the rows of dead nodes, rescued their timers, or advanced queues.
pub(crate) fn maintained(nodes: u64, orphans: u64, promoted: u64) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: "tourbillon_durable", nodes, orphans, promoted, "maintained");
    let _ = (nodes, orphans, promoted);
}

/// A schedule's next occurrence was moved by the rules that its zone has now.
pub(crate) fn rezoned(name: &str) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: "tourbillon_durable", name, "moved by new rules of its zone");
    let _ = name;
}

/// A schedule's text has a meaning that this version does not know.
pub(crate) fn not_understood(name: &str, why: &Unreadable) {
    #[cfg(feature = "tracing")]
    tracing::error!(target: "tourbillon_durable", name, %why, "schedule not understood");
    let _ = (name, why);
}

/// The node has ended.
pub(crate) fn stopped(node: NodeId) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: "tourbillon_durable", %node, "node stopped");
    let _ = node;
}
