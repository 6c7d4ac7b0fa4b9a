//! [`Sleep`], the future that everything else is made of.

use core::fmt;
use core::future::Future;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use futures_core::FusedFuture;

use crate::clock::Clock;
use crate::deadline::Deadline;
use crate::engine::{Caller, Claim, Engine, Entry, Listing, Notify, State};
use crate::handle::EngineRef;
use crate::sync::SpawnError;
use crate::tick::Tick;
use crate::time::Instant;
use crate::tolerance::{Due, Slack};

/// A future that completes once its deadline has come.
///
/// Made by [`sleep`](crate::sleep()), [`sleep_until`](crate::sleep_until),
/// [`Timer::never`](crate::Timer::never) and the methods of [`Timer`](crate::Timer) of the same
/// names. Works on any executor, needs no pinning, and takes 32 bytes.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # pollster::block_on(async {
/// let start = Instant::now();
/// tourbillon::sleep(Duration::from_millis(2)).await;
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// # });
/// ```
///
/// # Guarantees
///
/// - Never early: it completes at its deadline or after, by the clock of its timer.
/// - The driver fires it at its deadline, or up to its [tolerance](Self::set_tolerance) later.
/// - Nothing is registered before the first poll that finds the deadline in the future. A deadline
///   already past completes that poll, without the driver. (A deadline that has just passed may
///   look pending to a poll: while the kernel is late to move its own clock, or while the poll
///   trusts a driver that is late. Then the driver fires it at once.)
/// - While it is pending, a wake-up goes to the waker of the last poll.
/// - A poll completes it by the clock, whether or not the driver has fired it. While the driver
///   thread is parked until the deadline or an earlier time, some polls take its word that the
///   deadline is still to come ([design](crate::design::architecture#what-happens)). A deadline
///   already past when the sleep is made completes its first poll in any case.
/// - Polled again after completion, it is ready again.
///
/// # Cancel safety
///
/// Dropping it cancels it at once: its place in the wheel and its waker are gone when the drop
/// returns. That takes one shard lock if it was armed, and nothing otherwise.
///
/// # Panics
///
/// The poll that arms the first timer of a process (or of an own [`Timer`](crate::Timer)) panics
/// if the driver thread cannot be started. The sleep is left unarmed, and its next poll tries
/// again. [`Timer::start`](crate::Timer::start) reports that as an error beforehand.
///
/// A poll also passes on the panic of a waker's clone, and panics if some 2^28 timers are armed
/// in one shard.
#[must_use = "futures do nothing unless polled or awaited"]
pub struct Sleep {
    engine: EngineRef,
    /// The deadline in force.
    deadline: Tick,
    /// The tolerance: it may be fired this much later than the deadline.
    slack: Slack,
    /// `None` or `AHEAD` while not armed, `SPENT` once completed. INVARIANT: any other was made by
    /// `engine`, for a place in the wheel or for the waker alone.
    claim: Option<Claim>,
    /// Knows where the sleep was made, with the feature `pending`.
    listing: Listing,
}

/// Shortest delay, in nanoseconds, for a first poll that may trust a parked driver. That poll comes
/// sooner than this, unless the task did something else before.
const AHEAD_NANOS: u64 = 100_000;

/// [`Sleep::claim`], taken apart.
enum Phase<'a> {
    Unarmed,
    Armed(&'a Entry),
    Completed,
}

impl Sleep {
    #[inline]
    #[cfg_attr(feature = "pending", track_caller)]
    pub(crate) fn new(engine: EngineRef, deadline: Tick) -> Self {
        Self::until(engine, |_| deadline)
    }

    /// Makes a sleep with a deadline by the engine's clock.
    #[inline]
    #[cfg_attr(feature = "pending", track_caller)]
    pub(crate) fn until(engine: EngineRef, deadline: impl FnOnce(&Clock) -> Tick) -> Self {
        let shared = engine.get();
        let deadline = deadline(shared.clock());
        let slack = shared.slack(|clock| clock.until(deadline));
        Self { engine, deadline, slack, claim: None, listing: Listing::here() }
    }

