//! Streams in time: [`StreamExt`] and the adapters that its methods make.
//!
//! | | delivers |
//! |---|---|
//! | [`timeout`](StreamExt::timeout) | every item, and one error for each gap that is too long |
//! | [`timeout_repeating`](StreamExt::timeout_repeating) | every item, and an error for each tick without one |
//! | [`throttle`](StreamExt::throttle) | every item, no two closer together than a time |
//! | [`throttle_first`](StreamExt::throttle_first) | the first item of each burst |
//! | [`debounce`](StreamExt::debounce) | the last item of each burst |
//! | [`sample`](StreamExt::sample) | the last item of each period |
//! | [`chunks_timeout`](StreamExt::chunks_timeout) | every item, in chunks that are full or old |
//! | [`delay`](StreamExt::delay) | every item, but none before a time has passed |
//!
//! # Examples
//!
//! On a virtual clock, and with the source returned at the end:
//!
//! ```
//! use std::time::Duration;
//!
//! use futures::{Stream, StreamExt as _};
//! use tourbillon::virtual_time::VirtualClock;
//! use tourbillon::{StreamExt as _, Timer};
//!
//! let clock = VirtualClock::new();
//! let timer = Timer::builder().virtual_clock(&clock).build()?;
//! let numbers = futures::stream::iter(1..);
//! let mut slow = numbers.on_timer(&timer).throttle(Duration::from_secs(60)).into_stream();
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
//! In `select!`, with several streams and timeouts at once. Each adapter is a
//! [`FusedStream`](futures_core::FusedStream), whether or not its source is one:
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
//!
//! # Guarantees
//!
//! - An adapter reads the clock when it is polled. If an item is ready and a deadline has passed in
//!   the same poll, the item comes first.
//! - At the end of the source, an adapter delivers its held items at once. Then it yields `None`
//!   for good: it does not poll the source again, and has no timer armed.
//! - An adapter polls its source only when it is polled itself, and holds no more than its
//!   description says. It takes at most 32 items in one poll, and then lets other tasks run
//!   ([bursts](#bursts)).
//! - An `Err` is an item like any other: no adapter ends at it, and an adapter that drops items may
//!   drop it.
//! - An adapter that waits only for its source has no timer armed. The exception is
//!   [`ChunksTimeout`], whose timer may wake the task once more after a full chunk.
//! - If the source panics, an adapter keeps its held items. It may be polled again if the source
//!   may.
//! - `Duration::MAX` never ends, and `Duration::ZERO` has always passed.
//!
//! Adapters use the [current timer](crate::Timer::current), or the timer of a chain that
//! [`on_timer`](StreamExt::on_timer) begins. Making an adapter outside such a chain and outside a
//! scope uses the process-wide timer, for [`Timer::set_global`](crate::Timer::set_global).
//!
//! # Bursts
//!
//! Where 32 items were taken and more may be ready, the adapter wakes its task, and takes the
//! others in the polls that follow. So the number does not change the output. The table shows the
//! items that a poll leaves in the source, and the effect of a consumer that takes long for each
//! item:
//!
//! | | leaves | a slow consumer |
//! |---|---|---|
//! | `timeout`, `timeout_repeating`, `delay` | all but the item that it delivers | slows the source down |
//! | `throttle` | the same | the same, and so does `period` |
//! | `throttle_first` | all items after the one delivered; they count as coming at the next poll | if it takes `period` or longer, gets every item, and slows the source down |
//! | `debounce` | items ready after the first 32; delivers nothing until nothing is ready | skips items |
//! | `sample` | the same, but delivers at the latest after taking items for a whole `period` | skips items |
//! | `chunks_timeout` | items ready after a full chunk, or after 32; they are of the next chunk if `limit` has passed | slows the source down |
//!
//! # Cancel safety
//!
//! Dropping a future such as `next()` loses nothing. Dropping an adapter drops the source and the
//! held items, and cancels its timer at once.
//!
//! # Panics
//!
//! Polling an adapter panics as polling a [`Sleep`](crate::Sleep) does, and whenever the source
//! panics. Making an adapter panics only where its method says so.

use core::time::Duration;

use futures_core::Stream;

use crate::interval::Interval;
use crate::timer::{Timer, never, sleep};

#[macro_use]
mod source;

mod chunks_timeout;
mod debounce;
mod delay;
mod on_timer;
mod sample;
mod throttle;
mod throttle_first;
mod timeout;
mod timeout_repeating;

pub use chunks_timeout::ChunksTimeout;
pub use debounce::Debounce;
pub use delay::Delay;
pub use on_timer::OnTimer;
pub use sample::Sample;
pub use throttle::Throttle;
pub use throttle_first::ThrottleFirst;
pub use timeout::Timeout;
pub use timeout_repeating::TimeoutRepeating;

