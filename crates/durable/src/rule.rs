//! [`Rule`]: times and policies of a schedule.

use std::error::Error;
use std::fmt;

use crate::policy::Policies;
use crate::schedule::Schedule;

/// Times and policies of a schedule.
///
/// Stores that keep text write both by `Display`, and read them by [`from_text`](Self::from_text).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// Times of its occurrences.
    pub schedule: Schedule,
    /// Policies for occurrences that are missed, that overlap or that fail.
    pub policies: Policies,
}

impl Rule {
    /// Makes a rule.
    pub fn new(schedule: impl Into<Schedule>, policies: Policies) -> Self {
        Self { schedule: schedule.into(), policies }
    }

    /// Reads a rule from the texts of its times and of its policies.
    ///
    /// # Errors
    ///
    /// Returns [`Unreadable`], with both texts, if this version cannot read them. A store returns
    /// it in the row's place, so that the other rows stay readable.
    pub fn from_text(schedule: &str, policies: &str) -> Result<Self, Unreadable> {
        let unreadable = |error: &dyn Error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            Unreadable {
                schedule: schedule.to_owned(),
                policies: policies.to_owned(),
                why: format!("{error}{cause}"),
            }
        };
        Ok(Self {
            schedule: schedule.parse().map_err(|error| unreadable(&error))?,
            policies: policies.parse().map_err(|error| unreadable(&error))?,
        })
    }
}

/// Rule that this process cannot read: another version has written it, or its zone is not in the
/// data of this machine.
///
/// The texts are kept, so that a store writes them back as they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    schedule: String,
    policies: String,
    why: String,
}

impl Unreadable {
    /// Returns the text of the times.
    pub fn schedule(&self) -> &str {
        &self.schedule
    }

    /// Returns the text of the policies.
    pub fn policies(&self) -> &str {
        &self.policies
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Error for Unreadable {}
