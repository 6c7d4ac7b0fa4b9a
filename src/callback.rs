//! Functions that a timer calls, without a task: [`Sleep::call`] makes a call at a deadline, and
//! [`Interval::call`] one at every tick.
//!
//! A callback is a [`Sleep`] whose waker calls the function. One allocation holds the function, the
//! sleep, and the state that the driver and a cancel share.

use alloc::task::Wake;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::task::Waker;

use crate::foreign::guarded;
use crate::fork::Generation;
use crate::interval::Interval;
#[cfg(doc)]
use crate::interval::MissedTickBehavior;
use crate::sleep::{Sleep, cannot_start};
use crate::sync::{Condvar, Mutex, SpawnError, StdArc, ThreadId, lock, this_thread, wait};

/// A function that a timer calls, and the right to cancel that.
///
/// Made by [`Sleep::call`] and [`Interval::call`]. It needs no executor and no task, and one
/// allocation, which holds the function.
///
/// Dropping it cancels the callback, as dropping a [`Sleep`] does. [`detach`](Self::detach) keeps
/// it without a handle.
///
/// # Where it is called
///
/// The place is that of wakers: the driver thread, within
/// [`Driver::turn`](crate::driver::Driver::turn), or within the call that moves a
/// [`VirtualClock`](crate::virtual_time::VirtualClock). Never within the call that makes the
/// callback, even if the time has come already. On a virtual clock it is then called when the clock
/// is next moved, even by zero.
///
/// # Rules for the function
///
/// They are those of [wakers](crate::guide::foreign_code). No lock of the timer's is held. The
/// function may arm, reset and cancel timers and callbacks, itself included.
///
/// - **One that blocks delays all other timers of the same driver.** It must not wait for one of
///   them: that wait never ends, and [panics](crate::guide::foreign_code) in debug builds. Hand
///   longer work to an executor or to a thread.
///   [`Stats::longest_call`](crate::stats::Stats::longest_call) shows how long functions take.
/// - A panic is caught, and counted in [`Stats::waker_panics`](crate::stats::Stats::waker_panics).
///   The function is dropped, and is not called again. In browsers, where a panic cannot be caught,
///   it is counted, and the function is neither dropped nor called again.
/// - One that keeps making callbacks that are due at once keeps a turn, or a move of a virtual
///   clock, from returning. So does a period that is shorter than its calls take.
///
/// # Guarantees
///
/// - Never early, by the clock of its timer. Calls of one callback never overlap.
/// - After [`cancel`](Self::cancel) or a drop, no call begins.
/// - The function is dropped after its last call where it was called, and by a cancel that prevents
///   the call where that is called.
///
/// # Compared with others
///
/// | | called on | a cancel beside a call | dropping the handle |
/// |---|---|---|---|
/// | here | the driver | [`cancel`](Self::cancel) says so, [`cancel_and_wait`](Self::cancel_and_wait) waits | cancels |
/// | nginx's timer events | the event loop | cannot happen: there is one thread | |
/// | libevent's `evtimer` | the event loop | `event_del` waits, `event_del_noblock` does not | frees the event |
/// | Go's `AfterFunc` | a goroutine for each call | `Stop` says so | nothing |
///
/// # After `fork`
///
/// The callbacks of a parent process are not called in its child, where [`cancel`](Self::cancel)
/// has nothing to prevent and returns `false`.
///
/// A function may fork. The child should end within it, by `_exit` or `exec`. If it returns, the
/// function is not called again in the child, and what follows depends on where it was called:
///
/// - On a thread of the timer's own, the child ends at once, by `_exit` with status 0, or with 101
///   if the function panicked. That thread is the only one that the child has, and has no other
///   code of the program to return to. No destructor runs, and buffered output is lost.
/// - Within [`Driver::turn`](crate::driver::Driver::turn), or a call that moves a
///   [`VirtualClock`](crate::virtual_time::VirtualClock), that call returns in the child too, and
///   has fired no further timer of the parent.
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
#[must_use = "dropping a callback cancels it; `detach` keeps it"]
pub struct Callback {
    shared: StdArc<dyn Cancel>,
    is_detached: bool,
}

/// Interface of a handle to a [`Shared`], whatever the function.
trait Cancel: Send + Sync {
    fn cancel(&self) -> bool;

    fn wait_for_call(&self);

    /// For people.
    fn stage(&self) -> &'static str;
}

