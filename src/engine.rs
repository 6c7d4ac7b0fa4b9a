//! The engine behind every timer handle and every sleep: shards, clock, alarm, and what drives
//! them. Its lock rules are in ARCHITECTURE.md.

mod alarm;
mod armed;
mod board;
mod calls;
mod driven_by;
mod entry;
mod histogram;
#[cfg_attr(
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"),
    path = "engine/parker/event_loop.rs"
)]
#[cfg(not(target_os = "none"))]
mod parker;
mod per_shard;
mod shard;
mod stakes;
mod stats;
#[cfg(all(test, not(tourbillon_model)))]
mod tests;
mod wake_batch;

use alloc::boxed::Box;
use core::fmt;
use core::task::Waker;
use core::time::Duration;

use crate::clock::Clock;
use crate::foreign::{Running, guarded};
use crate::fork::{self, Generation};
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
use crate::platform::OWN_WAITS;
use crate::platform::{IN_EVENT_LOOP, ONE_SHARD};
use crate::sync::unmodelled::AtomicU64;
#[cfg(not(target_os = "none"))]
use crate::sync::unmodelled::AtomicUsize;
use crate::sync::{
    Arc, AtomicBool, CachePadded, Home, LockGuard, Ordering, SetOnce, StdArc, fence, with_home,
};
use crate::tick::Tick;
use crate::tolerance::{Due, Margin, Slack, Tolerance};
use crate::trace::{self, DriverLife};
use crate::wheel::Turned;
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
use crate::wheel::{NodeKey, Timed as _};

pub(crate) use alarm::{Alarm, Notify, Plan};
#[cfg(all(feature = "pending", not(target_os = "none")))]
pub use armed::Pending;
pub(crate) use armed::{Armed, Watch};
use board::{Board, Scan, Shards};
use calls::{Calls, Measured};
pub(crate) use driven_by::*;
pub(crate) use entry::{Claim, Entry, State};
pub use histogram::Histogram;
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
pub(crate) use parker::{EventLoop, HostWait, OwnWaits, WhileHidden};
use per_shard::{AllShards, home};
pub(crate) use shard::Earliest;
use shard::Shard;
pub(crate) use stakes::{Stake, Stakes};
pub use stats::Stats;
use wake_batch::BATCH;
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
    parks_in_time: bool,
    /// False if entries are also fired as the driver goes; see [`abandon`](Self::abandon).
    fires_when_due: bool,
    /// The process that the engine was made in.
    generation: Generation,
    /// Engine that stands in for this one in a child of that process.
    successor: SetOnce<Stakes>,
    /// The time at the last pass. Written by passes, read by anyone.
    cached_now: CachePadded<AtomicU64>,
    counters: Counters,
    /// Called at the first panic that is counted.
    panic_hook: Option<StdArc<dyn Fn() + Send + Sync>>,
    calls: Calls,
    /// Empty without the feature `pending`.
    #[cfg_attr(not(feature = "pending"), allow(dead_code, reason = "nothing is in it"))]
    armed: Armed,
    /// Gives each shard a histogram, if they keep one.
    keeps_lateness: Option<KeepLateness>,
    /// The tolerance of new sleeps.
    tolerance: Tolerance,
    /// Slack of those whose delay does not matter.
    slack: Slack,
}

/// The function that gives an engine its histograms. A pointer, so that only programs that ask for
/// them have the code.
type KeepLateness = fn(&mut Engine);

/// Counters that no shard keeps.
#[derive(Debug)]
struct Counters {
    /// Parks that ended. The driver's.
    wakeups: AtomicU64,
    /// Unparks sent, and calls of the hook.
    unparks: AtomicU64,
    /// Wakers and hooks that panicked.
    panics: AtomicU64,
}

/// Result of a pass over all shards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
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
    /// Reports the pass, made at `now`, if it was late, or a waker slow. With no lock held: this
    /// may call a subscriber, foreign code.
    #[inline]
    pub(crate) fn report(&self, now: Tick, clock: &Clock, life: Option<&DriverLife>) {
        // The tick of every wheel is now that of the pass.
        let lag_ns = || clock.now().nanos_since(now);
        trace::passed(life, self.fired, self.lateness_ns_max, lag_ns);
        trace::called(life, self.slow_calls, self.call_ns_max);
    }
}

