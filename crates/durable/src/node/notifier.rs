//! [`Notifier`]: a thread's wait until a deadline or a notification.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

/// Wakes the thread that waits. A notification while none waits is kept for the next wait.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    is_notified: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Notifier {
    /// Ends the wait, or the next.
    pub(crate) fn notify(&self) {
        // ORDERING: Release; the wait that ends sees all writes before its notification.
        if !self.is_notified.swap(true, Ordering::Release) {
            let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Returns whether a wait would end at once, and forgets that.
    #[cfg(test)]
    pub(crate) fn take(&self) -> bool {
        // ORDERING: Acquire; pairs with `notify`.
        self.is_notified.swap(false, Ordering::Acquire)
    }

    /// Waits for a notification, or for `deadline` by the clock of `timer`.
    pub(crate) fn wait(&self, timer: &tourbillon::Timer, deadline: Option<Instant>) {
        let sleep = match deadline {
            Some(deadline) => timer.sleep_until(deadline),
            None => timer.never(),
        };
        let mut sleep = pin!(sleep);
        block_on(|cx| {
            // The waker is there before the flag is read, so that a later notification finds it.
            *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            // ORDERING: Acquire; pairs with `notify`.
            if self.is_notified.swap(false, Ordering::Acquire) {
                return Poll::Ready(());
            }
            sleep.as_mut().poll(cx)
        });
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on(poll: impl FnMut(&mut Context<'_>) -> Poll<()>) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(poll_fn(poll));
    while future.as_mut().poll(&mut cx).is_pending() {
        thread::park();
    }
}
