//! The parker where no thread can park: an unpark calls a function instead.

use crate::sync::{Mutex, lock};

/// Whom to call.
pub(crate) struct Parker(Mutex<Option<Box<dyn Fn()>>>);

impl Parker {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Makes [`unpark`](Self::unpark) call `turn_soon`, which runs nothing at once.
    pub(crate) fn attend(&self, turn_soon: impl Fn() + 'static) {
        *lock(&self.0) = Some(Box::new(turn_soon));
    }

    pub(crate) fn leave(&self) {
        let old = lock(&self.0).take();
        drop(old);
    }

    pub(crate) fn unpark(&self) {
        if let Some(turn_soon) = &*lock(&self.0) {
            turn_soon();
        }
    }
}

// SAFETY: there is one thread, which the parker never leaves: `lib.rs` refuses the target feature
// `atomics`, without which these targets have no others.
unsafe impl Send for Parker {}
// SAFETY: as above.
unsafe impl Sync for Parker {}