/// Work that an insert leaves, by the code above the driver: an engine does not know how its own is
/// started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Remaining {
    Nothing,
    /// Start the driver's thread. An insert that cannot have that done is to be withdrawn.
    StartDriver,
    /// The same, and begin a wait of the host's for the entry of this key.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    Wait(NodeKey),
}

impl Engine {
    /// `shards` is a power of two, and at most [`MAX_SHARDS`]. It has no effect where there is
    /// [`ONE_SHARD`].
    pub(crate) fn new(clock: Clock, shards: usize, driven_by: DrivenBy) -> Self {
        debug_assert!(shards.is_power_of_two() && shards <= MAX_SHARDS);
        let shards = if ONE_SHARD { 1 } else { shards };
        let now = clock.now();
        let alarm = match driven_by {
            DrivenBy::Thread(_) | DrivenBy::Task(_) => Alarm::absent(),
            DrivenBy::Hand(_) | DrivenBy::Clock => Alarm::awake(),
        };
        Self {
            shards: AllShards::new(shards, || Shard::new(now)),
            alarm: CachePadded::new(alarm),
            board: Board::new(shards),
            closed: AtomicBool::new(matches!(driven_by, DrivenBy::Task(_))),
            parks_in_time: matches!(driven_by, DrivenBy::Thread(_)) && !clock.counts_suspend(),
            fires_when_due: !matches!(driven_by, DrivenBy::Task(_)),
            driven_by,
            clock,
            generation: Generation::at_birth(),
            successor: SetOnce::new(),
            cached_now: CachePadded::new(AtomicU64::new(now.raw())),
            counters: Counters {
                wakeups: AtomicU64::new(0),
                unparks: AtomicU64::new(0),
                panics: AtomicU64::new(0),
            },
            panic_hook: None,
            calls: Calls::new(calls::LIMIT),
            armed: Armed::new(),
            keeps_lateness: None,
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
        self.calls = Calls::new(limit);
        self
    }

    /// Sets the hook for the first panic of foreign code.
    pub(crate) fn with_panic_hook(mut self, hook: Option<StdArc<dyn Fn() + Send + Sync>>) -> Self {
        self.panic_hook = hook;
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

    /// Gives each shard a lateness histogram.
    ///
    /// One to a shard, rather than one to the engine: fires are counted under a shard's lock, so it
    /// needs no other lock and no atomics. The price is 4 KiB to a shard.
    pub(crate) fn keep_lateness(&mut self) {
        self.keeps_lateness = Some(Self::keep_lateness);
        for shard in &*self.shards {
            let histogram = Box::new(Histogram::new());
            shard.lock().lateness.histogram = Some(histogram);
        }
    }

    /// Returns whether this is a parent process's engine, whose locks may be held by threads that
    /// are not there.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation.is_past()
    }

    /// The engine itself, or what stands in for it if it is inherited.
    pub(crate) fn current(this: &Arc<Self>) -> &Arc<Self> {
        if this.is_inherited() { this.successor().engine() } else { this }
    }

    /// Returns the stakes of the engine that stands in for this inherited one.
    pub(crate) fn successor(&self) -> &Stakes {
        let successor = self.successor.get_or_init(|| {
            // Each field is named, so that none of the options is forgotten.
            let Self {
                clock,
                shards,
                alarm: _,
                board: _,
                closed,
                driven_by,
                parks_in_time: _,
                fires_when_due: _,
                generation: _,
                successor: _,
                cached_now: _,
                counters: _,
                panic_hook,
                calls,
                armed: _,
                keeps_lateness,
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
            let engine = engine.with_slow_call_limit(calls.limit());
            let engine = engine.with_tolerance(*tolerance);
            let mut engine = engine.with_panic_hook(panic_hook.clone());
            if let Some(keep_lateness) = keeps_lateness {
                keep_lateness(&mut engine);
            }
            Stakes::new(Arc::new(engine))
        });
        let engine = successor.engine();
        if engine.is_inherited() { engine.successor() } else { successor }
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

    /// Returns whether a sleep may leave it to the driver to notice its deadline, rather than read
    /// the clock in every poll: a thread of its own is parked, and will wake in time. The loop that
    /// turns a hand-driven engine may be the very loop that does not get to it, and so may an event
    /// loop. Where the clock counts suspend, a park may end late by that.
    #[inline]
    pub(crate) fn is_attended(&self, deadline: Tick) -> bool {
        !IN_EVENT_LOOP && self.parks_in_time && self.alarm.is_set_for(deadline)
    }

    /// Returns whether an entry that has fired shows that the deadline it was filed under has come.
    #[inline]
    pub(crate) fn fires_when_due(&self) -> bool {
        self.fires_when_due
    }

    /// Returns whether the driver waits now, and for nothing once nothing is pending, not even for
    /// a cancelled timer's deadline: its wait may keep a program from ending.
    #[inline]
    fn ends_idle_waits(&self) -> bool {
        match self.driven_by {
            DrivenBy::Thread(_) => IN_EVENT_LOOP && !self.alarm.is_idle(),
            DrivenBy::Task(_) | DrivenBy::Hand(_) | DrivenBy::Clock => false,
        }
    }

    /// Wakes all that is armed, once the driver [has left](Alarm::leave): the sleeps then look for
    /// another.
    ///
    /// They find by the clock that their deadlines have not come; see
    /// [`fires_when_due`](Self::fires_when_due).
    #[cfg(not(target_os = "none"))]
    pub(crate) fn abandon(&self) {
        for index in 0..self.shards.len() {
            for chunk in 0.. {
                let mut shard = self.shards.at(index).lock();
                let abandoned = shard.abandon(chunk);
                shard.forget_cancelled();
                self.board.raise(index, shard.earliest());
                self.board.open(index, shard.opens());
                drop(shard);
                let Some(wakers) = abandoned else { break };
                let _running = Running::begin();
                for waker in wakers {
                    self.count_panics(u64::from(guarded(|| waker.wake()).is_none()));
                }
            }
        }
    }

    /// Queues a new entry and notifies the driver if it has to be.
    #[inline(always)]
    pub(crate) fn arm(&self, due: Due, waker: Waker) -> (Claim, Remaining) {
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        if self.own_waits() >= OwnWaits::Polls {
            let (claim, earliest) = self.insert_alone(due, waker);
            return (claim, self.announce(due.by, earliest));
        }
        let (claim, earliest) = self.insert(due, waker);
        // SAFETY: a shard of this engine's has just made the claim.
        let entry = unsafe { claim.entry() };
        let remaining = self.notify_of_insert(entry, due.by, earliest);
        (claim, remaining)
    }

    /// [`arm`](Self::arm) for a sleep with a tolerance. Not inlined, so that the path of an exact
    /// one stays short.
    #[inline(never)]
    pub(crate) fn arm_within(&self, due: Due, waker: Waker) -> (Claim, Remaining) {
        self.arm(due, waker)
    }

    /// Queues a new entry. [`announce`](Self::announce) is to follow.
    #[cfg_attr(not(any(target_family = "wasm", target_os = "none")), inline(always))]
    pub(crate) fn insert(&self, due: Due, waker: Waker) -> (Claim, Earliest) {
        let (index, mut shard) = self.lock_home();
        let (claim, earliest) = shard.arm(index, due, waker);
        self.post(index.into(), &shard, due, earliest);
        drop(shard);
        (claim, earliest)
    }

    /// [`insert`](Self::insert) for a sleep that is not polled.
    pub(crate) fn insert_call(&self, due: Due, waker: Waker) -> (Claim, Earliest) {
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        if self.own_waits() == OwnWaits::All {
            self.read_for_wait(true);
            return self.insert_alone(due, waker);
        }
        self.insert(due, waker)
    }

    /// Reads the clock for the wait that is to begin, where no poll has.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    fn read_for_wait(&self, is_alone: bool) {
        if is_alone {
            self.clock.now();
        }
    }

    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    #[inline(never)]
    fn insert_alone(&self, due: Due, waker: Waker) -> (Claim, Earliest) {
        self.shards.at(0).lock().arm_alone(due, waker)
    }

    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    fn own_waits(&self) -> OwnWaits {
        match &self.driven_by {
            DrivenBy::Thread(thread) => thread.parker.own_waits(),
            _ => OwnWaits::None,
        }
    }

    /// Queues a fired entry again, and notifies the driver if it has to be.
    pub(crate) fn rearm(&self, entry: &Entry, due: Due, waker: Waker) -> Remaining {
        let mut shard = self.shard_of(entry);
        let earliest = shard.rearm(entry, due, waker);
        self.post(entry.shard(), &shard, due, earliest);
        drop(shard);
        self.notify_of_insert(entry, due.by, earliest)
    }

    /// Posts the changes that an insert has made. The caller holds the shard's lock.
    #[inline(always)]
    fn post(&self, index: usize, shard: &Shard, due: Due, earliest: Earliest) {
        if due.margin != Margin::NONE {
            self.board.open(index, shard.opens());
        }
        if earliest == Earliest::Lowered {
            self.board.lower(index, due.by);
        }
    }

    /// Files an entry anew if it is queued, and notifies the driver if it has to be.
    #[inline]
    pub(crate) fn refile(&self, entry: &Entry, due: Due) -> Remaining {
        let earliest = self.file_again(entry, due);
        self.notify_of_insert(entry, due.by, earliest)
    }

    /// Files an entry anew if it is queued. [`announce`](Self::announce) is to follow.
    #[inline]
    pub(crate) fn file_again(&self, entry: &Entry, due: Due) -> Earliest {
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        self.read_for_wait(entry.is_alone());
        let mut shard = self.shard_of(entry);
        let earliest = shard.refile(entry, due);
        self.post(entry.shard(), &shard, due, earliest);
        drop(shard);
        earliest
    }

    /// Returns whether the driver's thread has to be started.
    pub(crate) fn look_for_driver(&self) -> Remaining {
        self.act_on(self.alarm.start_if_absent())
    }

    /// Sees to it that a queued entry is fired. `anew` says that its waker is another.
    #[inline]
    #[cfg_attr(
        not(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")),
        allow(unused_variables, reason = "no host has waits")
    )]
    pub(crate) fn attend(&self, entry: &Entry, anew: bool) -> Remaining {
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        if OWN_WAITS {
            if let Some(key) = self.shards.at(0).lock().key_to_wait(entry, anew) {
                return Remaining::Wait(key);
            }
        }
        if anew { Remaining::Nothing } else { self.look_for_driver() }
    }

    /// Begins a wait of the host's for the entry of this key, in the place of the one before and by
    /// the last reading. An exception of the host's passes through, and all stays the same.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    #[inline(never)]
    pub(crate) fn wait_by_host(&self, key: NodeKey) {
        if !OWN_WAITS {
            return;
        }
        let due = self.shards.at(0).lock().find_alone(key).map(|entry| entry.due_by());
        let DrivenBy::Thread(thread) = &self.driven_by else { return };
        let Some(event_loop) = thread.parker.event_loop() else { return };
        let Some(due) = due.filter(|due| *due != Tick::NEVER) else { return };
        let wait = event_loop.wait(key.number(), due);
        let wait = Box::new(wait.unwrap_or_else(|thrown| wasm_bindgen::throw_val(thrown)));
        let mut shard = self.shards.at(0).lock();
        let over = match shard.find_alone(key) {
            Some(entry) => entry.replace_wait(Some(wait)),
            None => Some(wait),
        };
        drop(shard);
        drop(over);
    }

    /// Ends a wait of the host's. Returns the waker of its entry, if that is due.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn end_wait(&self, key: u32, generation: u32) -> Option<Waker> {
        let key = NodeKey::numbered(key);
        let now = self.clock.now();
        let mut shard = self.shards.at(0).lock();
        let entry = shard.find_alone(key)?;
        let wait = entry.replace_wait(None)?;
        if wait.generation != generation {
            entry.replace_wait(Some(wait));
            return None;
        }
        wait.leave();
        if entry.due_by() > now {
            drop(shard);
            self.wait_by_host(key);
            return None;
        }
        Some(shard.fire_alone(key, now))
    }

