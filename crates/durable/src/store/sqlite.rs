//! [`Sqlite`]: a store in one file, for the processes of one host.
//!
//! # In a transaction of the caller's
//!
//! [`insert`], [`cancel`], [`reschedule`] and [`finish`] do the same as [`Store::insert`],
//! [`Store::cancel`], [`Store::reschedule`] and [`Store::finish`], within a transaction that the
//! caller has begun on its connection to the same file. Their writes become visible with the
//! caller's own, or not at all. The file has one writer at a time, so that transaction holds up
//! every node: end it soon.

mod failure;
mod fair_lock;
mod identity;
mod lanes;
mod link;
mod lists;
mod nodes;
mod overview;
#[cfg(test)]
mod plans;
mod schedules;
mod schema;
mod timers;
mod values;
mod views;
mod within;
mod zones;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use self::link::Link;
pub use self::within::{cancel, finish, insert, reschedule};
use super::{
    Advance, Advanced, Amendment, Batch, Beat, Change, Changed, Claimed, End, Filled, Finished,
    Held, Hits, Inserted, Maintained, ManualRun, Named, NewOccurrence, NewTimer, NodeInfo,
    Overview, OverviewOf, Past, Promoted, RecordQuery, Reschedule, Result, Scan, ScheduleQuery,
    ScheduleRow, Search, Store, Tally, TallyOf, Timer, TimerQuery, TimerUpdate, Upcoming,
    UpcomingQuery, Window, ZonedQuery,
};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Lease, TimerId};
use crate::record::{Record, RecordSummary};
use crate::time::Time;

/// A database in one file, which all processes of one host can open.
///
/// The writes of a call are on the disk when it returns. There is one writer at a time: the
/// connections of one process take turns, and several processes contend for the file's lock. A call
/// waits for its turn for at most three seconds, and then tries to take the lock for three seconds
/// more, by the monotonic clock; then it fails as
/// [`Unavailable`](crate::StoreErrorKind::Unavailable). A call that has to open the file again,
/// after an error, does that first, which may take longer. Readers do not wait.
///
/// # The time
///
/// The database's clock is the host's wall clock, to the microsecond. Each call reads it once its
/// transaction has begun; so the time of a write is not before the transactions that it sees. All
/// processes have to see the same clock.
///
/// # The file
///
/// The first opening makes the tables. Their names begin with `tourbillon_`, so the file may have
/// other tables. Beside it lie two more files that belong to it, with the endings `-wal` and
/// `-shm`. Two things lose its contents:
///
/// - a file system that the hosts of a network share;
/// - in a process that has it open, to open and close it by other means than SQLite: that gives up
///   the process's locks.
///
/// Only [`open`](Self::open) makes a missing file anew. On Unix each call compares the device and
/// the inode of the path with those of the opened file: once the file is deleted, moved or
/// replaced, every call fails with [`Gone`](StoreErrorKind::Gone), and a node ends with that error
/// at its next heartbeat. Other systems notice only that the path names no file. No system notices
/// a file that is overwritten in place, as by `cp`: stop all programs that have it open before you
/// restore a backup.
pub struct Sqlite {
    link: Link,
    /// Lane after which the next `maintain` looks for lanes without a front.
    lane: String,
}

