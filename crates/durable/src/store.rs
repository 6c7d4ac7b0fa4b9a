//! [`Store`]: the calls that an engine and its clients make to a database.
//!
//! The database decides; an engine only guesses. So every write is conditional on the state of the
//! database at that moment, and every answer reports the result.
//!
//! # The time
//!
//! "Now" is the database's clock, read once in each call, inside its transaction and at its start.
//! No call takes the time of the caller. Where a call takes a [`Duration`], it is added to now.
//!
//! # States of a timer
//!
//! ```text
//! (absent) --insert, advance, insert_occurrence, backfill--> pending
//! pending  --claim (due <= now, the lease lives)-----> running under that lease, attempt + 1
//! running  --finish Done (fenced)--------------------> (absent), one record
//! running  --finish Retry (fenced)-------------------> pending, failures + 1, due = now + pause
//! running  --finish Postpone (fenced)----------------> pending, due = now + pause
//! running  --finish HandBack (fenced)----------------> pending, due unchanged
//! running  --maintain, leave (its lease is gone)-----> pending, due unchanged
//! pending  --cancel----------------------------------> (absent), one record
//! pending  --reschedule------------------------------> pending, other times or payload
//! pending  --amend (as an attempt left it)-----------> pending, another detail, due = now + pause
//! pending  --change with Withdraw--------------------> (absent), one record or none
//! running, stopped --anything that makes it pending--> as pending, but for claim and scan
//! pending, stopped --maintain------------------------> (absent), one record
//! pending in a queue --maintain (nothing unfinished before it)--> pending, due = now
//! pending in a lane  --promote, maintain (it is the first)------> pending, due = its time or now
//! ```
//!
//! A timer that is pending and due at [`Time::NEVER`] waits in its lane; without a lane, in the
//! queue of its schedule; it is held if it has neither, or is scheduled for [`Time::NEVER`]. A
//! timer of a schedule is *unfinished* if it is running, or pending and due before [`Time::NEVER`],
//! or in a lane.
//!
//! If a timer runs while a change withdraws its schedule's timers, it is *stopped*: its attempt may
//! complete, but no other starts.
//!
//! A retry leaves its detail in the timer, and so may a postponement. The record of a cancelled
//! timer has it.
//!
//! Every transition is one atomic step. Of two calls that both apply to a timer, the second sees
//! the result of the first.
//!
//! # Lanes
//!
//! Of the timers that have the same [lane](NewTimer::lane), one at most is due before
//! [`Time::NEVER`]: the *front*. So a claim and a scan need not know of lanes. The others wait.
//! Whatever makes a timer of a lane makes it wait, whenever it is due. [`promote`](Store::promote)
//! and [`maintain`](Store::maintain) choose the front: the first in the order of
//! `(scheduled_for, id)`. It is due when it is scheduled, or now if that is past.
//!
//! A front that was ever claimed remains the front until it has ended: through retries,
//! postponements and the deaths of its nodes. A front that was never claimed waits again if a timer
//! scheduled before it enters the lane. A front that ends, or is taken back, leaves its lane
//! without a front. The node or the client that ended it promotes the next soon after; `maintain`
//! finds the lanes that were missed.
//!
//! # A lease
//!
//! A node lives while the database has a row with its [`NodeId`](crate::NodeId) and epoch. The row
//! goes when [`maintain`](Store::maintain) finds its lease expired, or with
//! [`leave`](Store::leave); nothing else ends a life, and nothing but `join` starts one. So it is
//! the row that is asked for, under its lock or in the same transaction, and never the time alone:
//! a beat and the end of a lease cannot both succeed.
//!
//! # Errors
//!
//! Each call returns a [`StoreError`] whose [kind](crate::StoreErrorKind) says whether something
//! may have been written. After `Unavailable` and `Uncertain` the store connects anew by itself at
//! the next call. A store may repeat a call that conflicted by itself, a few times. No call waits
//! longer than a few seconds for a lock or for the network.

#[cfg(feature = "conformance")]
#[doc(hidden)]
pub mod conformance;
mod forward;
mod memory;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod migration;
mod overview;
#[cfg(feature = "postgres")]
pub mod postgres;
mod query;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod types;
mod views;

