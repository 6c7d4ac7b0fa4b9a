//! Calls of foreign code: wakers, hooks and subscribers.

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
