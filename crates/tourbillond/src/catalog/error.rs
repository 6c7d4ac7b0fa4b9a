//! [`Error`]: refusals and failures of the catalog.

use tourbillon_durable::StoreError;

use crate::callback::Fault;

/// Refusal or failure of the catalog, without a change. Its text says the fault, and the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Fields, each with the reason.
    #[error("fields are wrong: {0:?}")]
    Invalid(Vec<Fault>),
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The state of the schedule or run does not allow it.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error(
        "the schedule has another version, or does not exist; get it, and send `If-Match` with its \
         `ETag`"
    )]
    Stale,
    #[error(
        "the attempt is over, and nothing was changed: its time has passed, another attempt has \
         followed, or its run has ended"
    )]
    Late,
    #[error(
        "the app has {0} schedules, which is its limit; delete some, or raise `limits.schedules`"
    )]
    Full(u32),
    #[error("{0} previews are waiting on this node; try again")]
    Crowded(usize),
    /// A computation panicked: the name of its result.
    #[error("the {0} failed; the log of the node says why")]
    Broken(&'static str),
    #[error("a newer version of the service wrote this schedule; ask a newer node")]
    Unreadable,
    /// The store did not answer, or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Kind of a missing thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    #[error("no schedule has this key")]
    Schedule,
    #[error("no run of this app has this id")]
    Run,
}

/// State that does not allow a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Conflict {
    #[error("the key has another definition; replace it with PUT")]
    Taken,
    #[error("the key belongs to a one-shot that is over; free the key with DELETE")]
    Used,
    #[error("a repeating schedule cannot become a one-shot, nor the reverse; delete it first")]
    OtherKind,
    #[error("the one-shot is over; delete it, and create it again")]
    Over,
    #[error("a one-shot cannot be paused or backfilled; PUT another time")]
    Once,
    #[error("the schedule is disabled; enable it first")]
    Disabled,
    #[error(
        "this node cannot read the schedule: {0}; ask another node, install the zone, or replace \
         the schedule with PUT"
    )]
    Unreadable(String),
    #[error("another run is unfinished, and `overlap` allows no second; wait until it has ended")]
    Overlap,
    #[error("other requests are changing the schedule; try again")]
    Contended,
    #[error("attempt {0} is running, so nothing was changed; try again")]
    Running(u32),
    #[error("only a dead run can be retried")]
    NotDead,
    #[error("the schedule of the run is disabled; enable it first")]
    RunDisabled,
    #[error("the schedule of the run was deleted")]
    RunDeleted,
    #[error(
        "the attempt has no answer yet, and nothing was changed; answer it with 202, and repeat \
         this call"
    )]
    Unanswered,
    #[error("the attempt was completed with another outcome; that one stays")]
    Completed,
    /// The run that was made of a dead one.
    #[error(
        "the run was retried as {0}, which was cancelled, or its key was deleted; create the \
         schedule again"
    )]
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