/// Time-based adapters for any stream.
///
/// The [module](self) has the guarantees that are common to all. Names and behaviour follow
/// tokio-stream and futures-time; each method names the differences. The trait shares no method
/// with `futures::StreamExt`; to use both, import both as `_`.
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
    /// Yields an error if no item comes for `limit`, once for each such gap.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::virtual_time::VirtualClock;
    /// use tourbillon::{StreamExt as _, Timer};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let ticks = timer.interval(Duration::from_secs(10)).take(2);
    /// let results = ticks.on_timer(&timer).timeout(Duration::from_secs(3)).into_stream();
    ///
    /// let ok: Vec<_> = clock.block_on(results.map(|result| result.is_ok()).collect());
    /// assert_eq!(ok, [true, false, true]);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// The time runs from this call, and again from each item that is delivered, whether or not the
    /// stream is polled. After an error the stream waits for the next item without a deadline. The
    /// source continues after an error; to end there, stop at the first error.
    ///
    /// This is tokio-stream's `timeout`. Unlike futures-time's, the error does not repeat; for that
    /// see [`timeout_repeating`](Self::timeout_repeating).
    #[cfg_attr(feature = "pending", track_caller)]
    fn timeout(self, limit: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        Timeout::new(self, limit, sleep(limit))
    }

    /// Yields an error at each tick of `interval` without an item.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::virtual_time::VirtualClock;
    /// use tourbillon::{StreamExt as _, Timer};
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
    ///
    /// # Guarantees
    ///
    /// Each item moves the next tick to one period after it. Without items there is an error at
    /// every tick, without limit. If the stream is polled too late for some ticks, the interval's
    /// [`MissedTickBehavior`](crate::MissedTickBehavior) says how many of them still come.
    ///
    /// As in tokio-stream, an interval made by [`interval`](crate::interval()) ticks at once, and
    /// yields an error if there is no item yet. To give the first item a period, make it with
    /// [`interval_at`](crate::interval_at), or [reset](Interval::reset) it.
    fn timeout_repeating(self, interval: Interval) -> TimeoutRepeating<Self>
    where
        Self: Sized,
    {
        TimeoutRepeating::new(self, interval)
    }

    /// Slows the stream down, to at most one item in each `period`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::virtual_time::VirtualClock;
    /// use tourbillon::{StreamExt as _, Timer};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let start = clock.now();
    /// let letters = futures::stream::iter(["a", "b"]);
    /// let slow = letters.on_timer(&timer).throttle(Duration::from_secs(5)).into_stream();
    /// let slow = slow.map(|item| (item, (clock.now() - start).as_secs()));
    /// assert_eq!(clock.block_on(slow.collect::<Vec<_>>()), [("a", 0), ("b", 5)]);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// The first item does not wait. After each item the source is not polled until `period` has
    /// passed since the delivery. Nothing is dropped or taken in advance, so backpressure reaches
    /// the source. The end of the source is noticed after that wait too. A late item does not bring
    /// the next one forward.
    ///
    /// This is tokio-stream's `throttle`. That of futures-time drops items within the period, like
    /// [`throttle_first`](Self::throttle_first) here.
    #[cfg_attr(feature = "pending", track_caller)]
    fn throttle(self, period: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle::new(self, period, sleep(Duration::ZERO))
    }

    /// Delivers an item at once, and drops all others within `period` after it.
    ///
    /// # Examples
    ///
    /// A button that is hit several times:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::virtual_time::VirtualClock;
    /// use tourbillon::{StreamExt as _, Timer};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let hits = timer.interval(Duration::from_millis(40)).zip(futures::stream::iter(1..=6));
    /// let hits = hits.map(|(_, n)| n).on_timer(&timer);
    /// let first = hits.throttle_first(Duration::from_millis(100)).into_stream();
    /// assert_eq!(clock.block_on(first.collect::<Vec<_>>()), [1, 4]);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// The period runs from the delivery. An item that is ready when the stream is polled counts as
    /// having come at that poll. No timer is armed, since nothing happens at the end of a period.
    /// An `Err` is an item like any other, and may be dropped.
    ///
    /// This is futures-time's `throttle`; Rx calls it the leading edge. To drop nothing, see
    /// [`throttle`](Self::throttle); to keep the last item of each period,
    /// [`sample`](Self::sample).
    #[cfg_attr(feature = "pending", track_caller)]
    fn throttle_first(self, period: Duration) -> ThrottleFirst<Self>
    where
        Self: Sized,
    {
        ThrottleFirst::new(self, period, sleep(Duration::ZERO))
    }

    /// Delivers the last item of each burst, once no other item has come for `quiet`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::{StreamExt as _, stream};
    /// use tourbillon::virtual_time::VirtualClock;
    /// use tourbillon::{StreamExt as _, Timer};
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
    /// let searches = keys.on_timer(&timer).debounce(Duration::from_millis(300)).into_stream();
    /// assert_eq!(clock.block_on(searches.collect::<Vec<_>>()), ["hey", "hey!"]);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// An item is dropped if another follows it within `quiet`. If the source is never quiet for so
    /// long, nothing comes until its end; there the last item comes at once. With `Duration::ZERO`
    /// only items that are ready at the same time are a burst. An `Err` may be dropped as well.
    ///
    /// The `debounce` of futures-time takes one item in each `quiet`, and waits at the end of the
    /// source. This one takes all items that are ready, and does not wait.
    #[cfg_attr(feature = "pending", track_caller)]
    fn debounce(self, quiet: Duration) -> Debounce<Self>
    where
        Self: Sized,
    {
        Debounce::new(self, quiet, never())
    }

    /// Collects items into chunks. A chunk is delivered when it holds `max` items, or when `limit`
    /// has passed since its first item.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::virtual_time::VirtualClock;
    /// use tourbillon::{StreamExt as _, Timer};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let numbers = timer.interval(Duration::from_secs(1)).zip(futures::stream::iter(1..=5));
    /// let numbers = numbers.map(|(_, n)| n).on_timer(&timer);
    /// let chunks = numbers.chunks_timeout(9, Duration::from_secs(2)).into_stream();
    /// assert_eq!(clock.block_on(chunks.collect::<Vec<_>>()), [vec![1, 2, 3], vec![4, 5]]);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// No chunk is empty. At the end of the source, the remaining items are the last chunk.
    /// [`ChunksTimeout::into_remainder`] returns the items of a chunk that is not delivered yet.
    ///
    /// This is tokio-stream's `chunks_timeout`, with two differences: no memory is reserved for
    /// `max` items in advance, and a source that always has items ready cannot delay a chunk.
    ///
    /// # Panics
    ///
    /// If `max` is zero.
    #[track_caller]
    fn chunks_timeout(self, max: usize, limit: Duration) -> ChunksTimeout<Self>
    where
        Self: Sized,
    {
        ChunksTimeout::new(self, max, limit, never())
    }

    /// Delivers the last item of each `period` at its end.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::virtual_time::VirtualClock;
    /// use tourbillon::{StreamExt as _, Timer};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let percent = timer.interval(Duration::from_millis(7)).zip(futures::stream::iter(1..=100));
    /// let percent = percent.map(|(_, n)| n).on_timer(&timer);
    /// let shown = percent.sample(Duration::from_millis(200)).into_stream();
    /// assert_eq!(clock.block_on(shown.collect::<Vec<_>>()), [29, 58, 86, 100]);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// Periods follow one another without a gap from this call on. A period without an item
    /// delivers nothing. A late poll gets the item late, and does not move the periods. At the end
    /// of the source, the item that is held comes at once. An `Err` that is not the last of its
    /// period is dropped like any other item.
    ///
    /// If more items are ready at the end of a period than one poll takes, the sample is the last
    /// of them. It is not waited for longer than one more period, so with `Duration::ZERO` it is
    /// the last that this poll takes.
    ///
    /// The `sample` of futures-time loses the last item of the source, shifts its periods after a
    /// time without items, and never returns from a source that always has items ready.
    #[cfg_attr(feature = "pending", track_caller)]
    fn sample(self, period: Duration) -> Sample<Self>
    where
        Self: Sized,
    {
        Sample::new(self, period, sleep(period))
    }

    /// Begins once `span` has passed: the source is not polled before that.
    ///
    /// The time runs from this call, whether or not the stream is polled. After it items come as
    /// the source yields them.
    ///
    /// This is futures-time's `delay`. Rx' operator of this name delays each item instead, which
    /// takes a queue; [`DelayQueue`](crate::queue::DelayQueue) is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::virtual_time::VirtualClock;
    /// use tourbillon::{StreamExt as _, Timer};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let start = clock.now();
    /// let numbers = futures::stream::iter([1, 2]).on_timer(&timer);
    /// let late = numbers.delay(Duration::from_secs(5)).into_stream();
    /// assert_eq!(clock.block_on(late.collect::<Vec<_>>()), [1, 2]);
    /// assert_eq!(clock.now() - start, Duration::from_secs(5));
    /// # std::io::Result::Ok(())
    /// ```
    #[cfg_attr(feature = "pending", track_caller)]
    fn delay(self, span: Duration) -> Delay<Self>
    where
        Self: Sized,
    {
        Delay::new(self, span, sleep(span))
    }

    /// Begins a chain of adapters that share `timer`.
    ///
    /// No adapter of the chain uses the current timer. The time of each runs from the call
    /// that makes it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::StreamExt as _;
    /// use tourbillon::virtual_time::VirtualClock;
    /// use tourbillon::{StreamExt as _, Timer};
    ///
    /// let clock = VirtualClock::new();
    /// let timer = Timer::builder().virtual_clock(&clock).build()?;
    /// let start = clock.now();
    /// let slow = futures::stream::iter(1..=6)
    ///     .on_timer(&timer)
    ///     .throttle(Duration::from_secs(20))
    ///     .through(|numbers| numbers.filter(|n| std::future::ready(n % 3 != 0)))
    ///     .chunks_timeout(2, Duration::from_secs(30))
    ///     .into_stream();
    /// assert_eq!(clock.block_on(slow.collect::<Vec<_>>()), [[1, 2], [4, 5]]);
    /// assert_eq!(clock.now() - start, Duration::from_secs(120));
    /// # std::io::Result::Ok(())
    /// ```
    fn on_timer(self, timer: &Timer) -> OnTimer<'_, Self>
    where
        Self: Sized,
    {
        OnTimer::new(self, timer)
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}