/// One allocation: that of the waker, and of the handle.
struct Shared<F> {
    stage: Mutex<Stage<F>>,
    /// Signalled when the stage is [`Stage::Over`].
    over: Condvar,
    /// The process whose threads share it.
    generation: Generation,
}

/// Holder of the function to call. Transitions, all under the lock:
///
/// ```text
/// Waiting --woken-->                   Taken    the thread calls the function
/// Waiting --cancel-->                  Taken    the thread drops the function
/// Taken   --the call is to repeat-->   Waiting  unless it was cancelled meanwhile
/// Taken   --the function is dropped--> Over
/// ```
enum Stage<F> {
    /// The waker is in the wheel, or never will be. It is in one entry, whose sleep is not reset
    /// while it is armed: so being woken means that the time has come.
    Waiting(Call<F>),
    /// A thread calls or drops the function, without the lock.
    Taken { by: ThreadId, is_cancelled: bool },
    /// There is nothing any more.
    Over,
}

/// Function to call, and its time.
struct Call<F> {
    when: When,
    function: F,
}

enum When {
    Once(Sleep),
    Every(Interval),
}

impl When {
    fn sleep_mut(&mut self) -> &mut Sleep {
        match self {
            Self::Once(sleep) => sleep,
            Self::Every(interval) => interval.sleep_mut(),
        }
    }
}

impl<F: FnMut() + Send + 'static> Shared<F> {
    /// Takes what there is to call, unless another thread has, or there is nothing.
    fn take(&self, is_cancelled: bool) -> Option<Call<F>> {
        let mut stage = lock(&self.stage);
        match core::mem::replace(&mut *stage, Stage::Over) {
            Stage::Waiting(call) => {
                *stage = Stage::Taken { by: this_thread(), is_cancelled };
                Some(call)
            }
            Stage::Taken { by, is_cancelled: before } => {
                *stage = Stage::Taken { by, is_cancelled: before || is_cancelled };
                None
            }
            Stage::Over => None,
        }
    }

    /// Puts back what this thread has taken, and arms its sleep; or drops it if it was cancelled
    /// meanwhile.
    fn put_back(self: &StdArc<Self>, mut call: Call<F>) -> Result<(), SpawnError> {
        let mut stage = lock(&self.stage);
        if matches!(*stage, Stage::Taken { is_cancelled: true, .. }) {
            drop(stage);
            self.finish(call);
            return Ok(());
        }
        // Under the lock, so that a thread that is woken at once finds the call.
        let enqueued = call.when.sleep_mut().enqueue(Waker::from(StdArc::clone(self)));
        *stage = Stage::Waiting(call);
        drop(stage);
        enqueued.map_or(Ok(()), |enqueued| enqueued.announce())
    }

    /// Drops what this thread has taken, which may panic, and is over then.
    fn finish(&self, call: Call<F>) {
        struct Finish<'a, F>(&'a Shared<F>);

        impl<F> Drop for Finish<'_, F> {
            fn drop(&mut self) {
                *lock(&self.0.stage) = Stage::Over;
                self.0.over.notify_all();
            }
        }

        let _finish = Finish(self);
        drop(call);
    }
}

impl<F: FnMut() + Send + 'static> Wake for Shared<F> {
    fn wake(self: StdArc<Self>) {
        // A child of the process must not wait for the lock; see `cancel`.
        if self.generation.is_past() {
            return;
        }
        let Some(mut call) = self.take(false) else { return };
        let returned = guarded(|| (call.function)());
        if self.generation.is_past() {
            // The function has forked, and this is the child.
            call.when.sleep_mut().engine().end_forked_driver(returned.is_none());
            guarded(|| drop(call));
            return;
        }
        if returned.is_none() {
            call.when.sleep_mut().engine().count_panics(1);
            return self.finish(call);
        }
        match &mut call.when {
            When::Once(_) => self.finish(call),
            When::Every(interval) => {
                interval.pass_tick();
                // It is the driver that calls this, so none has to be started.
                let _ = self.put_back(call);
            }
        }
    }
}

