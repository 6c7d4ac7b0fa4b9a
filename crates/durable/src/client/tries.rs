//! Calls that are made again while a concurrent transaction is in their way.

use std::time::{Duration, Instant};

use super::Client;
use crate::error::StoreErrorKind;
use crate::store::{Result, Store};

/// Longest pause before a caller tries again what a concurrent transaction was in the way of.
const PAUSE: Duration = Duration::from_millis(32);

/// Tries of one call, until its deadline.
pub(super) struct Tries {
    begun: Instant,
    deadline: Duration,
    pause: Duration,
}

impl Tries {
    pub(super) fn within(deadline: Duration) -> Self {
        Self { begun: Instant::now(), deadline, pause: Duration::from_millis(1) }
    }

    /// Time that is left for the next try.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_sub(self.begun.elapsed())
    }

    /// Waits until the next try. Returns whether there is time for one.
    pub(super) async fn again(&mut self) -> bool {
        tourbillon::sleep(self.pause.min(self.left())).await;
        self.pause = (self.pause * 2).min(PAUSE);
        !self.left().is_zero()
    }
}

impl Client {
    /// Runs `work` as [`call`](Self::call) does, and again while a concurrent transaction is in its
    /// way: each time behind the calls that wait by then.
    pub(super) async fn insist<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&mut dyn Store) -> Result<T> + Clone + Send + 'static,
    {
        let mut tries = Tries::within(self.deadline);
        loop {
            let client = self.clone().with_deadline(tries.left());
            match client.call(work.clone()).await {
                Err(error) if error.kind() == StoreErrorKind::Conflict && tries.again().await => {}
                answer => return answer,
            }
        }
    }
}
