//! Types of the API, as JSON.
//!
//! A definition that repeats (`cron`, `every`) is a schedule of `tourbillon-durable`; one that
//! happens once (`at`, `after`) is a timer. Both have the name `APP/KEY`, the kind `http.APP`, and
//! a [`Stored`] as payload. A timer's id is worked out from its name, so a create that is repeated
//! after it fired makes no second one. Once a key is free again, by a DELETE, the next timer's id
//! is worked out from that of the last.

mod header;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};
use tourbillon_durable::{Time, TimerId};
use utoipa::ToSchema;

use crate::config::Limits;
pub use header::{Header, MASK, is_sensitive};

/// Time that one attempt may take if its definition does not say.
pub const TIMEOUT: &str = "10s";

/// Lateness within which an occurrence is on time if its definition does not say.
pub const ON_TIME_WITHIN: &str = "1m";

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

/// Schedule by a cron expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CronWhen {
    /// Expression as in crontab(5).
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
    /// Reads by hand, as an error of serde's own for an enum without a tag names no field.
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

/// HTTP request of a callback.
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
    pub headers: BTreeMap<String, Header>,
    /// The body, in which `{{key}}`, `{{schedule}}`, `{{app}}`, `{{scheduled_for}}` and
    /// `{{attempt}}` are replaced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Bytes of the body, in a list, which leaves it out. Not in a definition.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schema(read_only)]
    pub body_bytes: Option<usize>,
    /// Time limit of one attempt; `10s` if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

fn post() -> String {
    "POST".to_owned()
}

/// Policy for attempts that fail. A field that is not given is filled in when it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RetryPolicy {
    /// Number of attempts, the first included: 1 to 1,000.
    #[schema(required = false, default = 5)]
    pub attempts: u32,
    /// Pause after the first failure; it doubles with each. At least `1s` if there is more than one
    /// attempt. If it is not given, `10s`, or `longest` if that is shorter.
    #[schema(required = false, default = "10s")]
    pub first: String,
    /// Longest pause, a day at most. If it is not given, `2m`, or `first` if that is longer.
    #[schema(required = false, default = "2m")]
    pub longest: String,
}

impl Default for RetryPolicy {
    /// Returns the policy of a definition that has none: five attempts in two and a half minutes.
    fn default() -> Self {
        Self { attempts: 5, first: "10s".to_owned(), longest: "2m".to_owned() }
    }
}

impl<'de> Deserialize<'de> for RetryPolicy {
    /// Reads by hand, as the default of each pause depends on the other.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            attempts: Option<u32>,
            first: Option<String>,
            longest: Option<String>,
        }
        let Fields { attempts, first, longest } = Fields::deserialize(deserializer)?;
        let is_longer = |one: &str, other: &str| match (span(one), span(other)) {
            (Ok(one), Ok(other)) => one > other,
            _ => false,
        };
        let default = Self::default();
        let first = first.unwrap_or_else(|| match &longest {
            Some(longest) if is_longer(&default.first, longest) => longest.clone(),
            _ => default.first,
        });
        let longest = longest.unwrap_or_else(|| match is_longer(&first, &default.longest) {
            true => first.clone(),
            false => default.longest,
        });
        Ok(Self { attempts: attempts.unwrap_or(default.attempts), first, longest })
    }
}

/// Policy for occurrences that no node was there for.
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

/// Policy for an occurrence that is due while an earlier one is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverlapPolicy {
    /// Both run.
    Allow,
    /// Record the occurrence as skipped.
    Skip,
    /// Let the occurrence wait, as one of so many at most.
    Queue(u32),
}

/// Definition of a schedule or a one-shot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// When.
    pub when: When,
    /// Request to make.
    pub callback: Callback,
    /// Policy for missed times. Repeating schedules only; `coalesce` if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedPolicy>,
    /// Lateness up to which a run is on time. Repeating schedules only; a minute if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_time_within: Option<String>,
    /// Policy for overlapping runs. Repeating schedules only; `allow` if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<OverlapPolicy>,
    /// Maximum random delay of a run. Repeating schedules only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// Policy for attempts that fail; each field of it has a default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// True to enable it.
    #[serde(default = "yes")]
    pub enabled: bool,
}

fn yes() -> bool {
    true
}

impl Definition {
    /// Returns 32 hexadecimal digits that no other definition has.
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(self).expect("a definition is JSON");
        hex::encode(&Sha256::digest(text)[..16])
    }
}

