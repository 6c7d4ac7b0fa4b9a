//! Payloads of timers and schedules.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tourbillon_durable::Time;
use utoipa::ToSchema;

use super::{Definition, DisabledBy, XTIMER};

/// Payload of a timer or schedule, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The key, for a one-shot that is made again, and has no name.
    #[serde(default)]
    pub key: String,
    /// Definition that the client sent.
    pub definition: Definition,
    /// Time of its creation, RFC 3339.
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
    /// The service's reason for disabling the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_by: Option<DisabledBy>,
    /// True for a notice. A notice has no notices.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_notice: bool,
}

impl Stored {
    /// Returns when it was created; the Unix epoch if that is not understood.
    pub(crate) fn made(&self) -> Time {
        super::time(&self.created).unwrap_or_default()
    }
}

/// Parts of XTimer's timer that its definition does not say itself.
///
/// The definition counts. The original texts are shown again as long as the definition still says
/// the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XTimer {
    /// Name of XTimer's app, if it is kept in an app of another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Name of the timer, which others may have too.
    pub name: String,
    /// Name of the timer's creator.
    pub creator: String,
    /// Original expression.
    pub cron: String,
    /// Original method.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// The headers, as they came: each value is a separate line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, Vec<String>>,
    /// The body, as it came with a method that does not send it.
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
