//! The store in SQLite passes what every store has to, on a virtual clock and on the host's.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tourbillon::{Timer, VirtualClock};
use tourbillon_durable::Store;
use tourbillon_durable::store::Sqlite;
use tourbillon_durable::store::conformance::Rig;

/// A folder of its own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tourbillon-durable-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("timers.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

struct OnVirtualTime {
    clock: VirtualClock,
    store: Sqlite,
    _folder: Folder,
}

impl OnVirtualTime {
    fn new() -> Self {
        let clock = VirtualClock::new();
        let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
        let folder = Folder::new();
        let store = Sqlite::with_clock(folder.file(), &timer).unwrap();
        Self { clock, store, _folder: folder }
    }
}

impl Rig for OnVirtualTime {
    fn store(&self) -> Box<dyn Store> {
        self.store.connect().unwrap()
    }

    fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }
}

/// Each connection is one that another process might have: it shares nothing but the file.
struct OnRealTime(Folder);

impl Rig for OnRealTime {
    fn store(&self) -> Box<dyn Store> {
        Box::new(Sqlite::open(self.0.file()).unwrap())
    }

    fn pass(&self, span: Duration) {
        std::thread::sleep(span);
    }
}

mod on_virtual_time {
    tourbillon_durable::conformance!(super::OnVirtualTime::new());
}

mod on_real_time {
    tourbillon_durable::conformance!(super::OnRealTime(super::Folder::new()));
}

#[test]
fn tables_of_a_later_version_are_refused_if_they_say_so() {
    let folder = Folder::new();
    drop(Sqlite::open(folder.file()).unwrap());
    let db = rusqlite::Connection::open(folder.file()).unwrap();
    db.execute("UPDATE tourbillon_schema SET version = 9, oldest = 1", ()).unwrap();
    drop(Sqlite::open(folder.file()).unwrap());
    db.execute("UPDATE tourbillon_schema SET oldest = 9", ()).unwrap();
    let error = Sqlite::open(folder.file()).unwrap_err();
    assert_eq!(error.kind(), tourbillon_durable::StoreErrorKind::Schema);
    assert_eq!(db.query_row("SELECT version FROM tourbillon_schema", (), |row| row.get(0)), Ok(9));
}

#[test]
fn a_scan_reads_the_index_on_due() {
    let folder = Folder::new();
    drop(Sqlite::open(folder.file()).unwrap());
    let db = rusqlite::Connection::open(folder.file()).unwrap();
    let plan = |query: &str| -> String {
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let rows = explain.query_map((), |row| row.get::<_, String>(3)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    };
    let scan = plan(
        "SELECT due, id, kind, shard FROM tourbillon_timer INDEXED BY tourbillon_timer_due
         WHERE due BETWEEN 1 AND 2 AND due < 3 AND owner IS NULL ORDER BY due, id",
    );
    assert!(scan.contains("tourbillon_timer_due (due") && !scan.contains("TEMP"), "{scan}");
    let upcoming = plan(
        "SELECT id FROM tourbillon_schedule WHERE enabled = 1 AND next <= 5 ORDER BY next, id",
    );
    assert!(upcoming.contains("tourbillon_schedule_next (next"), "{upcoming}");
}
