//! The timer in scope on a thread: the functions at the crate's root use it there.

use std::cell::Cell;
use std::ptr;

use crate::handle::{EngineRef, Handle, SharedHandle};
use crate::sync::unmodelled::AtomicU8;
use crate::sync::{Ordering, with_scoped};

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

/// The timer in scope, and [`EngineRef::of`] by its address: a program without a scope has none of
/// its code.
struct InScope<'a> {
    handle: &'a SharedHandle,
    engine_of: fn(&Handle) -> EngineRef,
}

/// Runs `action` with the timer of `handle` in scope on the calling thread. Scopes nest.
pub(crate) fn within<R>(handle: &SharedHandle, action: impl FnOnce() -> R) -> R {
    /// Puts back the handle that was in scope before, also if the action panics.
    struct Restore(*const ());

    impl Drop for Restore {
        fn drop(&mut self) {
            with_scoped(|scoped| scoped.set(self.0));
        }
    }

    // ORDERING: Relaxed; see `is_global_everywhere`.
    PLACES.store(SCOPED, Ordering::Relaxed);
    let in_scope = InScope { handle, engine_of: EngineRef::of };
    let in_scope = ptr::from_ref(&in_scope).cast();
    let _restore = Restore(with_scoped(|scoped| scoped.replace(in_scope)));
    action()
}

/// Returns the handle in scope on the calling thread. `None` if there is none.
pub(crate) fn handle() -> Option<SharedHandle> {
    with_in_scope(|in_scope| SharedHandle::clone(in_scope.handle))
}

/// Returns a reference to the engine in scope on the calling thread. `None` if there is none.
pub(crate) fn engine() -> Option<EngineRef> {
    with_in_scope(|in_scope| (in_scope.engine_of)(in_scope.handle))
}

fn with_in_scope<R>(action: impl FnOnce(&InScope<'_>) -> R) -> Option<R> {
    let in_scope = with_scoped(Cell::get).cast::<InScope<'_>>();
    // SAFETY: null, or made from a reference by `within` on this thread. That call has not
    // returned, since it would have put back the pointer before, and it keeps the value until then.
    // No other thread reads the place, and the reference made here ends with `action`, within that
    // call.
    let in_scope = unsafe { in_scope.as_ref() };
    in_scope.map(action)
}
