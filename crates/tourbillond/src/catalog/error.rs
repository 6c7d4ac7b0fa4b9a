//! [`Error`]: refusals and failures of the catalog.

use std::fmt;

use tourbillon_durable::StoreError;

use crate::callback::Fault;

/// Refusal or failure of the catalog, without a change. Its text says the fault, and the remedy.
#[derive(Debug)]
pub(crate) enum Error {
    /// Fields that are wrong, each with the reason.
    Invalid(Vec<Fault>),
    /// Nothing has this key or identity.
    Missing(Missing),
    /// The state of the schedule or run does not allow it.
    Conflict(Conflict),
    /// The schedule does not have the expected version.
    Stale,
    /// The attempt that was to be completed is over.
    Late,
    /// The app has as many schedules as its limit allows.
    Full(u32),
    /// So many previews wait on this node.
    Crowded(usize),
    /// A computation panicked: the name of its result.
    Broken(&'static str),
    /// The payload in the store cannot be read by this version.
    Unreadable,
    /// The store did not answer, or refused.
    Store(StoreError),
}

/// Kind of a missing thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// A schedule or one-shot.
    Schedule,
    /// A run.
    Run,
}

/// State that does not allow a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// The key has another definition.
    Taken,
    /// The key belongs to a one-shot that is over.
    Used,
    /// A schedule was to replace a one-shot, or the reverse.
    OtherKind,
    /// The one-shot is over.
    Over,
    /// The change is for a schedule that repeats, and this is a one-shot.
    Once,
    /// The schedule is disabled.
    Disabled,
    /// This node cannot read the times or policies of the schedule; the reason.
    Unreadable(String),
    /// Another run is unfinished, and the overlap policy allows no second.
    Overlap,
    /// Other requests changed it, again and again.
    Contended,
    /// This attempt runs.
    Running(u32),
    /// The run is not dead.
    NotDead,
    /// The schedule of a dead run is disabled.
    RunDisabled,
    /// The schedule of a dead run was deleted.
    RunDeleted,
    /// The attempt that is to be completed has no answer yet.
    Unanswered,
    /// The attempt was completed with another outcome.
    Completed,
    /// The run that was made of a dead one was cancelled.
    Cancelled(String),
}

/// Result of the catalog.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates the error of one field.
    pub(crate) fn field(field: &str, why: impl Into<String>) -> Self {
        Self::Invalid(vec![(field.to_owned(), why.into())])
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl From<Missing> for Error {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(faults) => match &faults[..] {
                [(field, why)] => write!(f, "`{field}`: {why}"),
                more => write!(f, "{} fields are wrong; `errors` lists them", more.len()),
            },
            Self::Missing(missing) => missing.fmt(f),
            Self::Conflict(conflict) => conflict.fmt(f),
            Self::Stale => f.write_str(
                "the schedule has another version, or does not exist; get it, and send `If-Match` \
                 with its `ETag`",
            ),
            Self::Late => f.write_str(
                "the attempt is over, and nothing was changed: its time has passed, another \
                 attempt has followed, or its run has ended",
            ),
            Self::Full(limit) => write!(
                f,
                "the app has {limit} schedules, which is its limit; delete some, or raise \
                 `limits.schedules`"
            ),
            Self::Crowded(count) => {
                write!(f, "{count} previews are waiting on this node; try again")
            }
            Self::Broken(what) => write!(f, "the {what} failed; the log of the node says why"),
            Self::Unreadable => {
                f.write_str("a newer version of the service wrote this schedule; ask a newer node")
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Schedule => "no schedule has this key",
            Self::Run => "no run of this app has this id",
        })
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken => "the key has another definition; replace it with PUT",
            Self::Used => "the key belongs to a one-shot that is over; free the key with DELETE",
            Self::OtherKind => {
                "a repeating schedule cannot become a one-shot, nor the reverse; delete it first"
            }
            Self::Over => "the one-shot is over; delete it, and create it again",
            Self::Once => "a one-shot cannot be paused or backfilled; PUT another time",
            Self::Disabled => "the schedule is disabled; enable it first",
            Self::Unreadable(why) => {
                return write!(
                    f,
                    "this node cannot read the schedule: {why}; ask another node, install the \
                     zone, or replace the schedule with PUT"
                );
            }
            Self::Overlap => {
                "another run is unfinished, and `overlap` allows no second; wait until it has ended"
            }
            Self::Contended => "other requests are changing the schedule; try again",
            Self::Running(attempt) => {
                return write!(
                    f,
                    "attempt {attempt} is running, so nothing was changed; try again"
                );
            }
            Self::NotDead => "only a dead run can be retried",
            Self::RunDisabled => "the schedule of the run is disabled; enable it first",
            Self::RunDeleted => "the schedule of the run was deleted",
            Self::Unanswered => {
                "the attempt has no answer yet, and nothing was changed; answer it with 202, and \
                 repeat this call"
            }
            Self::Completed => "the attempt was completed with another outcome; that one stays",
            Self::Cancelled(run) => {
                return write!(
                    f,
                    "the run was retried as {run}, which was cancelled, or its key was deleted; \
                     create the schedule again"
                );
            }
        })
    }
}
