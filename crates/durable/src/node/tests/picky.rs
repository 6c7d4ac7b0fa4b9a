//! [`Picky`]: a store that refuses one timer's end, whose queues and orphans take a while, that
//! loses answers, or that panics.

use std::time::Duration;

use tourbillon::virtual_time::VirtualClock;

use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Lease, TimerId};
use crate::store::{Claimed, End, Finished, Maintained, ManualRun, Memory, Occur, Result, Store};

pub(super) struct Picky {
    pub(super) memory: Memory,
    pub(super) refused: Option<TimerId>,
    /// Duration of one call of `tend`. There is always another call.
    pub(super) tending: Option<(VirtualClock, Duration)>,
    /// How many answers to `occur` are lost.
    pub(super) lost: u32,
    /// Whether a claim panics.
    pub(super) panics: bool,
}

impl Picky {
    fn pass<T>(
        &mut self,
        _: &'static str,
        call: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        call(&mut self.memory)
    }
}

impl Store for Picky {
    fn connect(&self) -> Result<Box<dyn Store>> {
        self.memory.connect()
    }

    fn tend(&mut self) -> Result<Maintained> {
        let tended = self.memory.tend()?;
        let Some((clock, span)) = &self.tending else { return Ok(tended) };
        clock.advance(*span);
        Ok(Maintained { more: true, ..tended })
    }

    fn finish(&mut self, lease: Lease, ends: &[End]) -> Result<Vec<Finished>> {
        if ends.iter().any(|end| Some(end.timer) == self.refused) {
            return Err(StoreError::new(StoreErrorKind::Invalid, "refused"));
        }
        self.memory.finish(lease, ends)
    }

    fn claim(&mut self, lease: Lease, timers: &[TimerId]) -> Result<Claimed> {
        assert!(!self.panics, "a store panics");
        self.memory.claim(lease, timers)
    }

    fn occur(&mut self, occur: &Occur<'_>) -> Result<ManualRun> {
        let occurred = self.memory.occur(occur)?;
        if self.lost > 0 {
            self.lost -= 1;
            return Err(StoreError::new(StoreErrorKind::Uncertain, "lost"));
        }
        Ok(occurred)
    }

    crate::forward! { self.pass;
        now join beat leave nodes insert scan held cancel reschedule confirm find timers
        schedule schedules upcoming change advance records overview prune
    }
}
