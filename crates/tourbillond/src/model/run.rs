//! Runs: occurrences with their attempts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Waits for its time, or for another attempt.
    Pending,
    /// An attempt runs.
    Running,
    /// Waits until its receiver completes it by a call.
    Waiting,
    /// An attempt succeeded.
    Succeeded,
    /// Its last attempt failed.
    Dead,
    /// Never ran, for a reason.
    Skipped,
    /// Cancelled before its end.
    Cancelled,
}

/// A run: one occurrence of a schedule, with all its attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// Identity of the run.
    pub id: String,
    /// App of the run.
    pub app: String,
    /// Key of the schedule.
    pub key: String,
    /// Scheduled time, RFC 3339.
    pub scheduled_for: String,
    /// State of the run.
    pub state: RunState,
    /// Reason why it did not succeed, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Due time of the next attempt, RFC 3339; missing once the run is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// Time at which its end was recorded, RFC 3339; missing until the run is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// Number of attempts that were started.
    pub attempts: u32,
    /// Number of its attempts that failed.
    pub failures: u32,
    /// Node that runs it, or ran its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Attempts that have ended: the first and the last, if there were many.
    #[serde(default)]
    pub ended_attempts: Vec<EndedAttempt>,
    /// True if it can be retried.
    pub can_retry: bool,
}

/// A run that is over, as lists of schedules show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastRun {
    /// Identity of the run.
    pub id: String,
    /// Scheduled time, RFC 3339.
    pub scheduled_for: String,
    /// State of the run.
    pub state: RunState,
    /// Time of the record of its end, RFC 3339.
    pub recorded: String,
    /// Time that its last attempt took, in milliseconds, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// The status of the last attempt's answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// One finished attempt, as kept in the detail of a timer and of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndedAttempt {
    /// Number of the attempt.
    pub attempt: u32,
    /// Start, RFC 3339.
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
    /// Request that was made. The last attempt of a run has it, and those before it as long as
    /// there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<SentRequest>,
    /// Headers of the answer, as in `request`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Time of the attempt's steps.
    #[serde(default, skip_serializing_if = "Timing::is_empty")]
    pub timing: Timing,
    /// Completion by a call of the receiver, if it answered 202 to a callback with
    /// `complete_within`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<Completion>,
}

/// Completion of an attempt by a call of its receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Completion {
    /// State of the completion.
    pub state: CompletionState,
    /// End of the receiver's time to complete the attempt, RFC 3339.
    pub until: String,
    /// Time of the receiver's last call, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
    /// Text of that call: 200 characters at most. That of a failure is in `error`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// State of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompletionState {
    /// The receiver has not completed the attempt.
    Waiting,
    /// The receiver said that it succeeded.
    Succeeded,
    /// The receiver said that it failed.
    Failed,
    /// The receiver did not complete the attempt in time.
    Expired,
    /// Another attempt was made before this one was judged, because the run was rescheduled.
    Superseded,
}

/// A receiver's call that completes an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// Result of the work.
    pub outcome: WorkOutcome,
    /// Text that is kept with the attempt: its first 200 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Result of a receiver's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkOutcome {
    /// The attempt succeeded.
    Succeeded,
    /// The attempt failed: another follows as after any failure.
    Failed,
    /// The receiver is still working: `complete_within` counts anew from now, up to 30 days after
    /// the answer 202.
    Working,
}

/// Answer to the call of a receiver that completes an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Completed {
    /// Identity of the run.
    pub run: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// Result that is kept.
    pub outcome: WorkOutcome,
    /// End of the receiver's time to complete the attempt, RFC 3339, while it is working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// Request of an attempt, without its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SentRequest {
    /// HTTP method of the request.
    pub method: String,
    /// Beginning of the URL: 512 characters at most.
    pub url: String,
    /// The first headers by their names: 16 at most, 128 characters of each value, and 1 KiB
    /// together. Values that let somebody in are masked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Time of an attempt's steps, in milliseconds. Steps that did not come to their end are missing;
/// so are the first three if the attempt used a connection of an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Timing {
    /// Time to resolve the name of the host; missing if the URL has an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve_ms: Option<u64>,
    /// Time to connect to an address of the host, including failed addresses before it. Through a
    /// proxy it includes the time of the tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_ms: Option<u64>,
    /// Time of the TLS handshake; missing without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_ms: Option<u64>,
    /// Time from the connection, or from the start if it was there already, to the answer's head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<u64>,
}

impl Timing {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
