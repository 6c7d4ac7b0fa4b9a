//! The thread that turns the wheels, and parks until the earliest deadline.

use std::io;
use std::mem::forget;
use std::time::Duration;

use crate::driver::pacing::{Pace, Pacer};
use crate::engine::{
    DrivenBy, DriverThread, Engine, Host, Life, Limits, Pass, Plan, Scanned, Scanner, Seat,
    SharedEngine, WakeBatch,
};
use crate::foreign::Running;
use crate::sync::{Arc, join, lock, sleep, spawn};
use crate::tick::Tick;
use crate::trace::DriverLife;

/// Deadlines further off than this are first waited for coarsely: the driver parks until the last
/// multiple of `FAR` before the deadline. So timers that are each armed a little earlier than the
/// last, but far off, do not each unpark the driver, and a far timer costs one wake-up more. While
/// there are timers with a tolerance, none is waited for so: a tolerance is for fewer wake-ups.
const FAR: Duration = Duration::from_nanos(1 << 28);

/// Parts of a pass, of one lock each, after which another scan follows: some 2,000 fires, or 8,000
/// entries filed again, in about a millisecond. Timers that come due in another shard meanwhile
/// wait for no more of this one. The models have passes cut short all the same.
const PARTS: u32 = if cfg!(all(test, tourbillon_model)) { 2 } else { 64 };

/// Starts the engine's thread, or the task in its place, unless it runs.
#[cold]
pub(crate) fn start(engine: &SharedEngine) -> io::Result<()> {
    let DrivenBy::Thread(thread) = engine.driven_by() else { return Engine::start_other(engine) };
    let mut life = lock(&thread.life);
    if life.thread.is_none() && life.reactor == Seat::Empty {
        start_locked(engine, thread, &mut life)?;
    }
    Ok(())
}

/// Starts the engine's thread. Nobody turns the wheels.
pub(crate) fn start_locked(
    engine: &SharedEngine,
    thread: &DriverThread,
    life: &mut Life,
) -> io::Result<()> {
    let engine = Arc::clone(engine);
    life.thread = Some(spawn(&thread.name, move || run(&engine))?);
    Ok(())
}

/// Ends the engine's thread if nothing is armed, and waits until it is gone. Otherwise returns the
/// number of armed timers. Not to be called by a thread that the driver may wait for.
pub(crate) fn end(engine: &Engine) -> Result<(), usize> {
    let DrivenBy::Thread(thread) = engine.driven_by() else { return Ok(()) };
    let _ends = lock(&thread.ends);
    let life = lock(&thread.life);
    if life.thread.is_none() {
        return Ok(());
    }
    thread.ask_to_end(engine, life).map(join)
}

/// The life of a driver thread.
fn run(engine: &SharedEngine) {
    let DrivenBy::Thread(thread) = engine.driven_by() else { return };
    // For life, the destructors of thread-local values included: no thread waits for itself.
    forget(Running::begin());
    let clock = engine.clock();
    let mut host = OnThread {
        engine,
        thread,
        life: DriverLife::begin(&thread.name, engine.shards()),
        pacer: Pacer::starting_at(clock.now(), Pace::THREAD),
        fired: 0,
    };
    let mut scanner = Scanner::new(WakeBatch::new());
    let mut park_limit = thread.watch_resumes.map(|watch| watch(engine));
    minimise_timer_slack();
    loop {
        host.nap();
        match scanner.scan(engine, Limits { until: None, parts: PARTS }, &mut host) {
            Scanned::Planned(plan) => {
                let limit = park_limit.as_mut().map_or(Duration::MAX, |limit| limit());
                thread.parker.park(clock, plan, limit);
                engine.count_wakeup();
            }
            Scanned::CutShort(_) | Scanned::Interrupted => {}
            Scanned::Ended => return,
        }
    }
}

/// A thread that drives an engine.
struct OnThread<'a> {
    engine: &'a Engine,
    thread: &'a DriverThread,
    life: DriverLife,
    pacer: Pacer,
    /// Number of timers that the passes since the last one that was not cut short have fired.
    fired: usize,
}

