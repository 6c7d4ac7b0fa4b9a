//! A driver that is a runtime's reactor, in the place of the thread: [`Timer::drive_on`]. The
//! waker that the reactor wakes turns the wheels.
//!
//! [`Timer::drive_on`]: crate::Timer::drive_on

use std::io;
use std::mem::take;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::driver::pacing::{Pace, Pacer};
use crate::driver::thread::{plan, start_locked};
use crate::engine::{
    DrivenBy, DriverThread, Engine, Host, Limits, Pass, Plan, Scanned, Scanner, Seat, SharedEngine,
    WakeBatch,
};
use crate::foreign::{Running, guarded};
use crate::sync::{Arc, Mutex, StdArc, join, lock};
use crate::tick::Tick;
use crate::timer_fd::TimerFd;

/// Polls a reactor for a report of the descriptor.
pub(crate) type PollReport = dyn FnMut(&mut Context<'_>) -> Poll<io::Result<()>> + Send;

/// Parts of a turn, of one lock each, after which the reactor serves its other descriptors.
const PARTS: u32 = if cfg!(all(test, tourbillon_model)) { 2 } else { 64 };

/// Time of a turn with the same effect. The worker polls no task meanwhile.
const TURN_MAX: Duration = Duration::from_micros(500);

/// A reactor that drives an engine. Its waker refers to it.
pub(crate) struct Reactor {
    engine: SharedEngine,
    desk: Mutex<Desk>,
}

/// Where the turner is, between two turns.
struct Desk {
    /// Taken out for a turn, and for good when the reactor leaves.
    turner: Option<Box<Turner>>,
    /// True if the waker was called during a turn.
    again: bool,
}

/// State of the turns.
struct Turner {
    watch: Box<PollReport>,
    scanner: Scanner,
    pacer: Pacer,
    /// Number of timers fired by the passes since the last whole pass.
    fired: usize,
    /// True if the timerfd is set to the end of a nap.
    naps: bool,
}

impl Reactor {
    /// Puts a reactor in the place of the engine's thread, and waits until that is gone. It turns
    /// once it is [called](Self::turn), with the timerfd set.
    ///
    /// # Errors
    ///
    /// If the engine has no thread, or another reactor; and in a waker, which the thread may run.
    #[inline]
    pub(crate) fn seat(engine: &SharedEngine, watch: Box<PollReport>) -> io::Result<StdArc<Self>> {
        let thread = thread_of(engine)?;
        if Running::is_on() {
            let message = "a waker cannot take the place of the thread that may run it";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, message));
        }
        let _ends = lock(&thread.ends);
        let mut life = lock(&thread.life);
        if life.reactor != Seat::Empty {
            let message = "a runtime drives this timer already";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        engine.trust_parks(false);
        if life.thread.is_none() {
            life.reactor = Seat::Taken;
        } else {
            life.reactor = Seat::Awaited;
            if let Ok(gone) = thread.ask_to_end(engine, life) {
                join(gone);
            }
        }
        let now = engine.clock().now();
        let turner = Turner {
            watch,
            scanner: Scanner::new(WakeBatch::new()),
            pacer: Pacer::starting_at(now, Pace::REACTOR),
            fired: 0,
            naps: false,
        };
        let desk = Mutex::new(Desk { turner: Some(Box::new(turner)), again: false });
        Ok(StdArc::new(Self { engine: Arc::clone(engine), desk }))
    }

    /// The descriptor that a reactor of this engine watches.
    ///
    /// # Errors
    ///
    /// If the engine has no thread whose place a reactor could take.
    #[inline]
    pub(crate) fn timer_fd(engine: &Engine) -> io::Result<&TimerFd> {
        let thread = thread_of(engine)?;
        let _ends = lock(&thread.ends);
        let timer_fd = thread.timer_fd();
        timer_fd.descriptor(engine.clock())?;
        Ok(timer_fd)
    }
}

#[inline]
fn thread_of(engine: &Engine) -> io::Result<&DriverThread> {
    match engine.driven_by() {
        DrivenBy::Thread(thread) => Ok(thread),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "this timer is not a thread's")),
    }
}

impl Wake for Reactor {
    #[inline]
    fn wake(self: StdArc<Self>) {
        self.turn();
    }

    #[inline]
    fn wake_by_ref(self: &StdArc<Self>) {
        self.turn();
    }
}