    /// Makes a sleep that ends `delay` from now.
    #[inline(always)]
    #[cfg_attr(feature = "pending", track_caller)]
    pub(crate) fn after(engine: EngineRef, delay: Duration) -> Self {
        let shared = engine.get();
        let now = shared.clock().now();
        let deadline = now.saturating_add(delay);
        let slack = shared.slack(|_| delay);
        let claim = (deadline.nanos_since(now) >= AHEAD_NANOS).then_some(Claim::AHEAD);
        Self { engine, deadline, slack, claim, listing: Listing::here() }
    }

    /// Returns the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let deadline = Instant::now() + Duration::from_secs(7);
    /// assert_eq!(tourbillon::sleep_until(deadline).deadline(), deadline);
    /// ```
    ///
    /// # Units
    ///
    /// An instant has nanoseconds. The time line of a timer begins 146 years before the timer was
    /// made and ends 438 years after it. No clock reaches that end. It is the deadline of a sleep
    /// that never ends, and stands for every later deadline. Likewise the beginning stands for
    /// every earlier deadline, where the platform can represent it: just as past, but not the same
    /// instant. [`remaining`](Self::remaining) is `None` for a sleep that never ends.
    pub fn deadline(&self) -> Instant {
        self.engine.get().clock().instant(self.deadline)
    }

    /// Returns whether the deadline has come, by the clock and whether or not the sleep was polled.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// assert!(tourbillon::sleep(Duration::ZERO).is_elapsed());
    /// assert!(!tourbillon::sleep(Duration::from_secs(60)).is_elapsed());
    /// ```
    pub fn is_elapsed(&self) -> bool {
        // Not `has_passed`: it may report a deadline that has just come as pending.
        self.engine.get().clock().now() >= self.deadline
    }

    /// Moves the deadline, before the sleep is armed, while it is, or after it completed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// # pollster::block_on(async {
    /// let mut sleep = tourbillon::sleep(Duration::from_secs(3600));
    /// sleep.reset(Instant::now() + Duration::from_millis(1));
    /// (&mut sleep).await;
    /// sleep.reset(Instant::now() + Duration::from_millis(1));
    /// sleep.await;
    /// # });
    /// ```
    ///
    /// # Guarantees
    ///
    /// Later polls report the new deadline only, and a completed sleep is pending again. An armed
    /// sleep stays armed with its waker and needs no poll, even if it was reset to never in
    /// between. The same holds for a sleep that was polled while it had no deadline. A sleep that
    /// has fired or completed needs a poll, because its waker is used up. A wake-up for the old
    /// deadline that is already under way may still arrive; it is harmless. If the driver thread is
    /// needed for the new deadline and cannot be started, the task is woken at once, and its poll
    /// panics.
    ///
    /// A reset to a later deadline takes no lock and moves nothing in the wheel: the driver sees
    /// the new deadline when it gets to the old one. A reset to an earlier deadline takes one shard
    /// lock. So keep one sleep armed and reset it, as for an idle connection, rather than drop it
    /// and make another.
    #[inline]
    pub fn reset(&mut self, deadline: impl Into<Deadline>) {
        self.reset_to(self.engine.get().clock().tick_of(deadline.into()));
    }

    /// Moves the deadline to `delay` from now; see [`reset`](Self::reset).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let mut sleep = tourbillon::sleep(Duration::ZERO);
    /// sleep.reset_after(Duration::from_secs(5));
    /// assert!(sleep.deadline() > Instant::now());
    /// sleep.reset_after(Duration::MAX); // never
    /// ```
    pub fn reset_after(&mut self, delay: Duration) {
        let deadline = self.engine.get().clock().now().saturating_add(delay);
        self.reset_by(deadline, |_| delay);
    }

    /// The time until the deadline, by the timer's clock: zero once it has come, and `None` if it
    /// never does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let left = tourbillon::sleep(Duration::from_secs(60)).remaining();
    /// assert!(left.is_some_and(|left| left <= Duration::from_secs(60)));
    /// assert_eq!(tourbillon::sleep(Duration::ZERO).remaining(), Some(Duration::ZERO));
    /// assert_eq!(tourbillon::Timer::global().never().remaining(), None);
    /// ```
    pub fn remaining(&self) -> Option<Duration> {
        let clock = self.engine.get().clock();
        (self.deadline != Tick::NEVER).then(|| self.deadline.since(clock.now()))
    }

