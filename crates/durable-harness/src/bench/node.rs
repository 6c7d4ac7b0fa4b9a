//! A node that measures.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pollster::block_on;
use tourbillon_durable::{Engine, Fire, Time, Worker};

use super::{HANGS, KIND, now};
use crate::Result;
use crate::canary::{Marks, Tap};
use crate::database::Address;
use crate::node::wait_for_the_end;
use crate::options::Options;
use crate::processor;

/// Most attempts that a node has at a time.
const PREFETCH: usize = 10_000;

/// Runs the node until the standard input ends, then writes its measurements.
///
/// # Errors
///
/// If an option makes no sense, the store cannot be opened, or the file not be written.
pub fn run(options: &Options) -> Result<()> {
    let marks = Marks::default();
    let store = Box::new(Tap::new(Address::new(options.text("store")?)?.open()?, None, &marks));
    let mut builder = Engine::builder()
        .lease(options.millis("lease-ms", 15_000)?)
        .connections(options.number("connections", 1)?);
    if let Some(micros) = options.optional("claim-linger-us") {
        builder = builder.claim_linger(Duration::from_micros(micros.parse()?));
    }
    let engine = builder.start(store)?;
    let starts = carry_out(engine.worker(KIND, PREFETCH));
    let again = Arc::new(Mutex::new(Vec::new()));
    hang(engine.worker(HANGS, PREFETCH), again.clone());
    wait_for_the_end();
    let calls = marks.calls();
    let processor = processor::of(std::process::id())?;
    let lock_timeouts = engine.stats().lock_timeouts;
    let again = again.lock().unwrap_or_else(PoisonError::into_inner).clone();
    block_on(engine.stop());
    let starts = starts.join().expect("the handlers' thread panicked");
    let mut text = format!("calls {calls}\nprocessor {}\n", processor.as_micros());
    let _ = writeln!(text, "lock-timeouts {lock_timeouts}");
    for (at, due) in starts {
        let _ = writeln!(text, "start {at} {due}");
    }
    for at in again {
        let at: Time = at;
        let _ = writeln!(text, "again {}", at.as_micros());
    }
    Ok(std::fs::write(options.text("out")?, text)?)
}

/// Completes each attempt at once. Returns their starts and scheduled times: an occurrence that is
/// made late is due only then.
fn carry_out(mut worker: Worker) -> thread::JoinHandle<Vec<(i64, i64)>> {
    thread::spawn(move || {
        let mut starts = Vec::new();
        while let Some(fire) = block_on(worker.next()) {
            starts.push((now().as_micros(), fire.scheduled_for().as_micros()));
            // It takes effect without being waited for.
            drop(fire.complete());
        }
        starts
    })
}

/// Holds first attempts for ever, and completes others.
fn hang(mut worker: Worker, again: Arc<Mutex<Vec<Time>>>) {
    thread::spawn(move || {
        let mut held: Vec<Fire> = Vec::new();
        while let Some(fire) = block_on(worker.next()) {
            if fire.attempt() == 1 {
                held.push(fire);
            } else {
                again.lock().unwrap_or_else(PoisonError::into_inner).push(now());
                drop(fire.complete());
            }
        }
    });
}
