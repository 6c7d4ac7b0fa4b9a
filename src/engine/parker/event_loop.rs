//! The parker where no thread can park: an unpark calls a function instead.

use std::cell::Cell;

use crate::sync::{Mutex, lock};

/// Begins to end the waits of a hidden page, by calls of the function that it gets. Returns a
/// function that takes the milliseconds of each wait, and in the end `None`. There is none where
/// there is no page.
pub(crate) type WhileHidden = fn(Box<dyn Fn()>) -> Option<Box<dyn Fn(Option<i32>)>>;

pub(crate) struct Parker {
    /// Whom to call.
    turn_soon: Mutex<Option<Box<dyn Fn()>>>,
    /// `None` if a hidden page waits as the browser lets it. A pointer, so that only programs that
    /// ask for it have the code.
    while_hidden: Cell<Option<WhileHidden>>,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self { turn_soon: Mutex::new(None), while_hidden: Cell::new(None) }
    }

    pub(crate) fn while_hidden(&self) -> Option<WhileHidden> {
        self.while_hidden.get()
    }

    pub(crate) fn set_while_hidden(&self, begin: Option<WhileHidden>) {
        self.while_hidden.set(begin);
    }

    /// Makes [`unpark`](Self::unpark) call `turn_soon`, which runs nothing at once.
    pub(crate) fn attend(&self, turn_soon: impl Fn() + 'static) {
        *lock(&self.turn_soon) = Some(Box::new(turn_soon));
    }

    pub(crate) fn leave(&self) {
        let old = lock(&self.turn_soon).take();
        drop(old);
    }

    pub(crate) fn unpark(&self) {
        if let Some(turn_soon) = &*lock(&self.turn_soon) {
            turn_soon();
        }
    }
}

// SAFETY: there is one thread, which the parker never leaves: `lib.rs` refuses the target feature
// `atomics`, without which these targets have no others.
unsafe impl Send for Parker {}
// SAFETY: as above.
unsafe impl Sync for Parker {}