    /// Cancels the sleep. Returns whether it was still waiting, as Go's `Stop` does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut sleep = tourbillon::sleep(Duration::from_secs(60));
    /// assert!(sleep.cancel());
    /// assert!(!sleep.cancel(), "it was before");
    ///
    /// let mut sleep = tourbillon::sleep(Duration::ZERO);
    /// pollster::block_on(&mut sleep);
    /// assert!(!sleep.cancel(), "too late");
    /// ```
    ///
    /// # Guarantees
    ///
    /// `true` if the sleep was waiting for its deadline: it has neither completed nor woken its
    /// task, and will not. `false` if it has completed; if its waker was woken or is being woken,
    /// whether or not it was polled since; or if it had no deadline.
    ///
    /// Afterwards it is as [`Timer::never`](crate::Timer::never) makes it: pending until it is
    /// reset. Its place in the wheel and its waker are gone, so it needs a poll. A drop does the
    /// same, where the answer does not matter.
    pub fn cancel(&mut self) -> bool {
        let engine = self.engine.get();
        let had_deadline = self.deadline != Tick::NEVER;
        let waited = match self.phase(engine) {
            Phase::Unarmed => true,
            Phase::Completed => false,
            // Fired, if so, for a deadline before this one.
            Phase::Armed(entry) => {
                entry.may_be_early() && !engine.clock().has_passed(self.deadline)
            }
        };
        self.deadline = Tick::NEVER;
        let unfired = self.disarm(None, false);
        had_deadline && (unfired || waited)
    }

    /// Returns how much later than its deadline the sleep may be fired. If that is a
    /// [share](crate::timer::Tolerance::percent_of_delay) of its delay, this is the share as a
    /// time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// assert_eq!(tourbillon::Timer::global().never().tolerance(), Duration::ZERO);
    /// ```
    pub fn tolerance(&self) -> Duration {
        Duration::from_nanos(self.slack.nanos())
    }

    /// Changes how much later than its deadline the sleep may be fired, so that it shares a wake-up
    /// with others. [`Builder::tolerance`](crate::timer::Builder::tolerance) says how, and sets the
    /// tolerance that all sleeps of a timer begin with (zero by default).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # pollster::block_on(async {
    /// let mut sleep = tourbillon::sleep(Duration::from_millis(1));
    /// sleep.set_tolerance(Duration::from_millis(2));
    /// sleep.await; // ends after 1 to 3 ms
    /// # });
    /// ```
    ///
    /// # Guarantees
    ///
    /// The deadline stays, and so does the tolerance when that is reset. An armed sleep stays armed
    /// and needs no poll; a completed sleep stays completed. More than 292 years count as 292
    /// years.
    pub fn set_tolerance(&mut self, tolerance: Duration) {
        let old = self.due();
        self.slack = Slack::fixed(tolerance);
        self.notify_of_move(self.move_window(old, Caller::Sleep));
    }

