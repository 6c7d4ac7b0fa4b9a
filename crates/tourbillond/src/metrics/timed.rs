//! [`Timed`]: a store whose calls are measured.

use std::time::Duration;

use metrics::{counter, histogram};
use tourbillon::Timer;
use tourbillon_durable::store::{
    Advance, Advanced, Beat, Change, Changed, Claimed, End, Filter, Finished, Heard, Inserted,
    Listening, Maintained, ManualRun, NewTimer, NodeInfo, Occur, Overview, OverviewOf, Result,
    Scan, ScheduleRow, Timer as TimerRow, TimerUpdate, Upcoming, Window,
};
use tourbillon_durable::{Lease, Record, Shards, Store, Time, TimerId};

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
}

macro_rules! timed {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&mut self, $($argument: $type),*) -> Result<$answer> {
            let start = self.timer.now();
            let answer = self.store.$name($($argument),*);
            let took = self.timer.now().duration_since(start);
            histogram!(DATABASE_SECONDS, "operation" => stringify!($name)).record(took);
            if answer.is_err() {
                counter!(DATABASE_ERRORS, "operation" => stringify!($name)).increment(1);
            }
            answer
        })*
    };
}

impl Store for Timed {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self::new(self.store.connect()?, &self.timer)))
    }

    fn listen(&self, heard: Heard) -> Result<Option<Listening>> {
        self.store.listen(heard)
    }

    timed! {
        fn notify(shards: Shards) -> bool;
        fn now() -> Time;
        fn join(lease: Lease, span: Duration) -> Option<Beat>;
        fn beat(lease: Lease, span: Duration) -> Option<Beat>;
        fn leave(lease: Lease) -> ();
        fn tend() -> Maintained;
        fn nodes() -> Vec<NodeInfo>;
        fn insert(timers: &[NewTimer]) -> Vec<Inserted>;
        fn scan(scan: &Scan<'_>) -> Window;
        fn held(lease: Lease) -> Vec<(TimerId, u32)>;
        fn claim(lease: Lease, timers: &[TimerId]) -> Claimed;
        fn finish(lease: Lease, ends: &[End]) -> Vec<Finished>;
        fn finish_and_claim(lease: Lease, ends: &[End], timers: &[TimerId])
            -> (Vec<Finished>, Claimed);
        fn cancel(timer: TimerId) -> TimerUpdate;
        fn reschedule(
            timer: TimerId,
            to: Time,
            payload: Option<&[u8]>,
            expect: Option<u64>
        ) -> TimerUpdate;
        fn find(name: &str) -> Option<TimerRow>;
        fn timers(filter: &Filter) -> Vec<TimerRow>;
        fn schedule(name: &str) -> (Time, Option<ScheduleRow>);
        fn schedules(filter: &Filter) -> Vec<ScheduleRow>;
        fn upcoming(ahead: Duration, shards: Shards, limit: u32) -> Upcoming;
        fn change(change: &Change<'_>) -> Changed;
        fn advance(advance: &Advance<'_>) -> Advanced;
        fn occur(occur: &Occur<'_>) -> ManualRun;
        fn records(filter: &Filter) -> Vec<Record>;
        fn overview(of: &OverviewOf) -> Overview;
        fn prune(before: Time, limit: u32) -> u64;
    }
}
