//! Requests to stores, and their answers.

use std::time::Duration;

use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Lease, NodeId, ScheduleId, Shards, TimerId};
use crate::policy::{Policies, Retry};
use crate::record::{Outcome, Reason, Record};
use crate::rule::{Rule, Unreadable};
use crate::time::Time;
use crate::wall::Wall;

/// The answer to [`Store::join`](super::Store::join) and [`Store::beat`](super::Store::beat).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Beat {
    /// The node's lease.
    pub lease: Lease,
    /// The database's clock.
    pub now: Time,
    /// When each living node last joined or beat, this one included; in the order of their ids.
    pub nodes: Vec<(NodeId, Time)>,
}

impl Beat {
    /// Makes the answer for a node that lives under `lease`.
    pub fn new(lease: Lease, now: Time, nodes: Vec<(NodeId, Time)>) -> Self {
        Self { lease, now, nodes }
    }
}

/// A node that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

/// The answer to [`Store::maintain`](super::Store::maintain).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Maintained {
    /// Nodes whose life ended.
    pub nodes: u64,
    /// Timers of dead nodes that are pending again.
    pub orphans: u64,
    /// Timers that left the queue of their schedule.
    pub promoted: u64,
    /// True if there may be more to do.
    pub more: bool,
}

/// The answer to [`Store::held`](super::Store::held).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// Timers of this part that run, each with the number of its attempt, in any order. Parts
    /// follow each other in the order of `(due, id)`.
    pub timers: Vec<(TimerId, u32)>,
    /// Place to continue after; `None` if this was the last part.
    pub rest: Option<(Time, TimerId)>,
}

impl Held {
    /// Makes an answer for a part.
    pub(crate) fn new(timers: Vec<(TimerId, u32)>, rest: Option<(Time, TimerId)>) -> Self {
        Self { timers, rest }
    }
}

/// A timer to be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Policy for its attempts that fail.
    pub retry: Retry,
    /// True if others of its schedule may wait for its end, in a queue.
    pub has_queue: bool,
    /// Lane, in which timers run one after another; `None` if it waits for no other.
    pub lane: Option<String>,
}

impl NewTimer {
    /// Makes a timer of no schedule, scheduled for `due`; without a name and a payload, and with
    /// the usual [`Retry`].
    pub fn new(id: TimerId, kind: impl Into<String>, due: Time) -> Self {
        Self {
            id,
            schedule: None,
            name: None,
            kind: kind.into(),
            scheduled_for: due,
            due,
            payload: Vec::new(),
            retry: Retry::default(),
            has_queue: false,
            lane: None,
        }
    }

    /// Makes an occurrence of the schedule in `row`, with these policies, scheduled for `at` and
    /// due then.
    pub fn occurrence(row: &ScheduleRow, policies: &Policies, at: Time) -> Self {
        Self {
            id: TimerId::of_occurrence(row.id, at),
            schedule: Some(row.id),
            name: Some(row.name.clone()),
            kind: row.kind.clone(),
            scheduled_for: at,
            due: at,
            payload: row.payload.clone(),
            retry: policies.retry,
            has_queue: policies.overlap.has_queue(),
            lane: row.lane.clone(),
        }
    }
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
#[non_exhaustive]
pub struct Timer {
    /// The timer as it was inserted, but with its current `due` and, after a reschedule,
    /// `scheduled_for`.
    pub new: NewTimer,
    /// Number of times that it was claimed.
    pub attempt: u32,
    /// Number of attempts that failed.
    pub failures: u32,
    /// Detail that the last attempt left that failed, or was postponed with one.
    pub detail: String,
    /// Lease of the running attempt; `None` if it is pending.
    pub running: Option<Lease>,
    /// Counter of its [reschedules](super::Store::reschedule) and
    /// [amendments](super::Store::amend), and of its schedule's changes while it was never claimed,
    /// from 1. Attempts do not change it.
    pub version: u64,
}

impl Record {
    /// Makes the record of a timer that ends at `recorded`, with this outcome.
    ///
    /// It has no reason, the timer's own detail, and no node. Of a [dead](Outcome::Dead) one it
    /// keeps the payload, the retries and the lane.
    pub(crate) fn new(timer: Timer, outcome: Outcome, recorded: Time) -> Self {
        let Timer { new, attempt, failures, detail, .. } = timer;
        let is_dead = outcome == Outcome::Dead;
        Self {
            timer: new.id,
            schedule: new.schedule,
            name: new.name,
            kind: new.kind,
            scheduled_for: new.scheduled_for,
            attempts: attempt,
            failures,
            outcome,
            reason: None,
            detail,
            payload: is_dead.then_some(new.payload),
            retry: is_dead.then_some(new.retry),
            lane: new.lane.filter(|_| is_dead),
            node: None,
            recorded,
        }
    }
}

impl Timer {
    /// Makes the row of a timer that was just inserted.
    pub(crate) fn new(new: NewTimer) -> Self {
        let (attempt, failures, detail) = (0, 0, String::new());
        Self { new, attempt, failures, detail, running: None, version: 1 }
    }
}

/// Query of [`Store::scan`](super::Store::scan).
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// Time from now to the end of the window.
    pub ahead: Duration,
    /// Time from the window's beginning to now; `None` for no bound.
    pub back: Option<Duration>,
    /// Shards to read.
    pub shards: Shards,
    /// Lateness from which timers of all other shards are read too; `None` to read none of them.
    pub grace: Option<Duration>,
    /// Kinds to read; none of them twice.
    pub kinds: &'a [String],
    /// Most timers to return of each kind.
    pub kind_limit: u32,
    /// Beat that the same call makes, if the store can.
    pub pulse: Option<Pulse>,
}

