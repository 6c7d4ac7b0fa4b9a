//! Readings of the database's clock, all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tourbillon_durable::Store;

use crate::Result;
use crate::log::{Line, Log, STALL_US, Stamp};

/// Time from one reading to the next.
const PERIOD: Duration = Duration::from_millis(250);

/// Readings in a row; the best one is kept.
const BEST_OF: u32 = 5;

/// A thread that reads the clock and logs it. It notices too when the database does not answer.
pub(super) struct Clock {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    /// Logs a first reading before it returns.
    pub(super) fn start(log: &Arc<Log>, mut store: Box<dyn Store>) -> Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        read(log, &mut *store)?;
        let (log, is_over) = (log.clone(), over.clone());
        let thread = thread::spawn(move || {
            // ORDERING: Relaxed; it publishes nothing but itself.
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(PERIOD);
                let from = Stamp::now();
                let is_read = read(&log, &mut *store).is_ok();
                let to = Stamp::now();
                if !is_read || to.0 - from.0 > STALL_US {
                    log.write(&Line::Stall { from, to, node: None });
                }
            }
            read(&log, &mut *store).expect("the run ends with a reading of the clock");
        });
        Ok(Self { over, thread: Some(thread) })
    }

    /// Logs a last reading.
    pub(super) fn stop(&mut self) {
        // ORDERING: Relaxed; it publishes nothing but itself.
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the clock's thread panicked");
        }
    }
}

fn read(log: &Log, store: &mut dyn Store) -> Result<()> {
    let mut best: Option<(Stamp, _, Stamp)> = None;
    for _ in 0..BEST_OF {
        let before = Stamp::now();
        let time = store.now()?;
        let after = Stamp::now();
        if best.is_none_or(|(from, _, to)| after.0 - before.0 < to.0 - from.0) {
            best = Some((before, time, after));
        }
    }
    let (before, time, after) = best.expect("it was read more than once");
    log.write(&Line::Clock { before, time, after });
    Ok(())
}
