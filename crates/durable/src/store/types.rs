//! Requests to stores, and their answers.

use std::time::Duration;

use crate::id::{Lease, NodeId, ScheduleId, Shards, TimerId};
use crate::record::{Outcome, Reason};
use crate::time::Time;

/// The answer to [`Store::join`](super::Store::join) and [`Store::beat`](super::Store::beat).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The node's lease.
    pub lease: Lease,
    /// The database's clock.
    pub now: Time,
    /// When each living node last joined or beat, this one included; in the order of their ids.
    pub nodes: Vec<(NodeId, Time)>,
}

/// A node that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The node.
    pub id: NodeId,
    /// Number of its life.
    pub epoch: u64,
    /// When it last joined or beat.
    pub beat: Time,
    /// When its lease ends, unless it beats before.
    pub expires: Time,
}

/// The answer to [`Store::tend`](super::Store::tend).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Nodes whose life ended.
    pub nodes: u64,
    /// Timers of dead nodes that are pending again.
    pub orphans: u64,
    /// Timers that ran when their schedule was stopped, and are recorded as cancelled.
    pub stopped: u64,
    /// Timers that left the queue of their schedule.
    pub promoted: u64,
    /// True if there may be more to do.
    pub more: bool,
}

/// A timer to be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTimer {
    /// Its identity, which says its shard too.
    pub id: TimerId,
    /// The schedule that it is an occurrence of.
    pub schedule: Option<ScheduleId>,
    /// The schedule's name; or a name of its own, which no other timer without schedule has.
    pub name: Option<String>,
    /// Kind of handler that it is for.
    pub kind: String,
    /// When it is to happen.
    pub scheduled_for: Time,
    /// Time from which on it may be claimed; [`Time::NEVER`] to wait in its schedule's queue.
    pub due: Time,
    /// For the handler.
    pub payload: Vec<u8>,
    /// A [`Retry`](crate::Retry) as text. No matter to the store.
    pub retry: String,
}

/// Result of inserting a [`NewTimer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The timer is there.
    Created,
    /// One with its id or name is there, or was; the id of that one.
    Exists(TimerId),
}

/// A timer as it is in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The timer as it was inserted; `due`, and after a reschedule `scheduled_for`, as they are
    /// now.
    pub new: NewTimer,
    /// Number of times that it was claimed.
    pub attempt: u32,
    /// Number of attempts that failed.
    pub failures: u32,
    /// Detail that the last failed attempt left.
    pub detail: String,
    /// Lease under which it is running; `None` if it is pending.
    pub running: Option<Lease>,
    /// Counter of its [reschedules](super::Store::reschedule), from 1. Attempts do not change it.
    pub version: u64,
}

/// Query of [`Store::scan`](super::Store::scan).
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// Time after now at which the window ends.
    pub ahead: Duration,
    /// Time before now at which it begins; `None` for the beginning.
    pub back: Option<Duration>,
    /// Shards to read.
    pub shards: Shards,
    /// Kinds to read; none of them twice.
    pub kinds: &'a [String],
    /// Most timers to return.
    pub limit: u32,
}

/// The answer to [`Store::scan`](super::Store::scan).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The database's clock.
    pub now: Time,
    /// Timers that were found.
    pub timers: Vec<Waiting>,
}

/// A pending timer, as [`Store::scan`](super::Store::scan) finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// When it is due.
    pub due: Time,
    /// The timer.
    pub id: TimerId,
    /// Its kind's place in [`Scan::kinds`].
    pub kind: u32,
}

/// The answer to [`Store::claim`](super::Store::claim).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The database's clock.
    pub now: Time,
    /// Timers that run now.
    pub timers: Vec<Timer>,
}

/// The end of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The timer.
    pub timer: TimerId,
    /// The attempt.
    pub attempt: u32,
    /// The end itself.
    pub how: How,
}

/// Ends of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// The last attempt: the timer is deleted, and a record with this is written.
    ///
    /// [`Succeeded`](Outcome::Succeeded) has no reason. With [`Dead`](Outcome::Dead) the attempt
    /// counts as a failure.
    Done(Outcome, Option<Reason>, String),
    /// Failed, and followed by another: due this long from now. The text is kept in the timer, in
    /// place of what is there.
    Retry(Duration, String),
    /// Not made, and due this long from now. No failure is counted.
    Postpone(Duration),
    /// Not made: due as before, for any node.
    HandBack,
}

