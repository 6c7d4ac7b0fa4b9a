//! The rate at which timers are made.

use std::thread;
use std::time::{Duration, Instant};

use pollster::block_on;
use tourbillon_durable::{Client, Time};

use super::{KIND, Run, fill, now};
use crate::Result;

/// Callers that share a client.
const CALLERS: usize = 64;

/// Nobody waits for these.
const FAR: Duration = Duration::from_secs(86_400);

/// A thousand to a statement; then one at a time; then one at a time by many at once.
pub(super) fn insert(run: &Run) -> Result<String> {
    let (count, span) = (run.options.timers, run.options.span);
    let mut store = run.address.open()?;
    let far = now() + FAR;
    let began = Instant::now();
    fill(&mut *store, count, (far, Duration::from_secs(1)), false)?;
    let batched = count as f64 / began.elapsed().as_secs_f64();
    let client = Client::new(store)?;
    let single = rate(&client, far, span)?;
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || rate(&client, far, span).map_err(|error| error.to_string()))
        })
        .collect();
    let mut together = 0.0;
    for caller in callers {
        together += caller.join().expect("a caller panicked")?;
    }
    Ok(format!("{batched:.0} batched, {single:.0} one by one, {together:.0} by {CALLERS} callers"))
}

/// Returns how many a second one caller makes.
fn rate(client: &Client, at: Time, span: Duration) -> Result<f64> {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < span {
        block_on(client.once(KIND, at).create())?;
        count += 1;
    }
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}
