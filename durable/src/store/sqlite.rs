//! [`Sqlite`]: timers in a file, for the processes of one host.

mod nodes;
mod rows;
mod schedules;
mod schema;
mod timers;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use super::{
    Advance, Advanced, Beat, Change, Changed, Claimed, End, Filter, Finished, Inserted, NewTimer,
    Result, Scan, ScheduleRow, Store, Tended, Timer, Upcoming, Window, Withdrawn,
};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Lease, NodeId, Shards, TimerId};
use crate::record::Record;
use crate::time::Time;

/// The pause between two tries for the lock that another process has.
const BUSY_PAUSE: Duration = Duration::from_micros(500);

/// How many of them there are: 5 s of them and more.
const BUSY_TRIES: i32 = 10_000;

/// How many statements are kept prepared.
const STATEMENTS: usize = 64;

/// A database in a file, which the processes of one host share.
///
/// It is in WAL mode with `synchronous=FULL`: what is committed survives the machine's crash. Its
/// clock is the host's wall clock. The file may have tables of one's own; those of this crate are
/// named `tourbillon_*`.
///
/// # Examples
///
/// ```
/// use tourbillon_durable::store::{Sqlite, Store};
///
/// # let folder = std::env::temp_dir().join(format!("durable-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let mut store = Sqlite::open(folder.join("timers.db"))?;
/// assert!(store.find("nightly")?.is_none());
/// # drop(store);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sqlite {
    path: PathBuf,
    clock: Option<tourbillon::Timer>,
    /// Held by the one of this process's connections that writes: threads wait for a mutex without
    /// polling, unlike for the lock on the file.
    gate: Arc<Mutex<()>>,
    db: Connection,
}

impl Sqlite {
    /// Opens or makes the file, and brings its tables to this build's version.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or has tables that this build does not work with.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::start(path.as_ref(), None)
    }

    /// The same, with the wall clock of a timer for its clock: a virtual one, in tests.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn with_clock(path: impl AsRef<Path>, clock: &tourbillon::Timer) -> Result<Self> {
        Self::start(path.as_ref(), Some(clock.clone()))
    }

    fn start(path: &Path, clock: Option<tourbillon::Timer>) -> Result<Self> {
        let (gate, path) = (Arc::default(), path.to_owned());
        let mut store = Self { db: connect(&path)?, path, clock, gate };
        let tx = store.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        schema::migrate(&tx)?;
        tx.commit()?;
        Ok(store)
    }

    /// Runs a transaction that writes, with its time.
    fn write<T>(&mut self, work: impl FnOnce(&Tx<'_>) -> rusqlite::Result<T>) -> Result<T> {
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read once the lock is there, so that times are in the order of transactions.
        let now = now(self.clock.as_ref());
        let tx = Tx { tx, now };
        let done = work(&tx)?;
        tx.tx.commit().map_err(|error| StoreError::new(StoreErrorKind::Uncertain, error))?;
        Ok(done)
    }

    /// Runs a transaction that reads, with its time.
    fn read<T>(&mut self, work: impl FnOnce(&Tx<'_>) -> rusqlite::Result<T>) -> Result<T> {
        let now = now(self.clock.as_ref());
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Deferred)?;
        Ok(work(&Tx { tx, now })?)
    }
}

/// A transaction, and its time.
struct Tx<'a> {
    tx: Transaction<'a>,
    now: Time,
}

fn now(clock: Option<&tourbillon::Timer>) -> Time {
    match clock {
        Some(clock) => clock.wall_now().into(),
        // Down to a microsecond, as times of timers are rounded up.
        None => {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let micros = since.map_or(0, |since| since.as_micros());
            Time::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
        }
    }
}

