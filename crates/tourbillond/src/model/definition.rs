//! Definitions: a client's fields of a schedule or one-shot.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use super::{Alerts, Callback, Notify, ON_TIME_WITHIN, When, span};

/// Definition of a schedule or a one-shot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Times of the schedule's runs.
    pub when: When,
    /// Request of the callback.
    pub callback: Callback,
    /// Labels of the schedule, such as `{"team": "billing"}`, 20 at most: values by their names. A
    /// name has 1 to 63 characters of `A-Z a-z 0-9 - _ . /`, and a value up to 120 characters, none
    /// of them a control character. Lists can be filtered by one label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Policy for missed times. Repeating schedules only; `coalesce` if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedPolicy>,
    /// Lateness up to which a run is on time. A notice says so if one starts later. Repeating
    /// schedules only; a minute if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_time_within: Option<String>,
    /// Policy for overlapping runs. Repeating schedules only; `allow` if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<OverlapPolicy>,
    /// Maximum random delay of a run. Repeating schedules only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// Lane of the runs: of all runs of an app in one lane, whatever their schedules, one runs at a
    /// time, in the order of their times. It has 1 to 120 characters, like a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Policy for attempts that fail; each field of it has a default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Receiver of the schedule's notices, in place of the app's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Notify>,
    /// Time in which a run has to succeed after the last success, such as `25h`; otherwise a notice
    /// says so. Repeating schedules only; the app's if it is missing, and `0s` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_within: Option<String>,
    /// Number of dead runs in a row that disables the schedule: 1 to 100. Repeating schedules only;
    /// the app's if it is missing, and 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_after: Option<u32>,
    /// True to enable the schedule.
    #[serde(default = "yes")]
    pub enabled: bool,
}

fn yes() -> bool {
    true
}

impl Definition {
    /// Makes an enabled definition with the default policies.
    pub fn new(when: When, callback: Callback) -> Self {
        Self {
            when,
            callback,
            labels: BTreeMap::new(),
            missed: None,
            on_time_within: None,
            overlap: None,
            jitter: None,
            lane: None,
            retry: None,
            notify: None,
            success_within: None,
            disable_after: None,
            enabled: true,
        }
    }

    /// Returns the alerts that are in force, in an app with these.
    pub(crate) fn alerts(&self, of_app: Alerts) -> Alerts {
        Alerts::new(self.success_within.as_ref(), self.disable_after, of_app)
    }

    /// Returns how long after its time a run may start and be on time.
    pub(crate) fn starts_within(&self) -> Duration {
        let read = |text: Option<&String>, default: &str| span(text.map_or(default, |text| text));
        let within = read(self.on_time_within.as_ref(), ON_TIME_WITHIN);
        let jitter = read(self.jitter.as_ref(), "0s");
        // Another version may have checked it.
        within.ok().zip(jitter.ok()).map_or(Duration::MAX, |(within, jitter)| within + jitter)
    }

    /// Returns 32 hexadecimal digits that no other definition has.
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(self).expect("a definition is JSON");
        hex::encode(&Sha256::digest(text)[..16])
    }
}

/// Policy for attempts that fail. A field that is not given is filled in when it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RetryPolicy {
    /// Number of attempts, the first included: 1 to 1,000.
    #[schema(required = false, default = 5)]
    pub attempts: u32,
    /// Pause after the first failure; it doubles with each. At least `1s` if there is more than one
    /// attempt. If it is not given, `10s`, or `longest` if that is shorter.
    #[schema(required = false, default = "10s")]
    pub first: String,
    /// Longest pause, a day at most. If it is not given, `2m`, or `first` if that is longer.
    #[schema(required = false, default = "2m")]
    pub longest: String,
}

impl Default for RetryPolicy {
    /// Returns the policy of a definition that has none: five attempts in two and a half minutes.
    fn default() -> Self {
        Self { attempts: 5, first: "10s".to_owned(), longest: "2m".to_owned() }
    }
}

impl<'de> Deserialize<'de> for RetryPolicy {
    /// Reads by hand, because the defaults of the pauses depend on each other.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            attempts: Option<u32>,
            first: Option<String>,
            longest: Option<String>,
        }
        let Fields { attempts, first, longest } = Fields::deserialize(deserializer)?;
        let is_longer = |one: &str, other: &str| match (span(one), span(other)) {
            (Ok(one), Ok(other)) => one > other,
            _ => false,
        };
        let default = Self::default();
        let first = first.unwrap_or_else(|| match &longest {
            Some(longest) if is_longer(&default.first, longest) => longest.clone(),
            _ => default.first,
        });
        let longest = longest.unwrap_or_else(|| match is_longer(&first, &default.longest) {
            true => first.clone(),
            false => default.longest,
        });
        Ok(Self { attempts: attempts.unwrap_or(default.attempts), first, longest })
    }
}

/// Policy for occurrences that were missed because no node was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissedPolicy {
    /// Record them as skipped.
    Skip,
    /// Run the last of them only.
    Coalesce,
    /// Run so many of the last of them.
    CatchUp(u32),
}

/// Policy for an occurrence that is due while an earlier one is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverlapPolicy {
    /// Run both at the same time.
    Allow,
    /// Record the occurrence as skipped.
    Skip,
    /// Let the occurrence wait, in a queue of this length.
    Queue(u32),
}
