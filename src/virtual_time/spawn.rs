//! Tasks of other executors that a virtual clock waits for, and their outputs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use crate::foreign::guarded;
use crate::fork::PerProcess;
use crate::sync::{Mutex, MutexGuard, StdArc, lock};
use crate::virtual_time::hold::{Holds, Tracked};

pin_project! {
    /// A [`Tracked`] future for an executor to run. It sends its output.
    ///
    /// Made by [`VirtualClock::spawn`](crate::virtual_time::VirtualClock::spawn), and passed to the
    /// executor's function.
    #[must_use = "futures do nothing unless polled or awaited"]
    pub struct Task<F: Future> {
        #[pin]
        tracked: Tracked<Sending<F>>,
    }
}

impl<F: Future> Future for Task<F> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().tracked.poll(cx)
    }
}

impl<F: Future> fmt::Debug for Task<F> {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

pin_project! {
    /// Sends the output of a future within its last poll, while the clock is held.
    struct Sending<F: Future> {
        #[pin]
        future: F,
        // Taken by each poll, and put back if the future is pending. A panic drops it, and the
        // task is over while the clock is still held.
        sender: Option<Sender<F::Output>>,
    }
}

impl<F: Future> Future for Sending<F> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let mut sender = this.sender.take().expect("a task is not polled after its end");
        match this.future.poll(cx) {
            Poll::Ready(output) => {
                sender.output = Some(output);
                Poll::Ready(())
            }
            Poll::Pending => {
                *this.sender = Some(sender);
                Poll::Pending
            }
        }
    }
}

/// A future of a spawned task's output.
///
/// Made by [`VirtualClock::spawn`](crate::virtual_time::VirtualClock::spawn), with the return value
/// of the executor's function. Dropping it drops that value too: a handle of tokio then detaches
/// the task, and smol's cancels it.
///
/// # Cancel safety
///
/// Polled by reference, it loses nothing.
///
/// # Panics
///
/// A poll panics if the task has panicked, if its executor dropped it before its end, and if the
/// output was taken before.
#[must_use = "futures do nothing unless polled or awaited"]
pub struct Spawned<T, R> {
    channel: Channel<T>,
    handle: R,
}

impl<T, R> Spawned<T, R> {
    /// Returns the return value of the executor's function, to abort or detach the task by. The
    /// output is lost.
    #[inline]
    pub fn into_handle(self) -> R {
        self.handle
    }
}

impl<T, R> Future for Spawned<T, R> {
    type Output = T;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let waker = cx.waker().clone();
        let mut outcome = self.channel.outcome();
        if let Some(output) = outcome.output.take() {
            return Poll::Ready(output);
        }
        let is_over = outcome.is_over;
        let old = outcome.waker.replace(waker);
        drop(outcome);
        drop(old);
        assert!(!is_over, "the task has panicked, was dropped, or its output was taken");
        Poll::Pending
    }
}

impl<T, R> fmt::Debug for Spawned<T, R> {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawned").finish_non_exhaustive()
    }
}

// Nothing in it is pinned.
impl<T, R> Unpin for Spawned<T, R> {}

/// Makes a task of `future`, has it run by `spawn`, and returns its output to come.
#[inline]
pub(super) fn spawn<F: Future, R>(
    holds: &Holds,
    future: F,
    spawn: impl FnOnce(Task<F>) -> R,
) -> Spawned<F::Output, R> {
    let channel = Channel(StdArc::new(PerProcess::new(Mutex::new(Outcome::empty()))));
    let sender = Sender { channel: Channel(StdArc::clone(&channel.0)), output: None };
    let sending = Sending { future, sender: Some(sender) };
    let handle = spawn(Task { tracked: Tracked::new(sending, holds) });
    Spawned { channel, handle }
}

/// Sending end of a channel. Its drop ends the task, and sends the output if there is one.
struct Sender<T> {
    channel: Channel<T>,
    output: Option<T>,
}

impl<T> Drop for Sender<T> {
    #[inline]
    fn drop(&mut self) {
        let mut outcome = self.channel.outcome();
        outcome.output = self.output.take();
        outcome.is_over = true;
        let waker = outcome.waker.take();
        drop(outcome);
        if let Some(waker) = waker {
            // A panic may be unwinding, and another would abort.
            guarded(|| waker.wake());
        }
    }
}

/// The output on its way. A child process has another, and none of its parent's tasks.
struct Channel<T>(StdArc<PerProcess<Mutex<Outcome<T>>>>);

struct Outcome<T> {
    output: Option<T>,
    /// Waker of the last poll, until it is woken.
    waker: Option<Waker>,
    /// True once the task has ended, has panicked or was dropped.
    is_over: bool,
}

impl<T> Outcome<T> {
    #[inline]
    fn empty() -> Self {
        Self { output: None, waker: None, is_over: false }
    }
}

impl<T> Channel<T> {
    #[inline]
    fn outcome(&self) -> MutexGuard<'_, Outcome<T>> {
        lock(self.0.get(|_| Mutex::new(Outcome::empty())))
    }
}
