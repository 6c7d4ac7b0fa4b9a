//! Streams in time: [`StreamExt`] and the adapters that its methods make.
//!
//! | | delivers |
//! |---|---|
//! | [`timeout`](StreamExt::timeout) | every item, and one error for each gap that is too long |
//! | [`timeout_repeating`](StreamExt::timeout_repeating) | every item, and an error for each tick without one |
//! | [`throttle`](StreamExt::throttle) | every item, no two closer together than a time |
//! | [`debounce`](StreamExt::debounce) | the last item of each burst |
//! | [`sample`](StreamExt::sample) | the last item of each period |
//! | [`chunks_timeout`](StreamExt::chunks_timeout) | every item, in chunks that are full or old |
//!
//! # Guarantees
//!
//! - An item that is ready when a deadline is found to have come goes before the deadline. Time is
//!   looked at when an adapter is polled: what its source had ready earlier counts as come then.
//! - At the end of the source whatever an adapter holds is delivered at once. Then it yields `None`
//!   for good; the source is not polled again, and no timer is left armed.
//! - An adapter asks its source for an item only when it is polled itself, and holds no more than
//!   its description says. It takes at most 32 items in one poll, and then lets other tasks run.
//! - An adapter that waits for its source alone has no timer armed, but that of a
//!   [`ChunksTimeout`] may wake its task once more after a full chunk.
//! - If the source panics, an adapter keeps what it holds, and may be polled again if the source
//!   may.
//! - A `Duration::MAX` never ends, and a `Duration::ZERO` has always passed.
//!
//! The adapters that are given a time measure it by the process-wide timer, unless told otherwise
//! by their `with_timer`. Making one is a use of that timer all the same, as far as
//! [`Timer::set_global`](crate::Timer::set_global) is concerned.
//!
//! # Cancel safety
//!
//! Dropping a future such as `next()` loses nothing. Dropping an adapter drops the source and what
//! the adapter holds, and cancels its timer at once.
//!
//! # Panics
//!
//! A poll panics as that of a [`Sleep`](crate::Sleep) does, and whenever the source panics. Making
//! an adapter panics only where its method says so.
//!
//! # Examples
//!
//! On a clock of one's own, and with the source got back:
//!
//! ```
//! use std::time::Duration;
//!
//! use futures::{Stream, StreamExt as _};
//! use tourbillon::{StreamExt as _, Timer, VirtualClock};
//!
//! let clock = VirtualClock::new();
//! let timer = Timer::builder().virtual_clock(&clock).build()?;
//! let numbers = futures::stream::iter(1..);
//! let mut slow = numbers.throttle(Duration::from_secs(60)).with_timer(&timer);
//!
//! let start = clock.now();
//! assert_eq!(clock.block_on((&mut slow).take(3).collect::<Vec<_>>()), [1, 2, 3]);
//! assert_eq!(clock.now() - start, Duration::from_secs(120));
//!
//! assert_eq!(slow.get_ref().size_hint(), (usize::MAX, None));
//! assert_eq!(clock.block_on(slow.get_mut().next()), Some(4));
//! let mut numbers = slow.into_inner();
//! assert_eq!(clock.block_on(numbers.next()), Some(5));
//! # std::io::Result::Ok(())
//! ```
//!
//! With several streams and timeouts at once, in `select!`: each adapter is a
//! [`FusedStream`](futures_core::FusedStream), whether its source is one or not.
//!
//! ```
//! use std::time::Duration;
//!
//! use futures::{StreamExt as _, select};
//! use tourbillon::StreamExt as _;
//!
//! # pollster::block_on(async {
//! let mut slow = futures::stream::iter([1, 2]).throttle(Duration::from_millis(1));
//! let mut silent = futures::stream::pending::<()>().timeout(Duration::from_millis(3));
//! let mut seen = 0;
//! loop {
//!     select! {
//!         number = slow.next() => seen += number.unwrap_or(0),
//!         gap = silent.next() => break assert!(gap.unwrap().is_err()),
//!     }
//! }
//! assert!(seen <= 3);
//! # });
//! ```

