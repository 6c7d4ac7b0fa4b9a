//! Apps: their limits, and the defaults of their definitions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ON_TIME_WITHIN, RetryPolicy, TIMEOUT};

/// Limits of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AppLimits {
    /// Most schedules and one-shots that are not over.
    pub schedules: u32,
    /// Most callbacks that each node starts in a second.
    pub due_per_second: u32,
    /// Most callbacks that run at a time on each node.
    pub concurrent: u32,
    /// Most callbacks that run at a time to one host, on each node.
    pub per_host: u32,
}

impl Default for AppLimits {
    fn default() -> Self {
        Self { schedules: 10_000, due_per_second: 1_000, concurrent: 256, per_host: 64 }
    }
}

/// An app, for readers by its token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppView {
    /// Name of the app.
    pub name: String,
    /// Limits of the app.
    pub limits: AppLimits,
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
    /// Time in which a run of a repeating schedule has to succeed, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_within: Option<String>,
    /// Number of dead runs in a row that disables a repeating schedule, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_after: Option<u32>,
}

impl Default for Defaults {
    /// Returns the defaults of an app.
    fn default() -> Self {
        let [timeout, on_time_within] = [TIMEOUT, ON_TIME_WITHIN].map(str::to_owned);
        let retry = RetryPolicy::default();
        Self { timeout, on_time_within, retry, success_within: None, disable_after: None }
    }
}
