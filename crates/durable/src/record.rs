//! [`Record`]: the end of an occurrence.

use crate::id::{NodeId, ScheduleId, TimerId};
use crate::policy::Retry;
use crate::time::Time;

macro_rules! named {
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$each:meta])* $variant:ident = $code:literal $text:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$each])* $variant = $code,)*
        }

        impl $name {
            /// Its name, in small letters.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The number that stores keep.
            pub const fn code(self) -> i16 {
                self as i16
            }

            /// Returns the value with this number; `None` if this version knows none.
            pub const fn from_code(code: i16) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

named! {
    /// End of an occurrence. Each ends in one way, once.
    Outcome {
        /// An attempt completed.
        Succeeded = 1 "succeeded",
        /// Its last attempt failed.
        Dead = 2 "dead",
        /// Never to run, for a [`Reason`].
        Skipped = 3 "skipped",
        /// Taken back before it ran, or between two attempts.
        Cancelled = 4 "cancelled",
    }
}

named! {
    /// Reason why an occurrence did not succeed.
    Reason {
        /// Its attempts failed, up to the number of its policy.
        Failed = 1 "failed",
        /// Its handler said that no further attempt makes sense.
        GivenUp = 2 "given up",
        /// No node was there in time, and the policy does not catch it up.
        Missed = 3 "missed",
        /// No node was there in time, and a later occurrence stands for it.
        Coalesced = 4 "coalesced",
        /// Another of its schedule was not finished.
        Overlap = 5 "overlap",
        /// A client cancelled it.
        Cancelled = 6 "cancelled",
        /// Its schedule was disabled.
        Disabled = 7 "disabled",
        /// Its schedule was given other times.
        Replaced = 8 "replaced",
        /// Its schedule was removed.
        Removed = 9 "removed",
        /// It lies in an excluded window of its schedule.
        Excluded = 10 "excluded",
        /// Its schedule was paused.
        Paused = 11 "paused",
    }
}

/// Record of an occurrence: a row of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The timer. An occurrence that was skipped never was one; it has an identity all the same.
    pub timer: TimerId,
    /// The schedule that it belonged to.
    pub schedule: Option<ScheduleId>,
    /// The name of the schedule, or of the timer itself.
    pub name: Option<String>,
    /// Kind of handler that it was for.
    pub kind: String,
    /// When it was to happen.
    pub scheduled_for: Time,
    /// Number of times that it was claimed.
    pub attempts: u32,
    /// Number of its attempts that failed.
    pub failures: u32,
    /// Its end.
    pub outcome: Outcome,
    /// Reason, unless it succeeded.
    pub reason: Option<Reason>,
    /// Detail that its last attempt left, or for a cancelled one the last that failed.
    pub detail: String,
    /// Payload for the handler, if the outcome is [`Dead`](Outcome::Dead).
    pub payload: Option<Vec<u8>>,
    /// Policy for its attempts that failed, if there is a payload.
    pub retry: Option<Retry>,
    /// Lane that it ran in, if there is a payload.
    pub lane: Option<String>,
    /// Node that ran the last attempt, if the outcome is an attempt's.
    pub node: Option<NodeId>,
    /// When this was recorded, by the database's clock.
    pub recorded: Time,
}

/// Part of a [`Record`] that shows how an occurrence ended, without the values for another run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordSummary {
    /// The timer.
    pub timer: TimerId,
    /// Time that it was scheduled for.
    pub scheduled_for: Time,
    /// Its end.
    pub outcome: Outcome,
    /// Reason, unless it succeeded.
    pub reason: Option<Reason>,
    /// Detail of the record.
    pub detail: String,
    /// Time of the record, by the database's clock.
    pub recorded: Time,
}

impl From<Record> for RecordSummary {
    fn from(record: Record) -> Self {
        let Record { timer, scheduled_for, outcome, reason, detail, recorded, .. } = record;
        Self { timer, scheduled_for, outcome, reason, detail, recorded }
    }
}
