//! What a job prints, line by line, in a bounded space.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use smol::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::log::visible;

/// The longest line that is logged whole, in bytes.
pub(crate) const LINE_MAX: usize = 4096;
/// How much of a job's output is logged, in bytes. A line counts as [`LINE_COST`] at least.
pub(crate) const OUTPUT_MAX: usize = 1024 * 1024;
const LINE_COST: usize = 64;

/// How much of a job's output has been logged, and how much not. Both of its streams, which one
/// task reads, share it.
pub(crate) struct Budget {
    left: AtomicUsize,
    dropped: AtomicU64,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { left: AtomicUsize::new(OUTPUT_MAX), dropped: AtomicU64::new(0) }
    }

    /// How many bytes came when nothing was left.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

/// Hands each line of `stream` to `tell` as it comes, as far as the budget goes; what is over is
/// read and counted.
pub(crate) async fn copy(
    stream: impl AsyncRead + Unpin,
    budget: &Budget,
    tell: impl Fn(&str),
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = Line { budget, tell, text: Vec::new(), cut: 0 };
    loop {
        let bytes = stream.fill_buf().await?;
        if bytes.is_empty() {
            break;
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(rest) => {
                    line.add(rest);
                    line.end();
                }
                None => line.add(part),
            }
        }
        let length = bytes.len();
        stream.consume(length);
    }
    if !line.text.is_empty() {
        line.end();
    }
    Ok(())
}

struct Line<'a, F> {
    budget: &'a Budget,
    tell: F,
    /// As much of it as is logged.
    text: Vec<u8>,
    /// How many bytes more it has.
    cut: usize,
}

impl<F: Fn(&str)> Line<'_, F> {
    fn add(&mut self, bytes: &[u8]) {
        let room = LINE_MAX - self.text.len();
        let (kept, cut) = bytes.split_at(room.min(bytes.len()));
        self.text.extend_from_slice(kept);
        self.cut += cut.len();
    }

    fn end(&mut self) {
        let Budget { left, dropped } = self.budget;
        let cost = self.text.len().max(LINE_COST);
        if left.load(Relaxed) < cost {
            // Nor is a later, shorter one logged.
            left.store(0, Relaxed);
            dropped.fetch_add((self.text.len() + self.cut) as u64 + 1, Relaxed);
        } else {
            left.fetch_sub(cost, Relaxed);
            let text = visible(self.text.strip_suffix(b"\r").unwrap_or(&self.text));
            match self.cut {
                0 => (self.tell)(&text),
                cut => (self.tell)(&format!("{text} [{cut} bytes more]")),
            }
        }
        self.text.clear();
        self.cut = 0;
    }
}
