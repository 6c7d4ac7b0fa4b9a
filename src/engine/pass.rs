//! Passes: one turn of each shard in which something is due.

use core::ops::ControlFlow;

use crate::clock::Clock;
use crate::engine::board::{Scan, Shards};
use crate::engine::calls::Measured;
use crate::engine::wake_batch::{BATCH, WakeBatch};
use crate::engine::{Engine, Plan};
use crate::foreign::Running;
use crate::sync::Ordering;
use crate::tick::Tick;
use crate::trace::{self, DriverLife};
use crate::wheel::Turned;

/// Result of a pass over all shards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// The time that it was made at.
    pub(crate) now: Tick,
    /// Timers fired.
    pub(crate) fired: usize,
    /// Greatest lateness of any of them.
    pub(crate) lateness_ns_max: u64,
    /// The longest that a waker took.
    pub(crate) call_ns_max: u64,
    /// Calls that took longer than the limit.
    pub(crate) slow_calls: u64,
    /// No later than any deadline left; [`Tick::NEVER`] if none is.
    pub(crate) next: Tick,
    /// True if there are timers with a tolerance.
    pub(crate) has_windows: bool,
    /// True if it ended before it was through, so that `next` says nothing.
    pub(crate) cut_short: bool,
    /// The last shard that was turned. After a pass that was cut short, the next one begins with
    /// the shard that follows.
    pub(crate) reached: usize,
}

impl Pass {
    /// Returns the plan of a driver that parks for all that is left.
    pub(crate) fn plan(&self) -> Plan {
        if self.next == Tick::NEVER { Plan::Park } else { Plan::ParkUntil(self.next) }
    }

    /// Reports the pass if it was late, or a waker slow. With no lock held: this
    /// may call a subscriber, foreign code.
    #[inline]
    pub(crate) fn report(&self, clock: &Clock, life: Option<&DriverLife>) {
        // The tick of every wheel is now that of the pass.
        let lag_ns = || clock.now().nanos_since(self.now);
        trace::passed(life, self.fired, self.lateness_ns_max, lag_ns);
        trace::called(life, self.slow_calls, self.call_ns_max);
    }
}

/// Limits on the work of a pass, beside its batch's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Spends the batch once the clock shows this tick, but not before some work is done.
    pub(crate) until: Option<Tick>,
    /// Parts, of one lock each.
    pub(crate) parts: u32,
}

impl Limits {
    pub(crate) const NONE: Self = Self { until: None, parts: u32::MAX };
}

impl Engine {
    /// Turns the shards in which something is due at `now`, beginning with `first`, until the batch
    /// or the limits are spent and there is more to do. Finds the next deadline.
    pub(crate) fn pass(
        &self,
        first: usize,
        now: Tick,
        batch: &mut WakeBatch,
        limits: Limits,
    ) -> Pass {
        // ORDERING: Relaxed; see `cached_now`. Passes do not overlap, except of a virtual clock,
        // which does not read it.
        self.cached_now.store(now.raw(), Ordering::Relaxed);
        let Scan { mut due, mut next, has_windows } = self.board.scan(now);
        let forgets = self.ends_idle_waits();
        if forgets {
            due = Shards::first(self.shards.len());
            next = Tick::NEVER;
        }
        let mut pass = Pass {
            now,
            fired: 0,
            lateness_ns_max: 0,
            call_ns_max: 0,
            slow_calls: 0,
            next,
            has_windows,
            cut_short: false,
            reached: first,
        };
        let sets_aside = limits.parts < u32::MAX && self.shards.len() > 1;
        let mut visits =
            Visits { engine: self, batch, limits, sets_aside, forgets, pass: &mut pass };
        let before = due.split_before(first);
        for shard in due.chain(before) {
            if visits.visit(shard).is_break() {
                break;
            }
        }
        visits.wake();
        // A child of a process that forked in foreign code leaves the engine of its parent alone.
        pass.cut_short |= self.generation.is_past();
        pass
    }

