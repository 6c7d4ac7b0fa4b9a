//! [`Ticket`]: whether a call was sent, and whether its caller still waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::{StoreError, StoreErrorKind};
use crate::store::{Result, Store, forward};

/// The call is in the queue, and its caller waits.
const QUEUED: u8 = 0;
/// The call was sent to the database, and its caller waits.
const SENT: u8 = 1;
/// The caller waits no longer.
const LEFT: u8 = 2;

/// State of a call, which its caller and the client's thread share.
///
/// ```text
/// Queued --send  (thread)--> Sent
/// Queued --leave (caller)--> Left, and is never sent
/// Sent   --leave (caller)--> Left, and may be carried out
/// ```
#[derive(Clone, Debug, Default)]
pub(super) struct Ticket(Arc<AtomicU8>);

impl Ticket {
    /// Marks the call as sent, unless its caller has left. Returns whether it may be sent.
    pub(super) fn send(&self) -> bool {
        // ORDERING: Relaxed; this word alone decides between it and `leave`. The queue's lock
        // carries the call's values.
        let seen = self.0.compare_exchange(QUEUED, SENT, Ordering::Relaxed, Ordering::Relaxed);
        seen != Err(LEFT)
    }
}

/// Caller that waits for an answer. Dropped, it leaves.
#[derive(Debug)]
pub(super) struct Caller(Ticket);

impl Caller {
    pub(super) fn new(ticket: Ticket) -> Self {
        Self(ticket)
    }

    /// Waits no longer. Returns whether the call was sent before; if not, it never is.
    pub(super) fn leave(&self) -> bool {
        // ORDERING: Relaxed; as in `send`.
        self.0.0.swap(LEFT, Ordering::Relaxed) == SENT
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Store for one transaction's callers: refuses each statement once all of them have left.
pub(super) struct Attended<'a> {
    store: &'a mut dyn Store,
    callers: &'a [Ticket],
}

impl<'a> Attended<'a> {
    pub(super) fn new(store: &'a mut dyn Store, callers: &'a [Ticket]) -> Self {
        Self { store, callers }
    }

    fn pass<T>(
        &mut self,
        _name: &'static str,
        work: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        if !self.callers.iter().any(Ticket::send) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "the caller stopped waiting"));
        }
        work(self.store)
    }
}

impl crate::store::Sealed for Attended<'_> {}

impl Store for Attended<'_> {
    fn connect(&self) -> Result<Box<dyn Store>> {
        self.store.connect()
    }

    forward! { self.pass;
        notify now join beat leave maintain nodes insert insert_and_look scan held claim finish
        finish_and_claim cancel reschedule confirm find timers schedule schedules upcoming zoned
        rezone change advance amend backfill insert_occurrence records latest_records search tally
        overview promote prune named create_schedules
    }
}
