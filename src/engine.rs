//! The engine behind every timer handle and every sleep: shards, clock, alarm, and what drives
//! them. Its lock rules are in ARCHITECTURE.md.

mod alarm;
mod armed;
mod board;
mod calls;
mod close;
mod driven_by;
mod drop_by_pointer;
mod entry;
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
mod host_wait;
mod insert;
mod notify;
mod observed;
#[cfg_attr(
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"),
    path = "engine/parker/event_loop.rs"
)]
#[cfg(not(target_os = "none"))]
mod parker;
mod pass;
mod scan;
mod shard;
mod stakes;
#[cfg(all(test, not(tourbillon_model)))]
mod tests;
mod uncommon;
mod wake_batch;

use core::fmt;
use core::mem::ManuallyDrop;
use core::time::Duration;

use crate::clock::Clock;
use crate::fork::Generation;
#[cfg(not(target_os = "none"))]
use crate::platform::IN_EVENT_LOOP;
use crate::platform::ONE_SHARD;
#[cfg(not(target_os = "none"))]
use crate::sync::unmodelled::AtomicUsize;
use crate::sync::unmodelled::{AtomicBool as AtomicFlag, AtomicU64};
use crate::sync::{Arc, AtomicBool, CachePadded, Ordering, SetOnce, StdArc};
use crate::tick::Tick;
use crate::tolerance::{Slack, Tolerance};

pub(crate) use alarm::{Alarm, Plan};
pub(crate) use armed::{Armed, Listing};
use board::Board;
use calls::Calls;
pub(crate) use driven_by::*;
pub(crate) use drop_by_pointer::DropByPointer;
pub(crate) use entry::{Claim, Entry, State};
pub(crate) use insert::Caller;
pub(crate) use notify::Notify;
use observed::Observed;
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
pub(crate) use parker::{EventLoop, HostWait, OwnWaits, WhileHidden};
pub(crate) use pass::{Limits, Pass};
pub(crate) use scan::{Host, Scanned, Scanner};
use shard::{AllShards, Shard};
pub(crate) use stakes::{Stake, Stakes};
use uncommon::Uncommon;
pub(crate) use wake_batch::WakeBatch;
pub(crate) use wake_batch::mixed;

/// Maximum shards: an entry stores its shard in one byte.
pub(crate) const MAX_SHARDS: usize = 1 << u8::BITS;

/// Shards to a processor. With fewer, threads that arm at the same time share a lock more often;
/// with more, each takes memory for nothing.
const SHARDS_PER_PROCESSOR: usize = 4;

/// The default is not more than this many shards: a pass reads the earliest deadline of each.
const DEFAULT_SHARDS_MAX: usize = 64;

/// Returns how many shards an engine has by default. Counts the processors once.
#[cfg(not(target_os = "none"))]
pub(crate) fn default_shards() -> usize {
    /// Zero until it is known. Threads that find it so at the same time all count.
    static SHARDS: AtomicUsize = AtomicUsize::new(0);
    if IN_EVENT_LOOP {
        return 1;
    }
    // ORDERING: Relaxed, twice; the number is all there is to read.
    let known = SHARDS.load(Ordering::Relaxed);
    if known > 0 {
        return known;
    }
    let shards = (crate::sync::processors() * SHARDS_PER_PROCESSOR)
        .next_power_of_two()
        .min(DEFAULT_SHARDS_MAX);
    SHARDS.store(shards, Ordering::Relaxed);
    shards
}

/// A counted reference to an engine.
pub(crate) type SharedEngine = Arc<DropByPointer<Engine>>;

/// Shards, clock, alarm and drive of one timer.
pub(crate) struct Engine {
    clock: Clock,
    /// Shards, a power of two.
    shards: AllShards,
    alarm: CachePadded<Alarm>,
    /// The earliest deadline of each shard.
    board: Board,
    /// Set when the last handle goes; and while a handle asks the driver's thread to end. Always,
    /// where the driver is a task.
    closed: AtomicBool,
    driven_by: DrivenBy,
    /// True if a thread drives it whose parks end in time: they and its clock both stop in suspend.
    /// False while a reactor drives it in the thread's place. Written under the start lock.
    parks_in_time: AtomicFlag,
    /// The process that the engine was made in. Once that is past, this is a parent process's
    /// engine, whose locks may be held by threads that are not there.
    pub(crate) generation: Generation,
    /// Engine that stands in for this one in a child of that process.
    successor: SetOnce<DropByPointer<Stakes>>,
    #[cfg(not(target_os = "none"))]
    uncommon: &'static Uncommon,
    /// The time at the last pass. Written by passes, read by anyone.
    cached_now: CachePadded<AtomicU64>,
    observed: Observed,
    /// Empty without the feature `pending`.
    #[cfg_attr(not(feature = "pending"), allow(dead_code, reason = "nothing is in it"))]
    armed: Armed,
    /// The tolerance of new sleeps.
    tolerance: Tolerance,
    /// Slack of those whose delay does not matter.
    slack: Slack,
}

