//! Functions that a timer calls, without a task: [`Sleep::call`] makes a call at a deadline, and
//! [`Interval::call`] one at every tick.
//!
//! A callback is a [`Sleep`] whose waker calls the function. One allocation holds the function, the
//! sleep, and the state that the driver and a cancel share. The example `watchdog` uses both.

mod shared;

use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::time::Duration;

use crate::callback::shared::{AnyCallback, NewDeadline, Reset, Shared, When};
use crate::clock::Clock;
use crate::deadline::Deadline;
#[cfg(doc)]
use crate::interval::MissedTickBehavior;
use crate::interval::{Interval, assert_period};
use crate::sleep::{Sleep, cannot_start};
use crate::sync::StdArc;
use crate::time::Instant;

/// Unblocks all signals of the calling thread, for commands that callbacks and wakers start.
///
/// # Examples
///
/// ```
/// use std::os::unix::process::CommandExt;
/// use std::process::Command;
/// use std::time::Duration;
///
/// use tourbillon::callback::unblock_signals;
///
/// let callback = tourbillon::sleep(Duration::from_millis(1)).call(|| {
///     let mut command = Command::new("true");
///     // SAFETY: the function may be called between `fork` and `exec`.
///     unsafe { command.pre_exec(unblock_signals) };
///     let child = command.spawn();
///     # drop(child.map(|mut child| child.wait()));
/// });
/// # drop(callback);
/// ```
///
/// # Guarantees
///
/// A driver thread blocks nearly all signals, and leaves them to the program's threads (see
/// [`Timer::start`](crate::Timer::start)). A command inherits that from the thread that
/// starts it, and would then not end by SIGTERM or SIGINT. So would threads, and what these start:
/// call this first in them, or start them elsewhere.
///
/// # Errors
///
/// The errors of `pthread_sigmask`, if any: it has none for such a call.
#[cfg(unix)]
#[cfg_attr(docsrs, doc(cfg(unix)))]
pub fn unblock_signals() -> std::io::Result<()> {
    crate::sync::unblock_signals()
}

/// A handle to a function that a timer calls. Dropping it cancels the call.
///
/// Made by [`Sleep::call`] and [`Interval::call`]. It needs no executor and no task, and one
/// allocation for the function and the timer.
///
/// [`detach`](Self::detach) keeps the callback without a handle.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let (tell, told) = mpsc::channel();
/// let callback = tourbillon::sleep(Duration::from_millis(1)).call(move || tell.send(42).unwrap());
/// assert_eq!(told.recv(), Ok(42));
/// assert!(!callback.cancel(), "too late");
/// ```
///
/// # Where it is called
///
/// In the same place as wakers: on the driver thread, within
/// [`Driver::turn`](crate::driver::Driver::turn), or within the call that moves a
/// [`VirtualClock`](crate::virtual_time::VirtualClock). Never within the call that makes the
/// callback, even if the time has come already. On a virtual clock it is then called when the clock
/// is next moved, even by zero.
///
/// # Rules for the function
///
/// The same rules hold for [wakers](crate::guide::foreign_code). No lock of the timer's is held.
/// The function may arm, reset and cancel timers and callbacks, itself included.
///
/// - **While the function blocks, all other timers of the same driver are late.** It must not wait
///   for any of them: [that wait never ends](crate::guide::foreign_code). Hand longer work to an
///   executor or to a thread. [`Stats::longest_call`](crate::stats::Stats::longest_call) shows how
///   long functions take.
/// - A panic is caught, and counted in [`Stats::waker_panics`](crate::stats::Stats::waker_panics).
///   The function is dropped, and is not called again. In browsers, where a panic cannot be caught,
///   it is counted, and the function is neither dropped nor called again.
/// - On Unix, a command or a thread that it starts inherits the driver's blocked signals:
///   `unblock_signals` opens them.
/// - A function that always makes another callback, due at once, keeps a turn, or a move of a
///   virtual clock, from returning. So does a period that is shorter than its calls take.
///
/// # Guarantees
///
/// - Never early, by the clock of its timer. Calls of one callback never overlap.
/// - After [`cancel`](Self::cancel) or a drop, no call begins. After a [`reset`](Self::reset) none
///   begins before the new deadline.
/// - The function is dropped on the thread of its last call, after that call. A cancel that
///   prevents the call drops it on the canceller's thread.
///
/// # Compared with others
///
/// | | called on | a cancel beside a call | a reset beside a call | dropping the handle |
/// |---|---|---|---|---|
/// | here | the driver | [`cancel`](Self::cancel) says so, [`cancel_and_wait`](Self::cancel_and_wait) waits | a sleep's: [`reset`](Self::reset) says so; an interval's: another call follows | cancels |
/// | nginx's timer events | the event loop | cannot happen: there is one thread | as the cancel | |
/// | libevent's `evtimer` | the event loop | `event_del` waits, `event_del_noblock` does not | another call follows | frees the event |
/// | Go's `AfterFunc` | a goroutine for each call | `Stop` says so | `Reset` says so; another call, which may overlap | nothing |
///
/// # After `fork`
///
/// The callbacks of a parent process are not called in its child, where [`cancel`](Self::cancel)
/// has nothing to prevent and returns `false`, as do [`reset`](Self::reset) and
/// [`set_period`](Self::set_period).
///
/// A function may fork. The child should end within it, by `_exit` or `exec`. If it returns, the
/// function is not called again in the child, and what follows depends on where it was called:
///
/// - On a thread of the timer's own, the child ends at once, by `_exit` with status 0, or with 101
///   if the function panicked. The child has no other thread, and this one has no code of the
///   program to return to. No destructor runs, and buffered output is lost.
/// - Within [`Driver::turn`](crate::driver::Driver::turn), or a call that moves a
///   [`VirtualClock`](crate::virtual_time::VirtualClock), that call returns in the child too, and
///   has fired no further timer of the parent.
#[must_use = "dropping a callback cancels it; `detach` keeps it"]
pub struct Callback {
    shared: StdArc<dyn AnyCallback>,
    is_detached: bool,
}

