//! Tools that the tests share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::Stream;
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The least by which two times of the wall clock differ.
pub(crate) const WALL_GRAIN: Duration = Duration::from_nanos(if cfg!(windows) { 100 } else { 1 });

/// A timer on a virtual clock, and the clock.
pub(crate) fn virtual_timer() -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    (timer, clock)
}

/// A waker that counts how often it is woken.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicUsize);

impl Counter {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls a stream with `waker`.
pub(crate) fn poll_next<S: Stream + Unpin>(stream: &mut S, waker: &Waker) -> Poll<Option<S::Item>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(waker))
}
