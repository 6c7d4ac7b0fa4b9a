//! Entries of the audit log.

use serde::{Deserialize, Serialize};

/// Change that a request asked for: a line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Time of the answer by the clock of the node, RFC 3339.
    pub at: String,
    /// Identity of the node that answered.
    pub node: String,
    /// Name of the request's token; `null` for a service without tokens.
    pub token: Option<String>,
    /// App that was changed.
    pub app: String,
    /// Key of the schedule, where the request has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Identity of the run, where the request has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Operation of the request, by its `operationId` in `/v1/openapi.json`.
    pub action: String,
    /// Status of the answer; `null` if the client did not wait for it, or the request took too
    /// long: the change may have been made.
    pub status: Option<u16>,
}
