//! Where a thread arms its timers.
//!
//! Not done: reusing the numbers of ended threads, which takes a destructor in each thread. Threads
//! that meet in one shard part by themselves.

use std::cell::Cell;

#[cfg(not(all(test, tourbillon_model)))]
use crate::sync::this_thread;

/// So many times in a row a thread finds its home's lock taken before it moves. Loom has to see
/// each move.
pub(crate) const PATIENCE: u32 = if cfg!(all(test, tourbillon_model)) { 1 } else { 4 };

#[cfg(not(all(test, tourbillon_model)))]
std::thread_local!(static HOME: Home = const { Home::at(UNKNOWN) });
#[cfg(all(test, tourbillon_model))]
loom::thread_local!(static HOME: Home = Home::at(0));

/// The number before the first use. In the models each thread is given one.
#[cfg(not(all(test, tourbillon_model)))]
const UNKNOWN: usize = usize::MAX;

/// The shard that a thread calls home, in every engine. Only that thread touches it.
pub(crate) struct Home {
    /// The shard, modulo the number of an engine's shards. At first the next in turn.
    number: Cell<usize>,
    /// How often its lock was found taken since it was last found free.
    taken: Cell<u32>,
}

/// Gives the calling thread's home.
///
/// Works while thread-local destructors run, since a constant without a destructor is stored.
#[inline]
pub(crate) fn with_home<R>(action: impl FnOnce(&Home) -> R) -> R {
    // `with` is inlined or not by what else the crate has; this always is.
    HOME.try_with(action).unwrap_or_else(|_| unreachable!("it has no destructor"))
}

/// The number of the calling thread's home.
#[cfg(test)]
pub(crate) fn thread_index() -> usize {
    with_home(Home::number)
}

#[cfg(all(test, tourbillon_model))]
pub(crate) fn set_thread_index(index: usize) {
    with_home(|home| home.number.set(index));
}

impl Home {
    const fn at(number: usize) -> Self {
        Self { number: Cell::new(number), taken: Cell::new(0) }
    }

    #[inline]
    pub(crate) fn number(&self) -> usize {
        #[cfg(not(all(test, tourbillon_model)))]
        if self.number.get() == UNKNOWN {
            self.number.set(this_thread());
        }
        self.number.get()
    }

    /// Notes that the lock was free. Writes nothing unless it was taken the last time.
    #[inline(always)]
    pub(crate) fn was_free(&self) {
        if self.taken.get() > 0 {
            self.taken.set(0);
        }
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
