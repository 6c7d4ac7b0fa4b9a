//! [`Picky`]: a store that refuses one timer's end, whose queues and orphans take a while, that
//! loses answers, or that panics.

use std::time::Duration;

use tourbillon::virtual_time::VirtualClock;

use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Lease, Shards, TimerId};
use crate::record::Record;
use crate::store::{
    Advance, Advanced, Beat, Change, Changed, Claimed, End, Filter, Finished, Inserted, Maintained,
    ManualRun, Memory, NewTimer, NodeInfo, Occur, Overview, OverviewOf, Result, Scan, ScheduleRow,
    Store, Timer, TimerUpdate, Upcoming, Window,
};
use crate::time::Time;

pub(super) struct Picky {
    pub(super) memory: Memory,
    pub(super) refused: Option<TimerId>,
    /// How long one call of `tend` takes, of which there is always another.
    pub(super) tending: Option<(VirtualClock, Duration)>,
    /// How many answers to `occur` are lost.
    pub(super) lost: u32,
    /// Whether a claim panics.
    pub(super) panics: bool,
}

macro_rules! delegate {
    ($(fn $name:ident(&mut self $(, $arg:ident: $type:ty)*) -> $out:ty;)*) => {
        $(fn $name(&mut self $(, $arg: $type)*) -> $out {
            self.memory.$name($($arg),*)
        })*
    };
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

    delegate! {
        fn cancel(&mut self, timer: TimerId) -> Result<TimerUpdate>;
        fn now(&mut self) -> Result<Time>;
        fn join(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>>;
        fn beat(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>>;
        fn leave(&mut self, lease: Lease) -> Result<()>;
        fn insert(&mut self, timers: &[NewTimer]) -> Result<Vec<Inserted>>;
        fn scan(&mut self, scan: &Scan<'_>) -> Result<Window>;
        fn held(&mut self, lease: Lease) -> Result<Vec<(TimerId, u32)>>;
        fn reschedule(
            &mut self,
            timer: TimerId,
            to: Time,
            payload: Option<&[u8]>,
            expect: Option<u64>
        ) -> Result<TimerUpdate>;
        fn nodes(&mut self) -> Result<Vec<NodeInfo>>;
        fn overview(&mut self, of: &OverviewOf) -> Result<Overview>;
        fn find(&mut self, name: &str) -> Result<Option<Timer>>;
        fn timers(&mut self, filter: &Filter) -> Result<Vec<Timer>>;
        fn schedule(&mut self, name: &str) -> Result<(Time, Option<ScheduleRow>)>;
        fn schedules(&mut self, filter: &Filter) -> Result<Vec<ScheduleRow>>;
        fn upcoming(&mut self, ahead: Duration, shards: Shards, limit: u32) -> Result<Upcoming>;
        fn change(&mut self, change: &Change<'_>) -> Result<Changed>;
        fn advance(&mut self, advance: &Advance<'_>) -> Result<Advanced>;
        fn records(&mut self, filter: &Filter) -> Result<Vec<Record>>;
        fn prune(&mut self, before: Time, limit: u32) -> Result<u64>;
    }
}