/// A beat that goes along with a [`Scan`], and questions of parts that may have nothing to do.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    /// Lease to renew.
    pub lease: Lease,
    /// Span from now to the end of the lease.
    pub span: Duration,
    /// Question about the schedules of these shards.
    pub shards: Shards,
    /// Time from now until which their next occurrences count.
    pub ahead: Duration,
    /// True to ask about work too.
    pub asks_for_work: bool,
}

/// The answer to a [`Pulse`].
///
/// A store may answer `true` to a question without a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulsed {
    /// As [`Store::beat`](super::Store::beat) has it.
    pub beat: Option<Beat>,
    /// True if [`Store::upcoming`](super::Store::upcoming) may find a schedule of those shards.
    pub is_upcoming: bool,
    /// True if [`Store::maintain`](super::Store::maintain) or [`Store::held`](super::Store::held)
    /// may find something; also if nobody asked.
    pub has_work: bool,
}

/// The answer to [`Store::scan`](super::Store::scan).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// The database's clock.
    pub now: Time,
    /// Timers that were found.
    pub timers: Vec<Waiting>,
    /// The answer to the pulse; `None` if there was none, or the store makes none.
    pub pulsed: Option<Pulsed>,
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

/// A timer that is its lane's [front](super#lanes) since [`Store::promote`](super::Store::promote).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promoted {
    /// The timer.
    pub id: TimerId,
    /// Kind of handler that it is for.
    pub kind: String,
    /// When it is due.
    pub due: Time,
}

/// The answer to [`Store::claim`](super::Store::claim).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Failed; another attempt is due this long from now. The text replaces the timer's detail.
    Retry(Duration, String),
    /// Not made, or not decided; the next attempt is due after this time. It does not count as a
    /// failure. A text replaces the timer's detail.
    Postpone(Duration, Option<String>),
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

/// Result of a cancel, a reschedule, a replacement or an amendment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerUpdate {
    /// The timer was pending, and it is done.
    Done,
    /// The timer is running; nothing was changed.
    Running {
        /// Number of the attempt.
        attempt: u32,
    },
    /// The timer does not have the version that was expected, or the number of attempts; nothing
    /// was changed.
    Stale,
    /// There is no such timer, any more.
    Gone,
}

/// Request to [`Store::finish_and_claim`](super::Store::finish_and_claim).
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Lease of the node that asks.
    pub lease: Lease,
    /// Attempts that end.
    pub ends: &'a [End],
    /// Timers to claim.
    pub timers: &'a [TimerId],
}

/// Request to [`Store::reschedule`](super::Store::reschedule).
#[derive(Clone, Copy, Debug)]
pub struct Reschedule<'a> {
    /// The timer.
    pub timer: TimerId,
    /// The time that it is given.
    pub to: Time,
    /// Payload in place of its own; `None` to keep that.
    pub payload: Option<&'a [u8]>,
    /// Version that it has; `None` for any.
    pub expect: Option<u64>,
    /// Number of attempts that it has; `None` for any.
    pub attempt: Option<u32>,
}

impl Reschedule<'_> {
    /// Gives a timer another time, whatever happened to it, and nothing else.
    pub fn new(timer: TimerId, to: Time) -> Self {
        Self { timer, to, payload: None, expect: None, attempt: None }
    }
}

