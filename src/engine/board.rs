//! The board: each shard's earliest deadline, so that a scan locks only those that are due.
//!
//! `PROTOCOL.md` argues that a scan that passes over a shard misses no timer.

use alloc::boxed::Box;

use crate::engine::MAX_SHARDS;
use crate::sync::{AtomicU64, Ordering, fence};
use crate::tick::Tick;

/// Elements to a cache line. The models have few shards, and no element that none of them uses.
const ROWS: usize = if cfg!(all(test, tourbillon_model)) { 1 } else { 8 };

/// Lines that a board has at least, if it has as many shards. Threads with neighbouring numbers
/// post on different ones.
const LINES_MIN: usize = 8;

/// One element for each shard, equal to that shard's `earliest` while nobody holds its lock.
/// Written under that lock only; read by anyone.
#[derive(Debug)]
pub(crate) struct Board {
    /// A power of two of them. Shard `n` is on line `n` modulo their number.
    lines: Box<[Line]>,
    /// Rows of each line that are in use.
    rows: usize,
}

#[derive(Debug)]
#[repr(align(64))]
struct Line([AtomicU64; ROWS]);

impl Board {
    /// Makes a board of so many shards, a power of two, without a deadline.
    pub(crate) fn new(shards: usize) -> Self {
        let lines = (shards / ROWS).max(shards.min(LINES_MIN));
        let element = || AtomicU64::new(Tick::NEVER.raw());
        Self {
            lines: (0..lines).map(|_| Line(core::array::from_fn(|_| element()))).collect(),
            rows: shards / lines,
        }
    }

    fn element(&self, shard: usize) -> &AtomicU64 {
        let lines = self.lines.len();
        &self.lines[shard & (lines - 1)].0[shard >> lines.trailing_zeros()]
    }

    /// Posts a deadline that is earlier than all in the shard, which is locked by the caller. If a
    /// scan that passes the shard over is under way, all that its thread did before the scan is
    /// seen from here on, and by those who take the lock next.
    pub(crate) fn lower(&self, shard: usize, earliest: Tick) {
        // ORDERING: Relaxed; the fence that follows orders it.
        self.element(shard).store(earliest.raw(), Ordering::Relaxed);
        // ORDERING: SeqCst, the partner of that in `begin_scan`. Of the two fences one is first:
        // either the scan reads what was just posted, or we see the alarm as it was set before the
        // scan. Loom `an_insert_into_an_idle_shard_races_park`.
        fence(Ordering::SeqCst);
    }

    /// Posts what a visit to the shard found, which is locked by the caller.
    pub(crate) fn raise(&self, shard: usize, earliest: Tick) {
        let element = self.element(shard);
        // ORDERING: Relaxed, twice; the element is the lock's, so this reads the latest. A scan
        // that reads an older one visits the shard, or ends early.
        if element.load(Ordering::Relaxed) != earliest.raw() {
            element.store(earliest.raw(), Ordering::Relaxed);
        }
    }

    /// Makes what is read from here on as new as what the threads that post see of this one's past.
    pub(crate) fn begin_scan(&self) {
        // ORDERING: SeqCst, the partner of those in `lower` and `Engine::close`.
        fence(Ordering::SeqCst);
    }

    /// Returns the shards that have something due at `now`, and the earliest deadline of the
    /// others.
    pub(crate) fn scan(&self, now: Tick) -> (Shards, Tick) {
        self.begin_scan();
        let (mut due, mut next) = (Shards::NONE, Tick::NEVER);
        for (index, line) in self.lines.iter().enumerate() {
            for (row, element) in line.0[..self.rows].iter().enumerate() {
                // ORDERING: Relaxed; the fence orders it.
                let earliest = Tick::from_raw(element.load(Ordering::Relaxed));
                if earliest <= now {
                    due.insert(row * self.lines.len() + index);
                } else {
                    next = next.min(earliest);
                }
            }
        }
        (due, next)
    }

    /// No later than any deadline in the shard. [`begin_scan`](Self::begin_scan) comes before.
    pub(crate) fn earliest(&self, shard: usize) -> Tick {
        // ORDERING: Relaxed; that fence orders it.
        Tick::from_raw(self.element(shard).load(Ordering::Relaxed))
    }
}

