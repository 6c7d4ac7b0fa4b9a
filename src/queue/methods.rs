//! The methods that both queues have, with their docs.

/// `$new` is an expression that makes an empty queue, and `$insert` a call that inserts 7 into one:
/// code for the examples.
macro_rules! queue_methods {
    ($new:literal, $insert:literal) => {
        /// Allows the task to be woken up to `tolerance` after the earliest deadline, to share a
        /// wake-up with other timers; see [`Builder::tolerance`](crate::timer::Builder::tolerance).
        /// A poll hands out whatever is due.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        #[doc = concat!("let queue = tourbillon::queue::", $new, ";")]
        /// let mut queue = queue.with_tolerance(Duration::from_secs(1));
        #[doc = concat!("queue.", $insert, ";")]
        /// ```
        pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
            self.queue.set_tolerance(tolerance);
            self
        }

        /// Removes the entry of `key`, whether or not its deadline has come.
        ///
        /// # Panics
        ///
        /// If the entry is gone: handed out, removed or cleared. See
        /// [`try_remove`](Self::try_remove).
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        #[doc = concat!("let mut queue = tourbillon::queue::", $new, ";")]
        #[doc = concat!("let key = queue.", $insert, ";")]
        /// assert_eq!(queue.remove(&key).into_inner(), 7);
        /// ```
        #[track_caller]
        pub fn remove(&mut self, key: &Key) -> Expired<T> {
            self.try_remove(key).unwrap_or_else(|| gone(key))
        }

        /// Removes the entry of `key`; `None` if it is gone.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        #[doc = concat!("let mut queue = tourbillon::queue::", $new, ";")]
        #[doc = concat!("let key = queue.", $insert, ";")]
        /// assert!(queue.try_remove(&key).is_some());
        /// assert!(queue.try_remove(&key).is_none());
        /// ```
        #[inline]
        pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
            self.queue.remove(key)
        }

        /// The deadline of the entry of `key`.
        ///
        /// If the entry never expires, this is the far end of the time line, which no clock
        /// reaches.
        ///
        /// # Panics
        ///
        /// If the entry is gone. See [`try_deadline`](Self::try_deadline).
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::{Duration, Instant};
        ///
        #[doc = concat!("let mut queue = tourbillon::queue::", $new, ";")]
        #[doc = concat!("let key = queue.", $insert, ";")]
        /// assert!(queue.deadline(&key) > Instant::now());
        /// ```
        #[track_caller]
        pub fn deadline(&self, key: &Key) -> Instant {
            self.try_deadline(key).unwrap_or_else(|| gone(key))
        }

        /// The deadline of the entry of `key`; `None` if it is gone.
        pub fn try_deadline(&self, key: &Key) -> Option<Instant> {
            self.queue.deadline(key)
        }

        /// The value of the entry of `key`; `None` if it is gone.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        #[doc = concat!("let mut queue = tourbillon::queue::", $new, ";")]
        #[doc = concat!("let key = queue.", $insert, ";")]
        /// assert_eq!(queue.get(&key), Some(&7));
        /// ```
        pub fn get(&self, key: &Key) -> Option<&T> {
            self.queue.get(key)
        }

        /// The value of the entry of `key`, mutable; `None` if it is gone.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        #[doc = concat!("let mut queue = tourbillon::queue::", $new, ";")]
        #[doc = concat!("let key = queue.", $insert, ";")]
        /// *queue.get_mut(&key).expect("it is there") += 1;
        /// assert_eq!(queue.remove(&key).into_inner(), 8);
        /// ```
        pub fn get_mut(&mut self, key: &Key) -> Option<&mut T> {
            self.queue.get_mut(key)
        }

        /// Hands out the next entry if its deadline has come, and does not wait for it.
        ///
        /// For a loop that asks by itself. A task that waits in
        /// [`poll_expired`](Self::poll_expired) is woken if this takes the last entry.
        #[inline]
        pub fn pop_expired(&mut self) -> Option<Expired<T>> {
            self.queue.pop_expired()
        }

        /// Polls for the next entry to expire; `None` if the queue is empty.
        ///
        /// If this returns no entry, the task is woken as [`queue`](crate::queue) describes.
        ///
        /// # Panics
        ///
        /// Panics as the poll of a [`Sleep`](crate::Sleep) does, if the driver thread cannot be
        /// started.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::task::{Context, Poll, Waker};
        /// use std::time::Duration;
        ///
        #[doc = concat!("let mut queue = tourbillon::queue::", $new, ";")]
        /// let mut cx = Context::from_waker(Waker::noop());
        /// assert!(matches!(queue.poll_expired(&mut cx), Poll::Ready(None)));
        #[doc = concat!("queue.", $insert, ";")]
        /// assert!(queue.poll_expired(&mut cx).is_pending());
        /// ```
        #[inline]
        pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
            self.queue.poll_expired(cx)
        }

        /// The deadline of the entry that expires next; `None` if none ever does. Takes as long as
        /// [`peek`](Self::peek).
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        #[doc = concat!("let mut queue = tourbillon::queue::", $new, ";")]
        /// assert_eq!(queue.next_deadline(), None);
        #[doc = concat!("let key = queue.", $insert, ";")]
        /// assert_eq!(queue.next_deadline(), Some(queue.deadline(&key)));
        /// ```
        pub fn next_deadline(&self) -> Option<Instant> {
            self.queue.next_deadline()
        }

        /// The entries, in no particular order.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        #[doc = concat!("let mut queue = tourbillon::queue::", $new, ";")]
        #[doc = concat!("let key = queue.", $insert, ";")]
        /// assert!(queue.iter().eq([(key, &7)]));
        /// ```
        pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
            self.queue.iter()
        }

        /// Drops the entries for which `keep` returns false, in no particular order. A task that
        /// waits is woken if none is left.
        ///
        /// # Panics
        ///
        /// A panic of `keep`, or of a dropped value, is passed on: entries that were not looked at
        /// yet stay.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        #[doc = concat!("let mut queue = tourbillon::queue::", $new, ";")]
        #[doc = concat!("queue.", $insert, ";")]
        /// queue.retain(|_, value| *value != 7);
        /// assert!(queue.is_empty());
        /// ```
        pub fn retain(&mut self, keep: impl FnMut(&Key, &mut T) -> bool) {
            self.queue.retain(keep);
        }

        /// Removes all entries, whether or not their deadlines have come, and hands them out in no
        /// particular order. Keeps their memory.
        ///
        /// The queue is empty at once. Dropping the iterator drops the rest.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        #[doc = concat!("let mut queue = tourbillon::queue::", $new, ";")]
        #[doc = concat!("queue.", $insert, ";")]
        /// let left: Vec<_> = queue.drain().map(|entry| entry.into_inner()).collect();
        /// assert_eq!(left, [7]);
        /// ```
        pub fn drain(&mut self) -> impl Iterator<Item = Expired<T>> {
            self.queue.drain()
        }

        /// The number of entries, including due entries that are not handed out yet.
        pub fn len(&self) -> usize {
            self.queue.len()
        }

        /// Returns whether there are no entries.
        pub fn is_empty(&self) -> bool {
            self.queue.len() == 0
        }

        /// Drops all entries, and keeps their memory.
        ///
        /// The queue is empty even if the drop of a value panics, and all other values are dropped.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        #[doc = concat!("let mut queue = tourbillon::queue::", $new, ";")]
        #[doc = concat!("let key = queue.", $insert, ";")]
        /// queue.clear();
        /// assert!(queue.is_empty() && queue.try_remove(&key).is_none());
        /// ```
        pub fn clear(&mut self) {
            self.queue.clear();
        }

        /// Returns how many entries fit before memory has to be allocated for their values.
        pub fn capacity(&self) -> usize {
            self.queue.capacity()
        }

        /// Allocates memory for `additional` more entries.
        ///
        /// # Panics
        ///
        /// If that takes more memory than can be addressed.
        pub fn reserve(&mut self, additional: usize) {
            self.queue.reserve(additional);
        }

        /// Frees the memory behind the last entry. All keys stay valid.
        ///
        /// Entries do not move, so an entry that was inserted when the queue was long keeps the
        /// memory of those before it.
        pub fn shrink_to_fit(&mut self) {
            self.queue.shrink_to_fit();
        }
    };
}

pub(crate) use queue_methods;
