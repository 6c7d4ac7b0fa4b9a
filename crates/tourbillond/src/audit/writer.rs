//! [`Writer`]: the thread that writes the log, and the [`Queue`] of lines before it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::oneshot;

use super::AuditError;
use crate::private;

/// Most lines of one write.
const LINES: usize = 1_024;

/// Pause before a write that failed is continued.
const PAUSE: Duration = Duration::from_millis(250);

/// A line to be written, and who waits for it.
pub(super) struct Line {
    /// The entry and a line break.
    pub(super) text: Vec<u8>,
    pub(super) done: oneshot::Sender<Result<(), AuditError>>,
    /// Time of queueing.
    pub(super) at: Instant,
}

/// Lines on their way to the disk.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<Backlog>,
    /// Signalled at each change of `state` that the thread or [`Queue::close`] waits for.
    changed: Condvar,
}

/// Lines that are not on the disk, and the state of their writer.
#[derive(Default)]
pub(super) struct Backlog {
    /// Lines that the thread has not taken.
    pub(super) lines: VecDeque<Line>,
    /// Number of lines that the thread has taken and the disk does not have.
    taken: usize,
    /// Time at which the oldest taken line was queued.
    taken_at: Option<Instant>,
    /// True from a failed write until one succeeds.
    pub(super) is_failing: bool,
    /// True if no further line is taken.
    pub(super) is_closed: bool,
    /// True once the thread has ended.
    has_ended: bool,
}

impl Backlog {
    /// Returns the time at which the oldest line that is not on the disk was queued.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.taken_at.or_else(|| self.lines.front().map(|line| line.at))
    }
}

impl Queue {
    pub(super) fn lock(&self) -> MutexGuard<'_, Backlog> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a line, or drops it if the queue is closed.
    pub(super) fn push(&self, line: Line) {
        let mut state = self.lock();
        if !state.is_closed {
            state.lines.push_back(line);
            self.changed.notify_all();
        }
    }

    /// Closes the queue, and waits for the end of the thread, up to `limit`. Returns the number of
    /// lines that the disk does not have.
    pub(super) fn close(&self, limit: Duration) -> usize {
        let mut state = self.lock();
        state.is_closed = true;
        self.changed.notify_all();
        let waits = self.changed.wait_timeout_while(state, limit, |state| !state.has_ended);
        let (state, _) = waits.unwrap_or_else(PoisonError::into_inner);
        state.taken + state.lines.len()
    }

    /// Waits for lines, and takes the lines of one write; none once the queue is closed. With
    /// `pause`, it waits for that long instead, unless the queue is closed.
    fn take(&self, pause: Option<Duration>) -> Vec<Line> {
        let mut state = self.lock();
        state = match pause {
            Some(pause) => {
                let waits = self.changed.wait_timeout_while(state, pause, |state| !state.is_closed);
                waits.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let is_idle = |state: &mut Backlog| state.lines.is_empty() && !state.is_closed;
                let waits = self.changed.wait_while(state, is_idle);
                waits.unwrap_or_else(PoisonError::into_inner)
            }
        };
        let count = state.lines.len().min(LINES);
        let lines: Vec<_> = state.lines.drain(..count).collect();
        state.taken += count;
        state.taken_at = state.taken_at.or(lines.first().map(|line| line.at));
        lines
    }
}

/// A file that is appended to.
pub(super) trait Sink: Send + 'static {
    /// Appends some of `text`. Returns its number of bytes.
    fn append(&mut self, text: &[u8]) -> io::Result<usize>;

    /// Waits until the writes so far are on the disk.
    fn sync(&mut self) -> io::Result<()>;

    /// Returns whether the file is deleted, so that nothing of it is left.
    fn is_deleted(&self) -> bool;

    /// Returns an identity that no other file of the same time has.
    fn id(&self) -> io::Result<FileId>;
}

/// Identity of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Time of its creation, if the file system has it: a new file can have the inode of a deleted
    /// one.
    pub(super) made: Option<SystemTime>,
}

