//! [`Link`]: one connection to a file, and its transactions.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use tourbillon::Timer;

use super::failure::{Answer, Failure};
use super::fair_lock::FairLock;
use super::identity::Identity;
use super::schema;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::Result;
use crate::time::Time;

/// Time for which a call waits for other connections of this process, and then for other processes,
/// by the monotonic clock.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time from one try to take the file's lock to the next. A busy process leaves little room between
/// two of its transactions: SQLite's own pauses, of up to 100 ms, miss it.
const PAUSE: Duration = Duration::from_micros(500);

/// Settings of every connection: a commit is on the disk when it returns. On macOS that takes more
/// than its `fsync`.
const SETTINGS: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA fullfsync = ON;
    PRAGMA checkpoint_fullfsync = ON;
    PRAGMA temp_store = MEMORY;
    PRAGMA trusted_schema = OFF";

const MICROSECOND: Duration = Duration::from_micros(1);

/// Number of statements that each connection keeps prepared: more than there are.
const STATEMENTS: usize = 100;

/// A file, shared by the connections of one process.
#[derive(Debug)]
struct File {
    path: PathBuf,
    /// Identity of the path's file when it was opened first.
    identity: Identity,
    /// Instead of the host's wall clock.
    clock: Option<Timer>,
    writers: FairLock,
}

/// One connection. It is opened anew after an error that may be the connection's own.
#[derive(Debug)]
pub(super) struct Link {
    file: Arc<File>,
    connection: Option<Connection>,
}

impl Link {
    /// Opens or makes a file, and makes the tables that this build needs.
    pub(super) fn open(path: PathBuf, clock: Option<Timer>) -> Result<Self> {
        let connection = connect(&path, OpenFlags::SQLITE_OPEN_CREATE, schema::migrate)?;
        let identity = Identity::of(&path)?;
        let file = Arc::new(File { path, identity, clock, writers: FairLock::default() });
        Ok(Self { file, connection: Some(connection) })
    }

    /// Another connection to the same file.
    pub(super) fn connect(&self) -> Result<Self> {
        let connection = self.file.open_again()?;
        Ok(Self { file: self.file.clone(), connection: Some(connection) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Runs `work`, which writes nothing, in a transaction: it sees the file as it is at one
    /// moment. The time is from just before.
    pub(super) fn read<T>(
        &mut self,
        work: impl FnOnce(&Connection, Time) -> Answer<T>,
    ) -> Result<T> {
        let file = self.file.clone();
        self.call(|connection| {
            let deferred = TransactionBehavior::Deferred;
            let transaction = Transaction::new_unchecked(connection, deferred)?;
            file.identity.check(&file.path)?;
            work(&transaction, file.now())
        })
    }

    /// Runs `work` in a transaction that no other writer comes between. The time is from when the
    /// last of them was out.
    pub(super) fn write<T>(
        &mut self,
        work: impl FnOnce(&Connection, Time) -> Answer<T>,
    ) -> Result<T> {
        let file = self.file.clone();
        let Some(_inside) = file.writers.enter(Instant::now() + PATIENCE) else {
            let why = format!("other connections of this process wrote for {PATIENCE:?}");
            return Err(StoreError::new(StoreErrorKind::Unavailable, why));
        };
        self.call(|connection| {
            let immediate = TransactionBehavior::Immediate;
            let transaction = Transaction::new_unchecked(connection, immediate)?;
            file.identity.check(&file.path)?;
            let now = file.now();
            schema::check(&transaction)?;
            let done = work(&transaction, now)?;
            transaction.commit().map_err(Failure::Commit)?;
            // If the file went away before the commit was complete, the write may be lost.
            let lost = |error| StoreError::new(StoreErrorKind::Uncertain, error);
            file.identity.check(&file.path).map_err(lost)?;
            Ok(done)
        })
    }

    fn call<T>(&mut self, work: impl FnOnce(&Connection) -> Answer<T>) -> Result<T> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.file.open_again()?,
        };
        let answer = work(&connection);
        let is_sound = answer.as_ref().map_or_else(Failure::spares_the_connection, |_| true);
        // A connection that could not roll back cannot be used again.
        if is_sound && connection.is_autocommit() {
            self.connection = Some(connection);
        }
        answer.map_err(StoreError::from)
    }
}

impl File {
    fn now(&self) -> Time {
        self.clock.as_ref().map_or_else(wall_now, |clock| clock.wall_now().into())
    }

    /// Opens the file, which has to be the file of the first opening: a missing file is not made
    /// anew.
    fn open_again(&self) -> Result<Connection> {
        let opened = connect(&self.path, OpenFlags::empty(), schema::check);
        self.identity.check(&self.path)?;
        opened
    }
}

fn connect(
    path: &Path,
    create: OpenFlags,
    prepare: impl Fn(&Connection) -> Answer<()>,
) -> Result<Connection> {
    let deadline = Instant::now() + PATIENCE;
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags | create)?;
        configure(&mut connection)?;
        prepare(&connection)?;
        Ok(connection)
    };
    loop {
        match open() {
            // SQLite does not wait by itself while it makes a file, or recovers it after a crash.
            Err(failure) if is_busy(&failure) && Instant::now() < deadline => {
                thread::sleep(PAUSE);
            }
            answer => return answer.map_err(StoreError::from),
        }
    }
}

