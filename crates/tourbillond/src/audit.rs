//! [`Audit`]: the log of changes, a file of JSON lines that only grows.
//!
//! One thread writes it. It takes the lines of all requests that wait, appends them by one write,
//! and reports them once the disk has them. So a request costs no sync of its own, as in a group
//! commit. The file is opened for each write: whatever moves it away, the next line begins another.
//!
//! If a write fails, its lines are kept for the next one, and [`Audit::check`] fails until they are
//! written. So there is no change while the log has none. A write that failed may have left a part
//! of a line. The next one begins with a line break, and readers skip lines that are no entry.

mod read;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::sync::oneshot;

pub(crate) use read::AuditQuery;

use crate::model::AuditEntry;
use crate::private;

/// Most lines of one write.
const LINES: usize = 1_024;

/// Error of a log that cannot be written.
#[derive(Clone, Debug)]
pub(crate) struct AuditError(Arc<io::Error>);

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the audit log cannot be written: {}", self.0)
    }
}

impl std::error::Error for AuditError {}

/// The audit log of a node.
pub(crate) struct Audit {
    path: PathBuf,
    lines: mpsc::Sender<Line>,
    /// Whether the last write failed.
    is_stuck: Arc<AtomicBool>,
}

/// A line to be written, and who waits for it.
struct Line {
    /// The entry and a line break; empty for one that only waits for those before it.
    text: Vec<u8>,
    done: oneshot::Sender<Result<(), AuditError>>,
}

impl Audit {
    /// Opens the log, and makes its file if there is none, for its owner alone.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or the thread cannot be started.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        append(path, b"")?;
        let (lines, queue) = mpsc::channel();
        let is_stuck = Arc::new(AtomicBool::new(false));
        let writer = Writer {
            path: path.to_owned(),
            unwritten: Vec::new(),
            is_stuck: Arc::clone(&is_stuck),
        };
        thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(&queue))?;
        Ok(Self { path: path.to_owned(), lines, is_stuck })
    }

    /// Fails if lines of earlier changes are not written and cannot be: no change is to be made.
    pub(crate) async fn check(&self) -> Result<(), AuditError> {
        // ORDERING: Relaxed; a change that begins while another's line fails may still be made, and
        // its own line then reports the failure.
        if self.is_stuck.load(Ordering::Relaxed) { self.flush().await } else { Ok(()) }
    }

    /// Waits until all lines so far are on the disk.
    pub(crate) async fn flush(&self) -> Result<(), AuditError> {
        wait(self.queue(Vec::new())).await
    }

    /// Appends an entry, and waits until it is on the disk.
    ///
    /// # Errors
    ///
    /// If it cannot be written now; it is kept, and written before the next one.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it waits no longer; the entry is written.
    pub(crate) async fn append(&self, entry: &AuditEntry) -> Result<(), AuditError> {
        wait(self.append_later(entry)).await
    }

    /// Appends an entry without waiting for it.
    pub(crate) fn append_later(
        &self,
        entry: &AuditEntry,
    ) -> oneshot::Receiver<Result<(), AuditError>> {
        let mut text = serde_json::to_vec(entry).expect("an entry is JSON");
        text.push(b'\n');
        self.queue(text)
    }

    fn queue(&self, text: Vec<u8>) -> oneshot::Receiver<Result<(), AuditError>> {
        let (done, waits) = oneshot::channel();
        // It fails if the thread has panicked: `wait` reports that.
        let _ = self.lines.send(Line { text, done });
        waits
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("path", &self.path).finish_non_exhaustive()
    }
}

async fn wait(waits: oneshot::Receiver<Result<(), AuditError>>) -> Result<(), AuditError> {
    let gone = |_| AuditError(Arc::new(io::Error::other("its thread has ended")));
    waits.await.map_err(gone)?
}

/// The thread that writes.
struct Writer {
    path: PathBuf,
    /// Lines of writes that failed.
    unwritten: Vec<u8>,
    is_stuck: Arc<AtomicBool>,
}

impl Writer {
    /// Writes lines until the log is dropped.
    fn run(mut self, queue: &mpsc::Receiver<Line>) {
        while let Ok(first) = queue.recv() {
            let lines: Vec<_> =
                std::iter::once(first).chain(queue.try_iter().take(LINES - 1)).collect();
            let written = self.write(&lines);
            for line in lines {
                // A request that was dropped waits no longer.
                let _ = line.done.send(written.clone());
            }
        }
    }

    fn write(&mut self, lines: &[Line]) -> Result<(), AuditError> {
        self.unwritten.extend(lines.iter().flat_map(|line| &line.text));
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let written = append(&self.path, &self.unwritten);
        // ORDERING: Relaxed; only this thread writes it, and `check` says what a late read may do.
        let was_stuck = self.is_stuck.swap(written.is_err(), Ordering::Relaxed);
        match written {
            Ok(()) => self.unwritten.clear(),
            Err(error) => {
                if !was_stuck {
                    tracing::error!(%error, "the audit log cannot be written: no change is made");
                    self.unwritten.insert(0, b'\n');
                }
                return Err(AuditError(Arc::new(error)));
            }
        }
        Ok(())
    }
}

/// Appends to a file, which is made if it is not there, and waits until the disk has it.
fn append(path: &Path, text: &[u8]) -> io::Result<()> {
    private::make(path);
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(text)?;
    file.sync_data()
}
