//! [`DelayQueue`]: values with a deadline each.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use futures_core::Stream;

use crate::deadline::Deadline;
use crate::queue::by_deadline::ByDeadline;
use crate::queue::methods::queue_methods;
use crate::queue::{Expired, Key, Queue, gone};
use crate::time::Instant;
use crate::timer::{Timer, never};

/// A queue of values that each expire at their own deadline: retries, caches, sessions.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use futures::StreamExt;
/// use tourbillon::Timer;
/// use tourbillon::queue::DelayQueue;
/// use tourbillon::virtual_time::VirtualClock;
///
/// let clock = VirtualClock::new();
/// let timer = Timer::builder().virtual_clock(&clock).build()?;
///
/// let mut queue = DelayQueue::with_timer(&timer);
/// queue.insert("a minute", Duration::from_secs(60));
/// queue.insert("a second", Duration::from_secs(1));
/// let hour = queue.insert("an hour", Duration::from_secs(3600));
/// queue.reset(&hour, Duration::from_secs(2));
///
/// let expired: Vec<_> = clock.block_on(queue.map(|expired| expired.into_inner()).collect());
/// assert_eq!(expired, ["a second", "an hour", "a minute"]);
/// # std::io::Result::Ok(())
/// ```
///
/// # Details
///
/// The queue has its own timing wheel, and one [`Sleep`](crate::Sleep) for all entries. So an entry
/// costs no allocation and no lock, and one task can wait for all of them. The
/// [`queue`](crate::queue) module describes the order of entries, wake-ups, and polls after the
/// end: they are the same in a [`TimeoutQueue`](crate::queue::TimeoutQueue). `TimeoutQueue` is
/// cheaper where all entries have the same delay.
///
/// Inserting, removing and resetting take the same time however many entries there are. An empty
/// queue takes less than 1,000 bytes, and each entry 21 and its value.
///
/// # Differences from `tokio_util::time::DelayQueue`
///
/// - It needs no runtime, and works on any executor and on virtual clocks.
/// - Any duration is valid: [`Duration::MAX`] makes an entry that never expires. Tokio's panics
///   beyond two years.
/// - Deadlines are exact, and equal deadlines expire in the order of setting. Tokio's are rounded
///   up to milliseconds, and equal ones expire in any order.
/// - A [`Key`] is never used twice, so a stale key is recognised. There is no `compact`, which
///   gives tokio's keys a second meaning.
/// - Removing or postponing the earliest entry leaves its wake-up in place.
/// - `try_reset`, `try_reset_at`, `try_deadline`, `get`, `get_mut` and `pop_expired` are additions.
///
/// # Cancel safety
///
/// Dropping a future that waits for the next entry loses none. Dropping the queue drops its
/// values and cancels its sleep.
///
/// # Panics
///
/// Polling it panics as polling a [`Sleep`](crate::Sleep) does, if the driver thread cannot be
/// started; no entry is lost. Inserting panics if the queue holds 2^31 entries. A poll and every
/// method that may wake the waiting task pass on the panic of a waker; the queue is then as before
/// the call.
#[must_use = "a queue hands out nothing unless it is polled"]
pub struct DelayQueue<T> {
    queue: Queue<T, ByDeadline>,
}

impl<T> DelayQueue<T> {
    /// Creates an empty queue on the [current timer](crate::Timer::current).
    ///
    /// # Examples
    ///
    /// ```
    /// let queue = tourbillon::queue::DelayQueue::<u32>::new();
    /// assert!(queue.is_empty());
    /// ```
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn new() -> Self {
        Self { queue: Queue::new(never(), ByDeadline::from) }
    }

    /// Creates an empty queue on `timer`.
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn with_timer(timer: &Timer) -> Self {
        Self { queue: Queue::new(timer.never(), ByDeadline::from) }
    }