/// The host's wall clock.
///
/// SQLite reads the same clock, but to the millisecond. This time is rounded down, and due times
/// are not: nothing becomes due early.
pub(super) fn wall_now() -> Time {
    let now = SystemTime::now();
    let rounded = Time::from(now);
    if SystemTime::from(rounded) > now { rounded - MICROSECOND } else { rounded }
}

fn is_busy(failure: &Failure) -> bool {
    let Failure::Sqlite(error) = failure else { return false };
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

thread_local! {
    /// Time at which the wait for a file's lock that this thread is in began, or its last one.
    static WAITS_SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Returns whether this thread, which finds a file locked at `now`, is to try again. It has done so
/// `tries` times in this wait, which takes place within one call of SQLite. How long a pause takes
/// is the system's choice, so their number says nothing about the time.
fn has_patience(tries: i32, now: Instant) -> bool {
    let since = WAITS_SINCE.get().filter(|_| tries > 0).unwrap_or(now);
    WAITS_SINCE.set(Some(since));
    now.duration_since(since) < PATIENCE
}

fn configure(connection: &mut Connection) -> Answer<()> {
    connection.busy_handler(Some(|tries| {
        let is_to_try = has_patience(tries, Instant::now());
        if is_to_try {
            thread::sleep(PAUSE);
        }
        is_to_try
    }))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let why = format!("its file cannot have a write-ahead log, only `{mode}`");
        return Err(Failure::Other(StoreError::new(StoreErrorKind::Invalid, why)));
    }
    connection.execute_batch(SETTINGS)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::{Duration, Instant};

    use super::{Link, PATIENCE, has_patience};
    use crate::error::StoreErrorKind;

    struct File(std::path::PathBuf);

    impl File {
        fn new(name: &str) -> Self {
            let name = format!("tourbillon-durable-link-{name}-{}.db", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            for ending in ["", "-wal", "-shm"] {
                let mut path = self.0.clone().into_os_string();
                path.push(ending);
                // A file that is not there needs no removal.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    #[test]
    fn a_wait_for_the_lock_ends_by_the_clock_and_not_by_the_number_of_tries() {
        let (start, moment) = (Instant::now(), Duration::from_nanos(1));
        assert!(has_patience(0, start));
        assert!(has_patience(i32::MAX, start + PATIENCE - moment));
        // With one pause that took all of the time.
        assert!(has_patience(0, start + PATIENCE));
        assert!(has_patience(1, start + PATIENCE * 2 - moment));
        assert!(!has_patience(2, start + PATIENCE * 2));
        // The next wait has all of its time.
        assert!(has_patience(0, start + PATIENCE * 9));
        assert!(has_patience(1, start + PATIENCE * 10 - moment));
    }

    #[test]
    fn a_full_disk_leaves_nothing_and_the_next_call_connects_anew() {
        let file = File::new("full");
        let mut link = Link::open(file.0.clone(), None).unwrap();
        let fill = "CREATE TABLE a (x); INSERT INTO a VALUES (zeroblob(100000))";
        let full = link.write(|connection, _| {
            connection.execute_batch("PRAGMA max_page_count = 1")?;
            Ok(connection.execute_batch(fill)?)
        });
        assert_eq!(full.unwrap_err().kind(), StoreErrorKind::Unavailable);
        link.write(|connection, _| Ok(connection.execute_batch(fill)?)).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_write_to_a_file_that_goes_meanwhile_is_uncertain() {
        let file = File::new("gone");
        let mut link = Link::open(file.0.clone(), None).unwrap();
        let answer = link.write(|connection, _| {
            std::fs::remove_file(&file.0).unwrap();
            Ok(connection.execute_batch("CREATE TABLE a (x)")?)
        });
        assert_eq!(answer.unwrap_err().kind(), StoreErrorKind::Uncertain);
        assert_eq!(link.read(|_, _| Ok(())).unwrap_err().kind(), StoreErrorKind::Gone);
    }

    #[test]
    fn a_panic_in_a_transaction_leaves_nothing_and_no_lock() {
        let file = File::new("panic");
        let mut link = Link::open(file.0.clone(), None).unwrap();
        let fill = "CREATE TABLE a (x)";
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            link.write(|connection, _| {
                connection.execute_batch(fill)?;
                if connection.is_autocommit() { Ok(()) } else { panic!("in the middle") }
            })
        }));
        assert!(panicked.is_err());
        let mut other = link.connect().unwrap();
        other.write(|connection, _| Ok(connection.execute_batch(fill)?)).unwrap();
        link.read(|connection, _| Ok(connection.execute_batch("SELECT * FROM a")?)).unwrap();
    }

    #[test]
    fn every_connection_waits_for_the_disk() {
        let file = File::new("settings");
        let link = Link::open(file.0.clone(), None).unwrap();
        let mut again = link.connect().unwrap();
        let settings = again.read(|connection, _| {
            let sql = "SELECT synchronous, journal_mode
                FROM pragma_synchronous, pragma_journal_mode";
            Ok(connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
        });
        assert_eq!(settings.unwrap(), (2, "wal".to_owned()));
    }
}