impl Sqlite {
    /// Opens a file, and makes it if it is not there, but not its folder.
    ///
    /// Opening makes the tables that this build needs. Two successive builds can have the file open
    /// at the same time, unless a migration says that they cannot.
    ///
    /// # Errors
    ///
    /// - [`Invalid`](StoreErrorKind::Invalid) for a database in memory ([`Memory`] is for this),
    ///   for a database without a file, and for a file that is not a database.
    /// - [`Schema`](StoreErrorKind::Schema) if a later build made the tables, in a way that this
    ///   one does not work with.
    /// - [`Unavailable`](StoreErrorKind::Unavailable) otherwise.
    ///
    /// [`Memory`]: super::Memory
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tourbillon_durable::{Engine, store::Sqlite};
    ///
    /// let engine = Engine::builder().start(Box::new(Sqlite::open("timers.db")?))?;
    /// # Ok::<(), tourbillon_durable::StoreError>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::start(path.as_ref(), None)
    }

    /// Opens a file with the wall clock of a timer for its clock: a virtual one, in tests.
    ///
    /// # Errors
    ///
    /// Fails as [`open`](Self::open) does.
    pub fn with_clock(path: impl AsRef<Path>, clock: &tourbillon::Timer) -> Result<Self> {
        Self::start(path.as_ref(), Some(clock.clone()))
    }

    fn start(path: &Path, clock: Option<tourbillon::Timer>) -> Result<Self> {
        let text = path.to_string_lossy();
        if text.is_empty() || text == ":memory:" || text.starts_with("file:") {
            let why = format!("`{text}` does not name a file; for tests there is `Memory`");
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        // Later openings use the same file, even if the process has changed its directory.
        let path = std::path::absolute(path)
            .map_err(|error| StoreError::new(StoreErrorKind::Unavailable, error))?;
        Ok(Self { link: Link::open(path, clock)?, lane: String::new() })
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("path", &self.link.path()).finish_non_exhaustive()
    }
}

impl crate::store::Sealed for Sqlite {}

