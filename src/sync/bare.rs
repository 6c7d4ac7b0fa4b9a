//! Sharing memory without an operating system: a critical section excludes others, in whatever form
//! the program's implementation of the crate `critical-section` gives it. On one core it keeps
//! interrupts out, so an interrupt handler may arm and drop sleeps.

use core::cell::Cell;
use core::convert::Infallible;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};

use critical_section::RestoreState;

pub(crate) use crate::sync::StdArc as Arc;
pub(crate) use crate::sync::cell::UnsafeCell;
pub(crate) use crate::sync::whole::AtomicU64;

/// Home of all callers, in one shard: a critical section excludes them anyway.
pub(crate) struct Home;

impl Home {
    pub(crate) fn number(&self) -> usize {
        0
    }

    pub(crate) fn was_free(&self) {}

    pub(crate) fn was_taken(&self) {}
}

pub(crate) fn with_home<R>(action: impl FnOnce(&Home) -> R) -> R {
    action(&Home)
}

/// The calling thread. A program has one, and an interrupt handler counts as that: the code that it
/// interrupted cannot be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadId;

pub(crate) fn this_thread() -> ThreadId {
    ThreadId
}

/// Error of starting a thread: none ever has to be started.
pub(crate) type SpawnError = Infallible;

/// A value that is touched within a critical section only.
pub(crate) struct Lock<T> {
    /// Finds a second lock by the same thread: a critical section allows it.
    taken: Cell<bool>,
    value: UnsafeCell<T>,
}

/// Access to the value, and a critical section, until dropped. Guards are dropped in the reverse of
/// the order they are made in.
pub(crate) struct LockGuard<'a, T> {
    lock: &'a Lock<T>,
    restore: RestoreState,
    /// A critical section ends where it began.
    _not_send: PhantomData<*const ()>,
}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { taken: Cell::new(false), value: UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) -> LockGuard<'_, T> {
        // SAFETY: the guard's drop releases it, and guards are nested.
        let restore = unsafe { critical_section::acquire() };
        assert!(!self.taken.replace(true), "a lock is taken twice");
        LockGuard { lock: self, restore, _not_send: PhantomData }
    }

    /// Nobody else can hold it while this code runs, on one core; on several, it is waited for.
    pub(crate) fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        Some(self.lock())
    }

    /// Interrupts come through as the lock is released.
    pub(crate) fn give_way(&self) {}
}

pub(crate) use {Lock as Mutex, LockGuard as MutexGuard};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Nobody waits: there are no threads.
#[derive(Debug)]
pub(crate) struct Waiters;

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self
    }

    /// Returns at once, spuriously.
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        guard
    }

    pub(crate) fn notify_all<T>(&self, guard: MutexGuard<'_, T>) {
        drop(guard);
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so this is within a critical section, and it alone set `taken`:
        // nobody else touches the value until the guard is dropped, and the borrow forbids that.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; `&mut self` makes this the guard's only borrow.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for LockGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.taken.set(false);
        // SAFETY: it is what `lock` got, and guards are nested.
        unsafe { critical_section::release(self.restore) };
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}

// SAFETY: the lock hands the value to one holder at a time, whichever that is: `T: Send`. The flag
// is touched within critical sections only.
unsafe impl<T: Send> Send for Lock<T> {}
// SAFETY: as above; shared access to the lock never gives shared access to the value.
unsafe impl<T: Send> Sync for Lock<T> {}

/// A value that is set once.
pub(crate) struct SetOnce<T> {
    is_set: AtomicBool,
    /// Written once, within a critical section and before `is_set`; read after that.
    value: UnsafeCell<Option<T>>,
}

impl<T> SetOnce<T> {
    pub(crate) const fn new() -> Self {
        Self { is_set: AtomicBool::new(false), value: UnsafeCell::new(None) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        // ORDERING: Acquire, the partner of the Release in `set`: what that wrote is seen.
        if !self.is_set.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: it was set, and is never written again.
        self.value.with(|value| unsafe { &*value }).as_ref()
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: `&mut self` says that nobody else refers to the value.
        self.value.with_mut(|value| unsafe { &mut *value }).as_mut()
    }

    pub(crate) fn set(&self, new: T) -> Result<(), T> {
        critical_section::with(|_| {
            if self.get().is_some() {
                return Err(new);
            }
            // SAFETY: it is not set, so nobody has a reference to the value; and nobody else gets
            // here within this critical section.
            self.value.with_mut(|value| unsafe { *value = Some(new) });
            // ORDERING: Release, the partner of the Acquire in `get`.
            self.is_set.store(true, Ordering::Release);
            Ok(())
        })
    }

    /// `make` may be called though the value is set meanwhile: it runs in no critical section.
    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        drop(self.set(make()));
        self.get().expect("it is set")
    }
}

impl<T: fmt::Debug> fmt::Debug for SetOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SetOnce").field(&self.get()).finish()
    }
}

// SAFETY: shared access gives shared access to the value, and lets a value of another's be set.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    //! With threads in place of interrupt handlers, and a critical section that excludes them.

    use std::sync::Barrier;
    use std::thread;

    use super::*;
    use crate::sync::atomic_u64;

    const ROUNDS: u64 = if cfg!(miri) { 30 } else { 20_000 };

    /// Has four threads do `work`, so many times each.
    fn in_threads(work: impl Fn(u64) + Sync) {
        let start = Barrier::new(4);
        thread::scope(|scope| {
            for first in 0..4 {
                let (work, start) = (&work, &start);
                scope.spawn(move || {
                    start.wait();
                    (0..ROUNDS).for_each(|n| work(4 * n + first));
                });
            }
        });
    }

    #[test]
    fn a_lock_excludes_others() {
        let lock = Lock::new(0);
        in_threads(|n| {
            let mut value = lock.lock();
            let before = *value;
            if n % 64 < 4 {
                thread::yield_now();
            }
            *value = before + 1;
        });
        assert_eq!(*lock.lock(), 4 * ROUNDS);
    }

    #[test]
    fn locks_nest() {
        let (outer, inner) = (Lock::new(0), Lock::new(0));
        in_threads(|_| {
            let mut outer = outer.lock();
            *inner.lock() += 1;
            *outer += 1;
        });
        assert_eq!((*outer.lock(), *inner.lock()), (4 * ROUNDS, 4 * ROUNDS));
    }

    #[test]
    fn what_is_set_once_stays() {
        let once = SetOnce::new();
        assert_eq!(once.get(), None);
        in_threads(|n| {
            let first = **once.get_or_init(|| Box::new(n));
            assert_eq!(once.set(Box::new(u64::MAX)).map_err(|new| *new), Err(u64::MAX));
            assert_eq!(once.get().map(|value| **value), Some(first));
        });
    }

    #[test]
    fn every_change_of_an_atomic_counts() {
        let word = atomic_u64::AtomicU64::new(u64::MAX << 33);
        // ORDERING: Relaxed; the type takes none into account.
        let (one, all) = (1 << 32 | 1, Ordering::Relaxed);
        in_threads(|_| {
            word.fetch_add(one, all);
            let mut seen = word.load(all);
            while let Err(newer) = word.compare_exchange(seen, seen.wrapping_add(one), all, all) {
                seen = newer;
            }
        });
        let sum = (u64::MAX << 33).wrapping_add(one * 8 * ROUNDS);
        assert_eq!(word.load(all), sum);
        assert_eq!((word.fetch_max(1, all), word.fetch_max(u64::MAX, all)), (sum, sum));
        assert_eq!(word.load(all), u64::MAX);
        word.store(sum, all);
        assert_eq!(format!("{word:?}"), sum.to_string());
    }
}
