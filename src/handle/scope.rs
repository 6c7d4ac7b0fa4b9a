//! The timer in scope on a thread: the functions at the crate's root use it there.

use std::cell::Cell;
use std::ptr;

use crate::handle::Handle;
use crate::sync::unmodelled::AtomicU8;
use crate::sync::{Arc, Ordering, with_scoped};

/// The process-wide timer is there, and no thread was ever in a scope: it is the current one
/// everywhere.
const PLAIN: u8 = 1;

/// A thread is in a scope, or was: each thread has to look for its own.
const SCOPED: u8 = 2;

/// Zero, [`PLAIN`] or [`SCOPED`]; never less than before. So a program without a scope reads one
/// word, and has to read that anyway to find that the process-wide timer is there.
static PLACES: AtomicU8 = AtomicU8::new(0);

/// Returns whether the process-wide timer is current on each thread.
#[inline(always)]
pub(crate) fn is_global_everywhere() -> bool {
    // ORDERING: Relaxed; a thread in a scope has written `SCOPED` before, and no other value
    // follows that one. The value says nothing of the timer itself.
    PLACES.load(Ordering::Relaxed) == PLAIN
}

/// Notes that the process-wide timer is there.
pub(crate) fn has_global() {
    // ORDERING: Relaxed, twice; see `is_global_everywhere`. Not over `SCOPED`.
    let _ = PLACES.compare_exchange(0, PLAIN, Ordering::Relaxed, Ordering::Relaxed);
}

/// Runs `action` with the timer of `handle` in scope on the calling thread. Scopes nest.
pub(crate) fn within<R>(handle: &Arc<Handle>, action: impl FnOnce() -> R) -> R {
    /// Puts back the handle that was in scope before, also if the action panics.
    struct Restore(*const ());

    impl Drop for Restore {
        fn drop(&mut self) {
            with_scoped(|scoped| scoped.set(self.0));
        }
    }

    // ORDERING: Relaxed; see `is_global_everywhere`.
    PLACES.store(SCOPED, Ordering::Relaxed);
    let handle = ptr::from_ref(handle).cast();
    let _restore = Restore(with_scoped(|scoped| scoped.replace(handle)));
    action()
}

/// Gives `action` the handle in scope on the calling thread. `None` if there is none.
pub(crate) fn in_scope<R>(action: impl FnOnce(&Arc<Handle>) -> R) -> Option<R> {
    let handle = with_scoped(Cell::get).cast::<Arc<Handle>>();
    // SAFETY: null, or made from a reference by `within` on this thread. That call has not
    // returned, since it would have put back the pointer before, and it borrows the handle until
    // then. No other thread reads the place, and the reference made here ends with `action`, within
    // that call.
    let handle = unsafe { handle.as_ref() };
    handle.map(action)
}