    /// Wakes the waker of an entry whose wait has ended.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn wake_alone(&self, waker: Waker) {
        let measured = self.calls.wake_one(&self.clock, waker);
        self.count_panics(measured.panics);
    }

    /// Puts `waker` in the place of a queued entry's. False if the entry has fired meanwhile.
    #[must_use]
    pub(crate) fn replace_waker(&self, entry: &Entry, waker: Waker) -> bool {
        let shard = self.shard_of(entry);
        let queued = entry.state() == State::Queued;
        // Whichever is no longer needed is dropped after the lock, as drops are foreign code.
        let old = if queued { entry.replace_waker(waker) } else { waker };
        drop(shard);
        drop(old);
        queued
    }

    /// Takes an entry back, and then drops its waker: that is foreign code and may panic. Returns
    /// whether there was one, since nothing had fired the entry.
    ///
    /// # Safety
    ///
    /// The claim was made by this engine, and is not a [mark](Claim::is_mark).
    #[inline(always)]
    pub(crate) unsafe fn withdraw(&self, claim: Claim, completed: bool) -> bool {
        // SAFETY: as the caller says; this engine is alive.
        let entry = unsafe { claim.entry() };
        // Before the lock: the host's function is foreign code.
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        drop(entry.replace_wait(None));
        let mut shard = self.shard_of(entry);
        let seen = entry.state();
        // SAFETY: the entry itself names its shard.
        let waker = unsafe { shard.withdraw(claim, seen, completed) };
        // ORDERING: Relaxed; the shard's lock orders this load. If a driver that has read `closed`
        // counts what is pending here after us, it finds nothing. If before, we read what it has
        // read, or a later value. Loom `last_cancel_races_close`.
        let last = shard.pending() == 0
            && (self.closed.load(Ordering::Relaxed)
                || seen == State::Queued && self.ends_idle_waits());
        drop(shard);
        if last {
            self.notify_driver();
        }
        drop(waker);
        seen == State::Queued
    }

    /// Says that the last handle is gone: a driver thread ends with the last armed sleep. Or that
    /// a handle asks the thread to end, until it [answers](Self::reopen).
    pub(crate) fn close(&self) {
        // ORDERING: Relaxed; the fence that follows orders it.
        self.closed.store(true, Ordering::Relaxed);
        // ORDERING: SeqCst, the partner of that in `Board::begin_scan`: either the scan's thread
        // reads this store, or this thread sees the scan announced. Loom
        // `the_end_of_one_timer_races_arm_on_another`.
        fence(Ordering::SeqCst);
        self.notify_driver();
    }

    /// Number of timers that are armed, if the driver is to end once there is none. To be asked by
    /// the driver, after a scan.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn left_at_close(&self) -> Option<usize> {
        // ORDERING: Relaxed; the fence of the scan orders it, as `close` says. Before any shard is
        // found empty; see `withdraw`.
        self.closed.load(Ordering::Relaxed).then(|| self.pending())
    }

    /// Says that there is no driver, unless a timer is armed after all: that one's thread may have
    /// seen the driver, and rely on it. To be called by the driver, under the start lock. Returns
    /// whether it is to end.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn try_to_leave(&self) -> bool {
        self.alarm.leave();
        self.pending() == 0
    }

    /// Takes back that a handle asks the driver's thread to end. That handle is still there.
    pub(crate) fn reopen(&self) {
        // ORDERING: Relaxed; the driver answers under the start lock. That orders it before the
        // last handle's going.
        self.closed.store(false, Ordering::Relaxed);
    }

    /// Fires all that is due at `now` and looks for the next deadline.
    pub(crate) fn pass(&self, now: Tick, batch: &mut WakeBatch) -> Pass {
        self.pass_from(0, now, batch, None, u32::MAX)
    }

    /// Turns the shards in which something is due, beginning with `first`, until the batch is spent
    /// or so many `parts` were done, and there is more to do. Spends the batch once the clock shows
    /// `until`, but not before it has done some of it.
    pub(crate) fn pass_from(
        &self,
        first: usize,
        now: Tick,
        batch: &mut WakeBatch,
        until: Option<Tick>,
        mut parts: u32,
    ) -> Pass {
        // ORDERING: Relaxed; see `cached_now`. Passes do not overlap, except of a virtual clock,
        // which does not read it.
        self.cached_now.store(now.raw(), Ordering::Relaxed);
        let mut pass = Pass {
            fired: 0,
            lateness_ns_max: 0,
            call_ns_max: 0,
            slow_calls: 0,
            next: Tick::NEVER,
            has_windows: false,
            cut_short: false,
            reached: first,
        };
        let Scan { due: mut visited, next: next_of_others, has_windows } = self.board.scan(now);
        pass.has_windows = has_windows;
        let forgets = self.ends_idle_waits();
        if forgets {
            visited = Shards::first(self.shards.len());
        } else {
            pass.next = next_of_others;
        }
        let before = visited.split_before(first);
        'shards: for index in visited.chain(before) {
            loop {
                if !batch.is_spent() {
                    pass.reached = index;
                }
                let held = batch.len();
                let mut shard = self.shards.at(index).lock();
                let (turned, lateness_ns_max) = shard.turn(now, batch);
                if forgets {
                    shard.forget_cancelled();
                }
                self.board.raise(index, shard.earliest());
                self.board.open(index, shard.opens());
                let taken = batch.len() - held;
                let worked = taken > 0 || turned == Turned::Partly;
                // Nobody waits while a slot of many is filed again, or for room in the batch.
                let urgent = turned == Turned::Partly && taken < BATCH;
                let earliest = shard.earliest();
                drop(shard);
                pass.lateness_ns_max = pass.lateness_ns_max.max(lateness_ns_max);
                if urgent && !batch.is_seeded() || until.is_some() {
                    self.wake(batch, &mut pass);
                    if self.is_inherited() {
                        break 'shards;
                    }
                }
                if worked && until.is_some_and(|until| self.clock.now() >= until) {
                    batch.allow(0);
                }
                if turned == Turned::Completely {
                    pass.next = pass.next.min(earliest);
                    break;
                }
                parts -= 1;
                if batch.is_spent() || parts == 0 {
                    pass.cut_short = true;
                    break 'shards;
                }
                self.shards.at(index).give_way();
            }
        }
        self.wake(batch, &mut pass);
        // A child of a process that forked in foreign code leaves the engine of its parent alone.
        pass.cut_short |= self.is_inherited();
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

    /// Number of timers that are armed. Takes each shard's lock in turn.
    #[cfg(not(target_os = "none"))]
    fn pending(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().pending()).sum()
    }

    /// Holds a shard's lock until the result is dropped.
    #[cfg(all(test, tourbillon_model))]
    pub(crate) fn hold(&self, shard: usize) -> impl Sized + '_ {
        self.shards.at(shard).lock()
    }

    /// Counts a park that has ended.
    pub(crate) fn count_wakeup(&self) {
        // ORDERING: Relaxed; a statistic.
        self.counters.wakeups.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> Stats {
        // ORDERING: Relaxed, thrice; statistics.
        let mut stats = Stats {
            shards: self.shards.len(),
            driver_wakeups: self.counters.wakeups.load(Ordering::Relaxed),
            unparks: self.counters.unparks.load(Ordering::Relaxed),
            waker_panics: self.counters.panics.load(Ordering::Relaxed),
            longest_call: self.calls.longest(&self.clock),
            slow_calls: self.calls.slow(),
            ..Stats::default()
        };
        for shard in &*self.shards {
            let shard = shard.lock();
            stats.armed += shard.counters.armed;
            stats.fired += shard.counters.fired;
            stats.cancelled += shard.counters.cancelled;
            stats.pending += shard.pending();
            stats.shards_used += usize::from(shard.counters.armed > 0);
            let lateness_max = Duration::from_nanos(shard.lateness.ns_max);
            stats.lateness_max = stats.lateness_max.max(lateness_max);
        }
        stats
    }

    /// The shards' histograms in one; `None` if they keep none.
    pub(crate) fn lateness(&self) -> Option<Histogram> {
        self.keeps_lateness.map(|_| {
            let mut all = Histogram::new();
            for shard in &*self.shards {
                shard.lock().lateness.histogram.iter().for_each(|own| all.merge(own));
            }
            all
        })
    }

    /// Makes the driver look at its wheels no later than at `deadline`.
    #[inline(always)]
    fn notify_of_insert(&self, entry: &Entry, deadline: Tick, earliest: Earliest) -> Remaining {
        self.catch_up(entry, deadline);
        self.announce(deadline, earliest)
    }

    /// Makes the driver look at its wheels, but leaves it to the next move of a virtual clock to
    /// fire the timers that are due.
    #[inline(always)]
    pub(crate) fn announce(&self, deadline: Tick, earliest: Earliest) -> Remaining {
        let notify = match earliest {
            Earliest::Lowered => self.alarm.pull_forward(deadline),
            // Another insert lowered the shard's earliest deadline at least this far, and has
            // notified the driver or is about to, if there is one.
            Earliest::Kept => self.alarm.start_if_absent(),
            #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
            Earliest::Alone(key) => return Remaining::Wait(key),
        };
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        let notify = self.notify_of_loss(notify, deadline);
        self.act_on(notify)
    }

    /// Has an event loop's driver unparked also if its host has lost the turn that is to come. The
    /// arm has just read the clock.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    fn notify_of_loss(&self, notify: Notify, deadline: Tick) -> Notify {
        let DrivenBy::Thread(thread) = &self.driven_by else { return notify };
        let is_lost = notify == Notify::Nothing
            && deadline != Tick::NEVER
            // Or it has refused it, if nothing is set for the new entry.
            && (self.alarm.is_idle()
                || thread.parker.is_lost(self.clock.last_reading()));
        if is_lost {
            self.alarm.stay_awake();
            return Notify::Unpark;
        }
        notify
    }

    /// Fires an entry that was just queued if a virtual clock has passed its deadline meanwhile.
    ///
    /// The move of the clock was followed by a scan of the shards. If that was after the insert,
    /// the entry has been fired. If before, the insert's thread sees the new time, by the shard's
    /// lock or by the fence of the insert that the scan passed over. Loom `advance_races_arm`. A
    /// thread that is moving the clock itself, and runs in a waker, will scan again, and in order.
    #[inline]
    fn catch_up(&self, entry: &Entry, deadline: Tick) {
        if let Some(now) = self.clock.moved_past(deadline) {
            self.fire_late(entry, now);
        }
    }

    #[cold]
    fn fire_late(&self, entry: &Entry, now: Tick) {
        let waker = self.shard_of(entry).fire(entry, now);
        if let Some(waker) = waker {
            let _running = Running::begin();
            self.count_panics(u64::from(guarded(|| waker.wake()).is_none()));
        }
    }

    #[inline]
    fn act_on(&self, notify: Notify) -> Remaining {
        match notify {
            Notify::Nothing => Remaining::Nothing,
            Notify::Unpark => {
                self.unpark();
                Remaining::Nothing
            }
            Notify::Start => Remaining::StartDriver,
        }
    }

    /// Makes the driver, if there is one, look at its wheels now.
    pub(crate) fn notify_driver(&self) {
        if self.alarm.pull_forward(Tick::PAST) == Notify::Unpark {
            self.unpark();
        }
    }

    #[cold]
    fn unpark(&self) {
        // ORDERING: Relaxed; a statistic.
        self.counters.unparks.fetch_add(1, Ordering::Relaxed);
        match &self.driven_by {
            #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
            DrivenBy::Thread(thread) => thread.parker.unpark(self.clock.last_reading()),
            #[cfg(not(all(
                target_family = "wasm",
                target_os = "unknown",
                feature = "wasm-bindgen"
            )))]
            DrivenBy::Thread(thread) => thread.unpark(),
            // Foreign code: a panic here would unwind through an arm or a drop half done.
            DrivenBy::Hand(hook) => self.count_panics(u64::from(guarded(|| hook()).is_none())),
            DrivenBy::Clock => {}
            DrivenBy::Task(task) => {
                self.count_panics(u64::from(guarded(|| task.unpark()).is_none()));
            }
        }
    }

    #[cfg(all(feature = "pending", not(target_os = "none")))]
    pub(crate) fn armed(&self) -> &Armed {
        &self.armed
    }

    fn wake(&self, batch: &mut WakeBatch, pass: &mut Pass) {
        if batch.len() == 0 {
            return;
        }
        pass.fired += batch.len();
        let _running = Running::begin();
        let measured = self.calls.wake_all(&self.clock, batch);
        self.end_forked_driver(measured.panics > 0);
        self.count_calls(measured, pass);
    }

    /// Wakes one waker that a pass has left to the event loop.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn wake_deferred(&self, waker: Waker, pass: &mut Pass) {
        let measured = self.calls.wake_one(&self.clock, waker);
        self.count_calls(measured, pass);
    }

    /// Counts a call of [`wake_deferred`](Self::wake_deferred) that was cut off by a panic.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn count_cut_off(&self) {
        self.calls.cut_off(&self.clock);
        self.count_panics(1);
    }

    fn count_calls(&self, measured: Measured, pass: &mut Pass) {
        pass.call_ns_max = pass.call_ns_max.max(measured.longest_ns);
        pass.slow_calls += measured.slow;
        self.count_panics(measured.panics);
    }

    /// Ends the process if this is the copy of a driver's thread in a child, forked by foreign code
    /// that has returned: the thread is the engine's, so there is nothing else to return to.
    pub(crate) fn end_forked_driver(&self, panicked: bool) {
        if self.is_inherited() && matches!(self.driven_by, DrivenBy::Thread(_)) {
            fork::end_child(panicked);
        }
    }

    /// Counts panics of foreign code, and reports the first. With no lock held: this may call a
    /// subscriber and a hook.
    pub(crate) fn count_panics(&self, panics: u64) {
        if panics > 0 {
            self.note_panics(panics);
        }
    }

    #[cold]
    fn note_panics(&self, panics: u64) {
        // ORDERING: Relaxed; a statistic. One call adds to zero.
        let before = self.counters.panics.fetch_add(panics, Ordering::Relaxed);
        if before > 0 {
            return;
        }
        trace::panicked();
        if let Some(hook) = &self.panic_hook {
            guarded(|| hook());
        }
    }

    /// Locks the calling thread's shard, or the next one if that is taken at the moment.
    #[inline]
    fn lock_home(&self) -> (u8, LockGuard<'_, Shard>) {
        if ONE_SHARD {
            return (0, self.shards.at(0).lock());
        }
        let index = home(self.shards.len());
        match self.shards.at(index).try_lock() {
            Some(shard) => {
                with_home(Home::was_free);
                (index as u8, shard)
            }
            None => self.lock_next_door(index),
        }
    }

    #[cold]
    fn lock_next_door(&self, index: usize) -> (u8, LockGuard<'_, Shard>) {
        let next = (index + 1) & (self.shards.len() - 1);
        if next != index {
            // A driver that is awake may have the lock for a while, and then takes the next.
            if self.alarm.plan().is_some() {
                with_home(Home::was_taken);
            }
            if let Some(shard) = self.shards.at(next).try_lock() {
                return (next as u8, shard);
            }
        }
        (index as u8, self.shards.at(index).lock())
    }

    #[inline]
    fn shard_of(&self, entry: &Entry) -> LockGuard<'_, Shard> {
        self.shards.at(entry.shard()).lock()
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