use std::time::Duration;

use futures_core::Stream;

use crate::interval::Interval;

#[macro_use]
mod source;

mod chunks_timeout;
mod debounce;
mod sample;
mod throttle;
mod timeout;
mod timeout_repeating;

pub use chunks_timeout::ChunksTimeout;
pub use debounce::Debounce;
pub use sample::Sample;
pub use throttle::Throttle;
pub use timeout::Timeout;
pub use timeout_repeating::TimeoutRepeating;

/// Adapters for any stream that deal with time.
///
/// What they have in common is said in [`stream`](self). Names and behaviour follow tokio-stream
/// and futures-time; each method says where not. Import the trait without its name beside another
/// that is called so, such as that of `futures`, with which it shares no method.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use futures::StreamExt as _;
/// use tourbillon::StreamExt as _;
///
/// # pollster::block_on(async {
/// let ticks = tourbillon::interval(Duration::from_millis(1)).take(4);
/// let chunks = ticks.chunks_timeout(3, Duration::from_secs(5)).map(|chunk| chunk.len());
/// assert_eq!(chunks.collect::<Vec<_>>().await, [3, 1]);
/// # });
/// ```
pub trait StreamExt: Stream {
    /// Reports with an error that no item has come for `limit`, once for each such gap.
    ///
    /// The time runs from this call, and anew from each item that is delivered, whether or not the
    /// stream is polled. It runs once for each: after an error the stream waits for the next item
    /// without a deadline. The source goes on in any case; stop at the first error if it should
    /// not.
    ///
    /// As in tokio-stream. Unlike futures-time's, the error does not repeat; for that see
    /// [`timeout_repeating`](Self::timeout_repeating).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::{StreamExt as _, Timer, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let ticks = timer.interval(Duration::from_secs(10)).take(2);
    /// let results = ticks.timeout(Duration::from_secs(3)).with_timer(&timer);
    ///
    /// let ok: Vec<_> = clock.block_on(results.map(|result| result.is_ok()).collect());
    /// assert_eq!(ok, [true, false, true]);
    /// # std::io::Result::Ok(())
    /// ```
    fn timeout(self, limit: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        Timeout::new(self, limit)
    }

    /// Reports with an error each tick of `interval` at which no item has come.
    ///
    /// Each item puts the next tick off to one period after it. Errors come at the ticks until
    /// then, without limit; where the stream is polled too late for some, the interval's
    /// [`MissedTickBehavior`](crate::MissedTickBehavior) says how many are made up for.
    ///
    /// As in tokio-stream: an interval made by [`interval`](crate::interval()) ticks for the first
    /// time at once, which is an error if there is no item yet. Make it by
    /// [`interval_at`](crate::interval_at), or [reset](Interval::reset) it, to give the first item
    /// a period.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::{StreamExt as _, Timer, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let ticks = timer.interval(Duration::from_secs(10)).take(2);
    /// let results = ticks.timeout_repeating(timer.interval(Duration::from_secs(4)));
    ///
    /// let ok: Vec<_> = clock.block_on(results.map(|result| result.is_ok()).collect());
    /// assert_eq!(ok, [true, false, false, true]);
    /// # std::io::Result::Ok(())
    /// ```
    fn timeout_repeating(self, interval: Interval) -> TimeoutRepeating<Self>
    where
        Self: Sized,
    {
        TimeoutRepeating::new(self, interval)
    }

