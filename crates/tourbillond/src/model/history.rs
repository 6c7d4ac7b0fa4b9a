//! The history of an app: numbers of runs by time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Numbers of runs that ended, in equal parts of a time span.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// Start of the first part, RFC 3339.
    pub since: String,
    /// End of the last part, RFC 3339.
    pub until: String,
    /// Parts of the span, in their order.
    pub buckets: Vec<HistoryBucket>,
    /// Time since when all runs are counted, RFC 3339. Set if counting stopped at a limit, so that
    /// older runs of the span are not counted: a part before it may lack runs, or all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_since: Option<String>,
}

/// Numbers of runs whose end was recorded within a part of a time span.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryBucket {
    /// Start of the part, RFC 3339.
    pub start: String,
    /// Runs with an attempt that succeeded.
    pub succeeded: u64,
    /// Runs whose last attempt failed.
    pub dead: u64,
    /// Runs that a policy skipped.
    pub skipped: u64,
    /// Runs that were cancelled.
    pub cancelled: u64,
}
