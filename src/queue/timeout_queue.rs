//! [`TimeoutQueue`]: values that all have the same time to live.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use futures_core::Stream;

use crate::queue::methods::queue_methods;
use crate::queue::slab::{NO_SLOT, Slab};
use crate::queue::{Expired, Key, Order, Queue, gone};
use crate::tick::Tick;
use crate::time::Instant;
use crate::timer::{Timer, never};

/// A queue of values that all expire after the same duration, unless they are refreshed: idle
/// connections, sessions, entries of a cache.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use futures::StreamExt;
/// use tourbillon::Timer;
/// use tourbillon::queue::TimeoutQueue;
/// use tourbillon::virtual_time::VirtualClock;
///
/// let clock = VirtualClock::new();
/// let timer = Timer::builder().virtual_clock(&clock).build()?;
///
/// let mut idle = TimeoutQueue::with_timer(Duration::from_secs(30), &timer);
/// let first = idle.push("first");
/// idle.push("second");
/// clock.advance(Duration::from_secs(20));
/// idle.refresh(&first);
///
/// let expired = clock.block_on(idle.next()).expect("there are two");
/// assert_eq!(expired.into_inner(), "second");
/// # std::io::Result::Ok(())
/// ```
///
/// # Details
///
/// Since the duration is the same for all, entries expire in the order of their arrival, and a
/// linked list replaces the wheel (libevent's common timeouts). A push is an append, and a refresh
/// moves the entry to the back. Neither touches the queue's one [`Sleep`](crate::Sleep): it is
/// armed for the first entry, and when it ends, for the first entry of that time. The
/// [`queue`](crate::queue) module describes the order of entries, wake-ups, and polls after the
/// end, all as in a [`DelayQueue`](crate::queue::DelayQueue).
///
/// Use it where one task manages many entries: to push and expire an entry costs less than to arm
/// and fire a [`Sleep`](crate::Sleep). Where each entry has its own task, use a sleep in that task:
/// its [`reset`](crate::Sleep::reset) to a later deadline is a store.
///
/// # Cancel safety
///
/// Dropping a future that waits for the next entry loses none. Dropping the queue drops its
/// values and cancels its sleep.
///
/// # Panics
///
/// Polling it panics as polling a [`Sleep`](crate::Sleep) does, if the driver thread cannot be
/// started; no entry is lost. Pushing panics if the queue holds 2^31 entries. A poll and every
/// method that may wake the waiting task pass on the panic of a waker; the queue is then as before
/// the call.
#[must_use = "a queue hands out nothing unless it is polled"]
pub struct TimeoutQueue<T> {
    queue: Queue<T, ByArrival>,
    duration: Duration,
}

impl<T> TimeoutQueue<T> {
    /// Creates an empty queue on the [current timer](crate::Timer::current). Its entries expire
    /// `duration` after they were pushed or refreshed.
    ///
    /// They never expire if `duration` is longer than the time line, some 438 years.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut idle = tourbillon::queue::TimeoutQueue::new(Duration::ZERO);
    /// idle.push("at once");
    /// assert!(idle.pop_expired().is_some());
    /// ```
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn new(duration: Duration) -> Self {
        Self { queue: Queue::new(never(), |_| ByArrival::new()), duration }
    }

