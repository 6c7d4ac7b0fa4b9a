//! State that a callback's handle, its waker and the calls of its function share, in one
//! allocation.

use alloc::task::Wake;
use core::mem::replace;
use core::task::Waker;
use core::time::Duration;

use crate::callback::Call;
use crate::clock::Clock;
use crate::engine::{Caller, Notify};
use crate::foreign::guarded;
use crate::fork::Generation;
use crate::handle::EngineRef;
use crate::interval::Interval;
use crate::sleep::Sleep;
use crate::sync::{Mutex, MutexGuard, SpawnError, StdArc, ThreadId, Waiters, lock, this_thread};
use crate::tick::Tick;
use crate::time::Instant;

/// Interface of a handle to a [`Shared`], whatever the function.
pub(crate) trait AnyCallback: Send + Sync {
    fn cancel(&self) -> bool;

    fn wait_for_call(&self);

    fn reset(&self, to: &dyn Fn(&Clock) -> NewDeadline) -> Reset;

    /// Arms the sleep of a callback that waits, unless it is armed, and sees to it that there is a
    /// driver to fire it. Not under a lock.
    ///
    /// # Errors
    ///
    /// When the driver's thread has to be started and cannot be.
    fn arm(self: StdArc<Self>) -> Result<(), SpawnError>;

    fn set_period(&self, period: Duration) -> bool;

    /// Returns whether the function may still be called after a call under way.
    fn is_pending(&self) -> bool;

    /// Returns the time of the next call, if it is set.
    fn next_call(&self) -> Option<Instant>;

    /// For people.
    fn stage(&self) -> &'static str;
}

/// Deadline of a reset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewDeadline {
    pub(crate) deadline: Tick,
    /// Time from now until then, if the caller gave a delay.
    pub(crate) delay: Option<Duration>,
}

/// Result of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    /// The function is called at the new deadline.
    Done,
    /// It is, once [`AnyCallback::arm`] has been called: the deadline before was never, another
    /// thread is about to start the driver, or none could when it was armed last.
    Unarmed,
    /// The function is not called again.
    TooLate,
}

/// The one allocation, shared by the waker and the handle.
pub(crate) struct Shared<F> {
    stage: Mutex<Stage<F>>,
    /// Signalled when the stage is [`Stage::Over`].
    over: Waiters,
    engine: EngineRef,
    /// Whether the time is needed after each call, to find the ticks that it has missed.
    skips_ticks: bool,
    /// The process whose threads share it.
    generation: Generation,
}

/// Holder of the function to call, and of its time. Transitions, all under the lock:
///
/// ```text
/// Waiting --woken, the deadline has come--> Called   the thread calls the function
/// Waiting --woken, it was reset----------> Waiting  the thread arms the sleep again
/// Waiting --cancel-----------------------> Ending   the thread drops the function
/// Called  --the call returns, it repeats-> Waiting  unless it was cancelled meanwhile
/// Called  --the call was the last--------> Ending   the thread drops the function
/// Ending  --the function is dropped------> Over
/// ```
///
/// A reset and a new period change the time in `Waiting` and in `Called`, and no stage. `arms`
/// counts how often [`AnyCallback::arm`] has armed the sleep, and wraps. A thread that has looked
/// for a driver compares it, because the sleep may have been taken out and armed again meanwhile.
enum Stage<F> {
    /// The waker is in the entry of the sleep, or on its way from there; nowhere if the deadline
    /// was never when the sleep was to be armed, or no driver could be started for it.
    Waiting {
        when: When,
        function: F,
        /// Whether the sleep is armed, and a driver was seen to run since. Until then no reset
        /// returns that it was in time: the thread that has armed the sleep may be unable to start
        /// a driver, and takes it out again.
        has_driver: bool,
        arms: u32,
    },
    /// A thread calls the function, without the lock. The sleep is not armed.
    Called { by: ThreadId, when: When, next: Next, arms: u32 },
    /// A thread drops the function, without the lock.
    Ending { by: ThreadId },
    /// There is nothing any more.
    Over,
}

