//! Types of the API, as JSON.
//!
//! A repeating definition (`cron`, `every`) is a schedule of `tourbillon-durable`; a single one
//! (`at`, `after`) is a timer. Both have the name `APP/KEY`, the kind `http.APP`, and a [`Stored`]
//! as payload. A timer's id is derived from its name, so a create that is repeated after it ran
//! makes no second one. Once a DELETE has freed a key, the next timer's id is derived from the last
//! one's.

mod alerts;
mod app;
mod audit;
mod bounds;
mod callback;
mod definition;
mod header;
mod history;
mod overview;
mod run;
mod schedule;
mod stored;
mod text;
mod when;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tourbillon_durable::TimerId;
use utoipa::ToSchema;

pub(crate) use alerts::Alerts;
pub use alerts::{DisabledBy, Notify};
pub use app::{AppLimits, AppView, Defaults};
pub use audit::AuditEntry;
pub use bounds::{Bounds, Excluded, Window};
pub use callback::Callback;
pub use definition::{Definition, MissedPolicy, OverlapPolicy, RetryPolicy};
pub use header::{Header, MASK, is_sensitive};
pub use history::{History, HistoryBucket};
pub use overview::{Bucket, Failing, Figure, Lateness, Node, Outcomes, Overview};
pub use run::{
    Complete, Completed, Completion, CompletionState, EndedAttempt, LastRun, Run, RunState,
    SentRequest, Timing, WorkOutcome,
};
pub use schedule::{
    Backfilled, Dialect, Made, Note, Occurrence, Occurrences, RunningAttempt, Schedule,
    ScheduleKind, ScheduleState, Stopped,
};
pub use stored::{Stored, XTimer, XTimerView};
pub use text::{rfc3339, span, time};
pub(crate) use text::{shown, timestamp};
pub use when::{AfterWhen, AtWhen, CronWhen, EveryWhen, When};

/// Time that one attempt may take if its definition does not say.
pub const TIMEOUT: &str = "10s";

/// Default of the lateness up to which an occurrence is on time.
pub const ON_TIME_WITHIN: &str = "1m";

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// Items of the page.
    pub items: Vec<T>,
    /// The `cursor` of the next page; without one this was the last. A page may end before its
    /// `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Number of items of all pages, in lists of schedules that ask for it by `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Total>,
}

impl<T> Page<T> {
    /// Makes a page without a total.
    pub fn new(items: Vec<T>, next: Option<String>) -> Self {
        Self { items, next, total: None }
    }
}

/// Number of items of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Total {
    /// Number of items that were counted.
    pub count: u64,
    /// True if there may be more, as counting stopped at a limit.
    pub at_least: bool,
}

/// The kind of the timers and schedules of `app`.
pub fn kind(app: &str) -> String {
    format!("http.{app}")
}

/// The name of the timer or schedule of `app` with this key.
pub fn name(app: &str, key: &str) -> String {
    format!("{app}/{key}")
}

/// The app and the key that a [`name`] was made of.
pub fn app_and_key(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
}

/// Prefix of the keys of XTimer's timers; the timer's number follows.
pub const XTIMER: &str = "xtimer.";

/// The first timer of a one-shot.
pub fn once_id(name: &str) -> TimerId {
    let hash = Sha256::digest(name.as_bytes());
    let bits = hash.iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    TimerId::from_bits(bits)
}