impl Engine {
    /// `shards` is a power of two, and at most [`MAX_SHARDS`]. It has no effect where there is
    /// [`ONE_SHARD`].
    #[inline]
    pub(crate) fn new(clock: Clock, shards: usize, driven_by: DrivenBy) -> Self {
        Self::of(&Uncommon::OWN, clock, shards, driven_by)
    }

    /// Makes the engine of the process-wide timer. Its thread and clock are the default ones.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn for_good(
        clock: Clock,
        shards: usize,
        watch_resumes: Option<WatchResumes>,
    ) -> SharedEngine {
        let driven_by =
            DrivenBy::Thread(DriverThread::new(DriverThread::NAME.into(), watch_resumes));
        Arc::new(DropByPointer::for_good(Self::of(&Uncommon::FOR_GOOD, clock, shards, driven_by)))
    }

    #[cfg_attr(target_os = "none", allow(unused_variables, reason = "all have the same"))]
    fn of(uncommon: &'static Uncommon, clock: Clock, shards: usize, driven_by: DrivenBy) -> Self {
        // Nothing of it is dropped here: the code for that would be in each program that sleeps. If
        // there is no memory, it is leaked.
        let (clock, driven_by) = (ManuallyDrop::new(clock), ManuallyDrop::new(driven_by));
        debug_assert!(shards.is_power_of_two() && shards <= MAX_SHARDS);
        let shards = if ONE_SHARD { 1 } else { shards };
        let now = clock.now();
        let alarm = match *driven_by {
            DrivenBy::Thread(_) | DrivenBy::Task(_) => Alarm::absent(),
            DrivenBy::Hand(_) | DrivenBy::Clock => Alarm::awake(),
        };
        let board = ManuallyDrop::new(Board::new(shards));
        let generation = Generation::at_birth();
        Self {
            shards: AllShards::new(shards, || Shard::new(now)),
            alarm: CachePadded::new(alarm),
            board: ManuallyDrop::into_inner(board),
            closed: AtomicBool::new(matches!(*driven_by, DrivenBy::Task(_))),
            parks_in_time: AtomicFlag::new(driven_by.parks_in_time(&clock)),
            driven_by: ManuallyDrop::into_inner(driven_by),
            clock: ManuallyDrop::into_inner(clock),
            generation,
            successor: SetOnce::new(),
            #[cfg(not(target_os = "none"))]
            uncommon,
            cached_now: CachePadded::new(AtomicU64::new(now.raw())),
            observed: Observed::new(),
            armed: Armed::new(),
            tolerance: Tolerance::default(),
            slack: Slack::fixed(Duration::ZERO),
        }
    }

    /// Sets the tolerance of new sleeps.
    pub(crate) fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
        self.tolerance = tolerance;
        self.slack = tolerance.slack(Duration::ZERO);
        self
    }

    /// Sets the limit: a longer call is slow.
    pub(crate) fn with_slow_call_limit(mut self, limit: Duration) -> Self {
        self.observed.calls = Calls::new(limit);
        self
    }

    /// Sets the hook for the first panic of foreign code.
    pub(crate) fn with_panic_hook(mut self, hook: Option<StdArc<dyn Fn() + Send + Sync>>) -> Self {
        self.observed.panic_hook = hook;
        self
    }

    /// The tolerance of a new sleep with this delay.
    #[inline]
    pub(crate) fn slack(&self, delay: impl FnOnce(&Clock) -> Duration) -> Slack {
        if self.slack.is_share() { self.share_of(delay) } else { self.slack }
    }

    /// Returns the slack of a new sleep, if it is a share of the delay.
    #[cold]
    pub(crate) fn share_of(&self, delay: impl FnOnce(&Clock) -> Duration) -> Slack {
        self.tolerance.slack(delay(&self.clock))
    }

    /// Returns the time until `deadline`, or zero where no tolerance is a share of it.
    #[inline]
    pub(crate) fn delay_until(&self, deadline: Tick) -> Duration {
        if self.slack.is_share() { self.clock.until(deadline) } else { Duration::ZERO }
    }

    /// Makes a reference to be cloned. The last of them drops the engine.
    #[inline]
    pub(crate) fn shared(self) -> SharedEngine {
        Arc::new(DropByPointer::new(self))
    }

    /// The engine itself, or what stands in for it if it is inherited.
    pub(crate) fn current(&self) -> &Self {
        if self.generation.is_past() { self.successor().engine() } else { self }
    }

    /// Returns the stakes of the engine that stands in for this inherited one.
    pub(crate) fn successor(&self) -> &Stakes {
        let successor = self.successor.get_or_init(|| (self.uncommon().anew)(self));
        let engine = successor.engine();
        if engine.generation.is_past() { engine.successor() } else { successor }
    }

    /// Makes an engine like this one, for a child process.
    #[cfg_attr(
        any(
            target_os = "none",
            all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
        ),
        allow(unreachable_code, reason = "no driver is a task")
    )]
    #[inline]
    fn copied(&self) -> DropByPointer<Stakes> {
        // Each field is named, so that none of the options is forgotten.
        let Self {
            clock,
            shards,
            alarm: _,
            board: _,
            closed,
            driven_by,
            parks_in_time: _,
            generation: _,
            successor: _,
            #[cfg(not(target_os = "none"))]
                uncommon: _,
            cached_now: _,
            observed,
            armed: _,
            tolerance,
            slack: _,
        } = self;
        // ORDERING: Relaxed; it was written, if it was, before the fork. A thread that asked
        // its driver to end is not there.
        let is_asked = driven_by.is_asked_to_end();
        let is_closed = closed.load(Ordering::Relaxed) && !is_asked;
        let driven_by = match driven_by {
            DrivenBy::Thread(thread) => DrivenBy::Thread(thread.anew()),
            DrivenBy::Hand(hook) => DrivenBy::Hand(StdArc::clone(hook)),
            DrivenBy::Clock => DrivenBy::Clock,
            DrivenBy::Task(task) => DrivenBy::Task(task.anew()),
        };
        let mut engine = Self::new(clock.clone(), shards.len(), driven_by);
        engine.closed = AtomicBool::new(is_closed);
        let engine = engine.with_slow_call_limit(observed.calls.limit());
        let engine = engine.with_tolerance(*tolerance);
        let mut engine = engine.with_panic_hook(observed.panic_hook.clone());
        if let Some(keep_lateness) = observed.keeps_lateness {
            keep_lateness(&mut engine);
        }
        DropByPointer::new(Stakes::new(engine.shared()))
    }

    /// [`copied`](Self::copied) of the process-wide engine, without options.
    #[cfg(not(target_os = "none"))]
    fn copied_for_good(&self) -> DropByPointer<Stakes> {
        let DrivenBy::Thread(thread) = &self.driven_by else { unreachable!("it has a thread") };
        let engine = Self::for_good(self.clock.clone(), self.shards.len(), thread.watch_resumes);
        DropByPointer::for_good(Stakes::new(engine))
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    pub(crate) fn driven_by(&self) -> &DrivenBy {
        &self.driven_by
    }

    /// The time as of the last pass, or of the engine's birth.
    pub(crate) fn cached_now(&self) -> Tick {
        if self.clock.is_virtual() {
            return self.clock.now();
        }
        // ORDERING: Relaxed; an older time is as good.
        Tick::from_raw(self.cached_now.load(Ordering::Relaxed))
    }

    /// Holds a shard's lock until the result is dropped.
    #[cfg(all(test, tourbillon_model))]
    pub(crate) fn hold(&self, shard: usize) -> impl Sized + '_ {
        self.shards.at(shard).lock()
    }

    #[cfg(all(feature = "pending", not(target_os = "none")))]
    pub(crate) fn armed(&self) -> &Armed {
        &self.armed
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("clock", &self.clock)
            .field("shards", &self.shards.len())
            .field("drive", &self.driven_by)
            .field("alarm", &*self.alarm)
            .finish_non_exhaustive()
    }
}
