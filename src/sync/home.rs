//! Where a thread arms its timers.
//!
//! Not done: reusing the numbers of ended threads, which takes a destructor in each thread. Threads
//! that meet in one shard part by themselves.

use std::cell::Cell;

/// So many times in a row a thread finds its home's lock taken before it moves. Loom has to see
/// each move.
pub(crate) const PATIENCE: u32 = if cfg!(all(test, tourbillon_model)) { 1 } else { 4 };

/// The shard that a thread calls home, in every engine. Only that thread touches it.
pub(crate) struct Home {
    /// The shard, modulo the number of an engine's shards; `usize::MAX` before the first use.
    number: Cell<usize>,
    /// How often its lock was found taken since it was last found free.
    taken: Cell<u32>,
}

impl Home {
    /// Makes the home of a thread that gets its number on first use.
    #[cfg_attr(all(test, tourbillon_model), allow(dead_code, reason = "models choose the number"))]
    pub(crate) const fn unknown() -> Self {
        Self::at(usize::MAX)
    }

    pub(crate) const fn at(number: usize) -> Self {
        Self { number: Cell::new(number), taken: Cell::new(0) }
    }

    /// Returns the number; the `first` time that of the thread.
    #[inline]
    pub(crate) fn number(&self, first: impl FnOnce() -> usize) -> usize {
        if self.number.get() == usize::MAX {
            self.number.set(first());
        }
        self.number.get()
    }

    #[cfg(all(test, tourbillon_model))]
    pub(crate) fn set(&self, number: usize) {
        self.number.set(number);
    }

    /// Notes that the lock was free.
    #[inline]
    pub(crate) fn was_free(&self) {
        self.taken.set(0);
    }

    /// Notes that another thread had the lock, to arm or to cancel. Two threads with the same home
    /// meet again and again; the thread that has to go to the neighbour more often moves there.
    pub(crate) fn was_taken(&self) {
        self.taken.set(self.taken.get() + 1);
        if self.taken.get() == PATIENCE {
            self.taken.set(0);
            self.number.set((self.number.get() + 1) % usize::MAX);
        }
    }
}
