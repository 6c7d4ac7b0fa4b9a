//! Tools that the programs of tests share.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Miri's clock moves on by 5 us with each basic block: this is about the time of an arm.
pub(crate) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A waker that counts how often it is woken. It orders nothing, so it hides no race from Miri.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicUsize);

impl Counter {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn wakes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A waker that runs a closure.
pub(crate) fn callback(action: impl Fn() + Send + Sync + 'static) -> Waker {
    struct Callback<F>(F);

    impl<F: Fn() + Send + Sync + 'static> Wake for Callback<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }

    Waker::from(Arc::new(Callback(action)))
}

pub(crate) fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}
