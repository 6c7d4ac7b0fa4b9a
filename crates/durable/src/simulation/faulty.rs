//! [`Faulty`]: a store that fails calls, and loses or delays answers, as the world decides.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::world::{World, with_world};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Lease, TimerId};
use crate::store::{
    Advance, Advanced, Batch, Beat, Claimed, End, Finished, Held, Inserted, Maintained, Memory,
    NewTimer, Promoted, Reschedule, Result, Scan, ScheduleRow, Store, TimerUpdate, Upcoming,
    UpcomingQuery, Window, ZonedQuery,
};
use crate::time::Time;

/// Fate of one call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    None,
    /// It is not carried out.
    Error,
    /// It is carried out, and the answer is lost.
    Lost,
    /// The answer is lost at once, and it is carried out later.
    LostAndLate(Duration),
    /// It is carried out after this, while others continue.
    LateCall(Duration),
    /// It is carried out, and the answer comes after this, while others continue.
    LateAnswer(Duration),
}

/// A connection of one node, or of a client.
pub(super) struct Faulty {
    pub(super) number: usize,
}

thread_local! {
    /// Dead nodes; their running calls change nothing.
    static DEAD: Cell<u64> = const { Cell::new(0) };
}

/// Marks a node as dead.
pub(super) fn bury(number: usize) {
    DEAD.with(|dead| dead.set(dead.get() | 1 << number));
}

/// Begins a world in which none is.
pub(super) fn nobody_is_dead() {
    DEAD.with(|dead| dead.set(0));
}

fn is_dead(number: usize) -> bool {
    DEAD.with(|dead| dead.get() >> number & 1 == 1)
}

fn error(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, "simulated")
}

impl Faulty {
    fn call<T>(&self, work: impl Fn(&mut Memory) -> Result<T> + 'static) -> Result<T> {
        self.call_with(true, work)
    }

    fn call_with<T>(
        &self,
        may_be_late: bool,
        work: impl Fn(&mut Memory) -> Result<T> + 'static,
    ) -> Result<T> {
        with_world(|world: &Rc<World>| {
            let gone = || Err(error(StoreErrorKind::Uncertain));
            if is_dead(self.number) {
                return gone();
            }
            let fault = match world.fault() {
                Fault::LostAndLate(_) if !may_be_late => Fault::Lost,
                fault => fault,
            };
            let answer = match fault {
                Fault::None => work(&mut world.db()),
                Fault::Error => Err(error(StoreErrorKind::Unavailable)),
                Fault::Lost => work(&mut world.db()).and_then(|_| gone()),
                Fault::LostAndLate(span) => {
                    world.later(span, Box::new(move |db| drop(work(db))));
                    gone()
                }
                Fault::LateCall(span) => {
                    world.pass(span);
                    if is_dead(self.number) {
                        return gone();
                    }
                    work(&mut world.db())
                }
                Fault::LateAnswer(span) => {
                    let answer = work(&mut world.db());
                    world.pass(span);
                    answer
                }
            };
            if is_dead(self.number) { gone() } else { answer }
        })
    }

    fn never<T>(
        &mut self,
        name: &'static str,
        _: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        unimplemented!("no node asks for {name}")
    }
}

impl crate::store::Sealed for Faulty {}

impl Store for Faulty {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self { number: self.number }))
    }

    fn now(&mut self) -> Result<Time> {
        self.call(|db| db.now())
    }

    fn confirm(&mut self) -> Result<()> {
        self.call(|db| db.confirm())
    }

    fn join(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        self.call(move |db| db.join(lease, span))
    }

    fn beat(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        self.call(move |db| db.beat(lease, span))
    }

    fn leave(&mut self, lease: Lease) -> Result<()> {
        self.call(move |db| db.leave(lease))
    }

    fn maintain(&mut self) -> Result<Maintained> {
        self.call(|db| db.maintain())
    }

    fn promote(&mut self, lanes: &[String]) -> Result<Vec<Promoted>> {
        let lanes = lanes.to_vec();
        self.call(move |db| db.promote(&lanes))
    }

    fn insert(&mut self, timers: &[NewTimer]) -> Result<Vec<Inserted>> {
        let timers = timers.to_vec();
        // An insert carried out long after it was repeated goes unnoticed: see the trait.
        self.call_with(false, move |db| db.insert(&timers))
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Window> {
        let (Scan { ahead, back, shards, grace, kind_limit, pulse, .. }, kinds) =
            (*scan, scan.kinds.to_vec());
        self.call(move |db| {
            db.scan(&Scan { ahead, back, shards, grace, kind_limit, pulse, kinds: &kinds })
        })
    }

    fn held(&mut self, lease: Lease, after: Option<(Time, TimerId)>) -> Result<Held> {
        self.call(move |db| db.held(lease, after))
    }

    fn claim(&mut self, lease: Lease, timers: &[TimerId]) -> Result<Claimed> {
        let timers = timers.to_vec();
        self.call(move |db| db.claim(lease, &timers))
    }

    fn finish(&mut self, lease: Lease, ends: &[End]) -> Result<Vec<Finished>> {
        let ends = ends.to_vec();
        self.call(move |db| db.finish(lease, &ends))
    }

    fn finish_and_claim(&mut self, batch: &Batch<'_>) -> Result<(Vec<Finished>, Claimed)> {
        let Batch { lease, ends, timers } = *batch;
        let (ends, timers) = (ends.to_vec(), timers.to_vec());
        self.call(move |db| db.finish_and_claim(&Batch { lease, ends: &ends, timers: &timers }))
    }

    fn cancel(&mut self, timer: TimerId) -> Result<TimerUpdate> {
        self.call(move |db| db.cancel(timer))
    }

    fn reschedule(&mut self, reschedule: &Reschedule<'_>) -> Result<TimerUpdate> {
        let Reschedule { timer, to, payload, expect, attempt } = *reschedule;
        let payload = payload.map(<[u8]>::to_vec);
        self.call(move |db| {
            let payload = payload.as_deref();
            db.reschedule(&Reschedule { timer, to, payload, expect, attempt })
        })
    }

    fn upcoming(&mut self, query: &UpcomingQuery) -> Result<Upcoming> {
        let query = *query;
        self.call(move |db| db.upcoming(&query))
    }

    fn zoned(&mut self, query: &ZonedQuery) -> Result<Vec<ScheduleRow>> {
        let query = query.clone();
        self.call(move |db| db.zoned(&query))
    }

    fn rezone(&mut self, row: &ScheduleRow) -> Result<Advanced> {
        let row = row.clone();
        self.call(move |db| db.rezone(&row))
    }

    fn advance(&mut self, advance: &Advance<'_>) -> Result<Advanced> {
        let (timers, skipped) = (advance.timers.to_vec(), advance.skipped.to_vec());
        let Advance { schedule, version, from, next, only_idle, .. } = *advance;
        let wall = advance.wall.cloned();
        self.call(move |db| {
            let (timers, skipped, wall) = (&timers[..], &skipped[..], wall.as_ref());
            db.advance(&Advance { schedule, version, from, next, wall, timers, skipped, only_idle })
        })
    }

    crate::forward! { self.never;
        amend nodes overview find timers schedule schedules change backfill insert_occurrence
        records prune
    }
}