/// Result of an [`End`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// The end counts.
    Accepted,
    /// The attempt was not this lease's to end, any more.
    Fenced,
}

/// Result of a cancel, a reschedule or a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerUpdate {
    /// The timer was pending, and it is done.
    Done,
    /// The timer is running; nothing was changed.
    Running {
        /// Number of the attempt.
        attempt: u32,
    },
    /// The timer does not have the version that was expected; nothing was changed.
    Stale,
    /// There is no such timer, any more.
    Gone,
}

/// Filter of a list: rows that fulfil all of its conditions.
///
/// Lists come in an order in which a page says where the next begins:
///
/// | list | order | the next page |
/// |---|---|---|
/// | schedules | name | `after_name` |
/// | timers | due, id | `after_timer` |
/// | timers by `prefix` | name | `after_name` |
/// | records | recorded, timer; or the reverse | `after_record` |
///
/// Names are in the order of their bytes. With a `kind`, a `name` or a `timer` a page is answered
/// from an index, however long the table is; so are schedules and timers by `prefix`. What is asked
/// for beside that is looked for row by row, but for `since`, `until`, `enabled` and an `outcome`
/// other than [`Succeeded`](Outcome::Succeeded) beside a `kind`. What is running is looked for in
/// what is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only rows of this kind.
    pub kind: Option<String>,
    /// Only rows of this name: of the schedule, or of the timer itself. What still runs of a
    /// schedule that was removed is not found by it.
    pub name: Option<String>,
    /// Only rows whose name has this prefix; of timers, only those without a schedule.
    pub prefix: Option<String>,
    /// Only rows of this schedule. No matter to a list of schedules. Records are found sooner by
    /// name.
    pub schedule: Option<ScheduleId>,
    /// The one with this timer. No matter to a list of schedules.
    pub timer: Option<TimerId>,
    /// The timers in this state. No matter to other lists.
    pub state: Option<State>,
    /// The schedules that are enabled, or those that are not. No matter to other lists.
    pub enabled: Option<bool>,
    /// The records with this outcome. No matter to other lists.
    pub outcome: Option<Outcome>,
    /// The timers that are due then or later; the records that were written then or later.
    pub since: Option<Time>,
    /// The timers that are due before; the records that were written before.
    pub until: Option<Time>,
    /// True for records in the reverse of their order. No matter to other lists.
    pub newest_first: bool,
    /// The timers that come after this, `due` and id, in their order.
    pub after_timer: Option<(Time, TimerId)>,
    /// The schedules, and timers by `prefix`, whose names come after this.
    pub after_name: Option<String>,
    /// The records that come after this, `recorded` and timer, in the order that is asked for.
    pub after_record: Option<(Time, TimerId)>,
    /// Most rows; 0 for a thousand.
    pub limit: u32,
}

/// State of a timer: whether an attempt runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// None does: the timer waits for its time, for a node, or for its schedule's queue.
    Pending,
    /// One does.
    Running,
}

impl Filter {
    /// Returns how many rows at most.
    pub(super) fn limit(&self) -> usize {
        if self.limit == 0 { 1_000 } else { self.limit as usize }
    }

    /// Returns what comes right after all that starts with `prefix`, in the order of bytes; `None`
    /// if nothing does.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn prefix_end(&self) -> Option<String> {
        let mut end: Vec<char> = self.prefix.as_ref()?.chars().collect();
        while let Some(last) = end.pop() {
            // Characters and their bytes are in the same order.
            if let Some(next) = (last..=char::MAX).nth(1) {
                end.push(next);
                return Some(end.into_iter().collect());
            }
        }
        None
    }
}

