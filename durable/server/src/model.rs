//! What the API speaks of, as JSON.
//!
//! A definition that repeats (`cron`, `every`) is a schedule of `tourbillon-durable`; one that
//! happens once (`at`, `after`) is a timer. Both have the name `APP/KEY`, the kind `http.APP`, and
//! a [`Stored`] as payload. A timer's id is worked out from its name, so a key is used once: a
//! create that is repeated after it fired makes no second one.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};
use tourbillon_durable::{Time, TimerId};
use utoipa::ToSchema;

use crate::config::Limits;

/// When something is to happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
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

impl<'de> Deserialize<'de> for When {
    /// By hand, as an error of serde's own for an enum without a tag names no field.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            cron: Option<String>,
            zone: Option<String>,
            every: Option<String>,
            at: Option<String>,
            after: Option<String>,
        }
        let Fields { cron, zone, every, at, after } = Fields::deserialize(deserializer)?;
        if zone.is_some() && cron.is_none() {
            return Err(D::Error::custom("`zone` goes with `cron`"));
        }
        match (cron, every, at, after) {
            (Some(cron), None, None, None) => {
                Ok(Self::Cron(CronWhen { cron, zone: zone.unwrap_or_else(utc) }))
            }
            (None, Some(every), None, None) => Ok(Self::Every(EveryWhen { every })),
            (None, None, Some(at), None) => Ok(Self::At(AtWhen { at })),
            (None, None, None, Some(after)) => Ok(Self::After(AfterWhen { after })),
            _ => Err(D::Error::custom("it has one of `cron`, `every`, `at` and `after`")),
        }
    }
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

/// What is kept as the payload of a timer or schedule, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The key, for a one-shot that is made again, and has no name.
    #[serde(default)]
    pub key: String,
    /// What the client asked for.
    pub definition: Definition,
    /// When it was made, RFC 3339.
    pub created: String,
    /// Of one that happens once: when, in microseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_us: Option<i64>,
    /// The trace that the client's request belongs to, as in W3C's `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What XTimer's routes keep beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xtimer: Option<XTimer>,
}

/// What XTimer's routes keep beside a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XTimer {
    /// A name, which need not be the only one of its kind.
    pub name: String,
    /// Who made it.
    pub creator: String,
    /// The expression, as it came.
    pub cron: String,
    /// The headers, as they came.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, Vec<String>>,
}

/// The state of a schedule or of a one-shot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It repeats, and goes on.
    Enabled,
    /// It does not happen until it is enabled.
    Disabled,
    /// It happens once, and waits for its time, or for another attempt.
    Pending,
    /// It happens once, and an attempt runs.
    Running,
    /// It happened once, and an attempt succeeded.
    Succeeded,
    /// It happened once, and its last attempt failed.
    Dead,
    /// It was to happen once, and never did.
    Skipped,
    /// It was to happen once, and was taken back.
    Cancelled,
}

/// A definition, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// Whose it is.
    pub app: String,
    /// Its key in the app.
    pub key: String,
    /// Its identity in the database.
    pub id: String,
    /// Changes with each change; for `If-Match`.
    pub version: u64,
    /// How it stands.
    pub state: State,
    /// The next times, five at most.
    pub next: Vec<String>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// When it happens.
    pub when: When,
    /// What is called; not kept of a one-shot that is over, unless it is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
    /// As in the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedPolicy>,
    /// As in the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_time_within: Option<String>,
    /// As in the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<OverlapPolicy>,
    /// As in the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// As in the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Whether it is to happen, now.
    pub enabled: bool,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// The `cursor` of the next; without one this was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An occurrence that is to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Occurrence {
    /// When, RFC 3339.
    pub at: String,
    /// What the clock on the wall shows then.
    pub local: String,
    /// How far that clock is from UTC.
    pub offset: String,
    /// What the change of that clock has to do with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
}

/// What daylight saving does to an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// It stands for times that the clock skips.
    Gap,
    /// The clock shows this time twice.
    Fold,
}

/// What a token may see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppView {
    /// The app.
    pub name: String,
    /// How much it may have.
    pub limits: Limits,
    /// Whether the token lets change it.
    pub write: bool,
}

/// An attempt that runs still, and is not interrupted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// The run.
    pub run: String,
    /// Which attempt.
    pub attempt: u32,
}

/// What was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stopped {
    /// Attempts that run still. No other starts.
    pub running: Vec<Attempt>,
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Made {
    /// The run.
    pub id: String,
}