/// Time of the next call.
pub(crate) enum When {
    Once(Sleep),
    Every {
        interval: Interval,
        /// Ticks without a call since the last call.
        missed: u64,
    },
}

/// Next step after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The tick after this one, if the function is an interval's.
    Tick,
    /// The deadline of a reset.
    Reset,
    /// Nothing: it was cancelled.
    Nothing,
}

impl When {
    pub(crate) fn engine(&self) -> EngineRef {
        self.sleep().engine_ref()
    }

    fn sleep(&self) -> &Sleep {
        match self {
            Self::Once(sleep) => sleep,
            Self::Every { interval, .. } => interval.sleep(),
        }
    }

    fn sleep_mut(&mut self) -> &mut Sleep {
        match self {
            Self::Once(sleep) => sleep,
            Self::Every { interval, .. } => interval.sleep_mut(),
        }
    }

    /// Returns whether it is an interval's that leaves missed ticks out.
    fn skips_ticks(&self) -> bool {
        matches!(self, Self::Every { interval, .. } if interval.skips_ticks())
    }

    /// The call that is due.
    fn call(&mut self) -> Call {
        let missed = match self {
            Self::Once(_) => 0,
            Self::Every { missed, .. } => replace(missed, 0),
        };
        Call { tick: self.tick(), missed }
    }

    /// The instant that the next call is scheduled for.
    fn tick(&self) -> Instant {
        match self {
            Self::Once(sleep) => sleep.deadline(),
            Self::Every { interval, .. } => interval.next_tick(),
        }
    }

    /// That instant; `None` if it never comes.
    fn next_call(&self) -> Option<Instant> {
        (self.sleep().deadline_tick() != Tick::NEVER).then(|| self.tick())
    }

    /// Moves the next call, with an armed sleep or without.
    fn move_to(&mut self, deadline: Tick, delay: Duration) -> Notify {
        match self {
            Self::Once(sleep) => sleep.move_to(deadline, |_| delay, Caller::Callback),
            Self::Every { interval, .. } => interval.move_to(deadline, delay),
        }
    }
}

