//! Output of a job, line by line, in a bounded space.

use std::io;

use smol::future::yield_now;
use smol::io::{AsyncBufReadExt, AsyncRead, BufReader};

use tourbillon_crontab::visible;

/// The longest line that is logged whole, in bytes.
pub(crate) const LINE_MAX: usize = 4096;
/// Most bytes of a job's output that are logged. A line counts as [`LINE_COST`] at least.
pub(crate) const OUTPUT_MAX: usize = 1024 * 1024;
pub(crate) const LINE_COST: usize = 64;
/// Bytes that are read in one go, before other jobs have their turn. A pipe holds no more.
const TURN: usize = 1024 * 1024;

/// Hands each line of `stream` to `tell` as it comes, up to [`OUTPUT_MAX`]. Returns the number of
/// bytes beyond that: they are read and left out.
pub(crate) async fn copy(stream: impl AsyncRead + Unpin, tell: impl Fn(&str)) -> io::Result<u64> {
    let mut stream = BufReader::new(stream);
    let mut lines = Lines { tell, room: OUTPUT_MAX, left_out: 0, text: Vec::new(), cut: 0 };
    let mut turn = 0;
    loop {
        let bytes = stream.fill_buf().await?;
        if bytes.is_empty() {
            break;
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(rest) => {
                    lines.add(rest);
                    lines.end();
                }
                None => lines.add(part),
            }
        }
        let length = bytes.len();
        stream.consume(length);
        turn += length;
        if turn >= TURN {
            turn = 0;
            yield_now().await;
        }
    }
    if !lines.text.is_empty() {
        lines.end();
    }
    Ok(lines.left_out)
}

struct Lines<F> {
    tell: F,
    /// Bytes that may still be logged.
    room: usize,
    left_out: u64,
    /// Begin of the line, as much of it as is logged.
    text: Vec<u8>,
    /// Number of further bytes that it has.
    cut: usize,
}

impl<F: Fn(&str)> Lines<F> {
    fn add(&mut self, bytes: &[u8]) {
        let room = LINE_MAX - self.text.len();
        let (kept, cut) = bytes.split_at(room.min(bytes.len()));
        self.text.extend_from_slice(kept);
        self.cut += cut.len();
    }

    fn end(&mut self) {
        let cost = self.text.len().max(LINE_COST);
        if self.room < cost {
            // Nor is a later, shorter one logged.
            self.room = 0;
            self.left_out += (self.text.len() + self.cut) as u64 + 1;
        } else {
            self.room -= cost;
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
