//! Reading the log, newest entries first, from its end.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use super::Audit;
use crate::model::{AuditEntry, Page};

/// Bytes of one read.
const BLOCK: u64 = 64 << 10;

/// Most bytes that one page reads, in blocks.
const BLOCKS: usize = 64;

/// Filter of a list of entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditQuery {
    /// Only entries of these apps; of all if it is `None`.
    pub(crate) apps: Option<Vec<String>>,
    /// Only entries of this key.
    pub(crate) key: Option<String>,
    /// Only entries of the token with this name.
    pub(crate) token: Option<String>,
    /// Most entries of the page.
    pub(crate) limit: usize,
    /// The `next` of the page before.
    pub(crate) cursor: Option<String>,
}

impl AuditQuery {
    fn has(&self, entry: &AuditEntry) -> bool {
        let is =
            |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        self.apps.as_ref().is_none_or(|apps| apps.contains(&entry.app))
            && is(&self.key, &entry.key)
            && is(&self.token, &entry.token)
    }
}

impl Audit {
    /// Returns a page of entries, newest first; `None` if the cursor is of no page of this file. It
    /// blocks while it reads.
    ///
    /// A page reads some megabytes at most, so it may have no entry although more follow.
    pub(crate) fn read(&self, query: &AuditQuery) -> io::Result<Option<Page<AuditEntry>>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            // It was moved away, and there was no change since.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let page = Page::new(Vec::new(), None);
                return Ok(query.cursor.is_none().then_some(page));
            }
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let number = metadata.ino();
        let end = match &query.cursor {
            None => metadata.len(),
            Some(cursor) => {
                match cursor.split_once('-').map(|(of, at)| (of.parse::<u64>(), at.parse::<u64>()))
                {
                    Some((Ok(of), Ok(at))) if of == number && at <= metadata.len() => at,
                    _ => return Ok(None),
                }
            }
        };
        let mut page = Page::new(Vec::new(), None);
        let mut lines = Backwards { file: &file, start: end, held: VecDeque::new(), reads: BLOCKS };
        while let Some(line) = lines.next()? {
            let entry = serde_json::from_slice::<AuditEntry>(&line).ok();
            page.items.extend(entry.filter(|entry| query.has(entry)));
            if page.items.len() == query.limit {
                break;
            }
        }
        let at = match lines.position() {
            // A line that is longer than all that a page reads is no entry.
            at if at == end => lines.start,
            at => at,
        };
        page.next = (at > 0).then(|| format!("{number}-{at}"));
        Ok(Some(page))
    }
}

/// Lines of a file before a position, the last first.
struct Backwards<'a> {
    file: &'a File,
    /// Position of what is held.
    start: u64,
    /// Bytes that were read and are of no line yet. They end with a line, or with a part of one
    /// that is being written.
    held: VecDeque<u8>,
    /// Reads that are left.
    reads: usize,
}

impl Backwards<'_> {
    /// Position up to which the lines are not returned yet.
    fn position(&self) -> u64 {
        self.start + self.held.len() as u64
    }

    /// Returns the next line, without its line break; `None` at the beginning of the file, and
    /// when enough was read.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            // The last byte is the line break of the line itself.
            let inner = self.held.len().saturating_sub(1);
            let before = self.held.iter().take(inner).rposition(|byte| *byte == b'\n');
            let from = match before {
                Some(at) => at + 1,
                None if self.start == 0 && !self.held.is_empty() => 0,
                None if self.start == 0 || self.reads == 0 => return Ok(None),
                None => {
                    self.fill()?;
                    continue;
                }
            };
            return Ok(Some(self.held.drain(from..).filter(|byte| *byte != b'\n').collect()));
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let from = self.start.saturating_sub(BLOCK);
        let mut block = vec![0; usize::try_from(self.start - from).unwrap_or(0)];
        self.file.read_exact_at(&mut block, from)?;
        block.into_iter().rev().for_each(|byte| self.held.push_front(byte));
        self.start = from;
        self.reads -= 1;
        Ok(())
    }
}
