//! The request of a callback.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Header;

/// HTTP request of a callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Callback {
    /// HTTP method; `POST` if it is missing.
    #[serde(default = "post")]
    pub method: String,
    /// URL to call, by `http` or `https`.
    pub url: String,
    /// Headers to send, beside those of the service. A body without a `Content-Type` is sent as
    /// `application/json` if it is JSON, else as `text/plain; charset=utf-8`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Header>,
    /// Body to send, in which `{{key}}`, `{{schedule}}`, `{{app}}`, `{{scheduled_for}}` and
    /// `{{attempt}}` are replaced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Length of the body in bytes. Lists have it in place of the body.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schema(read_only)]
    pub body_bytes: Option<usize>,
    /// Time limit of one attempt; `10s` if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Statuses that mean success, in place of all of 2xx: 50 at most, each within 200 to 599.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub success: Vec<u16>,
    /// Time in which the receiver completes an attempt by a call, after its answer of 202: `1s` to
    /// 30 days. Without it, 202 is a success like any 2xx. The app needs a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_within: Option<String>,
}

fn post() -> String {
    "POST".to_owned()
}

impl Callback {
    /// Makes a `POST` without a body.
    pub fn new(url: String) -> Self {
        Self {
            method: post(),
            url,
            headers: BTreeMap::new(),
            body: String::new(),
            body_bytes: None,
            timeout: None,
            success: Vec::new(),
            complete_within: None,
        }
    }
}
