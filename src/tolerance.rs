//! [`Tolerance`]: how late the sleeps of a timer may be fired.

use core::time::Duration;

use crate::tick::saturated_nanos;

/// Time by which the sleeps of a timer may be fired late: a fixed time, or a share of their delay.
///
/// [`Builder::tolerance`](crate::timer::Builder::tolerance) takes it, and a [`Duration`] in its
/// place. The default is zero.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use tourbillon::Timer;
/// use tourbillon::timer::Tolerance;
///
/// let second = Duration::from_secs(1);
/// let tolerance = Tolerance::percent_of_delay(5, second);
/// let timer = Timer::builder().tolerance(tolerance).build()?;
/// assert_eq!(timer.sleep(10 * second).tolerance(), second / 2);
/// assert_eq!(timer.sleep(60 * second).tolerance(), second);
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tolerance {
    /// `None` of a fixed one.
    percent: Option<u32>,
    at_most: Duration,
}

impl Tolerance {
    /// So many hundredths of the delay, but no more than `at_most`. Qt's coarse timers have 5 %.
    ///
    /// The share is taken anew each time a sleep is given a deadline, of the time from then until
    /// the deadline. It is rounded down to a nanosecond.
    ///
    /// - A sleep that is made or reset by its delay, and a timeout, have a share of just that. An
    ///   [`Interval`](crate::Interval) has a share of its period.
    /// - Of a deadline that is an instant, the delay is measured with the coarse clock, where there
    ///   is one (Linux). That lags by up to some milliseconds, so the delay may be taken for that
    ///   much longer, and the tolerance for the share of it.
    /// - A queue has a share of the time for which its task has to wait: no more than the share of
    ///   the delay of the entry that it waits for.
    /// - A sleep that [never](crate::Timer::never) ends has the most, until it is reset.
    /// - A fixed tolerance that is set on a sleep, an interval, a timeout or a queue replaces the
    ///   share, and resets leave it as it is.
    ///
    /// Any values are valid. Zero of either is no tolerance, and with more than 100 percent a sleep
    /// may take more than twice its delay.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon::Timer;
    /// use tourbillon::timer::Tolerance;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let clock = VirtualClock::new();
    /// let (ms, tenth) = (Duration::from_millis, Tolerance::percent_of_delay(10, Duration::MAX));
    /// let timer = Timer::builder().virtual_clock(&clock).tolerance(tenth).build()?;
    ///
    /// let mut sleep = timer.sleep(ms(950));
    /// sleep.reset(clock.now() + ms(1_950));
    /// assert_eq!(sleep.tolerance(), ms(195));
    /// clock.block_on(sleep); // wakes up at a whole second
    ///
    /// let interval = timer.interval(ms(200)).with_tolerance(ms(150));
    /// # drop(interval);
    /// # std::io::Result::Ok(())
    /// ```
    pub const fn percent_of_delay(percent: u32, at_most: Duration) -> Self {
        Self { percent: Some(percent), at_most }
    }

    /// Returns the slack of a sleep with this delay.
    pub(crate) fn slack(self, delay: Duration) -> Slack {
        let at_most = saturated_nanos(self.at_most);
        let Some(percent) = self.percent else { return Slack::new(at_most, false) };
        let share = u128::from(saturated_nanos(delay)) * u128::from(percent) / 100;
        let nanos = u64::try_from(share).unwrap_or(u64::MAX).min(at_most);
        Slack::new(nanos, true)
    }
}

impl From<Duration> for Tolerance {
    fn from(fixed: Duration) -> Self {
        Self { percent: None, at_most: fixed }
    }
}

/// Time by which one sleep may be fired late, and a bit that says whether that is a share of its
/// delay.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slack(u64);

impl Slack {
    const MAX_NANOS: u64 = u64::MAX >> 1;

    fn new(nanos: u64, is_share: bool) -> Self {
        Self(nanos.min(Self::MAX_NANOS) << 1 | u64::from(is_share))
    }

    pub(crate) fn fixed(tolerance: Duration) -> Self {
        Tolerance::from(tolerance).slack(Duration::ZERO)
    }

    /// Returns whether it is zero, and stays so with another deadline.
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns whether it has to be computed anew for another deadline.
    #[inline]
    pub(crate) fn is_share(self) -> bool {
        self.0 & 1 == 1
    }

    #[inline]
    pub(crate) fn nanos(self) -> u64 {
        self.0 >> 1
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_down_and_capped() {
        let nanos = Duration::from_nanos;
        let most = Duration::MAX;
        for (percent, at_most, delay, expected) in [
            (5, most, nanos(60_000_000_000), 3_000_000_000),
            (5, nanos(1_000), nanos(60_000_000_000), 1_000),
            (5, most, nanos(19), 0),
            (5, most, nanos(20), 1),
            (5, most, nanos(39), 1),
            (100, most, nanos(7), 7),
            (250, most, nanos(10), 25),
            (0, most, most, 0),
            (100, Duration::ZERO, most, 0),
            (100, most, Duration::ZERO, 0),
            (u32::MAX, most, most, Slack::MAX_NANOS),
            (u32::MAX, nanos(9), most, 9),
            (100, most, nanos(u64::MAX), Slack::MAX_NANOS),
        ] {
            let slack = Tolerance::percent_of_delay(percent, at_most).slack(delay);
            assert_eq!(slack.nanos(), expected, "{percent} % of {delay:?}, at most {at_most:?}");
            assert!(slack.is_share() && !slack.is_none());
        }
    }

    #[test]
    fn a_fixed_tolerance_does_not_know_the_delay() {
        for (fixed, expected) in [(0, 0), (1, 1), (u64::MAX, Slack::MAX_NANOS)] {
            let fixed = Duration::from_nanos(fixed);
            for delay in [Duration::ZERO, Duration::MAX] {
                let slack = Tolerance::from(fixed).slack(delay);
                assert!(slack == Slack::fixed(fixed) && !slack.is_share());
                assert_eq!((slack.nanos(), slack.is_none()), (expected, expected == 0));
            }
        }
        assert_eq!(Tolerance::default(), Duration::ZERO.into());
    }
}
