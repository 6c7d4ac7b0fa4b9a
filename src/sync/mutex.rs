//! `std`'s locks and condition variables, and the models', without poison: nothing that this crate
//! guards with a lock is ever half done when foreign code runs.

use std::sync::TryLockError;
#[cfg(not(any(
    all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64"),
    all(test, tourbillon_model)
)))]
use std::time::Duration;

use crate::sync::{
    Condvar, Mutex, MutexGuard, ONE_THREAD, RwLock, RwLockReadGuard, no_other_thread,
};

/// Locks `mutex`, whether or not a thread panicked while it held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    if ONE_THREAD {
        // `std`'s message has values in it, and what formats those is a tenth of all that a sleep
        // adds to a bundle.
        return match mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => no_other_thread(),
        };
    }
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Replaces what `lock` guards, as [`lock()`] locks.
pub(crate) fn replace<T>(lock: &RwLock<T>, value: T) {
    *lock.write().unwrap_or_else(std::sync::PoisonError::into_inner) = value;
}

/// Reads what `lock` guards, unless it is being written. No reader keeps another from it.
pub(crate) fn try_read<T>(lock: &RwLock<T>) -> Option<RwLockReadGuard<'_, T>> {
    match lock.try_read() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits on `condition`, as [`lock()`] locks.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits on `condition` as [`wait()`] does, but no longer than `limit` if there is one.
#[cfg(not(any(
    all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64"),
    all(test, tourbillon_model)
)))]
pub(crate) fn wait_up_to<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    limit: Option<Duration>,
) -> MutexGuard<'a, T> {
    let Some(limit) = limit else { return wait(condition, guard) };
    condition.wait_timeout(guard, limit).unwrap_or_else(std::sync::PoisonError::into_inner).0
}
