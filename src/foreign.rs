//! Calls of foreign code: wakers, hooks and subscribers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs foreign code; `None` if it panicked.
///
/// The payload is leaked: dropping it would be foreign code once more.
pub(crate) fn guarded<R>(foreign: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(foreign)).map_err(std::mem::forget::<Box<dyn Any + Send>>).ok()
}
