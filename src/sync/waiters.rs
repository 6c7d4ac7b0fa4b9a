//! A condition variable that knows whether anybody waits.

use crate::sync::unmodelled::AtomicUsize;
use crate::sync::{Condvar, MutexGuard, Ordering, wait};

/// The threads that wait for what one mutex guards to change.
///
/// `std`'s condition variable makes a system call to notify threads, also if there are none. That
/// takes several times as long as all else that the end of a call or of a clock's move does.
pub(crate) struct Waiters {
    condition: Condvar,
    /// Threads that wait. Written and read under the mutex.
    count: AtomicUsize,
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Self { condition: Condvar::new(), count: AtomicUsize::new(0) }
    }

    /// Releases the mutex until the calling thread is notified, or for no reason.
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        // ORDERING: Relaxed, twice; the mutex orders them.
        self.count.fetch_add(1, Ordering::Relaxed);
        let guard = wait(&self.condition, guard);
        self.count.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Releases the mutex, and notifies all threads that wait.
    pub(crate) fn notify_all<T>(&self, guard: MutexGuard<'_, T>) {
        // ORDERING: Relaxed; the mutex orders it. Each thread that waits has counted itself before.
        let is_waited_for = self.count.load(Ordering::Relaxed) > 0;
        drop(guard);
        if is_waited_for {
            self.condition.notify_all();
        }
    }
}