impl Reactor {
    /// Turns if the descriptor has become readable, until the reactor has the waker again. A call
    /// during a turn, from within or by another thread, has another turn follow.
    #[inline]
    pub(crate) fn turn(self: &StdArc<Self>) {
        let DrivenBy::Thread(thread) = self.engine.driven_by() else { return };
        // A child of `fork` leaves its parent's reactor and locks alone.
        if self.engine.generation.is_past() {
            return;
        }
        let waker = Waker::from(StdArc::clone(self));
        let mut desk = lock(&self.desk);
        let Some(mut turner) = desk.turner.take() else {
            desk.again = true;
            return;
        };
        loop {
            drop(desk);
            if turner.run(&self.engine, thread, &mut Context::from_waker(&waker)).is_none() {
                // Foreign code. It ends the circle of this waker and the registration.
                guarded(|| drop(turner));
                return;
            }
            desk = lock(&self.desk);
            if !take(&mut desk.again) {
                desk.turner = Some(turner);
                return;
            }
        }
    }
}

impl Turner {
    /// Turns for each report of the descriptor, until there is none and the waker is registered.
    /// `None` once the reactor no longer drives the engine.
    #[inline]
    fn run(
        &mut self,
        engine: &SharedEngine,
        thread: &DriverThread,
        cx: &mut Context<'_>,
    ) -> Option<()> {
        loop {
            match guarded(|| (self.watch)(cx)) {
                Some(Poll::Pending) => return Some(()),
                Some(Poll::Ready(Ok(()))) => self.turn(engine, thread)?,
                Some(Poll::Ready(Err(_))) | None => {
                    leave(engine, thread);
                    return None;
                }
            }
        }
    }

    /// Fires the due timers, and sets the timerfd. `None` if the engine needs no driver any more.
    #[inline]
    fn turn(&mut self, engine: &Engine, thread: &DriverThread) -> Option<()> {
        engine.count_wakeup();
        let Self { scanner, pacer, fired, naps, .. } = self;
        let mut host = InTurn { engine, thread, pacer, fired, nap: Duration::ZERO };
        let delay = host.pacer.delay(engine.clock().now());
        if !take(naps) && !delay.is_zero() {
            *naps = true;
            host.nap(delay);
            return Some(());
        }
        let until = Some(engine.clock().now().saturating_add(TURN_MAX));
        let limits = Limits { until, parts: PARTS };
        loop {
            scanner.allow(u64::MAX);
            match scanner.scan(engine, limits, &mut host) {
                Scanned::Planned(_) => return Some(()),
                Scanned::CutShort(_) => {
                    *naps = !host.nap.is_zero();
                    host.nap(host.nap);
                    return Some(());
                }
                Scanned::Interrupted => {}
                Scanned::Ended => return None,
            }
        }
    }
}

/// A turn of a reactor.
struct InTurn<'a> {
    engine: &'a Engine,
    thread: &'a DriverThread,
    pacer: &'a mut Pacer,
    fired: &'a mut usize,
    /// Time to the next turn, if this one publishes nothing.
    nap: Duration,
}

impl InTurn<'_> {
    /// Sets the timerfd for another turn after `delay`. No arm rings it before.
    #[inline]
    fn nap(&self, delay: Duration) {
        self.engine.alarm().stay_awake();
        self.thread.timer_fd().set(|| Some(delay));
    }

    /// Ends the driver, unless a timer was armed after all.
    #[inline]
    fn end(&self) -> Scanned {
        let mut life = lock(&self.thread.life);
        if !self.engine.try_to_leave() {
            return Scanned::Interrupted;
        }
        life.reactor = Seat::Empty;
        self.engine.trust_parks(true);
        Scanned::Ended
    }
}

impl Host for InTurn<'_> {
    #[inline]
    fn passed(&mut self, _: &mut WakeBatch, pass: &mut Pass) {
        *self.fired += pass.fired;
    }

    #[inline]
    fn plan(&mut self, pass: &Pass) -> Result<Plan, Scanned> {
        self.pacer.passed(pass.now, take(self.fired));
        if self.engine.left_at_close() == Some(0) {
            return Err(self.end());
        }
        let plan = plan(pass.next, pass.now, pass.has_windows);
        let now = self.engine.clock().now();
        let wait = plan.end().since(now);
        let nap = self.pacer.delay(now);
        if wait < nap {
            self.nap = nap;
            return Err(Scanned::CutShort(pass.now));
        }
        // Before anybody can see the plan, and set the timerfd because of it. Edge `timerfd`.
        self.thread.timer_fd().set(|| (plan.end() != Tick::NEVER).then_some(wait));
        Ok(plan)
    }
}

/// Gives the wheels back to the thread, which starts if anything is armed. If the system refuses
/// it, all that is armed is woken, and tries again.
#[inline]
fn leave(engine: &SharedEngine, thread: &DriverThread) {
    let mut life = lock(&thread.life);
    life.reactor = Seat::Empty;
    engine.trust_parks(true);
    let is_refused = !engine.try_to_leave() && start_locked(engine, thread, &mut life).is_err();
    drop(life);
    if is_refused {
        engine.abandon();
    }
}
