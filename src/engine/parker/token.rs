//! A token behind a mutex, with a condition variable, or what Windows has in its place.

#[cfg(not(all(test, tourbillon_model)))]
use std::time::Duration;

#[cfg(all(windows, not(all(test, tourbillon_model))))]
use super::windows::Signal;
#[cfg(any(not(windows), all(test, tourbillon_model)))]
use crate::sync::Condvar as Signal;
#[cfg(all(test, tourbillon_model))]
use crate::sync::wait;
#[cfg(not(any(windows, all(test, tourbillon_model))))]
use crate::sync::wait_up_to;
use crate::sync::{Mutex, lock};

/// A token that a thread leaves and another takes.
#[derive(Debug, Default)]
pub(super) struct Token {
    pub(super) is_left: Mutex<bool>,
    pub(super) left: Signal,
}

impl Token {
    /// Waits for the token, but no longer than `limit`, and takes it if it is there. May return
    /// without it.
    #[cfg(not(all(test, tourbillon_model)))]
    pub(super) fn take(&self, limit: Option<Duration>) {
        let mut is_left = lock(&self.is_left);
        if !*is_left && limit != Some(Duration::ZERO) {
            #[cfg(windows)]
            {
                is_left = self.left.wait_up_to(&self.is_left, is_left, limit);
            }
            #[cfg(not(windows))]
            {
                is_left = wait_up_to(&self.left, is_left, limit);
            }
        }
        *is_left = false;
    }

    /// Leaves the token, and wakes the thread that waits for it.
    pub(super) fn leave(&self) {
        *lock(&self.is_left) = true;
        self.left.notify_one();
    }

    #[cfg(all(test, not(tourbillon_model)))]
    pub(super) fn is_left(&self) -> bool {
        *lock(&self.is_left)
    }
}

#[cfg(all(test, tourbillon_model))]
impl Token {
    /// Waits for the token while `is_early`, which [`look_again`](Self::look_again) has it ask
    /// anew, and takes the token if it is there.
    pub(super) fn take_while(&self, is_early: impl Fn() -> bool) {
        let mut is_left = lock(&self.is_left);
        while !*is_left && is_early() {
            is_left = wait(&self.left, is_left);
        }
        *is_left = false;
    }

    pub(super) fn look_again(&self) {
        drop(lock(&self.is_left));
        self.left.notify_one();
    }
}
