//! Lines of the log.

use std::fmt::Display;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tourbillon::Timer;
use tourbillon_crontab::visible;

/// Target of the lines, each with the time before it.
#[derive(Clone)]
pub(crate) struct Log {
    zone: Arc<str>,
    timer: Timer,
    sink: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Log {
    /// Times are by `timer`'s wall clock, and shown in `zone`.
    pub(crate) fn new(
        zone: &str,
        timer: &Timer,
        sink: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self { zone: zone.into(), timer: timer.clone(), sink: Arc::new(sink) }
    }

    pub(crate) fn zone(&self) -> &str {
        &self.zone
    }

    /// Writes a line for each line of `what`, with [`visible`] characters only.
    pub(crate) fn tell(&self, what: impl Display) {
        let time = shown(self.timer.wall_now(), &self.zone);
        for line in what.to_string().split('\n') {
            (self.sink)(&format!("{time} {}", visible(line.as_bytes())));
        }
    }
}

/// A time as the clock on the wall of `zone` shows it.
pub(crate) fn shown(time: SystemTime, zone: &str) -> String {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    match Timestamp::try_from(time) {
        Ok(time) => time.to_zoned(zone).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string(),
        Err(_) => format!("{time:?}"),
    }
}
