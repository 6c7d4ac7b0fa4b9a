//! When the model has a sleep fired: its window, in integers that have room for everything.

use std::time::Duration;

use tourbillon::timer::Tolerance;

/// The model's time: nanoseconds since the clock was made.
pub(super) type Time = i128;

const ORIGIN: Time = 1 << 62;
const PAST: Time = 1 - ORIGIN;
pub(super) const LAST: Time = u64::MAX as Time - 8 - ORIGIN;
pub(super) const NEVER: Time = u64::MAX as Time - ORIGIN;
const SECOND: Time = 1_000_000_000;
const TOLERANCE_MAX: Time = (u64::MAX / 2) as Time;

/// The tolerance of a timer.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    Fixed(Duration),
    Share { percent: u32, at_most: Duration },
}

impl Rule {
    pub(super) fn tolerance(self) -> Tolerance {
        match self {
            Self::Fixed(tolerance) => tolerance.into(),
            Self::Share { percent, at_most } => Tolerance::percent_of_delay(percent, at_most),
        }
    }

    /// The tolerance of a sleep with this delay.
    pub(super) fn of(self, delay: Time) -> Time {
        let tolerance = match self {
            Self::Fixed(tolerance) => nanos(tolerance),
            Self::Share { percent, at_most } => {
                let delay = delay.clamp(0, u64::MAX.into());
                (delay * Time::from(percent) / 100).min(nanos(at_most))
            }
        };
        tolerance.min(TOLERANCE_MAX)
    }
}

/// When a sleep may be fired.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) deadline: Time,
    pub(super) tolerance: Time,
    /// True if the tolerance is the sleep's own, and not the timer's.
    pub(super) is_own: bool,
}

impl Window {
    /// Returns the latest instant of its firing.
    pub(super) fn end(self) -> Time {
        if self.deadline > LAST { NEVER } else { (self.deadline + self.tolerance).min(LAST) }
    }

    /// Time from which on it is fired along with others.
    pub(super) fn start(self) -> Time {
        let end = self.end();
        if end > LAST { NEVER } else { end - margin(end - self.deadline) }
    }
}

/// The longest of the spans that an entry can keep, up to this one.
fn margin(span: Time) -> Time {
    let eighths = |power: i32| (8..16).map(move |count| (count * SECOND / 8, power));
    let spans = (-19..13)
        .flat_map(eighths)
        .skip(1)
        .map(|(span, power)| if power < 0 { span >> -power } else { span << power });
    spans.filter(|kept| *kept <= span).max().unwrap_or(0)
}

pub(super) fn in_range(time: Time) -> Time {
    if time > LAST { NEVER } else { time.max(PAST) }
}

pub(super) fn nanos(span: Duration) -> Time {
    Time::try_from(span.as_nanos()).expect("less than 2^94")
}