    /// Creates an empty queue on `timer`; see [`new`](Self::new).
    #[cfg_attr(feature = "pending", track_caller)]
    pub fn with_timer(duration: Duration, timer: &Timer) -> Self {
        Self { queue: Queue::new(timer.never(), |_| ByArrival::new()), duration }
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
    /// use std::time::Duration;
    ///
    /// let limit = Duration::from_secs(30);
    /// let idle = tourbillon::queue::TimeoutQueue::<u32>::with_capacity(limit, 100);
    /// assert!(idle.capacity() >= 100);
    /// ```
    pub fn with_capacity(duration: Duration, capacity: usize) -> Self {
        let mut queue = Self::new(duration);
        queue.reserve(capacity);
        queue
    }

    /// Returns how long an entry stays.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let idle = tourbillon::queue::TimeoutQueue::<u32>::new(Duration::from_secs(30));
    /// assert_eq!(idle.duration(), Duration::from_secs(30));
    /// ```
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Appends `value`, to expire one duration from now. Reads the clock.
    ///
    /// # Panics
    ///
    /// If the queue holds 2^31 entries.
    #[inline]
    #[track_caller]
    pub fn push(&mut self, value: T) -> Key {
        let deadline = self.queue.after(self.duration);
        self.queue.insert(value, deadline)
    }

    /// Moves the entry of `key` to the back, to expire one duration from now. Reads the clock.
    ///
    /// # Panics
    ///
    /// If the entry is gone: handed out, removed or cleared. See
    /// [`try_refresh`](Self::try_refresh).
    #[track_caller]
    pub fn refresh(&mut self, key: &Key) {
        if !self.try_refresh(key) {
            gone(key);
        }
    }

    /// Like [`refresh`](Self::refresh), but returns false if the entry is gone.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut idle = tourbillon::queue::TimeoutQueue::new(Duration::from_secs(30));
    /// let key = idle.push("first");
    /// assert!(idle.try_refresh(&key));
    /// idle.clear();
    /// assert!(!idle.try_refresh(&key));
    /// ```
    #[inline]
    pub fn try_refresh(&mut self, key: &Key) -> bool {
        let deadline = self.queue.after(self.duration);
        self.queue.reset(key, deadline)
    }

    /// The key of the entry at the front, which expires next; `None` if none ever does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut idle = tourbillon::queue::TimeoutQueue::new(Duration::from_secs(60));
    /// assert_eq!(idle.peek(), None);
    /// let first = idle.push("first");
    /// let second = idle.push("second");
    /// assert_eq!(idle.peek(), Some(first));
    /// idle.refresh(&first);
    /// assert_eq!(idle.peek(), Some(second));
    /// ```
    pub fn peek(&self) -> Option<Key> {
        self.queue.peek()
    }

    queue_methods!("TimeoutQueue::new(Duration::from_secs(60))", "push(7)");
}

impl<T> Stream for TimeoutQueue<T> {
    type Item = Expired<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.poll_expired(cx)
    }
}

// No value is ever pinned.
impl<T> Unpin for TimeoutQueue<T> {}

impl<T> fmt::Debug for TimeoutQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeoutQueue")
            .field("duration", &self.duration)
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// A list of the places of entries.
struct ByArrival {
    front: u32,
    back: u32,
}

/// Neighbours in the list.
struct Neighbours {
    prev: u32,
    next: u32,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self { prev: NO_SLOT, next: NO_SLOT }
    }
}

impl ByArrival {
    const fn new() -> Self {
        Self { front: NO_SLOT, back: NO_SLOT }
    }
}

impl Order for ByArrival {
    type Position = Neighbours;

    #[inline]
    fn file<T>(&mut self, slab: &mut Slab<T, Neighbours>, index: u32) {
        // INVARIANT: each deadline is the clock's reading plus the same duration, and a queue's
        // readings do not go back; so no entry of the list is due after this one.
        let back = core::mem::replace(&mut self.back, index);
        slab.entry_mut(index).position = Neighbours { prev: back, next: NO_SLOT };
        match back {
            NO_SLOT => self.front = index,
            back => slab.entry_mut(back).position.next = index,
        }
    }

    #[inline]
    fn remove<T>(&mut self, slab: &mut Slab<T, Neighbours>, index: u32) {
        let Neighbours { prev, next } = core::mem::take(&mut slab.entry_mut(index).position);
        match prev {
            NO_SLOT => self.front = next,
            prev => slab.entry_mut(prev).position.next = next,
        }
        match next {
            NO_SLOT => self.back = prev,
            next => slab.entry_mut(next).position.prev = prev,
        }
    }

    #[inline]
    fn take_due<T>(&mut self, slab: &mut Slab<T, Neighbours>, now: Tick) -> Option<u32> {
        let front = self.first(slab).filter(|front| slab.entry(*front).deadline <= now)?;
        self.remove(slab, front);
        Some(front)
    }

    fn bound<T>(&mut self, slab: &Slab<T, Neighbours>) -> Tick {
        self.first(slab).map_or(Tick::NEVER, |front| slab.entry(front).deadline)
    }

    fn earliest<T>(&mut self, slab: &Slab<T, Neighbours>) -> Tick {
        self.bound(slab)
    }

    fn first<T>(&self, _slab: &Slab<T, Neighbours>) -> Option<u32> {
        (self.front != NO_SLOT).then_some(self.front)
    }

    fn clear(&mut self, _now: Tick) {
        *self = Self::new();
    }
}