/// Request to [`Store::amend`](super::Store::amend).
#[derive(Clone, Copy, Debug)]
pub struct Amendment<'a> {
    /// The timer.
    pub timer: TimerId,
    /// Number of attempts that it has.
    pub attempt: u32,
    /// Version that it has.
    pub version: u64,
    /// Time from now at which it is due, but no sooner than it is scheduled for.
    pub pause: Duration,
    /// Detail in place of its own.
    pub detail: &'a str,
}

/// A schedule as it is in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleRow {
    /// Its identity, which says its shard too.
    pub id: ScheduleId,
    /// Its name, which no other schedule has.
    pub name: String,
    /// Kind of handler that its occurrences are for.
    pub kind: String,
    /// Its times and policies; an error if this version cannot read them. Such a row is listed and
    /// written like any other.
    pub rule: Result<Rule, Unreadable>,
    /// For the handler.
    pub payload: Vec<u8>,
    /// True if it is enabled.
    pub enabled: bool,
    /// Counts its changes, from 1. Going on from one occurrence to the next is not one.
    pub version: u64,
    /// The first occurrence that is neither a timer nor recorded; `None` if there is none.
    pub next: Option<Time>,
    /// Rules by which `next` was computed, if it is a time on the clocks of a zone.
    pub wall: Option<Wall>,
    /// End of its pause, if in the future.
    pub paused: Option<Time>,
    /// Lane of its occurrences; `None` if they are in none.
    pub lane: Option<String>,
}

impl ScheduleRow {
    /// Makes the first version of a schedule, enabled and without a payload.
    pub fn new(
        id: ScheduleId,
        name: impl Into<String>,
        kind: impl Into<String>,
        rule: Result<Rule, Unreadable>,
        next: Option<Time>,
    ) -> Self {
        let row = Self {
            id,
            name: name.into(),
            kind: kind.into(),
            rule,
            payload: Vec::new(),
            enabled: true,
            version: 1,
            next: None,
            wall: None,
            paused: None,
            lane: None,
        };
        row.with_next(next)
    }

    /// Sets its next occurrence, as its rule has it now.
    #[must_use]
    pub(crate) fn with_next(self, next: Option<Time>) -> Self {
        let wall = self.rule.as_ref().ok().zip(next);
        let wall = wall.and_then(|(rule, next)| rule.schedule.wall(next));
        Self { next, wall, ..self }
    }

    /// Returns where its next occurrence is by the rules that its zone has now: `next`, or the
    /// timer scheduled for `earlier` if there is one. If it is paused at `now`, it is the first
    /// one after the pause.
    ///
    /// A store calls it for [`rezone`](super::Store::rezone).
    pub(crate) fn found_again(&self, earlier: Option<Time>, now: Time) -> Option<Time> {
        let schedule = &self.rule.as_ref().ok()?.schedule;
        match self.paused.filter(|until| *until > now) {
            Some(until) => schedule.first_of_all(until),
            None => match earlier {
                Some(at) => schedule.earlier_found_again(at, self.wall.as_ref()),
                None => schedule.found_again(self.next?, self.wall.as_ref()),
            },
        }
    }

    /// Returns its times and policies.
    ///
    /// # Errors
    ///
    /// [`Invalid`](StoreErrorKind::Invalid), with its name and why, if they are unreadable.
    pub fn rule(&self) -> Result<&Rule, StoreError> {
        self.rule.as_ref().map_err(|why| {
            let why = format!("the schedule `{}` cannot be read: {why}", self.name);
            StoreError::new(StoreErrorKind::Invalid, why)
        })
    }

    /// Returns the texts of its times and of its policies, for a store that keeps text.
    pub fn texts(&self) -> (String, String) {
        match &self.rule {
            Ok(rule) => (rule.schedule.to_string(), rule.policies.to_string()),
            Err(texts) => (texts.schedule().to_owned(), texts.policies().to_owned()),
        }
    }
}

/// Asks for the enabled schedules that come soon: [`Store::upcoming`](super::Store::upcoming).
#[derive(Clone, Copy, Debug)]
pub struct UpcomingQuery {
    /// Time from now until which `next` comes.
    pub ahead: Duration,
    /// Shards of the schedules.
    pub shards: Shards,
    /// The `next` and the identifier of the last schedule of the page before.
    pub after: Option<(Time, ScheduleId)>,
    /// The most schedules.
    pub limit: u32,
}

impl UpcomingQuery {
    /// Asks for the first of all shards.
    pub const fn new(ahead: Duration, limit: u32) -> Self {
        Self { ahead, shards: Shards::ALL, after: None, limit }
    }
}

