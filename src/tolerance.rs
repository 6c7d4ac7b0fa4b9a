//! [`Tolerance`]: how late the sleeps of a timer may be fired.

use core::time::Duration;

use crate::tick::{NANOS_PER_SEC, Tick, saturated_nanos};

/// How late the sleeps of a timer may fire: by a fixed time, or a share of their delay.
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
    /// Returns a tolerance of `percent` per cent of the delay, at most `at_most`. Qt's coarse
    /// timers use 5 %.
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
    /// let deadline = sleep.deadline();
    /// clock.block_on(sleep);
    /// assert_eq!(clock.now(), deadline + ms(195)); // nothing else woke the timer before
    ///
    /// let interval = timer.interval(ms(200)).with_tolerance(ms(150));
    /// # drop(interval);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// The share is taken anew each time a sleep is given a deadline, of the time from then until
    /// the deadline. It is rounded down to a nanosecond.
    ///
    /// - A sleep that is made or reset by its delay, and a timeout, have a share of just that. An
    ///   [`Interval`](crate::Interval) has a share of its period.
    /// - If the deadline is an instant, the delay is measured with the coarse clock, where there is
    ///   one (Linux). This clock lags by up to some milliseconds, so the measured delay may be that
    ///   much longer, and the tolerance longer by the share of that.
    /// - A queue has a share of the time for which its task has to wait: no more than the share of
    ///   the delay of the entry that it waits for.
    /// - A sleep that [never](crate::Timer::never) ends has the most, until it is reset.
    /// - A fixed tolerance that is set on a sleep, an interval, a timeout or a queue replaces the
    ///   share, and resets leave it as it is.
    ///
    /// Any values are valid. Zero of either is no tolerance, and with more than 100 percent a sleep
    /// may take more than twice its delay.
    pub const fn percent_of_delay(percent: u32, at_most: Duration) -> Self {
        Self { percent: Some(percent), at_most }
    }

    /// Returns the slack of a sleep with this delay.
    pub(crate) fn slack(self, delay: Duration) -> Slack {
        let at_most = saturated_nanos(self.at_most);
        let Some(percent) = self.percent else { return Slack::new(at_most, false) };
        let (delay, percent) = (saturated_nanos(delay), u64::from(percent));
        let hundredths = hundredth(delay);
        let rest = delay - 100 * hundredths;
        let share = hundredths.saturating_mul(percent).saturating_add(hundredth(rest * percent));
        Slack::new(share.min(at_most), true)
    }
}

/// Divides by a hundred.
fn hundredth(number: u64) -> u64 {
    if cfg!(any(target_pointer_width = "64", target_family = "wasm")) {
        number / 100
    } else {
        hundredth_by_product(number)
    }
}

/// [`hundredth`] where the processor has 32 bits, and a division of 64 takes a kilobyte of code.
fn hundredth_by_product(number: u64) -> u64 {
    /// 2^66 / 25, rounded up: exact for numbers of 62 bits.
    const FACTOR: u128 = 0x28f5_c28f_5c28_f5c3;
    ((u128::from(number >> 2) * FACTOR) >> 66) as u64
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

/// Window of a timer: the driver fires the timer by an instant, or from a little earlier on if it
/// is awake anyway.
///
/// The rule of Linux' hrtimers, and none wakes less often: there has to be a wake-up at the first
/// end, and none before it fires more. To round each deadline to the roundest instant of its window
/// would need no look at other timers, and took up to half as many wake-ups again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// The last instant: the deadline and the tolerance.
    pub(crate) by: Tick,
    pub(crate) margin: Margin,
}

impl Due {
    /// Without a tolerance.
    #[inline(always)]
    pub(crate) fn at(deadline: Tick) -> Self {
        Self { by: deadline, margin: Margin::NONE }
    }

    /// With a tolerance. Not inlined, so that the code of exact sleeps stays short.
    #[inline(never)]
    pub(crate) fn within(deadline: Tick, slack: Slack) -> Self {
        if deadline > Tick::LAST {
            return Self::at(deadline);
        }
        let by = Tick::from_raw(deadline.raw().saturating_add(slack.nanos())).min(Tick::LAST);
        Self { by, margin: Margin::up_to(by.nanos_since(deadline)) }
    }

    /// The first instant: the deadline, or later by the rounding of the margin.
    #[inline(always)]
    pub(crate) fn from(self) -> Tick {
        if self.margin == Margin::NONE { self.by } else { self.margin.before(self.by) }
    }
}

/// Span before the instant that a timer is due by, rounded down to fit into a byte of its entry.
///
/// Zero, or a multiple of an eighth of a power of two of seconds: from 2 us to two hours. So a
/// second is exact, and no span loses more than a ninth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Margin(u8);