impl<F: FnMut(Call) + Send + 'static> Shared<F> {
    /// Waits until [`arm`](AnyCallback::arm) is called. The sleep of `when` is not armed.
    pub(crate) fn new(when: When, function: F) -> Self {
        Self {
            engine: when.engine(),
            skips_ticks: when.skips_ticks(),
            stage: Mutex::new(Stage::Waiting { when, function, has_driver: false, arms: 0 }),
            over: Waiters::new(),
            generation: Generation::at_birth(),
        }
    }

    /// Returns the time. Not under the lock: a clock may be foreign code. The list of the feature
    /// `pending` reads it there all the same; no clock is foreign where that feature is.
    fn now(&self) -> Tick {
        self.engine.get().clock().now()
    }

    /// Takes the function, if it is to be called now.
    fn begin_call(self: &StdArc<Self>) -> Option<(F, Call)> {
        let mut stage = lock(&self.stage);
        let mut now = Tick::PAST;
        if matches!(&*stage, Stage::Waiting { when, .. } if when.sleep().is_postponed()) {
            drop(stage);
            now = self.now();
            stage = lock(&self.stage);
        }
        match replace(&mut *stage, Stage::Over) {
            Stage::Waiting { mut when, function, arms, .. } => {
                let has_come = when.sleep().has_come(now);
                let fired = when.sleep_mut().split_off_entry();
                if !has_come {
                    self.wait_for(when, function, arms, stage);
                    drop(fired);
                    return None;
                }
                let call = when.call();
                *stage = Stage::Called { by: this_thread(), when, next: Next::Tick, arms };
                drop(stage);
                drop(fired);
                Some((function, call))
            }
            // Woken as the sleep was cancelled.
            other => {
                *stage = other;
                None
            }
        }
    }

    /// Arms the sleep, and has the function wait for it.
    fn wait_for(
        self: &StdArc<Self>,
        mut when: When,
        function: F,
        arms: u32,
        mut stage: MutexGuard<'_, Stage<F>>,
    ) {
        // Under the lock, so that a cancel or a reset finds the function, and the sleep as it is.
        let notify = self.arm_sleep(when.sleep_mut());
        let has_driver = notify.is_some();
        *stage = Stage::Waiting { when, function, has_driver, arms };
        drop(stage);
        // It is the driver that calls this, so none has to be started.
        let _ = notify.map(|notify| self.engine.notify(notify));
    }

    /// Arms the sleep, under the lock. `None` if its deadline is never.
    fn arm_sleep(self: &StdArc<Self>, sleep: &mut Sleep) -> Option<Notify> {
        let has_deadline = sleep.deadline_tick() != Tick::NEVER;
        has_deadline.then(|| sleep.arm(Waker::from(StdArc::clone(self))))
    }

    /// Takes an armed sleep out again if no driver can be started to fire it. Returns false if
    /// another thread has seen one meanwhile. The next reset arms it.
    fn unarm(&self) -> bool {
        let mut stage = lock(&self.stage);
        let entry = match &mut *stage {
            Stage::Waiting { when, has_driver, .. } if !*has_driver => {
                when.sleep_mut().split_off_entry()
            }
            _ => return false,
        };
        drop(stage);
        drop(entry);
        true
    }

    /// Ends a call that has returned: has the function wait for the next, or drops it.
    fn end_call(self: &StdArc<Self>, function: F) {
        let now = if self.skips_ticks { self.now() } else { Tick::PAST };
        let mut stage = lock(&self.stage);
        match replace(&mut *stage, Stage::Over) {
            Stage::Called {
                when: When::Every { mut interval, mut missed }, next, arms, ..
            } if next != Next::Nothing => {
                if next == Next::Tick {
                    missed = interval.schedule_next(|_| now);
                }
                self.wait_for(When::Every { interval, missed }, function, arms, stage);
            }
            called => {
                *stage = called;
                drop(stage);
                self.finish(function);
            }
        }
    }

    /// Drops the values that this thread has taken, the function among them, and then is over. The
    /// drop may panic.
    fn finish<T>(&self, taken: T) {
        struct Finish<'a, F>(&'a Shared<F>);

        impl<F> Drop for Finish<'_, F> {
            fn drop(&mut self) {
                let mut stage = lock(&self.0.stage);
                *stage = Stage::Over;
                self.0.over.notify_all(stage);
            }
        }

        let ending = Stage::Ending { by: this_thread() };
        let called = replace(&mut *lock(&self.stage), ending);
        let _finish = Finish(self);
        drop(called);
        drop(taken);
    }
}

impl<F: FnMut(Call) + Send + 'static> Wake for Shared<F> {
    fn wake(self: StdArc<Self>) {
        // A child of the process must not wait for the lock; see `cancel`.
        if self.generation.is_past() {
            return;
        }
        let Some((mut function, call)) = self.begin_call() else { return };
        let returned = guarded(|| function(call));
        if self.generation.is_past() {
            // The function has forked, and this is the child.
            self.engine.get().end_forked_driver(returned.is_none());
            guarded(|| drop(function));
            return;
        }
        if returned.is_none() {
            self.engine.get().count_panics(1);
            return self.finish(function);
        }
        self.end_call(function);
    }
}