/// Asks for the enabled schedules in a zone: [`Store::zoned`](super::Store::zoned).
#[derive(Clone, Debug)]
pub struct ZonedQuery {
    /// The last schedule of the page before.
    pub after: Option<ScheduleId>,
    /// A version of the [data](Wall::data) whose schedules are left out.
    pub but: Option<String>,
    /// The most schedules.
    pub limit: u32,
}

/// The answer to [`Store::upcoming`](super::Store::upcoming).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upcoming {
    /// The database's clock.
    pub now: Time,
    /// The schedules.
    pub schedules: Vec<(ScheduleRow, Unfinished)>,
}

/// Timers that a schedule has in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Number of unfinished timers, including those in a lane.
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
    /// Reason to take back pending timers; `None` to leave them, with the values of `row` if they
    /// were never claimed.
    pub withdraw: Option<Reason>,
    /// Occurrences to record.
    pub skipped: &'a [Skip],
}

impl Change<'_> {
    /// Returns an occurrence of the schedule by the new row, whose values pending timers get that
    /// were never claimed; `None` if they are taken back, or the row's rule cannot be read.
    pub(super) fn occurrence(&self) -> Option<NewTimer> {
        let row = self.row.filter(|_| self.withdraw.is_none())?;
        let rule = row.rule.as_ref().ok()?;
        Some(NewTimer::occurrence(row, &rule.policies, Time::NEVER))
    }
}

/// Result of a [`Change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The change is made.
    Done {
        /// Timers of the schedule that were claimed before, with their numbers of attempts: those
        /// that run and, without `withdraw`, those that wait for another attempt.
        claimed: Vec<(TimerId, u32)>,
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
    /// Its `wall` to be.
    pub wall: Option<&'a Wall>,
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

/// Request to [`Store::backfill`](super::Store::backfill).
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    /// Id of the schedule.
    pub schedule: ScheduleId,
    /// The version that it was read with.
    pub version: u64,
    /// Occurrences of the schedule; none twice, and 1,000 at most.
    pub timers: &'a [NewTimer],
    /// Most timers to insert.
    pub limit: u32,
}

/// Result of a [`Past`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// The first `made + existed` of the occurrences are filled; none of the others was looked at.
    Done {
        /// Number of timers that were inserted.
        made: u32,
        /// Number of occurrences that had a timer or a record.
        existed: u32,
    },
    /// The schedule is not as it was read, or is disabled; nothing was written.
    Stale,
}

/// Rows of one name, as [`Store::named`](super::Store::named) finds them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    /// Schedule of this name.
    pub schedule: Option<ScheduleRow>,
    /// Timer without a schedule that has this name.
    pub timer: Option<Timer>,
    /// Newest record of this name, of a schedule or a timer; `None` if a schedule or timer has the
    /// name.
    pub record: Option<Record>,
}

/// Answer of [`Store::insert_and_look`](super::Store::insert_and_look): the insert's, the time, and
/// the holders of the names.
pub type Looked = (Vec<Inserted>, Time, Vec<Named>);

/// Request to [`Store::insert_occurrence`](super::Store::insert_occurrence).
#[derive(Clone, Copy, Debug)]
pub struct NewOccurrence<'a> {
    /// The occurrence of a schedule. Its `scheduled_for` and `due` are ignored.
    pub timer: &'a NewTimer,
    /// The version that the schedule was read with.
    pub version: u64,
    /// Number of occurrences that may wait in the schedule's queue; `None` if its occurrences may
    /// overlap.
    pub queue: Option<u32>,
}

impl NewOccurrence<'_> {
    /// Returns when the timer is due, given the schedule's other timers; `None` if it may not be
    /// made.
    pub(super) fn due(&self, occupied: Unfinished, now: Time) -> Option<Time> {
        match self.queue {
            Some(most) if occupied != Unfinished::default() => {
                (occupied.queued < most).then_some(Time::NEVER)
            }
            _ if self.timer.lane.is_some() => Some(Time::NEVER),
            _ => Some(now),
        }
    }
}

/// Result of an [`NewOccurrence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManualRun {
    /// The timer is there.
    Done {
        /// When it is due: now, or [`Time::NEVER`] if it waits in the queue or in its lane.
        due: Time,
    },
    /// One with its id is there, or was.
    Exists,
    /// The schedule has changed meanwhile; nothing was written.
    Stale,
    /// Something of the schedule is unfinished, and its queue has no room; nothing was written.
    Busy,
}
