//! Lines of the log.

use std::fmt::Display;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tourbillon::Timer;
use tourbillon_crontab::visible;

/// Target of the lines, each with the time before it.
#[derive(Clone)]
pub(crate) struct Log {
    zone: Arc<RwLock<TimeZone>>,
    timer: Timer,
    sink: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Log {
    /// Times are by `timer`'s wall clock, and shown in UTC until another zone is set.
    pub(crate) fn new(timer: &Timer, sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let zone = Arc::new(RwLock::new(TimeZone::UTC));
        Self { zone, timer: timer.clone(), sink: Arc::new(sink) }
    }

    /// Shows times in the zone of this name from now on, by the rules that it has now. Without any,
    /// the last zone stays.
    pub(crate) fn set_zone(&self, name: &str) {
        if let Ok(zone) = zone_of(name) {
            *self.zone.write().unwrap_or_else(PoisonError::into_inner) = zone;
        }
    }

    /// A time in the zone.
    pub(crate) fn shown(&self, time: SystemTime) -> String {
        shown(time, &self.zone.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes a line for each line of `what`, with [`visible`] characters only.
    pub(crate) fn tell(&self, what: impl Display) {
        let time = self.shown(self.timer.wall_now());
        for line in what.to_string().split('\n') {
            (self.sink)(&format!("{time} {}", visible(line.as_bytes())));
        }
    }
}

/// The zone of this name; UTC also without a copy of the database.
pub(crate) fn zone_of(name: &str) -> Result<TimeZone, jiff::Error> {
    if name == "UTC" { Ok(TimeZone::UTC) } else { TimeZone::get(name) }
}

/// A time as the clock on the wall of `zone` shows it.
pub(crate) fn shown(time: SystemTime, zone: &TimeZone) -> String {
    match Timestamp::try_from(time) {
        Ok(time) => time.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string(),
        Err(_) => format!("{time:?}"),
    }
}
