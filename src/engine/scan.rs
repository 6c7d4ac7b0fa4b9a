//! The scan of every driver: edge `alarm` from the driver's side.

use crate::clock::Clock;
use crate::engine::{Engine, Limits, Pass, Plan, WakeBatch};
use crate::tick::Tick;
use crate::trace::DriverLife;

/// The parts of a scan that differ between drivers.
pub(crate) trait Host {
    /// Reads the clock. The scan is announced.
    fn now(&self, clock: &Clock) -> Tick {
        clock.now()
    }

    /// Returns the life of the driver's thread, to report slow passes in.
    fn life(&self) -> Option<&DriverLife> {
        None
    }

    /// Notes a pass. It may have left wakers in the batch, if that defers them.
    fn passed(&mut self, batch: &mut WakeBatch, pass: &mut Pass);

    /// Decides until when to park, after a pass that was not cut short. A host with an alarm of its
    /// own sets it here, before anybody can see the plan.
    ///
    /// # Errors
    ///
    /// The outcome of the scan, if there is nothing to publish.
    fn plan(&mut self, pass: &Pass) -> Result<Plan, Scanned> {
        Ok(pass.plan())
    }
}

/// Outcome of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scanned {
    /// The plan is published.
    Planned(Plan),
    /// A limit ended the pass made at this tick, so nothing is published. Another scan is to follow
    /// before the driver waits.
    CutShort(Tick),
    /// An insert came between, so the plan does not stand. Another scan is to follow.
    Interrupted,
    /// There is no driver any more.
    Ended,
}

/// The scans of one driver.
#[derive(Debug)]
pub(crate) struct Scanner {
    batch: WakeBatch,
    /// The shard that the next pass begins with, so that passes cut short serve each in its turn.
    first: usize,
}

impl Scanner {
    pub(crate) fn new(batch: WakeBatch) -> Self {
        Self { batch, first: 0 }
    }

    /// Allows so many fires until the next call.
    pub(crate) fn allow(&mut self, timers: u64) {
        self.batch.allow(timers);
    }

    /// Announces a scan, fires the timers that are due, and publishes the host's plan. Inlined,
    /// since each host has one caller.
    #[inline(always)]
    pub(crate) fn scan(
        &mut self,
        engine: &Engine,
        limits: Limits,
        host: &mut impl Host,
    ) -> Scanned {
        engine.alarm.begin_scan();
        let now = host.now(&engine.clock);
        let mut pass = engine.pass(self.first, now, &mut self.batch, limits);
        host.passed(&mut self.batch, &mut pass);
        pass.report(&engine.clock, host.life());
        if pass.cut_short {
            // Not every shard was visited, so nothing can be promised.
            engine.alarm.stay_awake();
            self.first = (pass.reached + 1) % engine.shards();
            return Scanned::CutShort(now);
        }
        match host.plan(&pass) {
            Ok(plan) if engine.alarm.commit(plan) => Scanned::Planned(plan),
            Ok(_) => Scanned::Interrupted,
            Err(outcome) => outcome,
        }
    }
}
