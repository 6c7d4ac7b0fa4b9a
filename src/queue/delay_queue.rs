//! [`DelayQueue`]: values with a deadline each.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use futures_core::Stream;

use crate::deadline::Deadline;
use crate::queue::methods::queue_methods;
use crate::queue::slab::{NO_SLOT, Slab};
use crate::queue::{Expired, Key, Order, Queue, gone};
use crate::sync::Ordering;
use crate::sync::unmodelled::{AtomicU32, AtomicU64};
use crate::tick::Tick;
use crate::time::Instant;
use crate::timer::{Timer, never};
#[cfg(not(target_os = "none"))]
use crate::wheel::Wheel;
#[cfg(target_os = "none")]
use crate::wheel::heap::Heap as Wheel;
use crate::wheel::{self, Allowance, Filed, Memory, Place, Timed, Turned};

/// A queue of values that each expire at their own deadline: retries, caches, sessions.
///
/// The queue has its own timing wheel, and one [`Sleep`](crate::Sleep) for all entries. So an entry
/// costs no allocation and no lock, and one task can wait for all of them. The
/// [`queue`](crate::queue) module describes what it shares with
/// [`TimeoutQueue`](crate::queue::TimeoutQueue): the order of entries, wake-ups, and polls after
/// the end. `TimeoutQueue` is cheaper where all entries have the same delay.
///
/// Inserting, removing and resetting take the same time however many entries there are. An empty
/// queue takes less than 1,000 bytes, and each entry 21 and its value.
///
/// # Differences from `tokio_util::time::DelayQueue`
///
/// - It needs no runtime, and works on any executor and on virtual clocks.
/// - Any duration is valid: [`Duration::MAX`] makes an entry that never expires. Tokio's panics
///   beyond two years.
/// - Deadlines are exact, and equal deadlines expire in the order in which they were set. Tokio's
///   are rounded up to milliseconds, and equal ones expire in any order.
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
/// A poll panics as that of a [`Sleep`](crate::Sleep) does, if the driver thread cannot be
/// started; no entry is lost. Inserting panics if the queue holds 2^31 entries. A poll and every
/// method that may wake the waiting task pass on the panic of a waker; the queue is then as before
/// the call.
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
#[must_use = "a queue hands out nothing unless it is polled"]
pub struct DelayQueue<T> {
    queue: Queue<T, ByDeadline>,
}

impl<T> DelayQueue<T> {
    /// Creates an empty queue on the process-wide timer.
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

    /// Creates an empty queue on the process-wide timer, with room for `capacity` entries.
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
    /// The answer is remembered until that entry leaves or is reset; then the next call walks one
    /// slot of the wheel. That holds the entries which are due at about the same time, and if that
    /// is far off, they may be most of the queue: a loop that peeks and removes what it got takes
    /// time in proportion to their number for each.
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

/// Part of an entry that the wheel holds. Atomic only because a wheel shares what it stores: only
/// the owner of the queue reaches it.
struct Entry {
    deadline: AtomicU64,
    place: Place,
    /// Its index in the slab.
    index: AtomicU32,
}

impl Entry {
    fn new() -> Self {
        let (deadline, index) = (AtomicU64::new(0), AtomicU32::new(0));
        Self { deadline, place: Place::new(), index }
    }

    fn set(&self, deadline: Tick, filed: Filed, index: u32) {
        self.place.file(filed);
        // ORDERING: Relaxed, twice; the owner of the queue is alone with it.
        self.deadline.store(deadline.raw(), Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
    }

    fn index(&self) -> u32 {
        // ORDERING: Relaxed; as above.
        self.index.load(Ordering::Relaxed)
    }
}

impl Timed for Entry {
    fn place(&self) -> &Place {
        &self.place
    }

