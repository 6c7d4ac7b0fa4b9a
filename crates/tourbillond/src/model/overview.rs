//! The state of the service.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Run;

/// Runs that ended within the last hour, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Outcomes {
    /// Runs with an attempt that succeeded.
    pub succeeded: u64,
    /// Runs whose last attempt failed.
    pub dead: u64,
    /// Runs that a policy skipped.
    pub skipped: u64,
    /// Runs that were cancelled.
    pub cancelled: u64,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Identity of the node; it changes with each start.
    pub id: String,
    /// True for the node that answers.
    pub this: bool,
    /// Number of times that it joined.
    pub epoch: u64,
    /// Time of its last heartbeat, RFC 3339.
    pub beat: String,
    /// Time at which its lease ends without a further heartbeat, RFC 3339.
    pub expires: String,
    /// Time by which its clock is ahead of the database's, in milliseconds; only for the node that
    /// answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_ms: Option<i64>,
}

/// A schedule with runs that died within the last hour: the newest of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Failing {
    /// The newest of these runs.
    #[serde(flatten)]
    pub run: Run,
    /// Number of dead runs of the schedule. If `at_least` has `failing`, there may be more.
    pub dead_runs: u64,
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
    /// Figures that are lower bounds, as counting stopped at a limit.
    pub at_least: Vec<Figure>,
    /// Schedules with runs that died within the last hour, ten at most, newest death first.
    pub failing: Vec<Failing>,
    /// Outcomes of runs within the last hour.
    pub outcomes: Outcomes,
    /// Lateness of this node's callbacks.
    pub lateness: Lateness,
    /// Nodes that are alive.
    pub nodes: Vec<Node>,
}

/// A figure of an overview that may be a lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Runs that are due and not running.
    Overdue,
    /// Runs with a running attempt.
    Running,
    /// Runs due in each minute of the hour.
    PendingNextHour,
    /// Schedules that are enabled.
    Enabled,
    /// Schedules that are disabled.
    Disabled,
    /// Schedules with runs that died within the last hour, and the numbers of these runs.
    Failing,
    /// Outcomes of runs within the last hour.
    Outcomes,
}

/// Lateness of callbacks, measured by this node since it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lateness {
    /// Median of the lateness, in milliseconds.
    pub p50: f64,
    /// 90th percentile of the lateness, in milliseconds.
    pub p90: f64,
    /// 99th percentile of the lateness, in milliseconds.
    pub p99: f64,
    /// 99.99th percentile of the lateness, in milliseconds.
    pub p9999: f64,
    /// Counts by lateness.
    pub histogram: Vec<Bucket>,
}

/// Number of callbacks within a range of lateness.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bucket {
    /// Upper end of the range in milliseconds; `null` for the last.
    pub le_ms: Option<f64>,
    /// Number of callbacks.
    pub count: u64,
}