/// One attempt that has ended, as it is kept in the detail of a timer and of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Try {
    /// Number of the attempt.
    pub attempt: u32,
    /// When it started, RFC 3339.
    pub started: String,
    /// Time that it took, in milliseconds.
    pub ms: u64,
    /// The answer's status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Reason of its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The beginning of the answer's body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
}

/// Payload of a timer or schedule, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The key, for a one-shot that is made again, and has no name.
    #[serde(default)]
    pub key: String,
    /// Definition that the client sent.
    pub definition: Definition,
    /// When it was made, RFC 3339.
    pub created: String,
    /// Time of a one-shot, in microseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_us: Option<i64>,
    /// The trace that the client's request belongs to, as in W3C's `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Data of XTimer's routes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xtimer: Option<XTimer>,
}

/// Parts of XTimer's timer that its definition does not say itself.
///
/// The definition counts. What is kept of it as it came is shown again as long as the definition
/// still says the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XTimer {
    /// Name of XTimer's app, if it is kept in an app of another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Name of the timer, which others may have too.
    pub name: String,
    /// Name of the timer's creator.
    pub creator: String,
    /// The expression, as it came.
    pub cron: String,
    /// The method, as it came.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// The headers, as they came: each value is a line of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, Vec<String>>,
    /// The body, as it came with a method that sends none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
}

impl XTimer {
    /// Returns the lines of a header that has this value by its definition.
    pub fn lines<'a>(&'a self, name: &str, value: &'a str) -> Vec<&'a str> {
        match self.header.get(name) {
            Some(lines) if lines.join(", ") == value => lines.iter().map(String::as_str).collect(),
            _ => vec![value],
        }
    }

    /// Returns it as the API shows it; `None` if the key has no number.
    pub fn view(self, key: &str) -> Option<XTimerView> {
        let id = key.strip_prefix(XTIMER)?.parse().ok()?;
        let Self { app, name, creator, .. } = self;
        Some(XTimerView { id, app, name, creator })
    }
}

/// The state of a schedule or of a one-shot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Repeats, and is enabled.
    Enabled,
    /// Does not happen until it is enabled.
    Disabled,
    /// One-shot that waits for its time, or for another attempt.
    Pending,
    /// One-shot whose attempt runs.
    Running,
    /// One-shot that succeeded.
    Succeeded,
    /// One-shot whose last attempt failed.
    Dead,
    /// One-shot that never ran.
    Skipped,
    /// One-shot that was taken back.
    Cancelled,
}

/// A definition, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// App of the schedule.
    pub app: String,
    /// Its key in the app.
    pub key: String,
    /// Its identity in the database.
    pub id: String,
    /// Changes with each change; for `If-Match`.
    pub version: u64,
    /// State of the schedule.
    pub state: State,
    /// The next times, five at most.
    pub next: Vec<String>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// When it happens.
    pub when: When,
    /// Request to make; not kept for a one-shot that is over, unless it is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
    /// Policy for missed times, from the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedPolicy>,
    /// Lateness up to which a run is on time, from the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_time_within: Option<String>,
    /// Policy for overlapping runs, from the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<OverlapPolicy>,
    /// Maximum random delay of a run, from the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// Policy for failed attempts, from the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// True if it is enabled.
    pub enabled: bool,
    /// Identity by XTimer's routes, if they made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xtimer: Option<XTimerView>,
}

/// Timer of XTimer, whatever it is changed to by other routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct XTimerView {
    /// Number of the timer.
    pub id: u64,
    /// Name of XTimer's app; missing if it is that of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Name of the timer; not unique.
    pub name: String,
    /// Name of the timer's creator.
    pub creator: String,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// Items of the page.
    pub items: Vec<T>,
    /// The `cursor` of the next page; without one this was the last. A page may end before its
    /// `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An occurrence that is to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Occurrence {
    /// When, RFC 3339.
    pub at: String,
    /// Time that a clock in the zone shows then.
    pub local: String,
    /// Offset of that clock from UTC.
    pub offset: String,
    /// Effect of a change of that clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
}

/// Effect of daylight saving on an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// Stands for times that the clock skips.
    Gap,
    /// The clock shows this time twice.
    Fold,
}

/// App, as a token may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppView {
    /// The app.
    pub name: String,
    /// Limits of the app.
    pub limits: Limits,
    /// Names of the secrets that headers of its callbacks can have.
    pub header_secrets: Vec<String>,
    /// Values for fields that a definition leaves out.
    pub defaults: Defaults,
    /// True if the token permits changes.
    pub write: bool,
}

