//! The task that waits for a queue's next entry, and the sleep that wakes it.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use crate::clock::Clock;
use crate::sleep::Sleep;
use crate::tick::Tick;

/// The task that polled a queue last, if that poll left it waiting.
///
/// The sleep is armed only while a task waits, and its deadline is never later than the earliest.
/// It may be earlier, after an entry was removed or postponed: to move it then would cost more than
/// the needless wake-up.
pub(crate) struct Waiter {
    sleep: Sleep,
    waker: Option<Waker>,
    /// True if the last poll found nothing due, and `waker` was not woken since.
    waiting: bool,
}

impl Waiter {
    /// `sleep` never ends so far.
    pub(crate) fn new(sleep: Sleep) -> Self {
        debug_assert!(sleep.deadline_tick() == Tick::NEVER);
        Self { sleep, waker: None, waiting: false }
    }

    pub(crate) fn set_tolerance(&mut self, tolerance: Duration) {
        self.sleep.set_tolerance(tolerance);
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.sleep.engine().clock()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// An entry is about to be filed under `deadline`.
    ///
    /// To be called before the queue is changed, as is [`end`](Self::end): wakers are foreign code
    /// and may panic, and nobody can look at the queue before the change is made.
    #[inline]
    pub(crate) fn bring_forward(&mut self, deadline: Tick) {
        let armed = self.sleep.deadline_tick();
        // Nothing waits longer than until then: its deadline, or with a tolerance some time later.
        if !self.waiting || deadline >= armed.saturating_add(self.sleep.tolerance()) {
            return;
        }
        // The sleep of an empty queue has no waker.
        if armed == Tick::NEVER || self.clock().has_passed(deadline) {
            self.wake();
        } else if deadline < armed {
            self.sleep.reset_to(deadline);
        }
    }

    /// The last entry is about to be removed: wakes the task, which sees the end of the stream.
    pub(crate) fn end(&mut self) {
        if self.waiting {
            self.wake();
        }
    }

    /// The poll under way returns an entry.
    pub(crate) fn serve(&mut self) {
        self.waiting = false;
    }

    /// Waits for entries, while there are none.
    pub(crate) fn wait_for_entries(&mut self, cx: &Context<'_>) {
        self.sleep.cancel();
        self.register(cx);
    }

    /// Waits for the earliest deadline: `bound` or later. Ready if it is time to look at the clock
    /// again. Nothing is due at `now`.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: Tick, bound: Tick) -> Poll<()> {
        let armed = self.sleep.deadline_tick();
        if armed > bound || armed <= now || bound == Tick::NEVER {
            self.sleep.reset_to(bound);
        }
        let slept = Pin::new(&mut self.sleep).poll(cx);
        if slept.is_pending() {
            self.register(cx);
        }
        slept
    }

    fn register(&mut self, cx: &Context<'_>) {
        let known = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        let new = (!known).then(|| cx.waker().clone());
        self.waiting = true;
        if new.is_some() {
            drop(core::mem::replace(&mut self.waker, new));
        }
    }

    fn wake(&mut self) {
        self.waiting = false;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
