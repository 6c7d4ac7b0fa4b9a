//! [`Picky`]: a store that refuses one timer's end, whose queues and orphans take a while, that
//! loses answers, that takes no ends, whose scans from the beginning fail, or that panics.

use std::collections::BTreeSet;
use std::time::Duration;

use tourbillon::virtual_time::VirtualClock;

use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Lease, ScheduleId, TimerId};
use crate::store::{
    Advance, Advanced, Beat, Claimed, End, Finished, Maintained, ManualRun, Memory, NewOccurrence,
    Promoted, Result, Scan, Store, Window,
};

pub(super) struct Picky {
    pub(super) memory: Memory,
    pub(super) refused: Option<TimerId>,
    /// Schedules that it does not advance, nor any in the same request.
    pub(super) stuck: BTreeSet<ScheduleId>,
    /// Numbers of schedules that it was asked to advance together.
    pub(super) batches: Vec<usize>,
    /// Duration of one call of `maintain`. There is always another call.
    pub(super) maintaining: Option<(VirtualClock, Duration)>,
    /// Number of answers to `insert_occurrence` that are lost.
    pub(super) lost: u32,
    /// True if a claim panics.
    pub(super) panics: bool,
    /// Duration after which a scan from the beginning fails.
    pub(super) failing: Option<(VirtualClock, Duration)>,
    /// True if no beat and no end is taken, and no lane promoted.
    pub(super) is_down: bool,
}

impl Picky {
    /// A store that does none of it yet.
    pub(super) fn new(memory: &Memory) -> Self {
        Self {
            memory: memory.clone(),
            refused: None,
            stuck: BTreeSet::new(),
            batches: Vec::new(),
            maintaining: None,
            failing: None,
            lost: 0,
            panics: false,
            is_down: false,
        }
    }

    fn is_up(&self) -> Result<()> {
        if self.is_down {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "it is down"));
        }
        Ok(())
    }

    fn pass<T>(
        &mut self,
        _name: &'static str,
        call: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        call(&mut self.memory)
    }
}

impl crate::store::Sealed for Picky {}

impl Store for Picky {
    fn connect(&self) -> Result<Box<dyn Store>> {
        self.memory.connect()
    }

    fn maintain(&mut self) -> Result<Maintained> {
        let maintained = self.memory.maintain()?;
        let Some((clock, span)) = &self.maintaining else { return Ok(maintained) };
        clock.advance(*span);
        Ok(Maintained { more: true, ..maintained })
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Window> {
        match &self.failing {
            Some((clock, span)) if scan.back.is_none() => {
                clock.advance(*span);
                Err(StoreError::new(StoreErrorKind::Unavailable, "it takes too long"))
            }
            _ => self.memory.scan(scan),
        }
    }

    fn beat(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        self.is_up()?;
        self.memory.beat(lease, span)
    }

    fn promote(&mut self, lanes: &[String]) -> Result<Vec<Promoted>> {
        self.is_up()?;
        self.memory.promote(lanes)
    }

    fn finish(&mut self, lease: Lease, ends: &[End]) -> Result<Vec<Finished>> {
        self.is_up()?;
        if ends.iter().any(|end| Some(end.timer) == self.refused) {
            return Err(StoreError::new(StoreErrorKind::Invalid, "refused"));
        }
        self.memory.finish(lease, ends)
    }

    fn claim(&mut self, lease: Lease, timers: &[TimerId]) -> Result<Claimed> {
        assert!(!self.panics, "a store panics");
        self.memory.claim(lease, timers)
    }

    fn advance(&mut self, advance: &Advance<'_>) -> Result<Advanced> {
        if self.stuck.contains(&advance.schedule) {
            return Err(StoreError::new(StoreErrorKind::Invalid, "refused"));
        }
        self.memory.advance(advance)
    }

    fn advance_batch(&mut self, advances: &[Advance<'_>]) -> Result<Vec<Advanced>> {
        self.batches.push(advances.len());
        if advances.iter().any(|advance| self.stuck.contains(&advance.schedule)) {
            return Err(StoreError::new(StoreErrorKind::Invalid, "refused"));
        }
        advances.iter().map(|advance| self.memory.advance(advance)).collect()
    }

    fn insert_occurrence(&mut self, occurrence: &NewOccurrence<'_>) -> Result<ManualRun> {
        let made = self.memory.insert_occurrence(occurrence)?;
        if self.lost > 0 {
            self.lost -= 1;
            return Err(StoreError::new(StoreErrorKind::Uncertain, "lost"));
        }
        Ok(made)
    }

    crate::forward! { self.pass;
        now join leave nodes insert held cancel reschedule confirm find timers
        amend schedule schedules upcoming zoned rezone change backfill records overview prune
    }
}
