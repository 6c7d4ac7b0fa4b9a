//! Queues of values with a deadline each: [`DelayQueue`] and [`TimeoutQueue`].
//!
//! Both hold values, each until its own deadline, and hand them out as they expire: to a task that
//! polls a [`Stream`](futures_core::Stream), or to a loop that asks. A queue has one owner, takes
//! no lock, and waits with one [`Sleep`] for all of its entries.
//!
//! # Order
//!
//! Entries expire in the order of their deadlines, to the nanosecond, and never early. Equal
//! deadlines expire in the order of setting. An entry set to a deadline in the past counts as due
//! at the time it is set.
//!
//! A poll hands out one entry. It reads the clock again only after it has handed out every entry
//! that was due at the last reading.
//!
//! # Wake-ups
//!
//! A poll that returns no entry registers its task. That task is woken at the earliest deadline,
//! also if an earlier entry is inserted after the poll. It is woken at once
//!
//! - if an entry is inserted, or reset, that is already due;
//! - if the queue had no entry that expires at the time of the poll, and now gets one;
//! - if the last entry is removed, since the stream ends there for now.
//!
//! The task may be woken once without need: at the deadline of an entry that was removed or
//! postponed after the poll. That keeps removal cheap.
//!
//! # The end
//!
//! A poll of an empty queue returns `None`. The queue may be polled again, and continues once there
//! are entries.
//!
//! # After `fork`
//!
//! A queue works in a child process as a [`Sleep`] does: poll it again.
//!
//! [`Sleep`]: crate::Sleep

mod by_deadline;
mod delay_queue;
mod methods;
mod slab;
mod timeout_queue;
mod waiter;

pub use delay_queue::DelayQueue;
pub use timeout_queue::TimeoutQueue;

use core::num::NonZeroU64;
use core::task::{Context, Poll};
use core::time::Duration;

use crate::deadline::Deadline;
use crate::sleep::Sleep;
use crate::tick::Tick;
use crate::time::Instant;

use slab::Slab;
use waiter::Waiter;

/// Names an entry of one queue.
///
/// The key belongs to that entry for as long as the queue exists, even after another entry has
/// taken its place. To another queue it means nothing.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tourbillon::queue::DelayQueue;
///
/// let mut queue = DelayQueue::new();
/// let stale = queue.insert("first", Duration::from_secs(5));
/// queue.remove(&stale);
/// queue.insert("second", Duration::from_secs(5));
/// assert!(queue.try_remove(&stale).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    index: u32,
    serial: NonZeroU64,
}

/// Entry that has left a queue, because it expired or because it was removed: a value, and the
/// deadline that it had.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tourbillon::queue::DelayQueue;
///
/// # pollster::block_on(async {
/// use futures::StreamExt;
///
/// let mut queue = DelayQueue::new();
/// let key = queue.insert("ping", Duration::from_millis(1));
/// let expired = queue.next().await.expect("there is one");
/// assert_eq!(expired.key(), key);
/// assert_eq!(expired.into_inner(), "ping");
/// # });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired<T> {
    value: T,
    deadline: Instant,
    key: Key,
}

impl<T> Expired<T> {
    /// The value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut queue = tourbillon::queue::DelayQueue::new();
    /// let key = queue.insert(7, Duration::ZERO);
    /// assert_eq!(queue.remove(&key).get_ref(), &7);
    /// ```
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// The value, to be changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut queue = tourbillon::queue::DelayQueue::new();
    /// let key = queue.insert(7, Duration::ZERO);
    /// let mut removed = queue.remove(&key);
    /// *removed.get_mut() += 1;
    /// assert_eq!(removed.into_inner(), 8);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The value by itself.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// The deadline that the entry had when it left.
    ///
    /// For an entry that never expires this is the far end of the time line, which no clock
    /// reaches.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let deadline = Instant::now() + Duration::from_secs(5);
    /// let mut queue = tourbillon::queue::DelayQueue::new();
    /// let key = queue.insert_at("later", deadline);
    /// assert_eq!(queue.remove(&key).deadline(), deadline);
    /// ```
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The key that the entry had, which now names nothing.
    pub fn key(&self) -> Key {
        self.key
    }
}

/// Order of the entries by deadline, with ways to find the first.
///
/// Every entry of the slab is filed, except while a method of the queue runs.
pub(crate) trait Order {
    /// Note that the order keeps about each entry.
    type Position: Default;

    /// Files the entry at `index`, by its deadline and behind equal ones.
    fn file<T>(&mut self, slab: &mut Slab<T, Self::Position>, index: u32);

    /// Takes the entry at `index` out.
    fn remove<T>(&mut self, slab: &mut Slab<T, Self::Position>, index: u32);

    /// Takes the first entry out, if it is due at `now`. `now` never goes back, and no deadline
    /// before it is filed later.
    fn take_due<T>(&mut self, slab: &mut Slab<T, Self::Position>, now: Tick) -> Option<u32>;

    /// No later than any deadline, at the price of a look; [`Tick::NEVER`] if nothing expires. If
    /// it is not the earliest deadline, it belongs to a removed entry.
    fn bound<T>(&mut self, slab: &Slab<T, Self::Position>) -> Tick;

    /// The earliest deadline itself.
    fn earliest<T>(&mut self, slab: &Slab<T, Self::Position>) -> Tick;

    /// The entry that is the next to be taken out.
    fn first<T>(&self, slab: &Slab<T, Self::Position>) -> Option<u32>;

    /// Forgets all entries.
    fn clear(&mut self, now: Tick);
}