    /// Slows the stream down, to at most one item in each `period`.
    ///
    /// The first item need not wait. After each the source is left alone until `period` has passed
    /// since it was delivered: nothing is dropped and nothing taken in advance, so the source
    /// feels the pressure. The end of the source is noticed after that wait too. Items can come
    /// further apart, but one that is late does not bring the next one forward.
    ///
    /// As in tokio-stream. Unlike futures-time's, which drops what comes within the period: that
    /// is [`sample`](Self::sample), if for the last item rather than the first.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::{StreamExt as _, Timer, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let start = clock.now();
    /// let slow = futures::stream::iter(["a", "b"]).throttle(Duration::from_secs(5));
    /// let slow = slow.with_timer(&timer).map(|item| (item, (clock.now() - start).as_secs()));
    /// assert_eq!(clock.block_on(slow.collect::<Vec<_>>()), [("a", 0), ("b", 5)]);
    /// # std::io::Result::Ok(())
    /// ```
    fn throttle(self, period: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle::new(self, period)
    }

    /// Delivers the last item of each burst, once no further has come for `quiet`.
    ///
    /// An item that is followed by another before that is dropped. A source that is never quiet
    /// for so long has nothing delivered until its end, where the last item comes at once. With
    /// `Duration::ZERO` only items that are ready together count as a burst.
    ///
    /// Unlike futures-time's, it takes all items that are ready rather than one in each `quiet`,
    /// and does not wait at the end of the source, after which nothing can follow.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::{StreamExt as _, stream};
    /// use tourbillon::{StreamExt as _, Timer, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let keys = stream::iter([("h", 0), ("he", 100), ("hey", 100), ("hey!", 900)])
    ///     .then(|(text, pause)| {
    ///         let sleep = timer.sleep(Duration::from_millis(pause));
    ///         async move {
    ///             sleep.await;
    ///             text
    ///         }
    ///     });
    /// let searches = keys.debounce(Duration::from_millis(300)).with_timer(&timer);
    /// assert_eq!(clock.block_on(searches.collect::<Vec<_>>()), ["hey", "hey!"]);
    /// # std::io::Result::Ok(())
    /// ```
    fn debounce(self, quiet: Duration) -> Debounce<Self>
    where
        Self: Sized,
    {
        Debounce::new(self, quiet)
    }

    /// Collects items into chunks, which are delivered when they hold `max` items or when `limit`
    /// has passed since their first.
    ///
    /// No chunk is empty, and what is left at the end of the source makes one more. What a chunk
    /// that is not delivered yet holds can be had by [`ChunksTimeout::into_remainder`].
    ///
    /// As in tokio-stream. Unlike there, no memory is set aside for `max` items beforehand, and a
    /// source that always has items ready cannot keep a chunk from being delivered in time.
    ///
    /// # Panics
    ///
    /// If `max` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::{StreamExt as _, Timer, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let numbers = timer.interval(Duration::from_secs(1)).zip(futures::stream::iter(1..=5));
    /// let chunks =
    ///     numbers.map(|(_, n)| n).chunks_timeout(9, Duration::from_secs(2)).with_timer(&timer);
    /// assert_eq!(clock.block_on(chunks.collect::<Vec<_>>()), [vec![1, 2, 3], vec![4, 5]]);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    fn chunks_timeout(self, max: usize, limit: Duration) -> ChunksTimeout<Self>
    where
        Self: Sized,
    {
        ChunksTimeout::new(self, max, limit)
    }

    /// Delivers the last item of each `period` at its end.
    ///
    /// Periods follow one another without a gap from this call on. One in which no item came
    /// delivers nothing. An item that is held at the end of its period and asked for later comes
    /// then, and the periods stay where they are. At the end of the source the item that is held
    /// comes at once.
    ///
    /// Unlike futures-time's, it delivers the last item of the source, keeps to its periods after a
    /// time without items, and returns from a source that always has items ready.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::{StreamExt as _, Timer, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let percent = timer.interval(Duration::from_millis(7)).zip(futures::stream::iter(1..=100));
    /// let shown =
    ///     percent.map(|(_, n)| n).sample(Duration::from_millis(200)).with_timer(&timer);
    /// assert_eq!(clock.block_on(shown.collect::<Vec<_>>()), [29, 58, 86, 100]);
    /// # std::io::Result::Ok(())
    /// ```
    fn sample(self, period: Duration) -> Sample<Self>
    where
        Self: Sized,
    {
        Sample::new(self, period)
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}
