//! Alerts of a schedule: their receiver, and the reason for which it is disabled.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Callback, Header};

/// Receiver of notices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// URL to call, by the rules for the app's callbacks.
    pub url: String,
    /// Headers to send, beside those of the service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Header>,
}

impl Notify {
    /// Returns the callback that sends this body.
    pub(crate) fn callback(&self, body: String) -> Callback {
        Callback {
            method: "POST".to_owned(),
            url: self.url.clone(),
            headers: self.headers.clone(),
            body,
            body_bytes: None,
            timeout: None,
            success: Vec::new(),
            complete_within: None,
        }
    }
}

/// Reason for which the service has disabled a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DisabledBy {
    /// Identity of the last of its dead runs.
    pub run: String,
    /// Number of runs in a row that were dead.
    pub dead_runs: u32,
    /// Time at which it was disabled, RFC 3339.
    pub at: String,
}