    /// Creates an empty queue on the [current timer](crate::Timer::current), with room for
    /// `capacity` entries.
    ///
    /// # Panics
    ///
    /// If that takes more memory than can be addressed.
    ///
    /// # Examples
    ///
    /// ```
    /// let queue = tourbillon::queue::DelayQueue::<u32>::with_capacity(100);
    /// assert!(queue.capacity() >= 100);
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        let mut queue = Self::new();
        queue.reserve(capacity);
        queue
    }

    /// Inserts `value`, to expire `delay` from now.
    ///
    /// A delay past the end of the time line, some 438 years from now, makes an entry that never
    /// expires.
    ///
    /// # Panics
    ///
    /// If the queue holds 2^31 entries.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut queue = tourbillon::queue::DelayQueue::new();
    /// queue.insert("soon", Duration::ZERO);
    /// queue.insert("never", Duration::MAX);
    /// assert_eq!(queue.pop_expired().map(|expired| expired.into_inner()), Some("soon"));
    /// assert!(queue.pop_expired().is_none());
    /// ```
    #[inline]
    #[track_caller]
    pub fn insert(&mut self, value: T, delay: Duration) -> Key {
        let deadline = self.queue.after(delay);
        self.queue.insert(value, deadline)
    }

    /// Inserts `value`, to expire at `deadline`; at once, if that is past.
    ///
    /// # Panics
    ///
    /// Panics as [`insert`](Self::insert) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let deadline = Instant::now() + Duration::from_secs(5);
    /// let mut queue = tourbillon::queue::DelayQueue::new();
    /// let key = queue.insert_at("later", deadline);
    /// assert_eq!(queue.deadline(&key), deadline);
    /// ```
    #[inline]
    #[track_caller]
    pub fn insert_at(&mut self, value: T, deadline: impl Into<Deadline>) -> Key {
        let deadline = self.queue.at(deadline.into());
        self.queue.insert(value, deadline)
    }

    /// Moves the deadline of the entry of `key` to `delay` from now, behind equal ones.
    ///
    /// # Panics
    ///
    /// If the entry is gone. See [`try_reset`](Self::try_reset).
    #[track_caller]
    pub fn reset(&mut self, key: &Key, delay: Duration) {
        if !self.try_reset(key, delay) {
            gone(key);
        }
    }

    /// Moves the deadline of the entry of `key` to `delay` from now; false if it is gone.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut queue = tourbillon::queue::DelayQueue::new();
    /// let key = queue.insert("later", Duration::from_secs(5));
    /// assert!(queue.try_reset(&key, Duration::ZERO));
    /// assert!(queue.pop_expired().is_some());
    /// assert!(!queue.try_reset(&key, Duration::ZERO));
    /// ```
    #[inline]
    pub fn try_reset(&mut self, key: &Key, delay: Duration) -> bool {
        let deadline = self.queue.after(delay);
        self.queue.reset(key, deadline)
    }

    /// Moves the deadline of the entry of `key`, behind equal ones.
    ///
    /// # Panics
    ///
    /// If the entry is gone. See [`try_reset_at`](Self::try_reset_at).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let mut queue = tourbillon::queue::DelayQueue::new();
    /// let key = queue.insert("later", Duration::from_secs(5));
    /// queue.reset_at(&key, Instant::now());
    /// assert!(queue.pop_expired().is_some());
    /// ```
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, deadline: impl Into<Deadline>) {
        if !self.try_reset_at(key, deadline) {
            gone(key);
        }
    }

    /// Moves the deadline of the entry of `key`; false if it is gone.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let mut queue = tourbillon::queue::DelayQueue::new();
    /// let key = queue.insert("later", Duration::from_secs(5));
    /// assert!(queue.try_reset_at(&key, Instant::now()));
    /// queue.clear();
    /// assert!(!queue.try_reset_at(&key, Instant::now()));
    /// ```
    #[inline]
    pub fn try_reset_at(&mut self, key: &Key, deadline: impl Into<Deadline>) -> bool {
        let deadline = self.queue.at(deadline.into());
        self.queue.reset(key, deadline)
    }

    /// The key of the entry that expires next; `None` if none ever does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut queue = tourbillon::queue::DelayQueue::new();
    /// assert_eq!(queue.peek(), None);
    /// queue.insert("later", Duration::from_secs(9));
    /// let sooner = queue.insert("sooner", Duration::from_secs(5));
    /// assert_eq!(queue.peek(), Some(sooner));
    /// ```
    ///
    /// # Details
    ///
    /// A call may have to walk one slot of the wheel. The slot holds entries that are due at about
    /// the same time. If that time is far off, it may hold most of the queue: some milliseconds for
    /// a million. The queue remembers the earliest of them, as many as the square root of its
    /// length, up to 1,024, in 32 KiB at most. So a loop that peeks and removes walks once for that
    /// many entries.
    pub fn peek(&self) -> Option<Key> {
        self.queue.peek()
    }

    queue_methods!("DelayQueue::new()", "insert(7, Duration::from_secs(60))");
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.poll_expired(cx)
    }
}

// No value is ever pinned.
impl<T> Unpin for DelayQueue<T> {}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

// The sizes that the docs of `DelayQueue` promise.
const _: () = assert!(cfg!(tourbillon_model) || size_of::<DelayQueue<()>>() < 1_000);