/// A call of an [interval's function](Interval::call).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The instant that the call was scheduled for, as [`Interval::tick`] returns it.
    pub tick: Instant,
    /// Number of ticks since the last call that [`MissedTickBehavior::Skip`] or
    /// [`MissedTickBehavior::Delay`] left out. The ticks that a [reset](Callback::reset) replaces
    /// are not missed.
    pub missed: u64,
}

impl Callback {
    #[track_caller]
    fn new(when: When, function: impl FnMut(Call) + Send + 'static) -> Self {
        let shared = StdArc::new(Shared::new(when, function));
        if let Err(error) = StdArc::clone(&shared).arm() {
            shared.cancel();
            cannot_start(error);
        }
        Self { shared, is_detached: false }
    }

    /// Moves the next call to `deadline`. Returns whether the function will be called then.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let minute = Duration::from_secs(60);
    /// let idle = tourbillon::sleep(minute).call(|| println!("idle for a minute"));
    /// assert!(idle.reset(Instant::now() + minute), "in time");
    /// idle.cancel();
    /// assert!(!idle.reset(Instant::now() + minute), "too late");
    /// ```
    ///
    /// # Guarantees
    ///
    /// `true` if the function is called at the new deadline, unless a call under way panics: after
    /// this returns, no call begins before that. `false` if it is not called again, so that the
    /// reset has no effect: the callback was cancelled, or is a [`Sleep`]'s whose function was
    /// called or is being called.
    ///
    /// A call of an [`Interval`]'s function that is under way is neither waited for nor affected:
    /// the new deadline is for the call after it. The period applies after the new deadline. If an
    /// interval's function should be called after a reset only, give the interval a period of
    /// [`Duration::MAX`].
    ///
    /// This never calls the function itself, even if the deadline has come: the driver does. A
    /// reset to never ([`reset_after`](Self::reset_after) with `Duration::MAX`) keeps the function
    /// for a later reset.
    ///
    /// # Cost
    ///
    /// More than [`Sleep::reset`] to a later deadline: the handle is shared, so it takes a lock,
    /// and hides the type of the function, so it calls through pointers. As with a sleep, nothing
    /// is moved in the wheel, and the driver is not called.
    ///
    /// # Panics
    ///
    /// If the driver thread cannot be started. A reset tries that only if the old deadline was
    /// never, if another thread is just moving it from there, or if the last reset panicked for the
    /// same reason. The function is kept, but may not be called before the next reset.
    pub fn reset(&self, deadline: impl Into<Deadline>) -> bool {
        let deadline = deadline.into();
        self.reset_to(&|clock| NewDeadline { deadline: clock.tick_of(deadline), delay: None })
    }