/// How many runs ended in each way within the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Outcomes {
    /// An attempt succeeded.
    pub succeeded: u64,
    /// The last attempt failed.
    pub dead: u64,
    /// Never to run, for a reason.
    pub skipped: u64,
    /// Taken back.
    pub cancelled: u64,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its identity, which is another after each start.
    pub id: String,
    /// Whether it is the one that answers.
    pub this: bool,
    /// How often it joined.
    pub epoch: u64,
    /// When it last said that it lives, RFC 3339.
    pub beat: String,
    /// When its lease ends if it says so no more, RFC 3339.
    pub expires: String,
    /// How far its clock is ahead of the database's, in milliseconds; of the node that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_ms: Option<i64>,
}

/// How the service stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// The database's clock, RFC 3339.
    pub now: String,
    /// How many runs are due and not running.
    pub overdue: u64,
    /// How many run.
    pub running: u64,
    /// How many are due in each minute of the next hour.
    pub pending_next_hour: Vec<u64>,
    /// How many schedules go on.
    pub enabled: u64,
    /// How many do not.
    pub disabled: u64,
    /// Whether there is more than was counted, so that counts are the least there is.
    pub cut: bool,
    /// The newest runs that died within the last hour.
    pub failing: Vec<Run>,
    /// What became of runs within the last hour.
    pub outcomes: Outcomes,
    /// How late this node's callbacks start.
    pub lateness: Lateness,
    /// The nodes that live.
    pub nodes: Vec<Node>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It waits for its time, or for another attempt.
    Pending,
    /// An attempt runs.
    Running,
    /// It is over: an attempt succeeded.
    Succeeded,
    /// It is over: its last attempt failed.
    Dead,
    /// It is over: it was never to run, for a reason.
    Skipped,
    /// It is over: it was taken back.
    Cancelled,
}

/// One occurrence, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// Its identity.
    pub id: String,
    /// Whose it is.
    pub app: String,
    /// Of which schedule.
    pub key: String,
    /// When it was to happen, RFC 3339.
    pub scheduled_for: String,
    /// How far it is.
    pub state: RunState,
    /// Why it did not succeed, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the next attempt is due, RFC 3339; until it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// When its end was recorded, RFC 3339; once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// How often it was claimed.
    pub attempts: u32,
    /// How many of its attempts failed.
    pub failures: u32,
    /// Who runs it, or ran its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its attempts that ended; the first and the last, if they were many.
    #[serde(default)]
    pub tries: Vec<Try>,
    /// Whether it can be retried.
    pub can_retry: bool,
}

/// How late callbacks start, as this node measured since it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lateness {
    /// Half of the callbacks started within so many milliseconds after they were due.
    pub p50: f64,
    /// 90 % of them.
    pub p90: f64,
    /// 99 % of them.
    pub p99: f64,
    /// 99.99 % of them.
    pub p9999: f64,
    /// How many there were, by lateness.
    pub histogram: Vec<Bucket>,
}

/// Callbacks that were about as late.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bucket {
    /// At most so many milliseconds late, and later than the bucket before; `null` for the last.
    pub le_ms: Option<f64>,
    /// How many.
    pub count: u64,
}

/// Reads a span: `90s`, `1h 30m`, `2 days`, `PT5M`. A day has 24 hours.
///
/// # Errors
///
/// If it is none, is negative, or has months or years, which are not always as long.
pub fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{}` is not a span such as `90s`, `1h 30m` or `PT5M`", shown(text));
    let span: jiff::Span = text.parse().map_err(|_| wrong())?;
    let days = jiff::SpanRelativeTo::days_are_24_hours();
    let span = span.to_duration(days).map_err(|_| wrong())?;
    Duration::try_from(span).map_err(|_| wrong())
}

/// Reads a time of RFC 3339, rounded up to a microsecond.
///
/// # Errors
///
/// If it is none.
pub fn time(text: &str) -> Result<Time, String> {
    let time: jiff::Timestamp = text
        .parse()
        .map_err(|_| format!("`{}` is not a time such as `2030-01-31T12:00:00Z`", shown(text)))?;
    Ok(Time::from(SystemTime::from(time)))
}

/// A time as RFC 3339, in UTC, with as many digits as it needs.
pub fn rfc3339(time: Time) -> String {
    let time = jiff::Timestamp::from_microsecond(time.as_micros());
    time.unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// What of a text from outside goes into an error.
fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
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

/// The timer of a one-shot.
pub fn once_id(name: &str) -> TimerId {
    let hash = Sha256::digest(name.as_bytes());
    let bits = hash.iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    TimerId::from_bits(bits)
}