impl Margin {
    pub(crate) const NONE: Self = Self(0);

    /// Bits for the eighths.
    const BITS: u32 = 3;
    const EIGHTHS: u64 = 1 << Self::BITS;
    /// Power of two of seconds, with its sign changed, of the code zero, which stands for nothing.
    const LOWEST: u32 = 19;
    /// Power of two that divides the nanoseconds of a second, and is left out so that none
    /// overflow.
    const LEFT_OUT: u32 = NANOS_PER_SEC.trailing_zeros();

    /// Returns the largest that is no longer than this.
    fn up_to(nanos: u64) -> Self {
        let codes = 1..=u8::MAX;
        // The spans of the codes are in order.
        let (mut fits, mut exceeds) = (0, u32::from(*codes.end()) + 1);
        while exceeds - fits > 1 {
            let middle = fits.midpoint(exceeds);
            let fitting = Self(middle as u8).nanos() <= nanos;
            *if fitting { &mut fits } else { &mut exceeds } = middle;
        }
        Self(fits as u8)
    }

    /// Returns the one with this code.
    #[inline(always)]
    pub(crate) fn from_code(code: u8) -> Self {
        Self(code)
    }

    #[inline(always)]
    pub(crate) fn code(self) -> u8 {
        self.0
    }

    fn nanos(self) -> u64 {
        let code = u64::from(self.0);
        if code == 0 {
            return 0;
        }
        let eighths = Self::EIGHTHS + code % Self::EIGHTHS;
        let scaled = (eighths * (NANOS_PER_SEC >> Self::LEFT_OUT)) << (code >> Self::BITS);
        scaled >> (Self::BITS + Self::LOWEST - Self::LEFT_OUT)
    }

    /// The instant that lies so much before another.
    #[inline(never)]
    fn before(self, by: Tick) -> Tick {
        if by > Tick::LAST {
            return by;
        }
        by.saturating_sub(Duration::from_nanos(self.nanos()))
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
    fn a_hundredth_by_a_product_is_that_by_a_division() {
        for number in (0..64).map(|bit| 1_u64 << bit).chain([u64::MAX]) {
            let around = number.saturating_sub(250)..=number.saturating_add(250);
            let multiple = number / 100 * 100;
            for number in around.chain([multiple, multiple.saturating_sub(1), multiple | 1]) {
                assert_eq!(hundredth_by_product(number), number / 100, "{number}");
            }
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

    #[test]
    fn a_margin_is_the_longest_of_its_kind_and_loses_a_ninth_at_most() {
        let spans: Vec<_> = (0..=u8::MAX).map(|code| Margin(code).nanos()).collect();
        assert!(spans.is_sorted_by(|one, next| one < next));
        for (code, span) in (0..=u8::MAX).zip(&spans) {
            assert_eq!(Margin::up_to(*span), Margin(code));
            assert_eq!(Margin::up_to(span + 1), Margin(code), "{span}");
            assert_eq!(Margin::up_to(span.saturating_sub(1)), Margin(code.saturating_sub(1)));
        }
        let (shortest, longest) = (spans[1], spans[255]);
        assert!(shortest < 2_200 && longest > 7_200 * NANOS_PER_SEC);
        for next in &spans[2..] {
            assert!(Margin::up_to(next - 1).nanos() >= next - next / 9 - 2, "{next}");
        }
        assert_eq!(Margin::up_to(u64::MAX).nanos(), longest);
        for exact in [125_000_000, 500_000_000, 1, 2, 5, 10, 60]
            .map(|span: u64| if span < 100 { span * NANOS_PER_SEC } else { span })
        {
            assert_eq!(Margin::up_to(exact).nanos(), exact);
        }
    }

    #[test]
    fn a_window_begins_at_the_deadline_or_later_and_ends_with_the_time_line() {
        for nanos in [0, 1, 3_000, 1_000_000_000, u64::MAX / 2] {
            let slack = Slack::new(nanos, false);
            for deadline in [Tick::PAST, Tick::ORIGIN, Tick::LAST] {
                let due = Due::within(deadline, slack);
                assert!(deadline <= due.from() && due.from() <= due.by && due.by <= Tick::LAST);
                assert_eq!(
                    due.by.raw(),
                    deadline.raw().saturating_add(nanos).min(Tick::LAST.raw())
                );
            }
            let never = Due::within(Tick::NEVER, slack);
            assert_eq!((never.by, never.from()), (Tick::NEVER, Tick::NEVER));
        }
        let postponed = Due { by: Tick::NEVER, margin: Margin(255) };
        assert_eq!(postponed.from(), Tick::NEVER, "an entry that was postponed to never");
    }
}
