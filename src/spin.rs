//! Sleeps that end by spinning, for work that has to be punctual to the microsecond.
//!
//! [`Sleep::spin_last`] makes one, a [`SpinLast`].
//!
//! # Why
//!
//! A sleep is late by two wake-ups: the system's of the driver, and the driver's of the thread that
//! polls. No driver can avoid the second. A thread is punctual only if it is awake already. So the
//! sleep ends a span ahead of the deadline, and its poll reads the clock over and over for the
//! rest. The crate spin_sleep does that to threads. async-spin-sleep has a thread that spins, and
//! keeps the second wake-up; zruntime's reactor spins before it parks, for all timers.
//!
//! It is asked for sleep by sleep, and not of a [`Builder`](crate::timer::Builder): few sleeps are
//! worth a processor, and the timeouts beside them are not. A sleep that does not ask pays nothing.
//!
//! # The price
//!
//! The thread that polls is blocked, and uses a processor, from the end of the sleep until the
//! deadline, so for the span at most. Meanwhile its other tasks wait, and if it turns a driver, so
//! do that driver's timers.
//!
//! A span should be a little longer than the sleeps are usually late, which
//! [`Timer::lateness`](crate::Timer::lateness) shows. With a shorter one, some sleeps find the
//! deadline past. A longer one costs more processor time.

use core::future::Future;
use core::hint::spin_loop;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use crate::deadline::Deadline;
use crate::sleep::Sleep;
use crate::tick::{Tick, saturated_nanos};
use crate::time::Instant;

/// A sleep whose last part is spun.
///
/// Made by [`Sleep::spin_last`]. [The module](self) says when it is worth its price.
///
/// # Examples
///
/// A loop with a rate. The round after a late one is not late for it:
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # pollster::block_on(async {
/// let period = Duration::from_millis(1);
/// let mut round = Instant::now() + period;
/// let mut sleep = tourbillon::sleep_until(round).spin_last(Duration::from_micros(100));
/// for _ in 0..3 {
///     (&mut sleep).await;
///     assert!(Instant::now() >= round);
///     round += period;
///     sleep.reset(round);
/// }
/// # });
/// ```
///
/// # Guarantees
///
/// - Never early: it completes at its deadline or after, by the clock of its timer.
/// - The driver wakes it one span before the deadline, without a tolerance. The poll that finds
///   less than a span left blocks until the deadline. A poll after the deadline does not spin.
/// - If the deadline is less than a span away, the first poll spins, and nothing is armed.
/// - It waits for its deadline as a [`Sleep`] does, and never spins, where the clock may stand
///   still: on a [virtual clock](crate::virtual_time), and on a runtime's (`Builder::build_on`).
///   The same holds in browsers, where a spin would block the page.
/// - Should the system's clock stand still or step back during a spin, the poll ends after as many
///   readings of it as the span has nanoseconds. Then the sleep waits for its deadline as well.
/// - Polled again after completion, it is ready again.
///
/// # Cancel safety
///
/// Dropping it cancels it, as with a [`Sleep`]. A spin is part of one poll, and is not cut short.
///
/// # Panics
///
/// Panics as a [`Sleep`] does.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled or awaited"]
pub struct SpinLast {
    /// Ends where the spin begins; at the deadline if there is to be none.
    sleep: Sleep,
    deadline: Tick,
    /// Zero on a clock that may stand still.
    span_ns: u64,
}

impl Sleep {
    /// Spins for the last `span` before the deadline: punctual to a microsecond or two, for up to
    /// so much processor time. [The module](crate::spin) says when that is worth it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// # pollster::block_on(async {
    /// let start = Instant::now();
    /// let delay = Duration::from_millis(1);
    /// tourbillon::sleep(delay).spin_last(Duration::from_micros(100)).await;
    /// assert!(start.elapsed() >= delay);
    /// # });
    /// ```
    ///
    /// # Guarantees
    ///
    /// The deadline stays. A [tolerance](Sleep::set_tolerance) is removed, because it would delay
    /// the start of the spin. No span is too long: a sleep that is shorter is all spun.
    pub fn spin_last(mut self, span: Duration) -> SpinLast {
        self.set_tolerance(Duration::ZERO);
        let is_spun = self.engine().clock().moves_while_read();
        let deadline = self.deadline_tick();
        let span_ns = if is_spun { saturated_nanos(span) } else { 0 };
        let mut spin = SpinLast { sleep: self, deadline, span_ns };
        spin.reset_to(deadline);
        spin
    }
}

impl SpinLast {
    /// Returns the deadline: the end of the spin.
    pub fn deadline(&self) -> Instant {
        self.sleep.engine().clock().instant(self.deadline)
    }

    /// Moves the deadline, and keeps the span; see [`Sleep::reset`].
    pub fn reset(&mut self, deadline: impl Into<Deadline>) {
        self.reset_to(self.sleep.engine().clock().tick_of(deadline.into()));
    }

    fn reset_to(&mut self, deadline: Tick) {
        self.deadline = deadline;
        self.sleep.reset_to(match deadline {
            Tick::NEVER => Tick::NEVER,
            _ => deadline.saturating_sub(Duration::from_nanos(self.span_ns)),
        });
    }

    /// Reads the clock until it shows the deadline, and returns whether it did.
    ///
    /// No two readings are within a nanosecond. So a clock that moves is at the deadline after no
    /// more of them than the span has nanoseconds.
    fn spin(&self) -> bool {
        let clock = self.sleep.engine().clock();
        (0..=self.span_ns).any(|_| {
            spin_loop();
            clock.now() >= self.deadline
        })
    }
}

impl Future for SpinLast {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let slept = Pin::new(&mut self.sleep).poll(cx);
        if slept.is_pending() || self.spin() {
            return slept;
        }
        let deadline = self.deadline;
        self.sleep.reset_to(deadline);
        Pin::new(&mut self.sleep).poll(cx)
    }
}