/// Defaults of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Defaults {
    /// Time limit of one attempt.
    pub timeout: String,
    /// Lateness that is still on time.
    pub on_time_within: String,
    /// Policy for attempts that fail.
    pub retry: RetryPolicy,
}

impl Default for Defaults {
    fn default() -> Self {
        let [timeout, on_time_within] = [TIMEOUT, ON_TIME_WITHIN].map(str::to_owned);
        Self { timeout, on_time_within, retry: RetryPolicy::default() }
    }
}

/// An attempt that runs still, and is not interrupted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// The run.
    pub run: String,
    /// Number of the attempt.
    pub attempt: u32,
}

/// Schedule that was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stopped {
    /// Attempts that run still. No other starts.
    pub running: Vec<Attempt>,
}

/// Run that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Made {
    /// The run.
    pub id: String,
}

/// Runs that ended within the last hour, by outcome.
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
    /// True for the node that answers.
    pub this: bool,
    /// Number of times that it joined.
    pub epoch: u64,
    /// When it last said that it lives, RFC 3339.
    pub beat: String,
    /// When its lease ends if it says so no more, RFC 3339.
    pub expires: String,
    /// Time by which its clock is ahead of the database's, in milliseconds. Only of the node that
    /// answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_ms: Option<i64>,
}

/// State of the service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// The database's clock, RFC 3339.
    pub now: String,
    /// Number of runs that are due and not running.
    pub overdue: u64,
    /// Number of runs whose attempt runs.
    pub running: u64,
    /// Runs that are due in each minute of the next hour.
    pub pending_next_hour: Vec<u64>,
    /// Number of enabled schedules.
    pub enabled: u64,
    /// Number of disabled schedules.
    pub disabled: u64,
    /// Figures that are the least there is: more was not counted.
    pub at_least: Vec<Figure>,
    /// The newest runs that died within the last hour.
    pub failing: Vec<Run>,
    /// Outcomes of runs within the last hour.
    pub outcomes: Outcomes,
    /// Lateness of this node's callbacks.
    pub lateness: Lateness,
    /// The nodes that live.
    pub nodes: Vec<Node>,
}

/// A figure of an overview that may be the least there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Runs that are due and not running.
    Overdue,
    /// Runs that run.
    Running,
    /// Runs due in each minute of the hour.
    PendingNextHour,
    /// Schedules that go on.
    Enabled,
    /// Schedules that do not.
    Disabled,
    /// Runs that died within the last hour.
    Failing,
    /// Runs by what became of them within the last hour.
    Outcomes,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Waits for its time, or for another attempt.
    Pending,
    /// An attempt runs.
    Running,
    /// An attempt succeeded.
    Succeeded,
    /// Its last attempt failed.
    Dead,
    /// Never ran, for a reason.
    Skipped,
    /// Taken back.
    Cancelled,
}

/// One occurrence, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// Its identity.
    pub id: String,
    /// App of the run.
    pub app: String,
    /// Key of the schedule.
    pub key: String,
    /// When it was to happen, RFC 3339.
    pub scheduled_for: String,
    /// State of the run.
    pub state: RunState,
    /// Reason for which it did not succeed, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the next attempt is due, RFC 3339; until it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// When its end was recorded, RFC 3339; once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// Number of times that it was claimed.
    pub attempts: u32,
    /// Number of its attempts that failed.
    pub failures: u32,
    /// Node that runs it, or ran its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its attempts that ended; the first and the last, if they were many.
    #[serde(default)]
    pub tries: Vec<Try>,
    /// True if it can be retried.
    pub can_retry: bool,
}

/// Lateness of callbacks, as this node measured it since it started.
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
    /// Counts by lateness.
    pub histogram: Vec<Bucket>,
}

/// Callbacks that were about as late.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bucket {
    /// At most so many milliseconds late, and later than the bucket before; `null` for the last.
    pub le_ms: Option<f64>,
    /// Number of callbacks.
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

/// Returns what of a text from outside goes into an error.
pub(crate) fn shown(text: &str) -> String {
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

/// Prefix of the keys of what XTimer's routes make; the timer's number follows.
pub const XTIMER: &str = "xtimer.";

/// The first timer of a one-shot.
pub fn once_id(name: &str) -> TimerId {
    let hash = Sha256::digest(name.as_bytes());
    let bits = hash.iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    TimerId::from_bits(bits)
}
