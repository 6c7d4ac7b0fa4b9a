//! Schedules and one-shots in answers of the API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Callback, DisabledBy, LastRun, MissedPolicy, Notify, OverlapPolicy, RetryPolicy, When,
    XTimerView,
};

/// Kind of schedule: repeating or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// Happens again and again.
    Repeated,
    /// Happens once.
    Once,
}

/// The state of a schedule or of a one-shot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleState {
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
    /// Key of the schedule in its app.
    pub key: String,
    /// Identity of the schedule in the database.
    pub id: String,
    /// Version of the schedule for `If-Match`; each change gives it another.
    pub version: u64,
    /// State of the schedule.
    pub state: ScheduleState,
    /// Next times, five at most, RFC 3339.
    pub next: Vec<String>,
    /// Reason why an enabled schedule does not run: the node that answers cannot read its times or
    /// policies, such as a zone that its machine lacks. It can be disabled, paused, replaced and
    /// deleted all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// End of the pause, if in the future, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<String>,
    /// Time of the schedule's creation, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Times of the schedule's runs.
    pub when: When,
    /// Time of a one-shot, RFC 3339, also where `when` has a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Request of the callback; not kept for a one-shot that is over, unless it is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
    /// Labels of the schedule, from the definition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
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
    /// Lane of the runs, from the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Policy for failed attempts, from the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Receiver of the schedule's notices, from the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Notify>,
    /// Time in which a run has to succeed, from the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_within: Option<String>,
    /// Number of dead runs that disables the schedule, from the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_after: Option<u32>,
    /// True if the schedule is enabled.
    pub enabled: bool,
    /// The service's reason for disabling the schedule. Missing if a client disabled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_by: Option<DisabledBy>,
    /// Identity by XTimer's routes, if they made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xtimer: Option<XTimerView>,
    /// Runs that ended last, the newest first, in lists that ask for them by `last_runs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_runs: Option<Vec<LastRun>>,
    /// Runs that were claimed before the definition was replaced, in the answer to that alone. They
    /// keep the callback and the policy for failed attempts that they were made with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claimed: Vec<RunningAttempt>,
}

/// Occurrences that are to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Occurrences {
    /// The occurrences, in order.
    pub items: Vec<Occurrence>,
    /// Parts of the expression that other schedulers read in another way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub notes: Vec<Dialect>,
}

/// Part of a cron expression that other schedulers read in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Both fields for days are restricted: days match that match either. Some ask for both.
    EitherDay,
    /// Both fields for days are restricted, and one begins with `*`: days match that match both.
    /// Some take either.
    BothDays,
    /// The expression has seconds, and days of the week by number: 0 or 7 is Sunday. In Quartz it
    /// is 1.
    WeekdayNumbers,
}

impl Dialect {
    /// Returns what an expression has of these.
    pub(crate) fn of(cron: &str) -> Vec<Self> {
        let fields: Vec<_> = cron.split_whitespace().collect();
        let (hours, [day, _, weekday]) = match &fields[..] {
            [hours @ .., day, month, weekday] if hours.len() >= 2 => (hours, [day, month, weekday]),
            _ => return Vec::new(),
        };
        let mut found = Vec::new();
        if ![day, weekday].iter().any(|field| matches!(**field, "*" | "?")) {
            let is_starred = [day, weekday].iter().any(|field| field.starts_with('*'));
            found.push(if is_starred { Self::BothDays } else { Self::EitherDay });
        }
        // Neither the step of `*/2` nor the week of `FRI#2` is a day.
        let is_number = |part: &str| {
            part.split(['/', '#'])
                .next()
                .is_some_and(|day| day.contains(|c: char| c.is_ascii_digit()))
        };
        if hours.len() == 3 && weekday.split(',').any(is_number) {
            found.push(Self::WeekdayNumbers);
        }
        found
    }
}

/// An occurrence that is to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Occurrence {
    /// Time of the occurrence, RFC 3339.
    pub at: String,
    /// Time that a clock in the zone shows then.
    pub local: String,
    /// Offset of that clock from UTC.
    pub offset: String,
    /// Deviation from the plain times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
}

/// Deviation of an occurrence from the plain times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// The clock skips the time of the expression.
    Gap,
    /// The clock shows this time twice. A schedule of fixed times runs the first time.
    Fold,
    /// The clock shows this time twice. A schedule at an interval runs both times.
    FoldTwice,
    /// The time lies in an excluded window: the occurrence is skipped.
    Excluded,
    /// The end of an excluded window: the occurrence runs for those within.
    RunAtEnd,
    /// The schedule is paused then: the occurrence does not run.
    Paused,
}

/// An attempt that is still running, and is not interrupted; or the last of a run that waits for
/// another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunningAttempt {
    /// Identity of the run.
    pub run: String,
    /// Number of the attempt.
    pub attempt: u32,
}

/// Schedule that was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stopped {
    /// Attempts that are still running. No other starts.
    pub running: Vec<RunningAttempt>,
}

/// Result of a backfill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Backfilled {
    /// Number of runs that were created.
    pub made: u64,
    /// Number of runs that existed already, or had ended. Cancelled runs count here, and are not
    /// created again.
    pub existed: u64,
    /// Value of `since` for a further request, because the limit was reached; RFC 3339. Missing
    /// once the whole range is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<String>,
}

/// A run that was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Made {
    /// Identity of the run.
    pub id: String,
}
