//! Calls back: one worker an app, with limits per app and per host.
//!
//! Due attempts come from the worker of their app. [`gate`] decides whether it starts, waits a
//! little in memory, or is postponed: handed back to the database, due again later, with no failure
//! counted. What starts is [built](request) and [sent](client) to an address that the app's [guard]
//! lets pass; its [outcome] and the [tries](tries) before it are kept with the timer, without [what
//! is not shown](redact).
//!
//! Every limit is of one node.

mod client;
mod dispatch;
mod gate;
mod guard;
mod outcome;
mod redact;
mod request;
mod tries;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub use guard::Destination;
pub use outcome::retry;
pub use request::{Fault, Trace, check};
pub use tries::{ended, read as read_tries, was_of};

use crate::Service;
use crate::metrics;
use crate::model::Lateness;
use client::Client;
use dispatch::Dispatcher;
use guard::Guard;

/// Period at which measurements are tidied up.
const TIDY: Duration = Duration::from_secs(5);

/// Starts the workers of all apps, and follows the configuration: at each change all of them are
/// started anew, and those of apps that are gone are not. What runs then goes on.
///
/// They end when the service is stopped.
///
/// # Panics
///
/// If it is not called on a runtime of tokio.
pub fn start(service: &Arc<Service>) {
    metrics::collect();
    tokio::spawn(follow(service.clone()));
    tokio::spawn(tidy(service.clone()));
}

/// Returns what was measured, as Prometheus reads it.
pub fn metrics(_: &Service) -> String {
    metrics::text()
}

/// Returns how late callbacks start.
pub fn lateness(_: &Service) -> Lateness {
    metrics::lateness()
}

async fn follow(service: Arc<Service>) {
    let mut configs = service.follow();
    let mut dispatchers = HashMap::<String, Dispatcher>::new();
    loop {
        let config = configs.borrow_and_update().clone();
        for (_, dispatcher) in dispatchers.drain() {
            dispatcher.retire().await;
        }
        for (name, app) in &config.apps {
            let client = match Client::new(Guard::new(app), &service.timer) {
                Ok(client) => client,
                Err(error) => {
                    tracing::error!(app = name, %error, "no callbacks: TLS cannot be set up");
                    continue;
                }
            };
            let Some(started) = Dispatcher::start(&service, name, app, client) else { return };
            dispatchers.insert(name.clone(), started);
        }
        if configs.changed().await.is_err() {
            return;
        }
    }
}

async fn tidy(service: Arc<Service>) {
    let mut ticks = service.timer.interval(TIDY);
    while service.stats().is_some() {
        ticks.tick().await;
        metrics::tidy();
    }
}

/// A number that nobody guesses.
fn random() -> u64 {
    getrandom::u64().expect("the system has random numbers")
}
