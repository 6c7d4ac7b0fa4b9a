//! Dispatches due attempts: one worker an app, with limits per app and per host.
//!
//! Due attempts come from the worker of their app. [`gate`] decides whether one starts, waits a
//! little in memory, or is postponed: handed back to the database, due again later, with no failure
//! counted. An attempt that starts is built and judged by [`callback`](crate::callback), and
//! [sent](client) to an address that the app's [guard](crate::callback::Guard) permits.
//!
//! Every limit is of one node.

mod app;
mod client;
mod connect;
mod gate;
mod notice;
mod pool;
mod proxy;
mod reach;
mod shortage;
mod token;
mod watch;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::metrics;
use crate::service::Service;
use app::Dispatcher;
use client::Client;
pub use notice::check_all;

/// Period at which measurements are tidied up.
const TIDY: Duration = Duration::from_secs(5);

/// Starts the workers of all apps, and follows the configuration: each change starts all workers
/// anew, except those of removed apps. Attempts under way continue.
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
    tokio::spawn(watch::run(service.clone()));
    tokio::spawn(watch::follow(service.clone()));
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
            let client = Client::new(app, &service.timer);
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

/// Reads the head of a request.
#[cfg(test)]
async fn head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> std::io::Result<String> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(tokio::io::AsyncReadExt::read_u8(stream).await?);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Runs a test again, in a process with few descriptors: a limit is the whole process's. Returns
/// whether it is that process.
#[cfg(test)]
fn is_starved(name: &str) -> bool {
    const STARVED: &str = "TOURBILLOND_TEST_STARVED";
    if std::env::var_os(STARVED).is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let mut shell = std::process::Command::new("sh");
    let script = "ulimit -n 256; exec \"$0\" --exact --nocapture --test-threads 1 \"$1\"";
    let output = shell.args(["-c", script]).arg(own).arg(name).env(STARVED, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
    false
}