/// A set of shards, taken out in order.
#[derive(Clone, Debug)]
pub(crate) struct Shards {
    words: [u64; WORDS],
    /// The words before have none left.
    at: usize,
}

const BITS: usize = u64::BITS as usize;
const WORDS: usize = MAX_SHARDS / BITS;

impl Shards {
    const NONE: Self = Self { words: [0; WORDS], at: 0 };

    /// Returns the set of the first `count`.
    pub(crate) fn first(count: usize) -> Self {
        let mut shards = Self::NONE;
        (0..count).for_each(|shard| shards.insert(shard));
        shards
    }

    fn insert(&mut self, shard: usize) {
        self.words[shard / BITS] |= 1 << (shard % BITS);
    }

    /// Takes those before the shard `first` out.
    pub(crate) fn split_before(&mut self, first: usize) -> Self {
        let mut before = Self::NONE;
        while let Some(shard) = self.clone().next().filter(|shard| *shard < first) {
            before.insert(shard);
            self.next();
        }
        before
    }
}

impl Iterator for Shards {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.at < WORDS {
            let word = &mut self.words[self.at];
            if *word != 0 {
                let bit = word.trailing_zeros() as usize;
                *word &= *word - 1;
                return Some(self.at * BITS + bit);
            }
            self.at += 1;
        }
        None
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use core::time::Duration;

    use super::*;

    fn at(nanos: u64) -> Tick {
        Tick::ORIGIN.saturating_add(Duration::from_nanos(nanos))
    }

    #[test]
    fn a_scan_finds_what_is_due_in_order_and_the_earliest_of_the_rest() {
        for shards in (0..=8).map(|bits| 1 << bits) {
            let board = Board::new(shards);
            let scan = |now| {
                let (due, next) = board.scan(at(now));
                (due.collect::<Vec<_>>(), next)
            };
            assert_eq!(scan(0), (vec![], Tick::NEVER));
            // The last is the earliest.
            (0..shards).for_each(|shard| board.lower(shard, at((shards - shard) as u64)));
            assert_eq!(scan(0), (vec![], at(1)), "{shards} shards");
            for due in 1..=shards {
                let next = if due < shards { at(due as u64 + 1) } else { Tick::NEVER };
                assert_eq!(scan(due as u64), ((shards - due..shards).collect(), next));
            }
            board.raise(shards - 1, Tick::NEVER);
            assert_eq!(scan(shards as u64).0, (0..shards - 1).collect::<Vec<_>>());
            assert_eq!(board.earliest(shards - 1), Tick::NEVER);
        }
    }

    #[test]
    fn neighbouring_shards_are_posted_on_lines_of_their_own() {
        for shards in [2, 8, 64, 256] {
            let board = Board::new(shards);
            let line_of = |shard| core::ptr::from_ref(board.element(shard)).addr() / 64;
            let apart = shards.min(LINES_MIN);
            for first in 0..=shards - apart {
                let mut lines: Vec<_> = (first..first + apart).map(line_of).collect();
                lines.sort_unstable();
                lines.dedup();
                assert_eq!(lines.len(), apart, "{shards} shards from {first} on");
            }
        }
        assert_eq!(Board::new(64).lines.len(), 8, "eight to a line");
    }

    #[test]
    fn a_pass_may_begin_with_any_shard() {
        let shards = [0, 5, 63, 64, 191, 192, 255];
        let mut all = Shards::NONE;
        shards.into_iter().for_each(|shard| all.insert(shard));
        for first in 0..MAX_SHARDS {
            let mut from = all.clone();
            let before = from.split_before(first);
            assert!(before.clone().all(|shard| shard < first));
            assert!(from.clone().all(|shard| shard >= first));
            assert_eq!(before.chain(from).collect::<Vec<_>>(), shards);
        }
        assert!(Shards::first(MAX_SHARDS).eq(0..MAX_SHARDS));
        assert_eq!(Shards::first(3).count(), 3);
    }
}
