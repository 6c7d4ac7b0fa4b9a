//! [`Schedule`]: when something is to happen.

mod ticks;

use std::iter::FusedIterator;
use std::sync::Arc;

use tourbillon::Timer;
use tourbillon::time::SystemTime;

pub use ticks::{Tick, Ticks};

/// A calendar: for any time, the next occurrence after it.
///
/// A schedule reads no clock and keeps no state, so it can be asked about any time, in any order.
/// That makes your own calendar (of tides, or of bank holidays) easy to write and to test.
/// [`ticks`](Self::ticks) does the waiting.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tourbillon_cron::Schedule;
///
/// /// The first 12 s after each minute's change, every second: a countdown's last dozen.
/// struct Dozen;
///
/// impl Schedule for Dozen {
///     fn next_after(&self, after: SystemTime) -> Option<SystemTime> {
///         let second = after.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs() + 1;
///         let next = if second % 60 < 12 { second } else { second.next_multiple_of(60) };
///         SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(next))
///     }
/// }
///
/// let start = SystemTime::UNIX_EPOCH + Duration::from_millis(10_500);
/// let since = |at: SystemTime| at.duration_since(start).unwrap().as_secs_f32();
/// let seconds = Dozen.occurrences(start).map(since);
/// assert_eq!(seconds.take(3).collect::<Vec<_>>(), [0.5, 49.5, 50.5]);
/// ```
pub trait Schedule {
    /// The first occurrence later than `after`, or `None` if there is none.
    ///
    /// The result must be later than `after`. Otherwise an [`Occurrences`] or a [`Ticks`] ends,
    /// since it would repeat itself for ever.
    fn next_after(&self, after: SystemTime) -> Option<SystemTime>;

    /// All occurrences later than `after`, in order.
    fn occurrences(&self, after: SystemTime) -> Occurrences<'_, Self>
    where
        Self: Sized,
    {
        Occurrences { schedule: self, last: Some(after) }
    }

    /// A stream of the coming occurrences, by the wall clock of the current timer; see
    /// [`Ticks`].
    fn ticks(self) -> Ticks<Self>
    where
        Self: Sized,
    {
        Ticks::with_timer(self, &Timer::current())
    }
}

/// [`Schedule::next_after`], held to its word.
fn following<S: Schedule>(schedule: &S, after: SystemTime) -> Option<SystemTime> {
    schedule.next_after(after).filter(|next| *next > after)
}

macro_rules! delegate {
    ($($pointer:ty),*) => {$(
        impl<S: Schedule + ?Sized> Schedule for $pointer {
            fn next_after(&self, after: SystemTime) -> Option<SystemTime> {
                (**self).next_after(after)
            }
        }
    )*};
}

delegate!(&S, Box<S>, Arc<S>);

/// The iterator of [`Schedule::occurrences`]. Strictly increasing.
#[derive(Debug)]
#[must_use = "iterators do nothing unless they are used"]
pub struct Occurrences<'a, S> {
    schedule: &'a S,
    /// `None` once there are no more.
    last: Option<SystemTime>,
}

impl<S: Schedule> Iterator for Occurrences<'_, S> {
    type Item = SystemTime;

    fn next(&mut self) -> Option<SystemTime> {
        self.last = following(self.schedule, self.last?);
        self.last
    }
}

impl<S: Schedule> FusedIterator for Occurrences<'_, S> {}

impl<S> Clone for Occurrences<'_, S> {
    fn clone(&self) -> Self {
        Self { schedule: self.schedule, last: self.last }
    }
}