    /// Replaces the tolerance; see [`set_tolerance`](Self::set_tolerance).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// let idle = tourbillon::sleep(60 * second).with_tolerance(second);
    /// assert_eq!(idle.tolerance(), second);
    /// ```
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.set_tolerance(tolerance);
        self
    }

    /// When the driver is to fire it. The entry is filed under this.
    #[inline]
    fn due(&self) -> Due {
        if self.slack.is_none() {
            Due::at(self.deadline)
        } else {
            Due::within(self.deadline, self.slack)
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.get()
    }

    /// A reference to the engine that it is armed in next.
    pub(crate) fn engine_ref(&self) -> EngineRef {
        self.engine.current()
    }

    pub(crate) fn deadline_tick(&self) -> Tick {
        self.deadline
    }

    #[inline]
    pub(crate) fn reset_to(&mut self, deadline: Tick) {
        self.reset_by(deadline, |clock| clock.until(deadline));
    }

    /// Moves the deadline. `delay` is the time until then, for a tolerance that is a share of it.
    #[inline]
    pub(crate) fn reset_by(&mut self, deadline: Tick, delay: impl FnOnce(&Clock) -> Duration) {
        let notify = self.move_to(deadline, delay, Caller::Sleep);
        self.notify_of_move(notify);
    }

    /// Has the driver scan in time for a sleep that was moved.
    #[inline]
    fn notify_of_move(&self, notify: Notify) {
        if self.engine.notify(notify).is_err() {
            self.wake_undriven();
        }
    }

    /// Wakes the task for want of a driver. Its poll looks for one again, and panics.
    ///
    /// The driver of an armed sleep runs, although it may not have scanned yet; unless a poll
    /// panicked, or the sleep never had a deadline before.
    #[cold]
    #[inline]
    fn wake_undriven(&self) {
        let engine = self.engine.get();
        if let Phase::Armed(entry) = self.phase(engine) {
            entry.distrust_fire();
            engine.fire_late(entry, Tick::PAST);
        }
    }

    /// Moves the deadline, and the entry if there is one. A callback calls this under its lock, so
    /// the function calls no foreign code for it, and the callback passes the rest on to
    /// [`EngineRef::notify`].
    #[inline]
    pub(crate) fn move_to(
        &mut self,
        deadline: Tick,
        delay: impl FnOnce(&Clock) -> Duration,
        caller: Caller,
    ) -> Notify {
        if !self.slack.is_none() {
            return self.move_window_to(deadline, delay, caller);
        }
        let old = core::mem::replace(&mut self.deadline, deadline);
        let engine = self.engine.get();
        self.listing.moved(|| engine, deadline);
        match self.phase(engine) {
            Phase::Unarmed | Phase::Completed => {
                self.claim = None;
                Notify::Nothing
            }
            // Without a tolerance, the entry has no margin.
            Phase::Armed(entry) => {
                move_entry(engine, entry, Due::at(deadline), deadline >= old, caller)
            }
        }
    }

    /// Moves the deadline of a sleep with a tolerance. Not inlined, so that a reset of an exact
    /// sleep stays short.
    #[inline(never)]
    fn move_window_to(
        &mut self,
        deadline: Tick,
        delay: impl FnOnce(&Clock) -> Duration,
        caller: Caller,
    ) -> Notify {
        let old = self.replace_window(deadline, delay);
        let notify = self.move_window(old, caller);
        if self.claim.as_ref().is_some_and(Claim::is_mark) {
            self.claim = None;
        }
        notify
    }

    /// Changes the deadline and the share of it alone, and returns when the sleep was due.
    #[inline(never)]
    fn replace_window(&mut self, deadline: Tick, delay: impl FnOnce(&Clock) -> Duration) -> Due {
        let old = self.due();
        self.deadline = deadline;
        self.listing.moved(|| self.engine.get(), deadline);
        if self.slack.is_share() {
            self.slack = self.engine.get().share_of(delay);
        }
        old
    }

    /// Moves the entry, if there is one, from when it was due to when it is.
    fn move_window(&self, old: Due, caller: Caller) -> Notify {
        let engine = self.engine.get();
        let Phase::Armed(entry) = self.phase(engine) else { return Notify::Nothing };
        let due = self.due();
        let is_later = due.by >= old.by && entry.has_at_most(due.margin);
        move_entry(engine, entry, due, is_later, caller)
    }

    #[inline]
    fn phase(&self, engine: &Engine) -> Phase<'_> {
        match &self.claim {
            // A parent process's entry. Giving it back would take a lock, so it is not.
            Some(claim) if !claim.is_mark() && engine.generation.is_past() => Phase::Unarmed,
            // SAFETY: it is not a mark, so `self.engine` made it.
            Some(claim) if !claim.is_mark() => Phase::Armed(unsafe { claim.entry() }),
            Some(claim) if *claim == Claim::SPENT => Phase::Completed,
            _ => Phase::Unarmed,
        }
    }

    /// Puts `then` in the place of the claim, and gives back the entry, if any. Returns whether
    /// there was an entry that had not fired.
    ///
    /// In this order, and as the caller's last step: giving back an entry drops its waker, and
    /// foreign code may panic.
    #[inline]
    fn disarm(&mut self, then: Option<Claim>, completed: bool) -> bool {
        self.listing.disarmed(|| self.engine.get());
        match core::mem::replace(&mut self.claim, then) {
            Some(claim) if !claim.is_mark() => self.give_back(claim, completed),
            _ => false,
        }
    }

    /// The rest of [`disarm`](Self::disarm). The claim is not a mark.
    fn give_back(&self, claim: Claim, completed: bool) -> bool {
        let engine = self.engine.get();
        // SAFETY: the claim was the sleep's and is not a mark, so `self.engine` made it.
        !engine.generation.is_past() && unsafe { engine.remove(claim, completed) }
    }

    /// Arms the sleep for a [callback](Caller::Callback), and returns the work that is left to it.
    pub(crate) fn arm(&mut self, waker: Waker) -> Notify {
        let (claim, notify) = self.queue(self.engine.get(), waker, Caller::Callback);
        self.claim = Some(claim);
        self.listing.armed(|| self.engine.get(), self.deadline);
        notify
    }

    /// Queues an entry in the engine of this process. The sleep has a deadline, and no entry until
    /// the caller keeps this one. Returns the work that is left as well.
    ///
    /// Reads no clock, so the driver wakes `waker` even if the deadline has come.
    #[inline(always)]
    fn queue(&self, engine: &Engine, waker: Waker, caller: Caller) -> (Claim, Notify) {
        debug_assert!(self.is_unarmed() && !engine.generation.is_past(), "armed twice");
        engine.arm(self.due(), waker, caller)
    }

    /// Takes this process's engine for its parent's. The sleep is not armed.
    #[cold]
    fn leave_parents_engine(&mut self) {
        let engine = self.engine.current();
        self.claim = None;
        self.listing.disarmed(|| self.engine.get());
        self.engine = engine;
    }

    /// Returns whether the driver may fire, or have fired, the sleep for a deadline before the one
    /// in force.
    pub(crate) fn is_postponed(&self) -> bool {
        let engine = self.engine.get();
        matches!(self.phase(engine), Phase::Armed(entry) if entry.may_be_early())
    }

    /// Returns whether the deadline in force has come, for the waker of a callback as it is woken:
    /// the driver may have fired for a deadline before a reset. `now` is the time, and may be
    /// anything unless the sleep [is postponed](Self::is_postponed).
    ///
    /// The waker may belong to an earlier entry that was fired and then [split
    /// off](Self::split_off_entry). So this entry has to have fired too.
    pub(crate) fn has_come(&self, now: Tick) -> bool {
        let engine = self.engine.get();
        let Phase::Armed(entry) = self.phase(engine) else { return false };
        entry.state().is_out() && (!entry.may_be_early() || now >= self.deadline)
    }

    /// Returns whether it is not armed, and has not completed.
    #[inline]
    pub(crate) fn is_unarmed(&self) -> bool {
        self.claim.is_none() || self.claim == Some(Claim::AHEAD)
    }

    /// Unarms the sleep, under a lock. Dropping the returned value gives the entry back, and may
    /// call foreign code.
    pub(crate) fn split_off_entry(&mut self) -> impl Sized + use<> {
        let (engine, claim) = (self.engine.clone(), self.claim.take());
        let listing = self.listing.split_off();
        Self { engine, deadline: Tick::NEVER, slack: self.slack, claim, listing }
    }

    /// Leaves the sleep as if it had not been polled since it was given its deadline, in the engine
    /// of this process.
    pub(crate) fn unarm(&mut self) {
        self.disarm(None, false);
        if self.engine.get().generation.is_past() {
            self.leave_parents_engine();
        }
    }

    /// Ends the sleep, once its deadline has come by a poll's clock or the driver's.
    #[inline]
    pub(crate) fn complete(&mut self) -> Poll<()> {
        self.disarm(Some(Claim::SPENT), true);
        Poll::Ready(())
    }

    /// Returns whether this poll may take the driver's word that the deadline is still to come.
    #[inline]
    fn trusts_driver(&self, waker: &Waker) -> bool {
        let engine = self.engine.get();
        let Phase::Armed(entry) = self.phase(engine) else { return false };
        entry.state() == State::Queued
            && entry.has_waker(waker)
            && engine.driver_covers(self.deadline)
            && !entry.count_poll()
    }

    /// Arms the sleep unless its deadline has come.
    fn poll_unarmed(&mut self, waker: &Waker) -> Poll<()> {
        let engine = self.engine.get();
        if self.deadline == Tick::NEVER {
            return self.poll_never(waker);
        }
        // A late driver wakes the sleep once it gets to the deadline that it is parked for.
        if !(self.claim == Some(Claim::AHEAD) && engine.driver_covers(self.deadline))
            && engine.clock().has_passed(self.deadline)
        {
            return self.complete();
        }
        if engine.generation.is_past() {
            self.leave_parents_engine();
            return self.poll_unarmed(waker);
        }
        let (claim, notify) = self.queue(engine, waker.clone(), Caller::Sleep);
        self.claim = Some(claim);
        self.listing.armed(|| self.engine.get(), self.deadline);
        if let Err(error) = self.engine.notify(notify) {
            self.give_up(error);
        }
        Poll::Pending
    }

    /// Keeps the waker for a reset. Needs no driver.
    #[cold]
    fn poll_never(&mut self, waker: &Waker) -> Poll<()> {
        if self.engine.get().generation.is_past() {
            self.leave_parents_engine();
        }
        self.claim = Some(self.engine.get().keep(waker.clone()));
        self.listing.armed(|| self.engine.get(), self.deadline);
        Poll::Pending
    }

    /// Unarms the sleep for want of a driver, and panics.
    #[cold]
    fn give_up(&mut self, error: SpawnError) -> ! {
        self.disarm(None, false);
        cannot_start(error)
    }

    fn poll_again(&mut self, waker: &Waker) -> Poll<()> {
        let deadline = self.deadline;
        loop {
            let engine = self.engine.get();
            let entry = match self.phase(engine) {
                Phase::Armed(entry) => entry,
                Phase::Completed => return Poll::Ready(()),
                Phase::Unarmed => return self.poll_unarmed(waker),
            };
            let state = entry.state();
            if state.is_out() {
                let trusted = !entry.may_be_early();
                if trusted || engine.clock().has_passed(deadline) {
                    return self.complete();
                }
                let notify = engine.rearm(entry, self.due(), waker.clone());
                self.listing.armed(|| self.engine.get(), deadline);
                return self.pending(notify);
            }
            if engine.clock().has_passed(deadline) {
                return self.complete();
            }
            let is_known = entry.has_waker(waker);
            if !is_known && !engine.replace_waker(entry, waker.clone()) {
                continue;
            }
            if state == State::Kept {
                return Poll::Pending;
            }
            return self.pending(engine.ensure_driver(entry, !is_known));
        }
    }

    /// Pending, of an entry that is queued, once there is a driver for it.
    fn pending(&self, notify: Notify) -> Poll<()> {
        self.engine.notify(notify).unwrap_or_else(|error| cannot_start(error));
        Poll::Pending
    }
}

