//! Calls back: one worker an app, with limits per app and per host.

use std::sync::Arc;

use crate::Service;
use crate::model::Lateness;

/// Starts the workers of all apps.
pub fn start(service: &Arc<Service>) {
    let _ = service;
}

/// What was measured, as Prometheus reads it.
pub fn metrics(service: &Service) -> String {
    let _ = service;
    String::new()
}

/// How late callbacks start.
pub fn lateness(service: &Service) -> Lateness {
    let _ = service;
    Lateness::default()
}
