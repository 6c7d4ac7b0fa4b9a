//! A reader of crontab(5) files, like Debian's cron.
//!
//! ```
//! use std::time::SystemTime;
//!
//! use tourbillon_cron::Schedule as _;
//! use tourbillon_crontab::{Format, parse};
//!
//! let table = parse("MAILTO=ops\n25 6 * * * root backup\n", Format::System, "Europe/Berlin")?;
//! let job = &table.jobs[0];
//! assert_eq!((job.line, job.user.as_deref(), &*job.command), (2, Some("root"), "backup"));
//! let next = job.when.as_ref().and_then(|cron| cron.next_after(SystemTime::UNIX_EPOCH));
//! assert!(next.is_some());
//!
//! let faults = parse("61 * * * * x\n", Format::User, "UTC").unwrap_err();
//! assert!(faults[0].to_string().starts_with("1:1: minute: `61` is not within 0 to 59\n"));
//! # Ok::<(), Vec<tourbillon_crontab::Fault>>(())
//! ```
//!
//! The package has a program of its own name too, a cron that sleeps until the next job is due. It
//! is built with the feature `program`, on by default.

#![forbid(unsafe_code)]

mod table;
mod visible;

pub use table::{Fault, Format, Job, Table, parse};
pub use visible::visible;
