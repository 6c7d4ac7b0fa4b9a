//! [`Watched`]: the store of unit tests that look at its calls, or come between them.

use std::sync::Arc;

use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;
use tourbillon_durable::Store;
use tourbillon_durable::store::{Memory, Result};

/// Sides of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

type Watcher = dyn Fn(Side, &'static str, &mut Memory) -> Result<()> + Send + Sync;

/// A store in memory that names each call to a watcher. The call fails if the watcher does.
#[derive(Clone)]
pub(crate) struct Watched(Memory, Arc<Watcher>);

impl Watched {
    /// Makes a store whose watcher is called on both sides of each call.
    pub(crate) fn store(
        memory: Memory,
        watcher: impl Fn(Side, &'static str, &mut Memory) -> Result<()> + Send + Sync + 'static,
    ) -> Box<dyn Store> {
        Box::new(Self(memory, Arc::new(watcher)))
    }

    /// Makes a store whose watcher is called before each call.
    pub(crate) fn before(
        memory: Memory,
        watcher: impl Fn(&'static str) + Send + Sync + 'static,
    ) -> Box<dyn Store> {
        Self::store(memory, move |side, name, _| {
            if side == Side::Before {
                watcher(name);
            }
            Ok(())
        })
    }

    fn pass<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        self.1(Side::Before, name, &mut self.0)?;
        let answer = work(&mut self.0);
        self.1(Side::After, name, &mut self.0)?;
        answer
    }
}

impl tourbillon_durable::store::calls::Sealed for Watched {}

impl Store for Watched {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(self.clone()))
    }

    tourbillon_durable::forward! { self.pass;
        now join beat leave maintain nodes insert scan held claim finish cancel reschedule amend
        confirm find timers schedule schedules upcoming zoned rezone change advance
        insert_occurrence records backfill overview prune named promote tally
    }
}

/// A clock that the test moves, and a timer by it.
pub(crate) fn clocked() -> (VirtualClock, Timer) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    (clock, timer)
}
