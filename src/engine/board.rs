//! The board: each shard's earliest deadline, so that a scan locks only due shards.
//!
//! `PROTOCOL.md` argues that a scan that passes over a shard misses no timer.

use crate::engine::MAX_SHARDS;
use crate::platform::{ONE_SHARD, PerShard, per_shard, position};
use crate::sync::{AtomicU64, Ordering, fence, unmodelled};
use crate::tick::Tick;

/// Elements to a cache line. The models have few shards, and no element that none of them uses.
const ROWS: usize = if ONE_SHARD || cfg!(all(test, tourbillon_model)) { 1 } else { 8 };

/// Lines that a board has at least, if it has as many shards. Threads with neighbouring numbers
/// write different ones.
const LINES_MIN: usize = 8;

/// One element for each shard, equal to that shard's `earliest` while nobody holds its lock.
/// Written under that lock only; read by anyone.
#[derive(Debug)]
pub(crate) struct Board {
    /// A power of two of them. Shard `n` is on line `n` modulo their number.
    lines: PerShard<Line>,
    /// Rows of each line that are in use.
    rows: usize,
    /// For each shard, an instant no later than the begin of any window of its timers with a
    /// tolerance. Only hints: a shard that is not visited for its windows is visited as they end.
    windows: PerShard<unmodelled::AtomicU64>,
    /// True once a window was published.
    has_windows: unmodelled::AtomicBool,
}

#[derive(Debug)]
#[cfg_attr(not(any(target_os = "none", target_family = "wasm")), repr(align(64)))]
struct Line([AtomicU64; ROWS]);

impl Board {
    /// Makes a board of so many shards, a power of two, without a deadline.
    pub(crate) fn new(shards: usize) -> Self {
        let lines = (shards / ROWS).max(shards.min(LINES_MIN));
        let element = || AtomicU64::new(Tick::NEVER.raw());
        Self {
            lines: per_shard(lines, || Line(core::array::from_fn(|_| element()))),
            rows: shards / lines,
            windows: per_shard(shards, || unmodelled::AtomicU64::new(Tick::NEVER.raw())),
            has_windows: unmodelled::AtomicBool::new(false),
        }
    }

    fn element(&self, shard: usize) -> &AtomicU64 {
        let (lines, shard) = (self.lines.len(), position(shard));
        &self.lines[shard & (lines - 1)].0[shard >> lines.trailing_zeros()]
    }

    /// Publishes a deadline earlier than all in the shard. The caller holds the shard's lock. If a
    /// scan that passes the shard over is under way, all that its thread did before the scan is
    /// seen from here on, and by all later holders of the lock.
    pub(crate) fn lower(&self, shard: usize, earliest: Tick) {
        // ORDERING: Relaxed; the fence that follows orders it.
        self.element(shard).store(earliest.raw(), Ordering::Relaxed);
        // ORDERING: SeqCst, the partner of that in `begin_scan`. Of the two fences one is first:
        // either the scan reads this write, or we see the alarm as it was set before the scan. Loom
        // `an_insert_into_an_idle_shard_races_park`.
        fence(Ordering::SeqCst);
    }

    /// Publishes the earliest deadline after a visit to the shard. The caller holds its lock.
    pub(crate) fn raise(&self, shard: usize, earliest: Tick) {
        let element = self.element(shard);
        // ORDERING: Relaxed, twice; the element is the lock's, so this reads the latest. A scan
        // that reads an older one visits the shard, or ends early.
        if element.load(Ordering::Relaxed) != earliest.raw() {
            element.store(earliest.raw(), Ordering::Relaxed);
        }
    }

    /// Publishes when the first window of the shard opens. The caller holds its lock.
    #[inline(never)]
    pub(crate) fn open(&self, shard: usize, opens: Tick) {
        let window = &self.windows[position(shard)];
        // ORDERING: Relaxed, three times; hints. A scan that reads an older one leaves timers to a
        // later scan, or visits the shard for nothing.
        if window.load(Ordering::Relaxed) != opens.raw() {
            window.store(opens.raw(), Ordering::Relaxed);
            self.has_windows.store(true, Ordering::Relaxed);
        }
    }

    /// Adds the shards that have a window open at `now`, and leaves their deadlines out of `next`:
    /// the visit finds them out anew. Returns whether any has a window, open or not.
    #[inline]
    fn add_open(&self, due: &mut Shards, next: &mut Tick, now: Tick) -> bool {
        // ORDERING: Relaxed; a hint.
        if !self.has_windows.load(Ordering::Relaxed) {
            return false;
        }
        let (mut any, mut is_open) = (false, false);
        for (shard, window) in self.windows.iter().enumerate() {
            // ORDERING: Relaxed; a hint.
            let opens = Tick::from_raw(window.load(Ordering::Relaxed));
            any |= opens != Tick::NEVER;
            if opens <= now {
                due.insert(shard);
                is_open = true;
            }
        }
        if is_open {
            let others = (0..self.windows.len()).filter(|shard| !due.contains(*shard));
            *next = others.map(|shard| self.earliest(shard)).min().unwrap_or(Tick::NEVER);
        }
        any
    }

    /// Issues the scan's fence. Later reads see each write whose fence came before, or a newer one.
    pub(crate) fn begin_scan(&self) {
        // ORDERING: SeqCst, the partner of those in `lower` and `Engine::close`.
        fence(Ordering::SeqCst);
    }

