//! The database's clock: the range of its time at a time of the host's.

use tourbillon_durable::Time;

use crate::log::Stamp;

/// Stamps and times are whole microseconds.
const ROUNDING_US: i64 = 1;

/// Readings of the database's clock.
///
/// Between two readings, its distance from the host's lies between the distances that they allow:
/// the two may drift apart, but do not leap and come back in between.
pub(super) struct Clock(Vec<Reading>);

#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub(super) before: Stamp,
    pub(super) time: Time,
    pub(super) after: Stamp,
}

impl Reading {
    fn least(&self) -> i64 {
        self.time.as_micros() - self.after.0 - ROUNDING_US
    }

    fn most(&self) -> i64 {
        self.time.as_micros() - self.before.0 + ROUNDING_US
    }
}

impl Clock {
    /// `None` if there are no readings.
    pub(super) fn new(mut readings: Vec<Reading>) -> Option<Self> {
        readings.sort_by_key(|reading| reading.before);
        (!readings.is_empty()).then_some(Self(readings))
    }

    /// Returns how uncertain the worst reading is, in microseconds.
    pub(super) fn tolerance_us(&self) -> i64 {
        self.0.iter().map(|reading| reading.most() - reading.least()).max().unwrap_or(0)
    }

    /// The earliest that the database's clock can have shown at `at`.
    pub(super) fn least(&self, at: Stamp) -> Time {
        let around = self.around(|reading| reading.before <= at);
        shift(at.0, around.iter().map(Reading::least).min())
    }

    /// The latest that the database's clock can have shown at `at`.
    pub(super) fn most(&self, at: Stamp) -> Time {
        let around = self.around(|reading| reading.before <= at);
        shift(at.0, around.iter().map(Reading::most).max())
    }

    /// When the database's clock can have shown `time`: not before the first, not after the second.
    pub(super) fn stamps(&self, time: Time) -> (Stamp, Stamp) {
        let around = self.around(|reading| reading.time <= time);
        let most = around.iter().map(Reading::most).max().unwrap_or(0);
        let least = around.iter().map(Reading::least).min().unwrap_or(0);
        let micros = time.as_micros();
        (Stamp(micros.saturating_sub(most)), Stamp(micros.saturating_sub(least)))
    }

    /// The last reading that is before, and the first that is not.
    fn around(&self, is_before: impl Fn(&Reading) -> bool) -> &[Reading] {
        let place = self.0.partition_point(is_before);
        &self.0[place.saturating_sub(1)..(place + 1).min(self.0.len())]
    }
}

fn shift(stamp: i64, by: Option<i64>) -> Time {
    Time::from_micros(stamp.saturating_add(by.unwrap_or(0)))
}
