//! Start, end and excluded windows of a schedule.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Bounds of a schedule. Without any, it has all of its times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Bounds {
    /// Earliest time of an occurrence, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Latest time of an occurrence, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Windows whose occurrences are skipped, 100 at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub excluded: Vec<Window>,
}

/// Window in which occurrences are skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Start of the window, RFC 3339. An occurrence at that time is skipped.
    pub from: String,
    /// End of the window, RFC 3339. An occurrence at that time is not skipped.
    pub until: String,
    /// Policy for the occurrences of the window; `skip` if it is missing.
    #[serde(default)]
    pub then: Excluded,
}

/// Policy for occurrences that lie in an excluded window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Excluded {
    /// Record them as skipped.
    #[default]
    Skip,
    /// Record them as skipped, and run once at the end of the window if there was any.
    RunAtEnd,
}