use std::time::Duration;

pub(crate) use forward::forward;
pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;

use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Lease, Shards, TimerId};
use crate::record::{Record, RecordSummary};
use crate::time::Time;
pub use overview::{Count, Overview, OverviewOf};
pub use query::{RecordQuery, ScheduleQuery, State, TimerOrder, TimerQuery};
pub use types::{
    End, Finished, How, Inserted, Named, NewTimer, NodeInfo, ScheduleRow, Timer, TimerUpdate,
};
pub use views::{Hits, NameState, Search, Tally, TallyOf};

pub(crate) use self::calls::*;
pub use crate::wall::Wall;

/// Result of every call.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Arguments and answers that only the calls of a store have. They are public for the stores of
/// this repository that stand around another one, and may change at any time.
#[doc(hidden)]
pub mod calls {
    use std::sync::Arc;

    use crate::id::Shards;

    pub use super::types::{
        Advance, Advanced, Amendment, Batch, Beat, Change, Changed, Claimed, Filled, Held, Looked,
        Maintained, ManualRun, NewOccurrence, Past, Promoted, Pulse, Pulsed, Reschedule, Scan,
        Skip, Unfinished, Upcoming, UpcomingQuery, Waiting, Window, ZonedQuery,
    };

    /// Seals [`Store`](super::Store).
    pub trait Sealed {}

    /// Message to a [listener](super::Store::listen).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Notification {
        /// Others have put timers into these shards that are due soon.
        Due(Shards),
        /// The connection that listens is lost or refused. The store connects anew; until then no
        /// notice arrives.
        Deaf,
    }

    /// Function that a store calls with each notice.
    pub type Heard = Arc<dyn Fn(Notification) + Send + Sync>;

    /// Guard of a [subscription](super::Store::listen). Dropped, it ends.
    pub type Listening = Box<dyn Send + Sync>;
}

/// One connection to a database of timers. All calls block.
///
/// [`Memory`], `Sqlite` and `Postgres` are stores. The trait is sealed, and its calls are not part
/// of the API. The [module](self) describes rules common to all calls. Every store passes the same
/// conformance suite.
pub trait Store: Send + Sealed {
    /// A further connection to the same database.
    #[doc(hidden)]
    fn connect(&self) -> Result<Box<dyn Store>>;

    /// Closes the connection until the next call needs one. A store that is kept only to make
    /// others by [`connect`](Self::connect) then holds none.
    #[doc(hidden)]
    fn disconnect(&mut self) {}

    /// Returns the PostgreSQL schema that the tables are in, for writes in transactions of callers;
    /// `None` if they are in none.
    ///
    /// A store around another one passes it on.
    #[doc(hidden)]
    fn schema(&self) -> Option<&str> {
        None
    }

    /// Returns how many statements the database has ended since the last call of this method
    /// because a lock was not free in time; 0 if the store does not count them.
    ///
    /// A store repeats such a statement by itself, or returns
    /// [`Conflict`](crate::StoreErrorKind::Conflict).
    #[doc(hidden)]
    fn lock_timeouts(&mut self) -> u64 {
        0
    }

    /// Calls `heard` when another connection calls [`notify`](Self::notify), until the guard is
    /// dropped; `None` if the store has no such thing.
    ///
    /// Does not wait for the database. Nothing may rest on it: a call may be late, made twice, made
    /// for nothing, or never made.
    #[doc(hidden)]
    fn listen(&self, heard: Heard) -> Result<Option<Listening>> {
        let _ = heard;
        Ok(None)
    }

    /// Notifies listeners that timers of `shards` were inserted that are due soon. Returns `false`
    /// if the store has no notices.
    ///
    /// The notice is a separate call, after the inserts, and one call for all of them: a notice in
    /// a transaction may make other transactions wait for its commit.
    #[doc(hidden)]
    fn notify(&mut self, shards: Shards) -> Result<bool> {
        let _ = shards;
        Ok(false)
    }

