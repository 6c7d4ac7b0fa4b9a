//! The engine's part of a driver that is a task.

use std::io;
use std::task::Waker;

use crate::engine::SharedEngine;
use crate::sync::{Mutex, StdArc, lock};

/// Has a runtime run a task that drives the engine.
pub(crate) type StartTask = dyn Fn(&SharedEngine) -> io::Result<()> + Send + Sync;

/// State that an engine needs for a task that drives it.
pub(crate) struct TaskDriver {
    start: StdArc<StartTask>,
    /// True while there is a task: set where it is started, reset as it ends or is dropped.
    pub(crate) running: Mutex<bool>,
    /// Waker of the task's last poll.
    waker: Mutex<Option<Waker>>,
}

impl TaskDriver {
    pub(crate) fn new(start: StdArc<StartTask>) -> Self {
        Self { start, running: Mutex::new(false), waker: Mutex::new(None) }
    }

    /// A driver of the same runtime in another process.
    pub(crate) fn anew(&self) -> Self {
        Self::new(StdArc::clone(&self.start))
    }

    /// Starts the task unless it is there.
    pub(crate) fn start(&self, engine: &SharedEngine) -> io::Result<()> {
        let mut running = lock(&self.running);
        if !*running {
            (self.start)(engine)?;
            *running = true;
        }
        Ok(())
    }

    /// Keeps the waker of a poll. To be called before the poll scans.
    pub(crate) fn keep_waker(&self, waker: &Waker) {
        let mut kept = lock(&self.waker);
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            drop(kept);
            // Foreign code, with no lock held.
            let waker = waker.clone();
            kept = lock(&self.waker);
            let old = kept.replace(waker);
            drop(kept);
            drop(old);
        }
    }

    /// Forgets the waker of a task that has ended.
    pub(crate) fn leave(&self) {
        let old = lock(&self.waker).take();
        drop(old);
    }

    /// Wakes the task.
    pub(crate) fn unpark(&self) {
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