    /// Moves the next call to `delay` from now; see [`reset`](Self::reset).
    ///
    /// # Examples
    ///
    /// A watchdog, on a virtual clock:
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let second = Duration::from_secs(1);
    /// let stuck = Arc::new(AtomicBool::new(false));
    /// let found = stuck.clone();
    /// let watchdog = timer.sleep(5 * second).call(move || found.store(true, Ordering::Relaxed));
    /// for _ in 0..3 {
    ///     clock.advance(4 * second);
    ///     assert!(watchdog.reset_after(5 * second), "still alive");
    /// }
    /// clock.advance(5 * second);
    /// assert!(stuck.load(Ordering::Relaxed));
    /// assert!(!watchdog.reset_after(5 * second), "too late");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn reset_after(&self, delay: Duration) -> bool {
        self.reset_to(&|clock| NewDeadline {
            deadline: clock.now().saturating_add(delay),
            delay: Some(delay),
        })
    }

    fn reset_to(&self, to: &dyn Fn(&Clock) -> NewDeadline) -> bool {
        match self.shared.reset(to) {
            Reset::Done => {}
            Reset::TooLate => return false,
            Reset::Unarmed => {
                StdArc::clone(&self.shared).arm().unwrap_or_else(|error| cannot_start(error));
            }
        }
        true
    }

    /// Changes the time between the calls of an [interval's function](Interval::call). Returns
    /// whether the function is called again: `false` if the callback was cancelled, or is a
    /// [`Sleep`]'s.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let second = Duration::from_secs(1);
    /// let callback = timer.interval(60 * second).call(|call| println!("{:?}", call.tick));
    /// assert!(callback.set_period(second));
    /// assert_eq!(clock.advance(3 * second), 4, "at 0, 1, 2 and 3 s");
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// The next call stays where it is, and the call after it comes a new period later. While a
    /// call is under way the next one is not scheduled yet: it comes a new period after the tick of
    /// the one under way.
    ///
    /// # Panics
    ///
    /// If `period` is zero.
    #[track_caller]
    pub fn set_period(&self, period: Duration) -> bool {
        assert_period(period);
        self.shared.set_period(period)
    }

    /// Returns whether the function may still be called: it was not cancelled, and the last call
    /// has not begun.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let callback = tourbillon::sleep(Duration::from_secs(60)).call(|| println!("a minute"));
    /// assert!(callback.is_pending());
    /// callback.cancel();
    /// assert!(!callback.is_pending());
    /// ```
    pub fn is_pending(&self) -> bool {
        self.shared.is_pending()
    }

    /// The instant of the next call; `None` if there is none, if it never comes, or while a call is
    /// under way whose end schedules the next.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let minute = Duration::from_secs(60);
    /// let callback = tourbillon::sleep(minute).call(|| println!("a minute"));
    /// let later = Instant::now() + 5 * minute;
    /// callback.reset(later);
    /// assert_eq!(callback.next_call(), Some(later));
    /// ```
    pub fn next_call(&self) -> Option<Instant> {
        self.shared.next_call()
    }

    /// Cancels the callback: no call begins after this. Returns whether one was still to come.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let callback = tourbillon::sleep(Duration::from_secs(60)).call(|| println!("a minute"));
    /// assert!(callback.cancel());
    /// assert!(!callback.cancel(), "it was before");
    /// ```
    ///
    /// # Guarantees
    ///
    /// `true` if the function is neither being called now, nor will be: this has dropped it.
    /// `false` if a call is under way (this does not wait for it), if the only call has been made,
    /// or if the callback was cancelled before. So for [`Interval::call`], `false` means that a
    /// call is under way, and is the last.
    ///
    /// May be called by the function itself, where it returns `false`.
    ///
    /// # Panics
    ///
    /// If dropping the function panics. It is cancelled all the same.
    pub fn cancel(&self) -> bool {
        self.shared.cancel()
    }

    /// Cancels the callback, and blocks while a call is under way. Returns the same as
    /// [`cancel`](Self::cancel).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    ///
    /// let calls = Arc::new(AtomicU32::new(0));
    /// let counter = Arc::clone(&calls);
    /// let callback = tourbillon::interval(Duration::from_micros(100)).call(move |_| {
    ///     counter.fetch_add(1, Ordering::Relaxed);
    /// });
    /// callback.cancel_and_wait();
    /// assert_eq!(Arc::strong_count(&calls), 1, "the function is gone");
    /// ```
    ///
    /// # Guarantees
    ///
    /// When it returns, the function is dropped, and data that it used may be freed. In two cases
    /// it does not wait: when the function calls it, directly or not; and without an operating
    /// system, because the caller may be an interrupt handler that has interrupted the call.
    ///
    /// Do not hold a lock that the function takes, and do not block an executor's thread with it.
    /// Two functions on two drivers that wait for each other wait for ever.
    ///
    /// # Panics
    ///
    /// As [`cancel`](Self::cancel) does.
    pub fn cancel_and_wait(&self) -> bool {
        let prevented = self.shared.cancel();
        self.shared.wait_for_call();
        prevented
    }

    /// Drops the handle without cancelling the callback.
    ///
    /// The callback keeps its timer alive until it has been called, and for good if it repeats. If
    /// nobody turns that timer's wheel any more, the function is never dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// tourbillon::sleep(Duration::from_millis(1)).call(|| println!("a millisecond")).detach();
    /// ```
    pub fn detach(mut self) {
        self.is_detached = true;
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        if !self.is_detached {
            self.cancel();
        }
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").field("stage", &self.shared.stage()).finish_non_exhaustive()
    }
}