impl Sink for File {
    fn append(&mut self, text: &[u8]) -> io::Result<usize> {
        io::Write::write(self, text)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn is_deleted(&self) -> bool {
        self.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    fn id(&self) -> io::Result<FileId> {
        let metadata = self.metadata()?;
        let (device, inode) = (metadata.dev(), metadata.ino());
        Ok(FileId { device, inode, made: metadata.created().ok() })
    }
}

/// Failure to write lines.
#[derive(Debug)]
pub(super) enum Fault {
    /// The rest can be written later.
    Write(io::Error),
    /// The kernel may have dropped the data, and the next sync would not report it.
    Sync(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Place of a log.
pub(super) trait Place: Send + 'static {
    type File: Sink;

    /// Makes a file if there is none.
    fn make(&mut self);

    /// Opens the file for appending.
    fn open(&mut self) -> io::Result<Self::File>;

    /// Waits until the disk has the name of the file.
    fn sync(&mut self) -> Result<(), Fault>;
}

impl Place for PathBuf {
    type File = File;

    fn make(&mut self) {
        private::make(self);
    }

    fn open(&mut self) -> io::Result<File> {
        open(self)
    }

    fn sync(&mut self) -> Result<(), Fault> {
        // The folder of the file, also if the path is a link into another.
        let file = self.canonicalize()?;
        File::open(file.parent().unwrap_or(&file))?.sync_all().map_err(Fault::Sync)
    }
}

/// Opens a log for appending. A line that was written in part is ended.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).open(path)?;
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    if last != [b'\n'] {
        io::Write::write_all(&mut file, b"\n")?;
    }
    Ok(file)
}

/// The thread that writes.
pub(super) struct Writer<P: Place> {
    place: P,
    /// File whose name the disk has. Before the first write nobody knows: the process before may
    /// have made the file. Later a program that moves logs away may have.
    named: Option<FileId>,
    queue: Arc<Queue>,
    /// Text of the lines that the disk does not have.
    text: Vec<u8>,
    /// File that has the beginning of the text; `None` if there is none yet.
    file: Option<P::File>,
    /// Length of that beginning.
    written: usize,
}

impl<P: Place> Writer<P> {
    pub(super) fn new(place: P, queue: Arc<Queue>) -> Self {
        Self { place, named: None, queue, text: Vec::new(), file: None, written: 0 }
    }

    /// Writes lines until the queue is closed and empty, or a write fails after it was closed. A
    /// sync that fails ends the process.
    pub(super) fn run(mut self) {
        let _end = End(Arc::clone(&self.queue));
        loop {
            let is_failing = !self.text.is_empty();
            let lines = self.queue.take(is_failing.then_some(PAUSE));
            self.text.extend(lines.iter().flat_map(|line| &line.text));
            if self.text.is_empty() {
                return;
            }
            let result = match self.write() {
                Ok(()) => Ok(()),
                Err(Fault::Write(error)) => {
                    if !is_failing {
                        let why = "the audit log cannot be written: no change is made";
                        tracing::error!(%error, "{why}");
                    }
                    Err(AuditError::Failed)
                }
                Err(Fault::Sync(error)) => {
                    tracing::error!(%error, "the audit log cannot be synced: the node ends");
                    std::process::exit(1)
                }
            };
            let mut state = self.queue.lock();
            state.is_failing = result.is_err();
            if result.is_ok() {
                (state.taken, state.taken_at) = (0, None);
            }
            let is_last = result.is_err() && state.is_closed;
            drop(state);
            for line in lines {
                // A request that was dropped waits no longer.
                let _ = line.done.send(result);
            }
            if is_last {
                return;
            }
        }
    }

    /// Writes the rest of the text, and waits until the disk has all of it.
    fn write(&mut self) -> Result<(), Fault> {
        let kept = self.file.take().filter(|file| !file.is_deleted());
        let file = match kept {
            Some(file) => self.file.insert(file),
            None => {
                self.written = 0;
                self.place.make();
                self.file.insert(self.place.open()?)
            }
        };
        let id = file.id()?;
        if self.named != Some(id) {
            self.place.sync()?;
            self.named = Some(id);
        }
        while self.written < self.text.len() {
            match file.append(&self.text[self.written..]) {
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        file.sync().map_err(Fault::Sync)?;
        self.text.clear();
        self.written = 0;
        self.file = None;
        Ok(())
    }
}

/// Mark of the thread's end, also by a panic: nobody waits for it any more.
struct End(Arc<Queue>);

impl Drop for End {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        (state.is_closed, state.has_ended) = (true, true);
        // Requests that wait see the end of their channel.
        state.taken += state.lines.len();
        state.lines.clear();
        self.0.changed.notify_all();
    }
}
