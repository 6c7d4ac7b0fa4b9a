//! Writes the log from a thread of its own, so that nothing waits for its reader.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::output::LINE_COST;

/// Lines that wait to be written, in bytes. A line counts as [`LINE_COST`] at least.
pub(crate) const WAITING_MAX: usize = 4 * 1024 * 1024;

/// Lines for a thread that writes them. If it is held up, as by a pager that nobody moves on, they
/// wait in a bounded space. Beyond that they are left out, and counted in their place.
#[derive(Clone)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<String>,
    bytes: usize,
    /// Lines after these that were left out.
    left_out: u64,
    /// True while the thread writes lines that it has taken.
    is_writing: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.left_out == 0
    }
}

impl Writer {
    /// # Errors
    ///
    /// If no thread can be started.
    pub(crate) fn new(to: impl Write + Send + 'static) -> io::Result<Self> {
        let writer = Self { shared: Arc::default() };
        let shared = Arc::clone(&writer.shared);
        thread::Builder::new().name("crontab log".to_owned()).spawn(move || shared.write(to))?;
        Ok(writer)
    }

    /// Hands over a line. Never waits for one to be written.
    pub(crate) fn push(&self, line: &str) {
        let mut queue = self.shared.lock();
        let cost = line.len().max(LINE_COST);
        // Nor is a later, shorter one taken, so that the count stands where lines are missing.
        if queue.left_out > 0 || queue.bytes + cost > WAITING_MAX {
            queue.left_out += 1;
        } else {
            queue.bytes += cost;
            queue.lines.push_back(line.to_owned());
        }
        self.shared.changed.notify_all();
    }

    /// Waits until all lines are written, for as long as `limit`.
    pub(crate) fn finish(&self, limit: Duration) {
        let waits = |queue: &mut Queue| queue.is_writing || !queue.is_empty();
        let queue = self.shared.lock();
        let _ = self.shared.changed.wait_timeout_while(queue, limit, waits);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes lines for ever. A line that cannot be written is passed over: jobs run on when nobody
    /// reads the log any more.
    fn write(&self, mut to: impl Write) {
        loop {
            let queue = self.lock();
            let queue = self.changed.wait_while(queue, |queue| queue.is_empty());
            let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
            let Queue { lines, left_out, .. } =
                mem::replace(&mut *queue, Queue { is_writing: true, ..Queue::default() });
            drop(queue);
            for line in lines {
                let _ = writeln!(to, "{line}");
            }
            if left_out > 0 {
                let _ = writeln!(to, "[{left_out} lines are left out, as the log was not read]");
            }
            let _ = to.flush();
            self.lock().is_writing = false;
            self.changed.notify_all();
        }
    }
}
