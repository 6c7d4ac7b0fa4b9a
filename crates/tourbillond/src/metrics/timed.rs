//! [`Timed`]: a store whose calls are measured.

use metrics::{counter, histogram};
use tourbillon::Timer;
use tourbillon_durable::Store;
use tourbillon_durable::store::Result;
use tourbillon_durable::store::calls::{Heard, Listening};

use super::{DATABASE_ERRORS, DATABASE_SECONDS};

/// A store that measures how long each call takes, by operation. The time that a call waits for its
/// turn is not part of it.
pub(crate) struct Timed {
    store: Box<dyn Store>,
    timer: Timer,
}

impl Timed {
    pub(crate) fn new(store: Box<dyn Store>, timer: &Timer) -> Self {
        Self { store, timer: timer.clone() }
    }

    fn call<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        let start = self.timer.now();
        let answer = work(&mut *self.store);
        let took = self.timer.now().duration_since(start);
        histogram!(DATABASE_SECONDS, "operation" => name).record(took);
        // Of a series that begins with its first failure, no increase is seen.
        counter!(DATABASE_ERRORS, "operation" => name).increment(answer.is_err().into());
        answer
    }
}

impl tourbillon_durable::store::calls::Sealed for Timed {}

impl Store for Timed {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self::new(self.store.connect()?, &self.timer)))
    }

    fn schema(&self) -> Option<&str> {
        self.store.schema()
    }

    fn lock_timeouts(&mut self) -> u64 {
        self.store.lock_timeouts()
    }

    fn listen(&self, heard: Heard) -> Result<Option<Listening>> {
        self.store.listen(heard)
    }

    fn disconnect(&mut self) {
        self.store.disconnect();
    }

    tourbillon_durable::forward! { self.call;
        notify now join beat leave maintain nodes insert insert_and_look scan held claim finish
        finish_and_claim cancel reschedule confirm find timers schedule schedules upcoming zoned
        rezone change advance advance_batch amend backfill insert_occurrence records latest_records
        search tally overview prune named promote create_schedules
    }
}
