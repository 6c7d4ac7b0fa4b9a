//! Cron expressions, and schedules of any other kind, as streams.
//!
//! ```
//! use futures::StreamExt as _;
//! use tourbillon_cron::{Cron, Schedule as _};
//!
//! # let body = async {
//! let mut nights = Cron::parse("0 2 * * *", "Europe/Berlin")?.ticks();
//! while let Some(tick) = nights.next().await {
//!     let night = nights.schedule().zoned(tick.scheduled()).expect("not in the year 10000");
//!     println!("back up what {night} left, and {} nights before", tick.missed());
//! }
//! # Ok::<(), tourbillon_cron::ParseError>(())
//! # };
//! ```
//!
//! A [`Schedule`] says when something happens: it is a pure function of time. [`Cron`] is one,
//! [parsed](Cron::parse) from an expression and the name of a time zone. [`Ticks`] is the stream of
//! a schedule's occurrences. It sleeps until the next one, and follows the wall clock through
//! suspend, steps and daylight saving. Each [`Tick`] counts the occurrences that were missed before
//! it, and [`Missed`] is the policy for them.
//!
//! # Daylight saving
//!
//! If the second, the minute and the hour of an expression all begin with something else than `*`,
//! its times are *fixed* times of day. Otherwise it runs at an *interval*. The difference shows on
//! the days when the clock is changed:
//!
//! | | fixed times | interval |
//! |---|---|---|
//! | times that the clock skips | one run, as soon as they are skipped | do not run |
//! | times that the clock shows twice | run the first time | run both times |
//!
//! So a nightly job runs once in every night, and a job for every ten minutes runs every ten
//! minutes. In New York the clock goes from 2 to 3 in the last night of winter: `30 2 * * *` then
//! runs at 3, and so does `0,30 2 * * *`, once. If the clock skips three hours or more, as where
//! the date line was moved, the calendar has changed, and the skipped times do not run.
//!
//! Fixed times, intervals and the three hours come from Vixie's cron(8). There is one difference.
//! That cron runs a job once for *each* skipped time: in that night, Debian's (3.0pl1) runs
//! `0,30 2 * * *` twice within seconds, and `0 2,3 * * *` too. Here an occurrence is an instant,
//! and an instant comes once. One run catches up with all skipped times, as after a suspend (see
//! [`Missed::Coalesce`]), so a job does not meet a copy of itself.
//!
//! croner's own rule is not used. It counts an expression as fixed only with one second, one minute
//! and one hour, so `0 1,13 * * *` would run three times on a day in autumn.
//!
//! # Zones
//!
//! A zone is always named, so that an expression means the same on every machine. `UTC` is always
//! available. Other names come from the system's copy of the IANA database, and on Windows and in
//! browsers from a built-in one. For a system without a copy (a container without `tzdata`), the
//! feature `bundled-zones` adds one to the program, some 200 KiB. The system's copy is preferred
//! where there is one, because it may be newer. A lookup by name takes a lock of that database's:
//! in a program that forks, parse expressions where no thread is about to. [`system_zone`] is the
//! name of the machine's own zone, or an error: nothing here stands for UTC unless it is named.
//!
//! A [`Cron`] keeps the rules that its zone had when it was parsed, and its clones and [`Ticks`] do
//! too, so it remains a pure function of time. Governments change these rules, and administrators
//! the machine's zone. A program that runs for months calls [`ZoneData::reload`] from time to time,
//! and parses again; [`ZoneData::current`] says which data it has. Without that call, up to five
//! minutes pass until parsing sees files that have changed.
//!
//! Times of day come from [`tourbillon::time`]. In browsers and Node.js, enable the feature
//! `wasm-bindgen` of tourbillon: it brings them and the timers.

#![forbid(unsafe_code)]

mod error;
mod expression;
mod field;
mod missed;
mod schedule;
mod time;
mod zone;
mod zoned_time;
mod zones;

pub use error::{Field, ParseError, ParseErrorKind};
pub use expression::Cron;
pub use missed::Missed;
pub use schedule::{Occurrences, Schedule, Tick, Ticks};
pub use zoned_time::ZonedTime;
pub use zones::{SystemZoneError, ZoneData, system_zone};