/// Either queue, but for what deadlines its entries may have.
pub(crate) struct Queue<T, O: Order> {
    slab: Slab<T, O::Position>,
    order: O,
    waiter: Waiter,
    /// The clock when it was last read.
    now: Tick,
}

impl<T, O: Order> Queue<T, O> {
    /// Creates an empty queue on the timer of `sleep`. `sleep` never ends so far.
    pub(crate) fn new(sleep: Sleep, order: impl FnOnce(Tick) -> O) -> Self {
        let waiter = Waiter::new(sleep);
        let now = waiter.clock().now();
        Self { slab: Slab::new(), order: order(now), waiter, now }
    }

    pub(crate) fn set_tolerance(&mut self, tolerance: Duration) {
        self.waiter.set_tolerance(tolerance);
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slab.capacity()
    }

    pub(crate) fn reserve(&mut self, additional: usize) {
        self.slab.reserve(additional);
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.slab.shrink_to_fit();
    }

    pub(crate) fn peek(&self) -> Option<Key> {
        let first = self.order.first(&self.slab)?;
        (self.slab.entry(first).deadline != Tick::NEVER).then(|| self.slab.key(first))
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadline(&self.peek()?)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&T> {
        self.slab.find(key).map(|index| &self.slab.entry(index).value)
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut T> {
        self.slab.find(key).map(|index| &mut self.slab.entry_mut(index).value)
    }

    pub(crate) fn deadline(&self, key: &Key) -> Option<Instant> {
        let index = self.slab.find(key)?;
        Some(self.waiter.clock().instant(self.slab.entry(index).deadline))
    }

    /// The tick of `instant`, or the present one if that is past.
    #[inline]
    pub(crate) fn at(&mut self, deadline: Deadline) -> Tick {
        let deadline = self.waiter.clock().tick_of(deadline);
        if self.waiter.clock().has_passed(deadline) {
            self.read_clock();
        }
        deadline.max(self.now)
    }

    /// The tick `delay` from now.
    #[inline]
    pub(crate) fn after(&mut self, delay: Duration) -> Tick {
        self.read_clock();
        self.now.saturating_add(delay)
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T, deadline: Tick) -> Key {
        self.waiter.bring_forward(deadline);
        let index = self.slab.insert(value, deadline, O::Position::default());
        self.order.file(&mut self.slab, index);
        self.slab.key(index)
    }

    /// Gives the entry of `key` another deadline; false if it is gone.
    #[inline]
    pub(crate) fn reset(&mut self, key: &Key, deadline: Tick) -> bool {
        let Some(index) = self.slab.find(key) else { return false };
        self.waiter.bring_forward(deadline);
        self.order.remove(&mut self.slab, index);
        self.slab.entry_mut(index).deadline = deadline;
        self.order.file(&mut self.slab, index);
        true
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let index = self.slab.find(key)?;
        if self.slab.len() == 1 {
            self.waiter.end();
        }
        self.order.remove(&mut self.slab, index);
        Some(self.take(index))
    }

    /// The first entry, if it is due.
    pub(crate) fn pop_expired(&mut self) -> Option<Expired<T>> {
        if self.slab.len() == 1 && self.waiter.is_waiting() {
            let last = self.order.earliest(&self.slab);
            if self.waiter.clock().has_passed(last) {
                self.waiter.end();
            }
        }
        let mut due = self.order.take_due(&mut self.slab, self.now);
        if due.is_none() && self.waiter.clock().has_passed(self.order.bound(&self.slab)) {
            self.read_clock();
            due = self.order.take_due(&mut self.slab, self.now);
        }
        due.map(|index| self.take(index))
    }

    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        loop {
            if let Some(index) = self.order.take_due(&mut self.slab, self.now) {
                self.waiter.serve();
                return Poll::Ready(Some(self.take(index)));
            }
            if self.slab.len() == 0 {
                self.waiter.wait_for_entries(cx);
                return Poll::Ready(None);
            }
            let bound = self.order.bound(&self.slab);
            if self.waiter.poll(cx, self.now, bound).is_pending() {
                return Poll::Pending;
            }
            self.read_clock();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.forget_order();
        self.slab.clear();
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Expired<T>> {
        self.forget_order();
        let clock = self.waiter.clock();
        self.slab.drain().map(|(index, entry)| Expired {
            key: Key { index, serial: entry.serial },
            deadline: clock.instant(entry.deadline),
            value: entry.value,
        })
    }

    /// Takes all entries out of the order, before they leave the slab.
    fn forget_order(&mut self) {
        if self.slab.len() > 0 {
            self.waiter.end();
        }
        self.order.clear(self.now);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let key = |index| Some((self.slab.key_at(index)?, &self.slab.entry(index).value));
        self.slab.indices().filter_map(key)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Key, &mut T) -> bool) {
        for index in self.slab.indices() {
            let Some(key) = self.slab.key_at(index) else { continue };
            if !keep(&key, &mut self.slab.entry_mut(index).value) {
                self.remove(&key);
            }
        }
    }

    /// Takes what remains of the entry at `index`, once it is out of the order.
    fn take(&mut self, index: u32) -> Expired<T> {
        let key = self.slab.key(index);
        let entry = self.slab.remove(index);
        let deadline = self.waiter.clock().instant(entry.deadline);
        Expired { value: entry.value, deadline, key }
    }

    fn read_clock(&mut self) {
        self.now = self.now.max(self.waiter.clock().now());
    }
}

#[cold]
#[track_caller]
pub(crate) fn gone(key: &Key) -> ! {
    panic!("the entry of {key:?} is gone")
}
