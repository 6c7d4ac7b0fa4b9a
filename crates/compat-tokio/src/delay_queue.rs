//! [`DelayQueue`]: values with a deadline each.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tourbillon::queue::{self, Key};

use crate::time::Instant;

/// A queue of values, each handed out as its deadline comes.
///
/// [`tourbillon::queue`] says in which order, and when its task is woken. It stays on the timer
/// that was current as it was made.
///
/// # Panics
///
/// [`remove`](Self::remove), [`reset`](Self::reset), [`reset_at`](Self::reset_at) and
/// [`deadline`](Self::deadline) panic if the key's entry is gone. A key of another queue, or of an
/// entry that has left, never names another entry.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use futures::StreamExt;
/// use tourbillon_compat_tokio::util::time::DelayQueue;
///
/// # pollster::block_on(async {
/// let mut queue = DelayQueue::new();
/// let late = queue.insert("late", Duration::from_secs(60));
/// queue.insert("soon", Duration::from_millis(1));
/// assert_eq!(queue.next().await.unwrap().into_inner(), "soon");
/// assert_eq!(queue.remove(&late).into_inner(), "late");
/// assert!(queue.next().await.is_none());
/// # });
/// ```
#[derive(Debug)]
pub struct DelayQueue<T> {
    queue: queue::DelayQueue<T>,
}

impl<T> DelayQueue<T> {
    /// Creates an empty queue.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        Self { queue: queue::DelayQueue::new() }
    }

    /// Creates an empty queue with room for so many entries.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { queue: queue::DelayQueue::with_capacity(capacity) }
    }

    /// Inserts a value that expires at `when`, or now if that is past.
    #[track_caller]
    pub fn insert_at(&mut self, value: T, when: Instant) -> Key {
        self.queue.insert_at(value, when.into_std())
    }

    /// Inserts a value that expires `timeout` from now.
    #[track_caller]
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        self.queue.insert(value, timeout)
    }

    /// Polls for an entry that has expired; `None` if the queue is empty.
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.queue.poll_expired(cx).map(|expired| expired.map(|expired| Expired { expired }))
    }

    /// The deadline of an entry.
    #[track_caller]
    #[must_use]
    pub fn deadline(&self, key: &Key) -> Instant {
        Instant::from_std(self.queue.deadline(key))
    }

    /// Takes an entry out.
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        Expired { expired: self.queue.remove(key) }
    }

    /// Takes an entry out, if it is there.
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        self.queue.try_remove(key).map(|expired| Expired { expired })
    }

    /// Moves the deadline of an entry to `when`, or to now if that is past.
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, when: Instant) {
        self.queue.reset_at(key, when.into_std());
    }

    /// Moves the deadline of an entry to `timeout` from now.
    #[track_caller]
    pub fn reset(&mut self, key: &Key, timeout: Duration) {
        self.queue.reset(key, timeout);
    }

    /// Gives back memory behind the last entry.
    pub fn shrink_to_fit(&mut self) {
        self.queue.shrink_to_fit();
    }

    /// Gives back memory as [`shrink_to_fit`](Self::shrink_to_fit) does. No entry moves.
    pub fn compact(&mut self) {
        self.queue.shrink_to_fit();
    }

    /// The key of the entry that expires next.
    #[must_use]
    pub fn peek(&self) -> Option<Key> {
        self.queue.peek()
    }

    /// Drops all entries.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// The number of entries that have room.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.queue.capacity()
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Makes room for so many more entries.
    #[track_caller]
    pub fn reserve(&mut self, additional: usize) {
        self.queue.reserve(additional);
    }

    /// Returns whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll_expired(cx)
    }
}

/// An entry that has left a [`DelayQueue`].
#[derive(Debug)]
pub struct Expired<T> {
    expired: queue::Expired<T>,
}

impl<T> Expired<T> {
    /// The value.
    pub fn get_ref(&self) -> &T {
        self.expired.get_ref()
    }

    /// The value, to be changed.
    pub fn get_mut(&mut self) -> &mut T {
        self.expired.get_mut()
    }

    /// The value by itself.
    pub fn into_inner(self) -> T {
        self.expired.into_inner()
    }

    /// The deadline that the entry had.
    pub fn deadline(&self) -> Instant {
        Instant::from_std(self.expired.deadline())
    }

    /// The key that the entry had.
    pub fn key(&self) -> Key {
        self.expired.key()
    }
}