impl<F: FnMut(Call) + Send + 'static> AnyCallback for Shared<F> {
    fn cancel(&self) -> bool {
        // A parent's lock may be held by a thread that is not there.
        if self.generation.is_past() {
            return false;
        }
        let mut stage = lock(&self.stage);
        match &mut *stage {
            Stage::Waiting { .. } => {}
            Stage::Called { next, .. } => {
                *next = Next::Nothing;
                return false;
            }
            Stage::Ending { .. } | Stage::Over => return false,
        }
        let waiting = replace(&mut *stage, Stage::Ending { by: this_thread() });
        drop(stage);
        self.finish(waiting);
        true
    }

    fn wait_for_call(&self) {
        if self.generation.is_past() {
            return;
        }
        let me = this_thread();
        let mut stage = lock(&self.stage);
        while matches!(*stage, Stage::Called { by, .. } | Stage::Ending { by } if by != me) {
            stage = self.over.wait(stage);
        }
    }

    fn reset(&self, to: &dyn Fn(&Clock) -> NewDeadline) -> Reset {
        if self.generation.is_past() {
            return Reset::TooLate;
        }
        let engine = self.engine.get();
        let NewDeadline { deadline, delay } = to(engine.clock());
        // Before taking the lock: a clock may run foreign code.
        let delay = delay.unwrap_or_else(|| engine.delay_until(deadline));
        let mut stage = lock(&self.stage);
        let (notify, has_driver) = match &mut *stage {
            Stage::Waiting { when, has_driver, .. } => (when.move_to(deadline, delay), *has_driver),
            Stage::Called { when: When::Every { interval, .. }, next, .. }
                if *next != Next::Nothing =>
            {
                *next = Next::Reset;
                (interval.move_to(deadline, delay), true)
            }
            _ => return Reset::TooLate,
        };
        drop(stage);
        // The driver of an armed sleep runs, or `arm` looks for it.
        let _ = self.engine.notify(notify);
        if has_driver { Reset::Done } else { Reset::Unarmed }
    }

    fn arm(self: StdArc<Self>) -> Result<(), SpawnError> {
        let mut stage = lock(&self.stage);
        while let Stage::Waiting { when, has_driver: false, arms, .. } = &mut *stage {
            let sleep = when.sleep_mut();
            // Under the lock, and once, because there may be two resets.
            let notify = if sleep.is_unarmed() {
                let Some(notify) = self.arm_sleep(sleep) else { break };
                *arms = arms.wrapping_add(1);
                notify
            } else {
                Notify::NotEarliest(sleep.deadline_tick())
            };
            let looked_for = *arms;
            drop(stage);
            if let Err(error) = self.engine.notify(notify) {
                if self.unarm() {
                    return Err(error);
                }
            }
            stage = lock(&self.stage);
            // Meanwhile another thread may have taken it out, and a third have armed it again. The
            // driver that was seen may have ended before that, so there is another look.
            if let Stage::Waiting { when, has_driver, arms, .. } = &mut *stage {
                *has_driver |= *arms == looked_for && !when.sleep().is_unarmed();
            }
        }
        Ok(())
    }

    fn set_period(&self, period: Duration) -> bool {
        if self.generation.is_past() {
            return false;
        }
        match &mut *lock(&self.stage) {
            Stage::Waiting { when: When::Every { interval, .. }, .. } => {
                interval.set_period(period);
                true
            }
            Stage::Called { when: When::Every { interval, .. }, next, .. } => {
                interval.set_period(period);
                *next != Next::Nothing
            }
            _ => false,
        }
    }

    fn is_pending(&self) -> bool {
        if self.generation.is_past() {
            return false;
        }
        match &*lock(&self.stage) {
            Stage::Waiting { .. } => true,
            Stage::Called { when, next, .. } => {
                matches!(when, When::Every { .. }) && *next != Next::Nothing
            }
            Stage::Ending { .. } | Stage::Over => false,
        }
    }

    fn next_call(&self) -> Option<Instant> {
        if self.generation.is_past() {
            return None;
        }
        match &*lock(&self.stage) {
            Stage::Waiting { when, .. } | Stage::Called { when, next: Next::Reset, .. } => {
                when.next_call()
            }
            _ => None,
        }
    }

    fn stage(&self) -> &'static str {
        if self.generation.is_past() {
            return "over";
        }
        match &*lock(&self.stage) {
            Stage::Waiting { .. } => "waiting",
            Stage::Called { .. } => "called",
            Stage::Ending { .. } => "ending",
            Stage::Over => "over",
        }
    }
}
