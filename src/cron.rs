//! Times of day: cron expressions, and schedules of any other kind, as streams.
//!
//! Needs the feature `cron`.
//!
//! A [`Schedule`] says when something is to happen, and nothing else: it is a pure function of
//! time. [`Cron`] is one, [parsed](Cron::parse) from an expression and the name of a time zone.
//! [`Ticks`] is the stream that waits for a schedule's occurrences by the clock on the wall: asleep
//! until the next one, whenever that is, and through suspend, steps of the clock and daylight
//! saving. What was missed meanwhile is told with each [`Tick`], and [`Missed`] says what becomes
//! of it.
//!
//! # Daylight saving
//!
//! Where the second, the minute and the hour of an expression all begin with something else than
//! `*`, its times are *fixed* times of day. Otherwise it runs at an interval. The difference is
//! what an expression means on the days when the clock is changed:
//!
//! | | fixed times | interval |
//! |---|---|---|
//! | times that the clock skips | one run, as soon as they are skipped | do not run |
//! | times that the clock shows twice | run the first time | run both times |
//!
//! So a nightly job runs once in every night, and one that is to run every ten minutes does so. In
//! New York, where on the last night of winter the clock goes from 2 to 3, `30 2 * * *` runs at 3
//! that night; `0,30 2 * * *` does too, and once. If the clock skips three hours or more, as where
//! the date line was moved, it is the calendar that has changed, and what it left out does not run.
//!
//! Fixed times, intervals and the three hours are those of cron(8) as Vixie wrote it. One thing is
//! different here: that cron runs a job once for *each* of its times that the clock skips, so in
//! that night Debian's (3.0pl1) runs `0,30 2 * * *` twice within seconds, and `0 2,3 * * *` too.
//! Here an occurrence is an instant, and an instant comes once. So one run catches up with all that
//! was skipped, as after a suspend (see [`Missed::Coalesce`]), and a job does not meet a copy of
//! itself that was started for the same reason.
//!
//! croner's own rule is not used. It counts as fixed only what has one second, one minute and one
//! hour: `0 1,13 * * *` would run three times on a day in autumn.
//!
//! # Zones
//!
//! A zone is always named, so that no expression changes its meaning with the machine it runs on.
//! `UTC` is there always; other names are those of the system's copy of the IANA database, and on
//! Windows those of one that is built in. For a system that has none (a container without
//! `tzdata`), depend on jiff with its feature `tzdb-bundle-always`.
//!
//! # Examples
//!
//! ```
//! use futures::StreamExt as _;
//! use tourbillon::cron::{Cron, Schedule as _};
//!
//! # let body = async {
//! let mut nights = Cron::parse("0 2 * * *", "Europe/Berlin")?.ticks();
//! while let Some(tick) = nights.next().await {
//!     println!("back up what {:?} left, and {} nights before", tick.scheduled(), tick.missed());
//! }
//! # Ok::<(), tourbillon::cron::ParseError>(())
//! # };
//! ```

mod error;
mod expression;
mod field;
mod schedule;
mod ticks;
mod zone;

pub use error::{Field, ParseError, ParseErrorKind};
pub use expression::Cron;
pub use schedule::{Occurrences, Schedule};
pub use ticks::{Missed, Tick, Ticks};
