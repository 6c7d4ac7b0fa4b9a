//! What the API speaks of, as JSON.
//!
//! A definition that repeats (`cron`, `every`) is a schedule of `tourbillon-durable`; one that happens
//! once (`at`, `after`) is a timer. Both have the name `APP/KEY`, the kind `http.APP`, and the
//! [`Definition`] as payload. A timer's id is worked out from its name, so a key is used once: a
//! create that is repeated after it fired makes no second one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// When something is to happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum When {
    /// The times of a crontab(5) expression in a named zone.
    Cron(CronWhen),
    /// Multiples of a period.
    Every(EveryWhen),
    /// Once, at a time.
    At(AtWhen),
    /// Once, so long from now.
    After(AfterWhen),
}

/// By a cron expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CronWhen {
    /// As in crontab(5).
    pub cron: String,
    /// A name of the zone database; `UTC` if it is missing.
    #[serde(default = "utc")]
    pub zone: String,
}

/// Again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EveryWhen {
    /// A span, such as `90s`, `1h 30m` or `PT5M`; a second at least.
    pub every: String,
}

/// Once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AtWhen {
    /// A time of RFC 3339.
    pub at: String,
}

/// Once, later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AfterWhen {
    /// A span, from when the database has the request.
    pub after: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// What is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Callback {
    /// `POST` if it is missing.
    #[serde(default = "post")]
    pub method: String,
    /// `http` or `https`.
    pub url: String,
    /// Further headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body, in which `{{key}}`, `{{schedule}}`, `{{app}}`, `{{scheduled_for}}` and
    /// `{{attempt}}` are replaced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// How long one attempt may take; `10s` if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

fn post() -> String {
    "POST".to_owned()
}

/// What becomes of attempts that fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// How many attempts, the first included.
    pub attempts: u32,
    /// The pause after the first failure; it doubles with each.
    pub first: String,
    /// The longest pause.
    pub longest: String,
}

/// What becomes of occurrences that no node was there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissedPolicy {
    /// They are recorded as skipped.
    Skip,
    /// The last stands for all.
    Coalesce,
    /// So many of the last are made up for.
    CatchUp(u32),
}

/// What becomes of an occurrence that is due while an earlier one is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverlapPolicy {
    /// Both run.
    Allow,
    /// It is recorded as skipped.
    Skip,
    /// It waits, as one of so many at most.
    Queue(u32),
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// When.
    pub when: When,
    /// What.
    pub callback: Callback,
    /// Of one that repeats; `coalesce` if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedPolicy>,
    /// Of one that repeats; how late it may be found and still be on time. A minute if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_time_within: Option<String>,
    /// Of one that repeats; `allow` if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<OverlapPolicy>,
    /// Of one that repeats; how much later it may be due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// Five attempts within a few minutes if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Whether it is to happen.
    #[serde(default = "yes")]
    pub enabled: bool,
}

fn yes() -> bool {
    true
}

/// One attempt that has ended, as it is kept in the detail of a timer and of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Try {
    /// Which attempt.
    pub attempt: u32,
    /// When it started, RFC 3339.
    pub started: String,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// The answer's status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The beginning of the answer's body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
}