impl OnThread<'_> {
    /// Waits a little if passes come too close upon each other.
    fn nap(&self) {
        let delay = self.pacer.delay(self.engine.clock().now());
        if !delay.is_zero() {
            self.engine.alarm().stay_awake();
            sleep(delay);
        }
    }

    /// Ends the driver if nothing is armed, or if a reactor takes its place; `None` if it runs on.
    /// Answers the handle that asked, if one did.
    fn end(&self, armed: usize) -> Option<Scanned> {
        let mut life = lock(&self.thread.life);
        let is_replaced = life.reactor == Seat::Awaited;
        if armed > 0 && !is_replaced {
            self.thread.answer(self.engine, &mut life, Err(armed));
            return None;
        }
        if !self.engine.try_to_leave() && !is_replaced {
            return Some(Scanned::Interrupted);
        }
        if is_replaced {
            life.reactor = Seat::Taken;
        }
        if let Some(handle) = life.thread.take() {
            self.thread.answer(self.engine, &mut life, Ok(handle));
        }
        Some(Scanned::Ended)
    }
}

impl Host for OnThread<'_> {
    fn life(&self) -> Option<&DriverLife> {
        Some(&self.life)
    }

    fn passed(&mut self, _: &mut WakeBatch, pass: &mut Pass) {
        self.fired += pass.fired;
    }

    fn plan(&mut self, pass: &Pass) -> Result<Plan, Scanned> {
        self.pacer.passed(pass.now, std::mem::take(&mut self.fired));
        let is_asked = || self.thread.is_asked_to_end();
        let left = self.engine.left_at_close().filter(|armed| *armed == 0 || is_asked());
        if let Some(end) = left.and_then(|armed| self.end(armed)) {
            return Err(end);
        }
        Ok(plan(pass.next, pass.now, pass.has_windows))
    }
}

/// When to wake for a deadline at `next`.
pub(crate) fn plan(next: Tick, now: Tick, has_windows: bool) -> Plan {
    if next == Tick::NEVER {
        Plan::Park
    } else if next.since(now) > FAR && !has_windows {
        Plan::ParkUntil(Tick::from_raw(next.raw() & !(FAR.as_nanos() as u64 - 1)))
    } else {
        Plan::ParkUntil(next)
    }
}

/// Asks Linux to end this thread's sleeps on time rather than up to 50 us later, together with
/// other threads' (prctl(2), PR_SET_TIMERSLACK). Miri does not know that call.
fn minimise_timer_slack() {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        const NANOSECONDS: libc::c_ulong = 1;
        // The call is of five words, and valgrind looks at each.
        const NONE: libc::c_ulong = 0;
        // SAFETY: this operation takes one number and concerns the calling thread only. If it
        // fails, sleeps end a little later.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, NANOSECONDS, NONE, NONE, NONE) };
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    fn after(span: Duration) -> Tick {
        Tick::ORIGIN.saturating_add(span)
    }

    #[test]
    fn near_deadlines_are_promised_exactly() {
        let next = after(FAR);
        assert_eq!(plan(next, Tick::ORIGIN, false), Plan::ParkUntil(next));
    }

    #[test]
    fn far_deadlines_are_approached_in_one_step() {
        for next in [FAR + Duration::from_nanos(1), Duration::from_millis(8_999), FAR * 7] {
            let next = after(next);
            let Plan::ParkUntil(first) = plan(next, Tick::ORIGIN, false) else {
                panic!("a time limit")
            };
            assert!(first > Tick::ORIGIN && first <= next);
            assert_eq!(first.raw() % FAR.as_nanos() as u64, 0, "so many of them have the same");
            assert_eq!(plan(next, first, false), Plan::ParkUntil(next));
        }
    }

    #[test]
    fn with_a_tolerance_deadlines_are_promised_exactly_however_far_they_are() {
        for span in [FAR * 7 + Duration::from_nanos(1), Duration::from_millis(86_400_123)] {
            let next = after(span);
            assert_eq!(plan(next, Tick::ORIGIN, true), Plan::ParkUntil(next));
        }
    }
}