fn connect(path: &Path) -> Result<Connection> {
    let db = Connection::open(path)?;
    db.busy_handler(Some(|tries| {
        thread::sleep(BUSY_PAUSE);
        tries < BUSY_TRIES
    }))?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", "full")?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(db)
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use StoreErrorKind::{Conflict, Invalid, Unavailable};
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Conflict,
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::DiskFull
                | ErrorCode::OutOfMemory
                | ErrorCode::OperationInterrupted,
            ) => Unavailable,
            _ => Invalid,
        };
        Self::new(kind, error)
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Store for Sqlite {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self {
            path: self.path.clone(),
            clock: self.clock.clone(),
            gate: self.gate.clone(),
            db: connect(&self.path)?,
        }))
    }

    fn now(&mut self) -> Result<Time> {
        Ok(now(self.clock.as_ref()))
    }

    fn join(&mut self, node: NodeId, span: Duration) -> Result<Beat> {
        self.write(|tx| nodes::join(tx, node, span))
    }

    fn beat(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        self.write(|tx| nodes::beat(tx, lease, span))
    }

    fn leave(&mut self, lease: Lease) -> Result<()> {
        self.write(|tx| nodes::leave(tx, lease))
    }

    fn tend(&mut self) -> Result<Tended> {
        self.write(nodes::tend)
    }

    fn insert(&mut self, timers: &[NewTimer], repeated: bool) -> Result<Vec<Inserted>> {
        self.write(|tx| timers::insert_all(tx, timers, repeated))
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Window> {
        self.read(|tx| timers::scan(tx, scan))
    }

    fn held(&mut self, lease: Lease) -> Result<Vec<(TimerId, u32)>> {
        self.read(|tx| timers::held(tx, lease))
    }

    fn claim(&mut self, lease: Lease, timers: &[TimerId]) -> Result<Claimed> {
        self.write(|tx| timers::claim(tx, lease, timers))
    }

    fn finish(&mut self, lease: Lease, ends: &[End]) -> Result<Vec<Finished>> {
        self.write(|tx| timers::finish(tx, lease, ends))
    }

    fn finish_and_claim(
        &mut self,
        lease: Lease,
        ends: &[End],
        timers: &[TimerId],
    ) -> Result<(Vec<Finished>, Claimed)> {
        self.write(|tx| {
            let finished = timers::finish(tx, lease, ends)?;
            Ok((finished, timers::claim(tx, lease, timers)?))
        })
    }

    fn cancel(&mut self, timer: TimerId) -> Result<Withdrawn> {
        self.write(|tx| timers::cancel(tx, timer))
    }

    fn reschedule(&mut self, timer: TimerId, to: Time) -> Result<Withdrawn> {
        self.write(|tx| timers::reschedule(tx, timer, to))
    }

    fn find(&mut self, name: &str) -> Result<Option<Timer>> {
        self.read(|tx| timers::find(tx, name))
    }

    fn timers(&mut self, filter: &Filter) -> Result<Vec<Timer>> {
        self.read(|tx| timers::list(tx, filter))
    }

    fn schedule(&mut self, name: &str) -> Result<(Time, Option<ScheduleRow>)> {
        self.read(|tx| Ok((tx.now, schedules::find(tx, name)?)))
    }

    fn schedules(&mut self, filter: &Filter) -> Result<Vec<ScheduleRow>> {
        self.read(|tx| schedules::list(tx, filter))
    }

    fn upcoming(&mut self, ahead: Duration, shards: Shards, limit: u32) -> Result<Upcoming> {
        self.read(|tx| schedules::upcoming(tx, ahead, shards, limit))
    }

    fn change(&mut self, change: &Change<'_>) -> Result<Changed> {
        self.write(|tx| schedules::change(tx, change))
    }

    fn advance(&mut self, advance: &Advance<'_>) -> Result<Advanced> {
        self.write(|tx| schedules::advance(tx, advance))
    }

    fn records(&mut self, filter: &Filter) -> Result<Vec<Record>> {
        self.read(|tx| rows::records(tx, filter))
    }

    fn prune(&mut self, before: Time, limit: u32) -> Result<u64> {
        self.write(|tx| rows::prune(tx, before, limit))
    }
}
