//! Calls of foreign code: wakers, hooks and subscribers.

#[cfg(not(target_os = "none"))]
use crate::sync::with_depth;

/// Marks the calling thread as running wakers, until dropped. They nest.
#[must_use]
pub(crate) struct Running(());

#[cfg(not(target_os = "none"))]
impl Running {
    pub(crate) fn begin() -> Self {
        with_depth(|depth| depth.set(depth.get() + 1));
        Self(())
    }

    /// Returns whether there is such a mark. A thread that has one is not to wait for another that
    /// may have one too: that might wait for it.
    pub(crate) fn is_on() -> bool {
        with_depth(|depth| depth.get() > 0)
    }
}

#[cfg(not(target_os = "none"))]
impl Drop for Running {
    fn drop(&mut self) {
        with_depth(|depth| depth.set(depth.get() - 1));
    }
}

/// Without threads nobody waits for another.
#[cfg(target_os = "none")]
impl Running {
    pub(crate) fn begin() -> Self {
        Self(())
    }
}

/// Runs foreign code; `None` if it panicked.
///
/// The payload is leaked: dropping it would be foreign code once more.
#[cfg(not(target_os = "none"))]
pub(crate) fn guarded<R>(foreign: impl FnOnce() -> R) -> Option<R> {
    use std::any::Any;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    catch_unwind(AssertUnwindSafe(foreign)).map_err(std::mem::forget::<Box<dyn Any + Send>>).ok()
}

/// Runs foreign code. Without `std` no panic can be caught.
#[cfg(target_os = "none")]
pub(crate) fn guarded<R>(foreign: impl FnOnce() -> R) -> Option<R> {
    Some(foreign())
}