    /// The earliest deadline of all, on a virtual clock; `None` if there is none by `last`. Locks
    /// only the shards that may have it.
    pub(crate) fn exact_earliest(&self, last: Tick) -> Option<Tick> {
        self.board.begin_scan();
        let mut earliest = Tick::NEVER;
        self.board.for_each(|index, bound| {
            if bound <= last && bound < earliest {
                let mut shard = self.shards.at(index).lock();
                let own = shard.exact_earliest();
                self.board.raise(index, shard.earliest());
                earliest = own.map_or(earliest, |own| own.min(earliest));
            }
        });
        (earliest <= last).then_some(earliest)
    }

    pub(super) fn count_calls(&self, measured: Measured, pass: &mut Pass) {
        pass.call_ns_max = pass.call_ns_max.max(measured.longest_ns);
        pass.slow_calls += measured.slow;
        self.count_panics(measured.panics);
    }
}

/// The visits of a pass to its shards.
struct Visits<'a> {
    engine: &'a Engine,
    batch: &'a mut WakeBatch,
    limits: Limits,
    /// Whether due timers go before a crowd that is filed again, and equal deadlines lose their
    /// order. Only in a pass that is made in parts, since another at a later instant follows; and
    /// not in a single shard, where their order is promised.
    sets_aside: bool,
    /// Whether shards without a timer forget the deadlines of cancelled ones.
    forgets: bool,
    pass: &'a mut Pass,
}

/// The work done under one lock of a shard.
struct Part {
    turned: Turned,
    /// Wakers that went into the batch.
    taken: usize,
    /// The earliest deadline left.
    earliest: Tick,
}

impl Visits<'_> {
    /// Turns a shard, a part at a time, until nothing is due there. Breaks off where the pass is to
    /// end before that.
    fn visit(&mut self, shard: usize) -> ControlFlow<()> {
        loop {
            let part = self.turn(shard);
            // Nobody waits while a slot of many is filed again, or for room in the batch.
            let is_urgent = part.turned == Turned::Partly && part.taken < BATCH;
            if is_urgent && !self.batch.is_seeded() || self.limits.until.is_some() {
                self.wake();
                if self.engine.generation.is_past() {
                    return ControlFlow::Break(());
                }
            }
            self.heed_time(&part);
            if part.turned == Turned::Completely {
                self.pass.next = self.pass.next.min(part.earliest);
                return ControlFlow::Continue(());
            }
            self.limits.parts -= 1;
            if self.batch.is_spent() || self.limits.parts == 0 {
                self.pass.cut_short = true;
                return ControlFlow::Break(());
            }
            self.engine.shards.at(shard).give_way();
        }
    }

    /// Fires a part of what is due in a shard, and publishes the earliest deadline left.
    fn turn(&mut self, index: usize) -> Part {
        let engine = self.engine;
        if !self.batch.is_spent() {
            self.pass.reached = index;
        }
        let (held, room) = (self.batch.len(), self.batch.room());
        let mut shard = engine.shards.at(index).lock();
        let (turned, lateness_ns_max) = shard.turn(self.pass.now, self.batch);
        let taken = self.batch.len() - held;
        if self.sets_aside && turned == Turned::Partly && taken < room {
            shard.set_aside();
        }
        if self.forgets {
            shard.forget_cancelled();
        }
        engine.board.raise(index, shard.earliest());
        engine.board.open(index, shard.opens());
        let earliest = shard.earliest();
        drop(shard);
        self.pass.lateness_ns_max = self.pass.lateness_ns_max.max(lateness_ns_max);
        Part { turned, taken, earliest }
    }

    /// Spends the batch after a part with some work, if the time is up.
    fn heed_time(&mut self, part: &Part) {
        let worked = part.taken > 0 || part.turned == Turned::Partly;
        let is_up = |until| self.engine.clock.now() >= until;
        if worked && self.limits.until.is_some_and(is_up) {
            self.batch.allow(0);
        }
    }

    /// Wakes the batch, with no lock held.
    fn wake(&mut self) {
        if self.batch.len() == 0 {
            return;
        }
        self.pass.fired += self.batch.len();
        let engine = self.engine;
        let _running = Running::begin();
        let measured = engine.observed.calls.wake_all(&engine.clock, self.batch);
        engine.end_forked_driver(measured.panics > 0);
        engine.count_calls(measured, self.pass);
    }
}