/// A schedule as it is in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Its identity, which says its shard too.
    pub id: ScheduleId,
    /// Its name, which no other schedule has.
    pub name: String,
    /// Kind of handler that its occurrences are for.
    pub kind: String,
    /// A [`Schedule`](crate::Schedule) as text. No matter to the store.
    pub spec: String,
    /// [`Policies`](crate::Policies) as text. No matter to the store.
    pub policies: String,
    /// For the handler.
    pub payload: Vec<u8>,
    /// True if it is enabled.
    pub enabled: bool,
    /// Counts its changes, from 1. Going on from one occurrence to the next is not one.
    pub version: u64,
    /// The first occurrence that is neither a timer nor recorded; `None` if there is none.
    pub next: Option<Time>,
}

/// The answer to [`Store::upcoming`](super::Store::upcoming).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// The database's clock.
    pub now: Time,
    /// The schedules.
    pub schedules: Vec<(ScheduleRow, Unfinished)>,
}

/// Timers that a schedule has in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Number of its timers that are unfinished.
    pub unfinished: u32,
    /// Number of them that wait in its queue.
    pub queued: u32,
}

/// An occurrence that never was a timer, to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The record's identity.
    pub id: TimerId,
    /// When it was to happen.
    pub scheduled_for: Time,
    /// Its end.
    pub outcome: Outcome,
    /// Reason of the end.
    pub reason: Reason,
}

/// Request to [`Store::change`](super::Store::change).
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Name of the schedule.
    pub name: &'a str,
    /// The version that it has now; `None` if there is to be none.
    pub expect: Option<u64>,
    /// Row that it becomes; `None` to remove it.
    pub row: Option<&'a ScheduleRow>,
    /// Reason to take back what is pending; `None` to leave it.
    pub withdraw: Option<Reason>,
    /// Occurrences to record.
    pub skipped: &'a [Skip],
}

/// Result of a [`Change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The change is made.
    Done {
        /// The schedule's version; of a removed one, the one it would have.
        version: u64,
        /// Attempts of the schedule that still run: `(timer, attempt)`.
        running: Vec<(TimerId, u32)>,
    },
    /// The schedule is not at the version that was expected; nothing was written.
    Stale,
}

/// Request to [`Store::advance`](super::Store::advance).
#[derive(Clone, Copy, Debug)]
pub struct Advance<'a> {
    /// Id of the schedule.
    pub schedule: ScheduleId,
    /// The version that it was read with.
    pub version: u64,
    /// Its `next` as it was read.
    pub from: Time,
    /// Its `next` to be; later than `from`.
    pub next: Option<Time>,
    /// Occurrences to run.
    pub timers: &'a [NewTimer],
    /// Occurrences that are not to run.
    pub skipped: &'a [Skip],
    /// True if it applies only while nothing of the schedule is unfinished.
    pub only_idle: bool,
}

/// Result of an [`Advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// The advance is made.
    Done,
    /// The schedule has changed since it was read; nothing was written.
    Stale,
    /// Something of the schedule is unfinished; nothing was written.
    Busy,
}

/// Request to [`Store::occur`](super::Store::occur).
#[derive(Clone, Copy, Debug)]
pub struct Occur<'a> {
    /// The occurrence, which is a schedule's. Its `scheduled_for` and `due` are no matter.
    pub timer: &'a NewTimer,
    /// The version that the schedule was read with.
    pub version: u64,
    /// Number of occurrences that may wait in the schedule's queue; `None` if its occurrences may
    /// overlap.
    pub queue: Option<u32>,
}

impl Occur<'_> {
    /// When the timer is due, beside what is there of its schedule; `None` if it may not be made.
    pub(super) fn due(&self, occupied: Unfinished, now: Time) -> Option<Time> {
        match self.queue {
            Some(most) if occupied != Unfinished::default() => {
                (occupied.queued < most).then_some(Time::NEVER)
            }
            _ => Some(now),
        }
    }
}

/// Result of an [`Occur`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManualRun {
    /// The timer is there.
    Done {
        /// When it is due: now, or [`Time::NEVER`] if it waits in the queue.
        due: Time,
    },
    /// One with its id is there, or was.
    Exists,
    /// The schedule has changed meanwhile; nothing was written.
    Stale,
    /// Something of the schedule is unfinished, and its queue has no room; nothing was written.
    Busy,
}
