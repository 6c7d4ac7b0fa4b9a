//! Alerts of a schedule: their receiver, their conditions, and the reason that disabled it.

use std::collections::BTreeMap;
use std::time::Duration;

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
    /// Body to send in place of the notice as JSON. `{{event}}`, `{{app}}`, `{{key}}` and
    /// `{{text}}`, a sentence, are replaced as within a string of JSON; `{{{{` stands for `{{`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

impl Notify {
    /// Returns the callback that sends this body.
    pub(crate) fn callback(&self, body: String) -> Callback {
        Callback { headers: self.headers.clone(), body, ..Callback::new(self.url.clone()) }
    }
}

/// Alerts in force: a schedule's, or its app's in their place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alerts {
    /// Time in which a run has to succeed.
    pub(crate) success_within: Option<Duration>,
    /// Number of dead runs in a row that disables a schedule.
    pub(crate) disable_after: Option<u32>,
}

impl Alerts {
    /// Least `success_within`.
    const SHORTEST: Duration = Duration::from_secs(1);

    /// Greatest `success_within`.
    const LONGEST: Duration = Duration::from_secs(366 * 86_400);

    /// Most dead runs in a row before a schedule is disabled.
    const DEAD_MAX: u32 = 100;

    /// Makes them from these fields; a missing one is taken from `of_app`. Zero means none.
    pub(crate) fn new(
        success_within: Option<&String>,
        disable_after: Option<u32>,
        of_app: Self,
    ) -> Self {
        let span = |text: &String| super::span(text).ok().filter(|span| !span.is_zero());
        let count = |count| Some(count).filter(|count| *count > 0);
        Self {
            success_within: success_within.map_or(of_app.success_within, span),
            disable_after: disable_after.map_or(of_app.disable_after, count),
        }
    }

    /// Reads a `success_within`: a time, or zero.
    ///
    /// # Errors
    ///
    /// Returns the reason for a refusal.
    pub(crate) fn success_within(text: &str) -> Result<Duration, String> {
        let within = super::span(text)?;
        if within > Self::LONGEST {
            return Err("it is longer than a year".to_owned());
        }
        if !within.is_zero() && within < Self::SHORTEST {
            return Err("it is shorter than a second".to_owned());
        }
        Ok(within)
    }

    /// Checks a number of dead runs.
    ///
    /// # Errors
    ///
    /// The numbers that it can be.
    pub(crate) fn check_disable_after(count: u32) -> Result<(), String> {
        match count {
            0..=Self::DEAD_MAX => Ok(()),
            _ => Err(format!("it is not within 0 to {}", Self::DEAD_MAX)),
        }
    }

    /// Returns whether a schedule with them has a watch.
    pub(crate) fn is_watched(self) -> bool {
        self.success_within.is_some() || self.disable_after.is_some()
    }
}

/// The service's reason for disabling a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DisabledBy {
    /// Identity of the last of its dead runs.
    pub run: String,
    /// Number of runs in a row that were dead.
    pub dead_runs: u32,
    /// Time of disabling, RFC 3339.
    pub at: String,
}