// A function that panics is not called again.
impl UnwindSafe for Callback {}
impl RefUnwindSafe for Callback {}

impl Sleep {
    /// Calls `function` once, at the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let (tell, told) = mpsc::channel();
    /// let sleep = tourbillon::sleep(Duration::from_millis(1));
    /// let idle = sleep.call(move || tell.send("idle").unwrap());
    /// assert_eq!(told.recv(), Ok("idle"));
    /// # drop(idle);
    /// ```
    ///
    /// With a tolerance, on a virtual clock:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let second = Duration::from_secs(1);
    /// let idle = timer.sleep(second * 3 / 2).with_tolerance(second);
    /// let callback = idle.call(|| println!("after 1.5 to 2.5 s"));
    /// assert_eq!(clock.next_deadline(), Some(clock.now() + second * 5 / 2));
    /// # drop(callback);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// This is Go's `time.AfterFunc`, except that the driver calls the function, and that dropping
    /// the returned [`Callback`] cancels it. `Callback` has the rules for the function, and says
    /// [what holds if it forks](Callback#after-fork). If the deadline has come, the driver calls
    /// the function at once, even if the sleep has completed before.
    ///
    /// # Panics
    ///
    /// If the driver thread cannot be started. The function is dropped then.
    /// [`Timer::start`](crate::Timer::start) reports that as an error beforehand.
    #[track_caller]
    pub fn call(mut self, function: impl FnOnce() + Send + 'static) -> Callback {
        self.unarm();
        let mut function = Some(function);
        Callback::new(When::Once(self), move |_| {
            if let Some(function) = function.take() {
                function();
            }
        })
    }
}

impl Interval {
    /// Calls `function` at every tick, from the next one on. The [`Call`] that it is given has the
    /// tick, and how many ticks before it were missed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let (tell, told) = mpsc::channel();
    /// let mut count = 0;
    /// let callback = tourbillon::interval(Duration::from_millis(1)).call(move |_| {
    ///     count += 1;
    ///     let _ = tell.send(count);
    /// });
    /// assert_eq!(told.iter().take(3).collect::<Vec<_>>(), [1, 2, 3]);
    /// # drop(callback);
    /// ```
    ///
    /// With another rule, and a clock that jumps past two ticks:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon::virtual_time::VirtualClock;
    /// use tourbillon::{MissedTickBehavior, Timer};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let period = Duration::from_secs(60);
    /// let mut interval = timer.interval(period); // ticks at once, too
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let callback = interval.call(move |call| tell.send((call.tick, call.missed)).unwrap());
    /// let start = clock.now();
    /// clock.jump(5 * period / 2); // as a loaded system is late
    /// clock.advance(period / 2);
    /// let calls: Vec<_> = told.try_iter().collect();
    /// assert_eq!(calls, [(start, 0), (start + 3 * period, 2)]);
    /// # drop(callback);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// An [`interval`](crate::interval()) ticks at once: call [`reset`](Self::reset) first for the
    /// first call one period from now. The [rule](Self::set_missed_tick_behavior) for missed ticks
    /// is applied after each call: with [`MissedTickBehavior::Burst`], the default, the calls that
    /// a long call or a late driver has missed follow one after the other. Each tick is scheduled
    /// one period after the *scheduled* time of the last one, so the calls do not drift. If the
    /// function [forks](Callback#after-fork), only the parent calls it again.
    ///
    /// # Panics
    ///
    /// Panics as [`Sleep::call`] does.
    #[track_caller]
    pub fn call(mut self, function: impl FnMut(Call) + Send + 'static) -> Callback {
        self.disarm();
        Callback::new(When::Every { interval: self, missed: 0 }, function)
    }
}

const _: () = {
    const fn unpin_send_sync<T: Unpin + Send + Sync + 'static>() {}
    unpin_send_sync::<Callback>();
};