    fn due_by(&self) -> Tick {
        // ORDERING: Relaxed; as in `set`.
        Tick::from_raw(self.deadline.load(Ordering::Relaxed))
    }
}

// What `DelayQueue` says of its size.
const _: () = assert!(cfg!(tourbillon_model) || size_of::<DelayQueue<()>>() < 1_000);

/// The entry of the wheel; `None` of one that never expires.
type Position = Option<wheel::NodeKey>;

/// A wheel of the places of entries.
struct ByDeadline {
    wheel: Wheel<Entry>,
    /// The deadline that the wheel is being turned to, if there may be more entries of it.
    turning_to: Option<Tick>,
    /// The place in the slab of the entry that is due first, if that was asked for since it became
    /// so; otherwise [`NO_SLOT`]. Atomic since threads may ask at the same time.
    known_first: AtomicU32,
}

impl From<Tick> for ByDeadline {
    fn from(now: Tick) -> Self {
        let (wheel, known_first) = (Wheel::new(now, Memory::AsNeeded), AtomicU32::new(NO_SLOT));
        Self { wheel, turning_to: None, known_first }
    }
}

impl ByDeadline {
    /// Turns the wheel to `goal`, or until so many entries have come out of it; returns the last.
    fn turn(&mut self, goal: Tick, expiries: usize) -> (Option<u32>, Turned) {
        let mut due = None;
        let turned =
            self.wheel.turn(goal, Allowance { expiries, moves: usize::MAX }, |entry, _| {
                due = Some(entry.index());
            });
        (due, turned)
    }

    /// The entry at `index` has been filed.
    #[cold]
    fn compare_first<T>(&mut self, slab: &Slab<T, Position>, index: u32) {
        let first = self.known_first.get_mut();
        if slab.entry(index).deadline < slab.entry(*first).deadline {
            *first = index;
        }
    }

    /// The entry at `index` leaves the wheel.
    #[inline]
    fn forget_first(&mut self, index: u32) {
        let known = self.known_first.get_mut();
        if *known == index {
            *known = NO_SLOT;
        }
    }
}

impl Order for ByDeadline {
    type Position = Position;

    #[inline]
    fn file<T>(&mut self, slab: &mut Slab<T, Self::Position>, index: u32) {
        let entry = slab.entry_mut(index);
        if entry.deadline == Tick::NEVER {
            return;
        }
        let key = self.wheel.store().allocate(Entry::new);
        let filed = self.wheel.insert(key, entry.deadline, entry.deadline);
        self.wheel.value(key).set(entry.deadline, filed, index);
        entry.position = Some(key);
        if *self.known_first.get_mut() != NO_SLOT {
            self.compare_first(slab, index);
        }
    }

    #[inline]
    fn withdraw<T>(&mut self, slab: &mut Slab<T, Self::Position>, index: u32) {
        if let Some(key) = slab.entry_mut(index).position.take() {
            // Out of its block with the next ones, as each block lies anywhere in memory.
            let filed = self.wheel.value(key).place().filed();
            self.wheel.discard(filed);
            self.forget_first(index);
        }
    }

    fn take_due<T>(&mut self, slab: &mut Slab<T, Self::Position>, now: Tick) -> Option<u32> {
        loop {
            // From deadline to deadline, since a turn past several hands them out by the slot. The
            // wheel files what is left of each slot at a finer level, so to look for the earliest
            // deadline costs no more than that, and equal ones cost no look.
            let goal = match self.turning_to {
                Some(goal) => goal,
                None if self.wheel.next_due()? > now => return None,
                None => match self.wheel.first_due()? {
                    earliest if earliest <= now => earliest,
                    // The bound was that of an entry withdrawn. Entries ahead are filed finely, so
                    // that the next such bound is not found out by a walk past them all again.
                    _ => {
                        self.turn(now, usize::MAX);
                        return None;
                    }
                },
            };
            let (due, turned) = self.turn(goal, 1);
            self.turning_to = (turned == Turned::Partly).then_some(goal);
            if let Some(index) = due {
                if let Some(key) = slab.entry_mut(index).position.take() {
                    self.wheel.store().release(key);
                }
                self.forget_first(index);
                return Some(index);
            }
        }
    }

    fn bound<T>(&mut self, _slab: &Slab<T, Self::Position>) -> Tick {
        // What is still filed has a bound, and would be waited for.
        self.wheel.take_back_discarded();
        self.wheel.next_due().unwrap_or(Tick::NEVER)
    }

    fn earliest<T>(&mut self, _slab: &Slab<T, Self::Position>) -> Tick {
        self.wheel.first_due().unwrap_or(Tick::NEVER)
    }

    fn first<T>(&self, _slab: &Slab<T, Self::Position>) -> Option<u32> {
        // ORDERING: Relaxed, twice; a change borrows the queue exclusively, and between two changes
        // all readers find the same entry.
        let known = self.known_first.load(Ordering::Relaxed);
        if known != NO_SLOT {
            return Some(known);
        }
        let first = self.wheel.value(self.wheel.first()?).index();
        self.known_first.store(first, Ordering::Relaxed);
        Some(first)
    }

    fn clear(&mut self, now: Tick) {
        *self = Self::from(now);
    }
}