impl Store for Sqlite {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self { link: self.link.connect()?, lane: String::new() }))
    }

    fn now(&mut self) -> Result<Time> {
        self.link.read(|_, now| Ok(now))
    }

    fn confirm(&mut self) -> Result<()> {
        // A commit is read by others once it is in the file's log, on the disk.
        Ok(())
    }

    fn join(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        self.link.write(|file, now| nodes::join(file, now, lease, span))
    }

    fn beat(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        self.link.write(|file, now| nodes::beat(file, now, lease, span))
    }

    fn leave(&mut self, lease: Lease) -> Result<()> {
        self.link.write(|file, now| nodes::leave(file, now, lease))
    }

    fn maintain(&mut self) -> Result<Maintained> {
        let lane = &mut self.lane;
        self.link.write(|file, now| nodes::maintain(file, now, lane))
    }

    fn promote(&mut self, lanes: &[String]) -> Result<Vec<Promoted>> {
        self.link.write(|file, now| lanes::promote(file, now, lanes))
    }

    fn nodes(&mut self) -> Result<Vec<NodeInfo>> {
        self.link.read(|file, _| overview::nodes(file))
    }

    fn insert(&mut self, timers: &[NewTimer]) -> Result<Vec<Inserted>> {
        self.link.write(|file, now| timers::insert(file, now, timers))
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Window> {
        self.link.read(|file, now| timers::scan(file, now, scan))
    }

    fn held(&mut self, lease: Lease, _: Option<(Time, TimerId)>) -> Result<Held> {
        self.link.read(|file, _| timers::held(file, lease))
    }

    fn claim(&mut self, lease: Lease, timers: &[TimerId]) -> Result<Claimed> {
        self.link.write(|file, now| timers::claim(file, now, lease, timers))
    }

    fn finish(&mut self, lease: Lease, ends: &[End]) -> Result<Vec<Finished>> {
        self.link.write(|file, now| timers::finish(file, now, lease, ends))
    }

    fn finish_and_claim(&mut self, batch: &Batch<'_>) -> Result<(Vec<Finished>, Claimed)> {
        let Batch { lease, ends, timers } = *batch;
        self.link.write(|file, now| {
            let finished = timers::finish(file, now, lease, ends)?;
            Ok((finished, timers::claim(file, now, lease, timers)?))
        })
    }

    fn cancel(&mut self, timer: TimerId) -> Result<TimerUpdate> {
        self.link.write(|file, now| timers::cancel(file, now, timer))
    }

    fn reschedule(&mut self, reschedule: &Reschedule<'_>) -> Result<TimerUpdate> {
        self.link.write(|file, now| timers::reschedule(file, now, reschedule))
    }

    fn amend(&mut self, amendment: &Amendment<'_>) -> Result<TimerUpdate> {
        self.link.write(|file, now| timers::amend(file, now, amendment))
    }

    fn find(&mut self, name: &str) -> Result<Option<Timer>> {
        self.link.read(|file, _| timers::find(file, name))
    }

    fn named(&mut self, names: &[&str]) -> Result<(Time, Vec<Named>)> {
        self.link.read(|file, now| Ok((now, lists::named(file, names)?)))
    }

    fn timers(&mut self, query: &TimerQuery) -> Result<Vec<Timer>> {
        self.link.read(|file, _| lists::timers(query).get(file, values::timer))
    }

    fn schedule(&mut self, name: &str) -> Result<(Time, Option<ScheduleRow>)> {
        self.link.read(|file, now| Ok((now, schedules::by_name(file, name)?)))
    }

    fn schedules(&mut self, query: &ScheduleQuery) -> Result<Vec<ScheduleRow>> {
        self.link.read(|file, _| lists::schedules(query).get(file, values::schedule))
    }

    fn upcoming(&mut self, query: &UpcomingQuery) -> Result<Upcoming> {
        self.link.read(|file, now| schedules::upcoming(file, now, query))
    }

    fn zoned(&mut self, query: &ZonedQuery) -> Result<Vec<ScheduleRow>> {
        self.link.read(|file, _| zones::zoned(file, query))
    }

    fn rezone(&mut self, row: &ScheduleRow) -> Result<Advanced> {
        self.link.write(|file, now| zones::rezone(file, now, row))
    }

    fn change(&mut self, change: &Change<'_>) -> Result<Changed> {
        self.link.write(|file, now| schedules::change(file, now, change))
    }

    fn create_schedules(&mut self, rows: &[ScheduleRow]) -> Result<Vec<bool>> {
        self.link.write(|file, now| {
            let create = |row: &ScheduleRow| {
                let (name, row) = (&row.name[..], Some(row));
                let change = Change { name, expect: None, row, withdraw: None, skipped: &[] };
                Ok(schedules::change(file, now, &change)? != Changed::Stale)
            };
            rows.iter().map(create).collect()
        })
    }

    fn advance(&mut self, advance: &Advance<'_>) -> Result<Advanced> {
        self.link.write(|file, now| schedules::advance(file, now, advance))
    }

    fn advance_batch(&mut self, advances: &[Advance<'_>]) -> Result<Vec<Advanced>> {
        self.link.write(|file, now| {
            advances.iter().map(|advance| schedules::advance(file, now, advance)).collect()
        })
    }

    fn backfill(&mut self, past: &Past<'_>) -> Result<Filled> {
        self.link.write(|file, now| schedules::backfill(file, now, past))
    }

    fn insert_occurrence(&mut self, occurrence: &NewOccurrence<'_>) -> Result<ManualRun> {
        self.link.write(|file, now| schedules::insert_occurrence(file, now, occurrence))
    }

    fn records(&mut self, query: &RecordQuery) -> Result<Vec<Record>> {
        self.link.read(|file, _| lists::records(query).get(file, values::record))
    }

    fn latest_records(&mut self, names: &[&str], each: u32) -> Result<Vec<Vec<RecordSummary>>> {
        self.link.read(|file, _| views::latest_records(file, names, each))
    }

    fn search(&mut self, search: &Search) -> Result<Hits> {
        self.link.read(|file, _| views::search(file, search))
    }

    fn tally(&mut self, of: &TallyOf) -> Result<Tally> {
        self.link.read(|file, _| views::tally(file, of))
    }

    fn overview(&mut self, of: &OverviewOf) -> Result<Overview> {
        self.link.read(|file, now| overview::overview(file, now, of))
    }

    fn prune(&mut self, before: Time, limit: u32) -> Result<u64> {
        self.link.write(|file, _| lists::prune(file, before, limit))
    }
}
