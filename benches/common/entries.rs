//! Holders of entries until they time out, behind one trait.

use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio_util::time::delay_queue as theirs;
use tourbillon::Sleep;
use tourbillon::queue::Key;

use super::wakers::poll;

pub(crate) type DelayQueue = tourbillon::queue::DelayQueue<u64>;
pub(crate) type TimeoutQueue = tourbillon::queue::TimeoutQueue<u64>;
pub(crate) type TheirDelayQueue = theirs::DelayQueue<u64>;

/// Something that holds entries until they time out.
pub(crate) trait Entries: Sized {
    const NAME: &'static str;
    type Key;

    /// With room for `capacity`. All delays will be `usual`, for queues that need it in advance.
    fn new(capacity: usize, usual: Duration) -> Self;
    fn insert(&mut self, delay: Duration, waker: &Waker) -> Self::Key;
    fn remove(&mut self, key: Self::Key);
    fn reset(&mut self, key: &Self::Key, delay: Duration);
    /// Returns how many entries a poll finds expired.
    fn expire(&mut self, cx: &mut Context<'_>) -> u64;
}

impl Entries for DelayQueue {
    const NAME: &'static str = "DelayQueue";
    type Key = Key;

    fn new(capacity: usize, _usual: Duration) -> Self {
        DelayQueue::with_capacity(capacity)
    }

    fn insert(&mut self, delay: Duration, _waker: &Waker) -> Key {
        DelayQueue::insert(self, 1, delay)
    }

    fn remove(&mut self, key: Key) {
        black_box(DelayQueue::remove(self, &key));
    }

    fn reset(&mut self, key: &Key, delay: Duration) {
        DelayQueue::reset(self, key, delay);
    }

    fn expire(&mut self, cx: &mut Context<'_>) -> u64 {
        match self.poll_expired(cx) {
            Poll::Ready(Some(expired)) => expired.into_inner(),
            _ => 0,
        }
    }
}

impl Entries for TheirDelayQueue {
    const NAME: &'static str = "tokio-util's DelayQueue";
    type Key = theirs::Key;

    fn new(capacity: usize, _usual: Duration) -> Self {
        TheirDelayQueue::with_capacity(capacity)
    }

    fn insert(&mut self, delay: Duration, _waker: &Waker) -> theirs::Key {
        TheirDelayQueue::insert(self, 1, delay)
    }

    fn remove(&mut self, key: theirs::Key) {
        black_box(TheirDelayQueue::remove(self, &key));
    }

    fn reset(&mut self, key: &theirs::Key, delay: Duration) {
        TheirDelayQueue::reset(self, key, delay);
    }

    fn expire(&mut self, cx: &mut Context<'_>) -> u64 {
        match self.poll_expired(cx) {
            Poll::Ready(Some(expired)) => expired.into_inner(),
            _ => 0,
        }
    }
}

impl Entries for TimeoutQueue {
    const NAME: &'static str = "TimeoutQueue";
    type Key = Key;

    fn new(capacity: usize, usual: Duration) -> Self {
        TimeoutQueue::with_capacity(usual, capacity)
    }

    fn insert(&mut self, _delay: Duration, _waker: &Waker) -> Key {
        self.push(1)
    }

    fn remove(&mut self, key: Key) {
        black_box(TimeoutQueue::remove(self, &key));
    }

    fn reset(&mut self, key: &Key, _delay: Duration) {
        self.refresh(key);
    }

    fn expire(&mut self, cx: &mut Context<'_>) -> u64 {
        match self.poll_expired(cx) {
            Poll::Ready(Some(expired)) => expired.into_inner(),
            _ => 0,
        }
    }
}

/// A sleep for each entry, armed, and in a list as a task might have it.
pub(crate) struct Sleeps {
    sleeps: Vec<Sleep>,
}

impl Entries for Sleeps {
    const NAME: &'static str = "a Sleep each";
    type Key = usize;

    fn new(capacity: usize, _usual: Duration) -> Self {
        Self { sleeps: Vec::with_capacity(capacity) }
    }

    fn insert(&mut self, delay: Duration, waker: &Waker) -> usize {
        let mut sleep = tourbillon::sleep(delay);
        let _ = poll(Pin::new(&mut sleep), waker);
        self.sleeps.push(sleep);
        self.sleeps.len() - 1
    }

    /// `key` is the last.
    fn remove(&mut self, key: usize) {
        self.sleeps.truncate(key);
    }

    fn reset(&mut self, key: &usize, delay: Duration) {
        self.sleeps[*key].reset_after(delay);
    }

    fn expire(&mut self, cx: &mut Context<'_>) -> u64 {
        let Some(last) = self.sleeps.last_mut() else { return 0 };
        let expired = poll(Pin::new(last), cx.waker()).is_ready();
        if expired {
            self.sleeps.pop();
        }
        u64::from(expired)
    }
}
