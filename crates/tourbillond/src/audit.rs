//! [`Audit`]: the log of changes, a file of JSON lines that only grows.
//!
//! One thread writes it. It takes the lines of all requests that wait, appends them by one write,
//! and reports them once the disk has them. So a request costs no sync of its own, as in a group
//! commit. The file is opened for each write: whatever moves it away, the next line begins another.
//! No line of a new file is reported before the disk has the file's name.
//!
//! A failed write is continued where it stopped, by the same thread and after a pause, until all of
//! it is on the disk: nothing is appended twice. Until then [`Audit::check`] fails, and so it does
//! while the disk does not answer. So no change begins that the log might never have. A failed sync
//! ends the process: the kernel may have dropped the data, and reports this only once.

#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tourbillon::Timer;

use writer::{Fault, Line, Place, Queue, Sink as _, Writer};

use crate::model::AuditEntry;

/// Age of the oldest line that is not on the disk from which on no change begins.
const SLOW: Duration = Duration::from_secs(5);

/// Most lines that wait; with more, no change begins.
const WAITING: usize = 16_384;

/// Longest time that [`Audit::close`] waits for the disk.
const CLOSING: Duration = Duration::from_secs(5);

/// Error of a log that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AuditError {
    /// The last write failed.
    #[error("the audit log cannot be written; the log of the node says why")]
    Failed,
    /// The disk does not keep up, or does not answer.
    #[error("the disk of the audit log is too slow")]
    Slow,
    /// The log is closed, or its thread has panicked.
    #[error("the audit log is closed")]
    Closed,
}

/// The audit log of a node.
pub(crate) struct Audit {
    path: PathBuf,
    timer: Timer,
    queue: Arc<Queue>,
}

impl Audit {
    /// Opens the log, and makes its file if there is none, for its owner alone.
    ///
    /// # Errors
    ///
    /// If the file cannot be written or synced, its folder cannot be synced, or the thread cannot
    /// be started.
    pub(crate) fn open(path: &Path, timer: &Timer) -> io::Result<Self> {
        let mut place = path.to_owned();
        place.make();
        let mut file = place.open()?;
        // Or the first change would be made before anybody knew.
        place.sync().map_err(|fault| {
            let (Fault::Write(error) | Fault::Sync(error)) = fault;
            let why = format!("the folder of the file cannot be opened and synced: {error}");
            io::Error::new(error.kind(), why)
        })?;
        file.sync().map_err(|error| {
            io::Error::new(error.kind(), format!("the file cannot be synced: {error}"))
        })?;
        Self::start(path, timer, place)
    }

    /// Starts the thread, which writes to the file at a place.
    fn start(path: &Path, timer: &Timer, place: impl Place) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let writer = Writer::new(place, Arc::clone(&queue));
        thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run())?;
        Ok(Self { path: path.to_owned(), timer: timer.clone(), queue })
    }

    /// Fails if a change that begins now might never be in the log: earlier lines cannot be
    /// written, wait for long, or are many.
    pub(crate) fn check(&self) -> Result<(), AuditError> {
        let state = self.queue.lock();
        let is_old = |at| self.timer.now().duration_since(at) >= SLOW;
        if state.is_closed {
            Err(AuditError::Closed)
        } else if state.is_failing {
            Err(AuditError::Failed)
        } else if state.lines.len() >= WAITING || state.oldest().is_some_and(is_old) {
            Err(AuditError::Slow)
        } else {
            Ok(())
        }
    }

    /// Appends an entry, and waits until it is on the disk.
    ///
    /// # Errors
    ///
    /// If it cannot be written now; it is kept, and written later.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it waits no longer; the entry is written.
    pub(crate) async fn append(&self, entry: &AuditEntry) -> Result<(), AuditError> {
        self.append_later(entry).await.unwrap_or(Err(AuditError::Closed))
    }

    /// Appends an entry without waiting for it.
    pub(crate) fn append_later(
        &self,
        entry: &AuditEntry,
    ) -> oneshot::Receiver<Result<(), AuditError>> {
        let mut text = serde_json::to_vec(entry).expect("an entry is JSON");
        text.push(b'\n');
        let (done, waits) = oneshot::channel();
        self.queue.push(Line { text, done, at: self.timer.now() });
        waits
    }

    /// Takes no further lines, and waits for at most 5 s until the waiting ones are on the disk. If
    /// lines are lost, the log of the node has their number.
    pub(crate) fn close(&self) {
        let lost = self.queue.close(CLOSING);
        if lost > 0 {
            tracing::error!(lines = lost, "the audit log could not be written to its end");
        }
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.queue.close(Duration::ZERO);
    }
}