impl<F: FnMut() + Send + 'static> Cancel for Shared<F> {
    fn cancel(&self) -> bool {
        // A parent's lock may be held by a thread that is not there.
        if self.generation.is_past() {
            return false;
        }
        self.take(true).map(|call| self.finish(call)).is_some()
    }

    fn wait_for_call(&self) {
        if self.generation.is_past() {
            return;
        }
        let me = this_thread();
        let mut stage = lock(&self.stage);
        while matches!(*stage, Stage::Taken { by, .. } if by != me) {
            stage = wait(&self.over, stage);
        }
    }

    fn stage(&self) -> &'static str {
        if self.generation.is_past() {
            return "over";
        }
        match &*lock(&self.stage) {
            Stage::Waiting(_) => "waiting",
            Stage::Taken { .. } => "called",
            Stage::Over => "over",
        }
    }
}

impl Callback {
    #[track_caller]
    fn new(when: When, function: impl FnMut() + Send + 'static) -> Self {
        let shared = StdArc::new(Shared {
            stage: Mutex::new(Stage::Taken { by: this_thread(), is_cancelled: false }),
            over: Condvar::new(),
            generation: Generation::at_birth(),
        });
        if let Err(error) = shared.put_back(Call { when, function }) {
            shared.cancel();
            cannot_start(&error);
        }
        Self { shared, is_detached: false }
    }

    /// Cancels the callback: no call begins after this. Says whether that was in time.
    ///
    /// `true` if the function is neither being called now, nor will be: this has dropped it.
    /// `false` if a call is under way, which this does not wait for; if the only call has been
    /// made; or if the callback was cancelled before. So for [`Interval::call`], `false`
    /// means that a call is under way, and is the last.
    ///
    /// May be called by the function itself, where it returns `false`.
    ///
    /// # Panics
    ///
    /// If dropping the function panics. It is cancelled all the same.
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
    pub fn cancel(&self) -> bool {
        self.shared.cancel()
    }

    /// Cancels the callback, and blocks while a call is under way. Returns what
    /// [`cancel`](Self::cancel) does.
    ///
    /// When it returns, the function is dropped, and what it used may be freed. There is one
    /// exception: called by the function itself, or by what the function calls, it does not wait.
    ///
    /// Do not hold a lock that the function takes, and do not block an executor's thread with it.
    /// Two functions on two drivers that wait for each other wait for ever.
    ///
    /// # Panics
    ///
    /// Returns what [`cancel`](Self::cancel) does.
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
    /// let callback = tourbillon::interval(Duration::from_micros(100)).call(move || {
    ///     counter.fetch_add(1, Ordering::Relaxed);
    /// });
    /// callback.cancel_and_wait();
    /// assert_eq!(Arc::strong_count(&calls), 1, "the function is gone");
    /// ```
    pub fn cancel_and_wait(&self) -> bool {
        let prevented = self.shared.cancel();
        self.shared.wait_for_call();
        prevented
    }

    /// Gives the handle up and keeps the callback: it cannot be cancelled any more.
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
    /// This is Go's `time.AfterFunc`, except that the driver calls the function, and that dropping
    /// the returned [`Callback`] cancels it. `Callback` has the rules for the function, and says
    /// [what holds if it forks](Callback#after-fork). If the deadline has come, the driver calls
    /// the function at once, even if the sleep has completed before.
    ///
    /// # Panics
    ///
    /// If the driver thread cannot be started. The function is dropped then.
    /// [`Timer::start`](crate::Timer::start) reports that as an error beforehand.
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
    #[track_caller]
    pub fn call(mut self, function: impl FnOnce() + Send + 'static) -> Callback {
        self.unarm();
        let mut function = Some(function);
        Callback::new(When::Once(self), move || {
            if let Some(function) = function.take() {
                function();
            }
        })
    }
}

impl Interval {
    /// Calls `function` at every tick, from the next one on.
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
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let (tell, told) = mpsc::channel();
    /// let mut count = 0;
    /// let callback = tourbillon::interval(Duration::from_millis(1)).call(move || {
    ///     count += 1;
    ///     let _ = tell.send(count);
    /// });
    /// assert_eq!(told.iter().take(3).collect::<Vec<_>>(), [1, 2, 3]);
    /// # drop(callback);
    /// ```
    ///
    /// With another rule, on a virtual clock:
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
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    /// let callback = interval.call(|| println!("a tick"));
    /// assert_eq!(clock.advance(2 * period), 3);
    /// # drop(callback);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn call(mut self, function: impl FnMut() + Send + 'static) -> Callback {
        self.disarm();
        Callback::new(When::Every(self), function)
    }
}

const _: () = {
    const fn unpin_send_sync<T: Unpin + Send + Sync + 'static>() {}
    unpin_send_sync::<Callback>();
};