    /// The database's clock.
    #[doc(hidden)]
    fn now(&mut self) -> Result<Time>;

    // Nodes.

    /// Starts the life `lease`, which expires `span` from now. Returns `None` if the node ever had
    /// that epoch or a later one. Its attempts of an earlier epoch become orphans.
    ///
    /// The node counts its epochs itself. So if the answer to a call was lost and the call is
    /// carried out late, it cannot end a newer life.
    ///
    /// Stores keep the epoch of a node that died for at least a day.
    #[doc(hidden)]
    fn join(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>>;

    /// Moves the end of the lease to `span` from now; `None` if the node does not live under it.
    ///
    /// A lease past its end whose row is still there is moved too: nobody has noticed.
    #[doc(hidden)]
    fn beat(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>>;

    /// Ends the node's life, and makes its running timers pending, in one transaction. Does nothing
    /// if the node does not live under this lease.
    #[doc(hidden)]
    fn leave(&mut self, lease: Lease) -> Result<()>;

    /// Maintains the cluster: any node may call it, and it remembers nothing:
    ///
    /// 1. removes the rows of nodes whose lease ended before now, but not of those whose beat is
    ///    being written at this moment;
    /// 2. makes every running timer pending whose `(node, epoch)` has no row, also if that node
    ///    died long ago;
    /// 3. records as cancelled every stopped timer that is pending again, for the reason of the
    ///    change that stopped it;
    /// 4. of each schedule that has timers waiting in its queue and none unfinished, makes the one
    ///    due now that is scheduled first;
    /// 5. [promotes](Self::promote) the lanes in which timers wait. A store may look at a part of
    ///    them, a few thousand, and at the next part in the next call; until it has seen the
    ///    last of them, `more` is true.
    ///
    /// Each may be a transaction of its own. At most a few thousand timers are changed at a time:
    /// if there may be more, `more` says so.
    #[doc(hidden)]
    fn maintain(&mut self) -> Result<Maintained>;

    /// Chooses the [front](self#lanes) of each of these lanes, and returns the new fronts.
    ///
    /// The front is due at its `scheduled_for`, or now if that is past. A front that was never
    /// claimed waits again if a waiting timer is scheduled before it; it may stay if another
    /// transaction has locked it. The answer names no timer for a lane whose front stays. `lanes`
    /// has at most 1,000 entries.
    #[doc(hidden)]
    fn promote(&mut self, lanes: &[String]) -> Result<Vec<Promoted>>;

    /// The nodes that live, in the order of their ids.
    #[doc(hidden)]
    fn nodes(&mut self) -> Result<Vec<NodeInfo>>;

    // Timers.

    /// Inserts timers, all or none. The answers are in the order of `timers`.
    ///
    /// A timer is not inserted if one with its id is there, or if it has a `name`, no `schedule`,
    /// and another timer without a schedule has that name: it [exists](Inserted::Exists). Two of
    /// the same call count as one after the other. A `due` before now becomes now; `scheduled_for`
    /// stays.
    ///
    /// One whose id was recorded exists too, so that a call whose answer was lost can be repeated
    /// and nothing is inserted twice. That needs the earlier call to be carried out before this one
    /// or never: a store whose server may be at it still when the answer is lost has that server
    /// give up first.
    #[doc(hidden)]
    fn insert(&mut self, timers: &[NewTimer]) -> Result<Vec<Inserted>>;

    /// Inserts timers as [`insert`](Self::insert) does, and looks names up afterwards as
    /// [`named`](Self::named) does.
    ///
    /// The look is later than the commit, and no part of the same transaction: so of a timer and a
    /// schedule of one name that are made at the same time, each followed by a look, at least one
    /// finds the other.
    ///
    /// The default makes the two calls. For a database that is a network away, a store sends the
    /// look without waiting for the answer to the insert.
    ///
    /// # Errors
    ///
    /// [`Uncertain`](crate::StoreErrorKind::Uncertain) if the timers are inserted and the look
    /// fails. Like an insert, it can be repeated.
    #[doc(hidden)]
    fn insert_and_look(&mut self, timers: &[NewTimer], names: &[&str]) -> Result<Looked> {
        let inserted = self.insert(timers)?;
        let seen = self.named(names);
        let (now, found) =
            seen.map_err(|error| StoreError::new(StoreErrorKind::Uncertain, error))?;
        Ok((inserted, now, found))
    }

    /// Returns pending timers that are due until `ahead` from now, ordered by `(due, id)`: of the
    /// kinds and shards asked for, and at most `kind_limit` of each kind. With `grace`, it adds
    /// timers of all other shards that have been due for at least that long.
    ///
    /// If the answer has `kind_limit` of a kind, there may be more. If it has fewer, that is all.
    ///
    /// With `back`, timers that were due longer ago than that are left out: this spares a database
    /// the walk over dead or running rows. The next scan without `back` finds them. A store may
    /// return a timer late if it was written as due long ago, by a long transaction or while the
    /// clock was behind.
    ///
    /// With a `pulse`, the same call beats like [`beat`](Self::beat), and says whether there is
    /// work for [`upcoming`](Self::upcoming), [`maintain`](Self::maintain) and
    /// [`held`](Self::held): so an idle node needs no calls for these. A store may leave the pulse
    /// out, and then does not answer it. After that, or a call that fails, the caller beats by
    /// itself.
    ///
    /// The answer must come from an index on the kind and `due`: for each kind it reads the timers
    /// that are due first, up to `kind_limit` pending timers of the shards, however many others are
    /// due.
    #[doc(hidden)]
    fn scan(&mut self, scan: &Scan<'_>) -> Result<Window>;

    /// Returns the attempts that run under `lease`, of timers after `after` in the order of
    /// `(due, id)`. An attempt unknown to the node was claimed by a call whose answer was lost.
    ///
    /// A store may answer for a part of them, and says where the next begins: a long backlog then
    /// holds up no other call of the connection.
    #[doc(hidden)]
    fn held(&mut self, lease: Lease, after: Option<(Time, TimerId)>) -> Result<Held>;

    /// Claims each of `timers` that is pending and due by now, if the node lives under that lease:
    /// the timer runs under `lease` with `attempt + 1`, and is otherwise unchanged. Returns them in
    /// the order of `(due, id)`, in their new state.
    ///
    /// A timer that it does not return is not pending, or not due, or not there. A timer is
    /// returned by one claim only. A store may leave out timers that another transaction has
    /// locked. `timers` has no duplicates, is sorted, and has 1,000 at most.
    #[doc(hidden)]
    fn claim(&mut self, lease: Lease, timers: &[TimerId]) -> Result<Claimed>;

    /// Ends attempts. Each applies only if the timer is running under `lease` with that `attempt`;
    /// the lease need not live, as long as nobody noticed. The answers are in the order of `ends`.
    ///
    /// Repeated after a lost answer, [`How::Done`] says [`Finished::Accepted`] again if the record
    /// in the history is of this timer, attempt and node. The others say [`Finished::Fenced`].
    /// `ends` has each timer once, and 1,000 at most.
    #[doc(hidden)]
    fn finish(&mut self, lease: Lease, ends: &[End]) -> Result<Vec<Finished>>;

    /// [`finish`](Self::finish), then [`claim`](Self::claim), in one transaction where that is
    /// cheaper. If the error is not [`Uncertain`](crate::StoreErrorKind::Uncertain), and it was one
    /// transaction, neither happened; callers repeat the first and forget the second.
    #[doc(hidden)]
    fn finish_and_claim(&mut self, batch: &Batch<'_>) -> Result<(Vec<Finished>, Claimed)> {
        let finished = self.finish(batch.lease, batch.ends)?;
        Ok((finished, self.claim(batch.lease, batch.timers)?))
    }

    /// Takes a pending timer back, queued ones included, and records it as
    /// [cancelled](crate::Reason::Cancelled), with its detail.
    /// Once this says [`Cancelled`](TimerUpdate::Done), no attempt starts.
    #[doc(hidden)]
    fn cancel(&mut self, timer: TimerId) -> Result<TimerUpdate>;

    /// Gives a pending timer that belongs to no schedule another time: `scheduled_for = to`, and
    /// due then, or now if that is past; and another payload, if there is one. Timers of schedules
    /// are [`Gone`](TimerUpdate::Gone) to it.
    ///
    /// Increments the timer's [version](Timer::version). With `expect`, applies only if the timer
    /// has that version, and otherwise returns [`Stale`](TimerUpdate::Stale), even if the timer is
    /// running.
    ///
    /// A timer that waits in a lane keeps waiting, scheduled for that time.
    ///
    /// At [`Time::NEVER`] the timer is held: nothing claims it, and [`maintain`](Self::maintain)
    /// leaves it alone, until it is given another time.
    #[doc(hidden)]
    fn reschedule(&mut self, reschedule: &Reschedule<'_>) -> Result<TimerUpdate>;

    /// Changes the detail that the last attempt of a pending timer left, and the time of the next
    /// attempt, which is never before the scheduled time. The timer may belong to a schedule.
    ///
    /// Applies only if the timer has the [version](Timer::version) and the number of attempts of
    /// the amendment. Otherwise it returns [`Stale`](TimerUpdate::Stale), or
    /// [`Running`](TimerUpdate::Running) if only the number differs because another attempt runs. A
    /// stopped timer is [`Gone`](TimerUpdate::Gone). Increments the version. A timer that waits in
    /// a lane, or in the queue of its schedule, keeps waiting.
    #[doc(hidden)]
    fn amend(&mut self, amendment: &Amendment<'_>) -> Result<TimerUpdate>;

    /// The timer without a schedule that has this name.
    #[doc(hidden)]
    fn find(&mut self, name: &str) -> Result<Option<Timer>>;

    /// Returns the holders of these names, in the order of the names, and the time.
    ///
    /// Looks for a schedule before a timer, and for a timer before the records: so it finds
    /// whatever exists during the whole call. The default asks for each name by itself; a store
    /// overrides it to ask for all in one statement.
    #[doc(hidden)]
    fn named(&mut self, names: &[&str]) -> Result<(Time, Vec<Named>)> {
        let find = |name: &&str| {
            let (_, schedule) = self.schedule(name)?;
            let timer = self.find(name)?;
            let newest = RecordQuery::new().name(*name).newest_first().limit(1);
            let record = match (&schedule, &timer) {
                (None, None) => self.records(&newest)?.pop(),
                _ => None,
            };
            Ok(Named { schedule, timer, record })
        };
        let named = names.iter().map(find).collect::<Result<_>>()?;
        Ok((self.now()?, named))
    }

    /// Waits until everything that this store has answered so far is as durable as its own writes.
    ///
    /// A store may read another transaction's commit that no standby has confirmed, because that
    /// transaction gave up the wait. The other calls wait by themselves before they report a state
    /// that they did not have to write; a caller that concludes this from a read calls `confirm`
    /// first.
    ///
    /// # Errors
    ///
    /// [`Uncertain`](crate::StoreErrorKind::Uncertain) if it may be lost still.
    #[doc(hidden)]
    fn confirm(&mut self) -> Result<()>;

    /// Lists timers, in the query's [order](TimerQuery::order).
    #[doc(hidden)]
    fn timers(&mut self, query: &TimerQuery) -> Result<Vec<Timer>>;

    // Schedules.

    /// The schedule of this name, and the time.
    #[doc(hidden)]
    fn schedule(&mut self, name: &str) -> Result<(Time, Option<ScheduleRow>)>;

    /// Lists schedules, in the order of their names. One whose [rule](ScheduleRow::rule) cannot be
    /// read is listed as the others are.
    #[doc(hidden)]
    fn schedules(&mut self, query: &ScheduleQuery) -> Result<Vec<ScheduleRow>>;

    /// The enabled schedules whose `next` comes soon, in the order of `(next, id)`.
    #[doc(hidden)]
    fn upcoming(&mut self, query: &UpcomingQuery) -> Result<Upcoming>;

    /// The enabled schedules with a [`wall`](ScheduleRow::wall), without their payloads, in the
    /// order of their ids.
    #[doc(hidden)]
    fn zoned(&mut self, query: &ZonedQuery) -> Result<Vec<ScheduleRow>>;

    /// Computes the next occurrence of a schedule anew, after its zone has got other rules, in one
    /// transaction:
    ///
    /// 1. applies only if the schedule is there and enabled, with the version and the `next` of
    ///    `row`, and else says [`Advanced::Stale`];
    /// 2. deletes its pending timers that are scheduled for later than now and were never claimed;
    /// 3. sets `next` to where the first of these is [found again](ScheduleRow::found_again), or
    ///    `next` itself if there is none, and `wall` with it.
    ///
    /// What has begun stays, and so do timers that are scheduled until now: of occurrences that are
    /// due, made by [`insert_occurrence`](Self::insert_occurrence) or by
    /// [`backfill`](Self::backfill).
    #[doc(hidden)]
    fn rezone(&mut self, row: &ScheduleRow) -> Result<Advanced>;

    /// Makes or changes a schedule, in one transaction:
    ///
    /// 1. applies only if the schedule of that name has the version `expect` (`None`: there is
    ///    none), and else says [`Changed::Stale`];
    /// 2. writes `row`, with the version `expect + 1` (1 for a new one) in place of its own, or
    ///    removes the schedule if there is none;
    /// 3. with `withdraw`, takes back the schedule's pending timers, queued ones included: a timer
    ///    that is scheduled for later than now and was never claimed is deleted; any other is
    ///    recorded as [cancelled](crate::Outcome::Cancelled) for that reason, with its detail;
    ///    running attempts are stopped, for that reason too. Without it, a pending timer that was
    ///    never claimed gets the payload, the retries and the queue of `row`, and another
    ///    [version](Timer::version) if they differ; any other keeps its own, so that all attempts
    ///    of an occurrence have the same;
    /// 4. writes a record for each of `skipped` that has neither timer nor record.
    ///
    /// Once it returns [`Changed::Done`] with `withdraw`, no attempt of these timers starts, and
    /// the answer names the attempts that still run. Without `withdraw`, no first attempt starts by
    /// the old row, and the answer names the timers that keep its values.
    #[doc(hidden)]
    fn change(&mut self, change: &Change<'_>) -> Result<Changed>;

    /// Makes schedules, as [`change`](Self::change) with `expect: None` does, in one transaction
    /// where the store can. The answers are in the order of `rows`, and each says whether that one
    /// was made.
    ///
    /// One whose name is taken is not made; nor may one be whose `next` is past, because its caller
    /// plans it anew. Two of the same name count as one after the other. After an error some may be
    /// made. `rows` has 1,000 at most.
    #[doc(hidden)]
    fn create_schedules(&mut self, rows: &[ScheduleRow]) -> Result<Vec<bool>> {
        let create = |row: &ScheduleRow| {
            let (name, row) = (&row.name[..], Some(row));
            let change = Change { name, expect: None, row, withdraw: None, skipped: &[] };
            Ok(self.change(&change)? != Changed::Stale)
        };
        rows.iter().map(create).collect()
    }

    /// Turns the occurrences of a schedule up to `next` into timers and records, in one
    /// transaction:
    ///
    /// 1. applies only if the schedule is there and enabled, with this `version` and with
    ///    `next == from`, and else says [`Advanced::Stale`];
    /// 2. if `only_idle` and the schedule has an unfinished timer, says [`Advanced::Busy`];
    /// 3. sets `next` and `wall`;
    /// 4. inserts each of `timers` whose `(schedule, scheduled_for)` has neither timer nor record,
    ///    with `due` not before now;
    /// 5. writes a record for each of `skipped` that has neither record nor timer.
    ///
    /// `(schedule, scheduled_for)` is unique over timers and records together, by this, and by
    /// constraints where the database has some that span both.
    #[doc(hidden)]
    fn advance(&mut self, advance: &Advance<'_>) -> Result<Advanced>;

    /// [Advances](Self::advance) the first of several schedules: as many as the store has in one
    /// transaction, and one at least. By default that is one. Returns the answers, in order.
    ///
    /// After an error none is advanced, or all are if it is
    /// [`Uncertain`](crate::StoreErrorKind::Uncertain) and the transaction was made. `advances` has
    /// 1 to 1,000, of different schedules.
    #[doc(hidden)]
    fn advance_batch(&mut self, advances: &[Advance<'_>]) -> Result<Vec<Advanced>> {
        Ok(vec![self.advance(&advances[0])?])
    }

    /// Makes past occurrences of a schedule, in one transaction:
    ///
    /// 1. applies only if the schedule is there and enabled, with this `version`, and else says
    ///    [`Filled::Stale`];
    /// 2. looks at `timers` in their order, until `limit` of them are made;
    /// 3. deletes the record of a [skipped](crate::Outcome::Skipped) occurrence;
    /// 4. inserts it if its `(schedule, scheduled_for)` has neither timer nor record, with `due`
    ///    now at the earliest.
    #[doc(hidden)]
    fn backfill(&mut self, past: &Past<'_>) -> Result<Filled>;

    /// Makes an occurrence of a schedule beside its times, in one transaction:
    ///
    /// 1. says [`ManualRun::Exists`] if a timer with its id is there or recorded;
    /// 2. applies only if the schedule is there and enabled, with this `version`, and else says
    ///    [`ManualRun::Stale`];
    /// 3. with `queue`, if the schedule has other timers: has it wait in the queue, or says
    ///    [`ManualRun::Busy`] if as many are queued;
    /// 4. inserts the timer. It is scheduled for now, or for the last earlier microsecond at which
    ///    the schedule has no other occurrence. If that is one of the schedule's own times, the
    ///    timer is that occurrence.
    ///
    /// A [`change`](Self::change) that withdraws takes it back, or comes first and makes it stale.
    #[doc(hidden)]
    fn insert_occurrence(&mut self, occurrence: &NewOccurrence<'_>) -> Result<ManualRun>;

    // The history.

    /// Lists records, in the order of `(recorded, timer)`, or in the reverse if the query asks for
    /// the newest first.
    #[doc(hidden)]
    fn records(&mut self, query: &RecordQuery) -> Result<Vec<Record>>;

    /// Returns the newest records of each of these names, `each` at most: the answers are in the
    /// order of `names`, and each has the newest record first.
    ///
    /// Its cost depends only on the size of the answer. By default it lists the records of one name
    /// after the other; a store overrides it to read all in one statement.
    #[doc(hidden)]
    fn latest_records(&mut self, names: &[&str], each: u32) -> Result<Vec<Vec<RecordSummary>>> {
        let latest = |name: &&str| {
            let newest = RecordQuery::new().name(*name).newest_first().limit(each);
            Ok(self.records(&newest)?.into_iter().map(RecordSummary::from).collect())
        };
        names.iter().map(latest).collect()
    }

    /// Searches the names of schedules, and of timers that have a name and no schedule.
    ///
    /// Reads as many rows as the [search](Search::most) allows, and says where the next search
    /// continues. So its cost does not depend on how few names fit. The default reads lists; a
    /// store overrides it to read nothing but names and states.
    #[doc(hidden)]
    fn search(&mut self, search: &Search) -> Result<Hits> {
        views::search(self, search)
    }

    /// Counts records by their time and how they ended, up to a limit. The default reads them; a
    /// store overrides it to count by a statement.
    #[doc(hidden)]
    fn tally(&mut self, of: &TallyOf) -> Result<Tally> {
        views::tally(self, of)
    }

    /// Counts timers, schedules and records of some kinds, at one moment. Each count stops at a
    /// limit and says so, so its cost does not grow with the tables.
    #[doc(hidden)]
    fn overview(&mut self, of: &OverviewOf) -> Result<Overview>;

    /// Deletes records from before `before`, or nearly all of them; at most `limit` where that
    /// costs something. Returns how many. It is one transaction, so `limit` is a few
    /// thousand at most.
    #[doc(hidden)]
    fn prune(&mut self, before: Time, limit: u32) -> Result<u64>;
}