    /// Looks for the shards that are to be visited at `now`.
    pub(crate) fn scan(&self, now: Tick) -> Scan {
        self.begin_scan();
        let (mut due, mut next) = (Shards::NONE, Tick::NEVER);
        self.for_each(|shard, earliest| {
            if earliest <= now {
                due.insert(shard);
            } else {
                next = next.min(earliest);
            }
        });
        let has_windows = self.add_open(&mut due, &mut next, now);
        Scan { due, next, has_windows }
    }

    /// Calls `visit` with each shard in order, and a tick no later than any deadline in it.
    /// [`begin_scan`](Self::begin_scan) comes before.
    #[inline(always)]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize, Tick)) {
        let mut shard = 0;
        for row in 0..self.rows.min(ROWS) {
            for line in &self.lines {
                // ORDERING: Relaxed; that fence orders it.
                visit(shard, Tick::from_raw(line.0[row].load(Ordering::Relaxed)));
                shard += 1;
            }
        }
    }

    /// No later than any deadline in the shard. [`begin_scan`](Self::begin_scan) comes before.
    pub(crate) fn earliest(&self, shard: usize) -> Tick {
        // ORDERING: Relaxed; that fence orders it.
        Tick::from_raw(self.element(shard).load(Ordering::Relaxed))
    }
}

/// Result of a [`scan`](Board::scan).
#[derive(Debug)]
pub(crate) struct Scan {
    /// The shards that have something due, or a window open.
    pub(crate) due: Shards,
    /// The earliest deadline of the others.
    pub(crate) next: Tick,
    /// True if there are timers with a tolerance.
    pub(crate) has_windows: bool,
}

/// A set of shards, taken out in order.
#[derive(Clone, Debug)]
pub(crate) struct Shards {
    words: [u64; WORDS],
    /// The words before have none left.
    at: usize,
}

const BITS: usize = u64::BITS as usize;
const WORDS: usize = if ONE_SHARD { 1 } else { MAX_SHARDS / BITS };

impl Shards {
    const NONE: Self = Self { words: [0; WORDS], at: 0 };

    /// Returns the set of the first `count`.
    pub(crate) fn first(count: usize) -> Self {
        let mut shards = Self::NONE;
        (0..count).for_each(|shard| shards.insert(shard));
        shards
    }

    // The remainder changes nothing. It tells the compiler that no check is needed.
    fn insert(&mut self, shard: usize) {
        self.words[shard / BITS % WORDS] |= 1 << (shard % BITS);
    }

    fn contains(&self, shard: usize) -> bool {
        self.words[shard / BITS % WORDS] & 1 << (shard % BITS) != 0
    }

    /// Takes those before the shard `first` out.
    pub(crate) fn split_before(&mut self, first: usize) -> Self {
        let mut before = Self::NONE;
        if ONE_SHARD {
            return before;
        }
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
                let Scan { due, next, .. } = board.scan(at(now));
                (due.collect::<Vec<_>>(), next)
            };
            assert_eq!(scan(0), (vec![], Tick::NEVER));
            // The last is the earliest.
            (0..shards).for_each(|shard| board.lower(shard, at((shards - shard) as u64)));
            let mut published = Vec::new();
            board.for_each(|shard, earliest| published.push((shard, earliest)));
            published.sort_unstable();
            assert!(
                published.into_iter().eq((0..shards).map(|shard| (shard, board.earliest(shard))))
            );
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
    fn a_scan_finds_open_windows_beside_what_is_due() {
        let board = Board::new(64);
        let scan = |now| {
            let Scan { due, next, has_windows } = board.scan(at(now));
            (due.collect::<Vec<_>>(), next, has_windows)
        };
        board.lower(5, at(30));
        board.lower(40, at(50));
        assert_eq!(scan(20), (vec![], at(30), false));
        board.open(40, at(20));
        assert_eq!(scan(19), (vec![], at(30), true));
        assert_eq!(scan(20), (vec![40], at(30), true));
        assert_eq!(scan(30), (vec![5, 40], Tick::NEVER, true), "the visit finds out what is left");
        board.lower(7, at(60));
        assert_eq!(scan(30), (vec![5, 40], at(60), true));
        board.open(40, Tick::NEVER);
        assert_eq!(scan(30), (vec![5], at(50), false));
    }

    /// Of each word of a set, and the same place of two words.
    #[test]
    fn the_window_of_one_shard_hides_the_deadline_of_no_other() {
        let shards = [0, 5, 63, 64, 69, 127, 128, 192, 255].into_iter();
        for (open, other) in shards.clone().flat_map(|open| shards.clone().map(move |n| (open, n)))
        {
            let board = Board::new(MAX_SHARDS);
            board.lower(open, at(50));
            board.open(open, at(20));
            board.lower(other, at(30));
            let Scan { due, next, .. } = board.scan(at(20));
            let expected = if open == other { Tick::NEVER } else { at(30) };
            assert_eq!((due.collect::<Vec<_>>(), next), (vec![open], expected), "beside {other}");
        }
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "a board is not laid out by lines there")]
    fn neighbouring_shards_are_published_on_lines_of_their_own() {
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
