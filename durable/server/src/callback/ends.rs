//! How attempts end, as far as the library has no way of its own to end them so.

use std::time::Duration;

use tourbillon_durable::{Ended, Fire};

/// Ends of a [`Fire`].
pub(super) trait Ends: Sized {
    /// What earlier attempts left.
    fn detail(&self) -> &str {
        ""
    }

    /// Completes, and keeps the detail.
    fn complete_with(self, detail: &str) -> Ended;

    /// Fails, with that pause before the next attempt.
    fn fail_after(self, detail: &str, pause: Duration) -> Ended;
}

impl Ends for Fire {
    fn complete_with(self, _: &str) -> Ended {
        self.complete()
    }

    fn fail_after(self, detail: &str, _: Duration) -> Ended {
        self.fail(detail)
    }
}