/// Moves an entry to `due`. `is_later`: no part of its window is earlier than before. Then a store
/// in the entry postpones it, and takes no lock.
#[inline]
fn move_entry(engine: &Engine, entry: &Entry, due: Due, is_later: bool, caller: Caller) -> Notify {
    // Only ever to a later deadline than any the driver may have read: it may file the entry under
    // any deadline it has seen. On a virtual clock equal deadlines fire in the order they were set,
    // so there the wheel must follow at once.
    if is_later && !engine.clock().is_virtual() {
        entry.postpone(due.by);
        return Notify::Nothing;
    }
    engine.refile(entry, due, caller)
}

#[cold]
pub(crate) fn cannot_start(error: SpawnError) -> ! {
    panic!("cannot start the timer's driver: {error}")
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_unarmed() {
            self.poll_unarmed(cx.waker())
        } else if self.trusts_driver(cx.waker()) {
            Poll::Pending
        } else {
            self.poll_again(cx.waker())
        }
    }
}

impl FusedFuture for Sleep {
    /// Returns whether the sleep has completed and was not reset since.
    fn is_terminated(&self) -> bool {
        self.claim == Some(Claim::SPENT)
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        self.disarm(None, false);
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.phase(self.engine.get()) {
            Phase::Unarmed => "unarmed",
            Phase::Armed(entry) if entry.state().is_out() => "fired",
            Phase::Armed(_) => "armed",
            Phase::Completed => "completed",
        };
        f.debug_struct("Sleep")
            .field("deadline", &self.engine.get().clock().show(self.deadline))
            .field("state", &state)
            .finish_non_exhaustive()
    }
}

// A panic can only leave a sleep between two polls, in a state that every method expects.
impl UnwindSafe for Sleep {}
impl RefUnwindSafe for Sleep {}

const _: () = {
    const fn unpin_send_sync<T: Unpin + Send + Sync + 'static>() {}
    unpin_send_sync::<Sleep>();
    assert!(cfg!(any(tourbillon_model, feature = "pending")) || size_of::<Sleep>() <= 32);
};
