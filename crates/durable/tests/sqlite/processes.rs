//! Several processes with one file: how it is made, and what is left of an open transaction. The
//! storms of the harness have nodes that are killed.
//!
//! A test runs this binary again for each of them, with [`ROLE`] and [`FILE`] set.

use std::io::{BufRead, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::slice::from_ref;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use tourbillon_durable::store::{Inserted, NewTimer, Sqlite, Store, TimerQuery};

use super::file::timer;
use super::folder::Folder;

const ROLE: &str = "TOURBILLON_TEST_ROLE";
const FILE: &str = "TOURBILLON_TEST_FILE";

const LONG: Duration = Duration::from_secs(600);

/// Text that a process writes before its word.
const MARK: &str = "said: ";

/// A process that has its orders, and has done nothing yet.
struct Process {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(role: &str, file: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::another_process", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .env(FILE, file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut process = Self { child, said };
        assert_eq!(process.next().as_deref(), Some("ready"));
        process
    }

    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// The next word; `None` once it has ended.
    fn next(&mut self) -> Option<String> {
        loop {
            let line = self.said.next()?.unwrap();
            // The test harness may have left a line open.
            if let Some((_, word)) = line.split_once(MARK) {
                return Some(word.to_owned());
            }
        }
    }

    /// SIGKILL, on Unix.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        assert!(!self.child.wait().unwrap().success());
    }

    fn end(mut self) -> Vec<String> {
        let rest = std::iter::from_fn(|| self.next()).collect();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

/// In one write, as another thread may write too.
fn say(word: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{MARK}{word}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

#[test]
#[ignore = "the other tests run it, in processes of their own"]
fn another_process() {
    let file = std::env::var_os(FILE).unwrap();
    let file = Path::new(&file);
    say("ready");
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    match &*std::env::var(ROLE).unwrap() {
        "open" => {
            Sqlite::open(file).unwrap().insert(&[timer()]).unwrap();
            say("opened");
        }
        "stop in the middle" => {
            let mut db = Connection::open(file).unwrap();
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
            // So much that it does not stay in memory until the commit.
            transaction.execute_batch("PRAGMA cache_spill = 1; PRAGMA cache_size = 1").unwrap();
            let ruin = "UPDATE tourbillon_timer SET payload = zeroblob(100000), attempt = 7";
            transaction.execute_batch(ruin).unwrap();
            say("inside");
            thread::sleep(LONG);
        }
        role => panic!("no role {role}"),
    }
}

#[test]
fn processes_open_a_new_file_at_once() {
    for _ in 0..5 {
        let folder = Folder::new();
        let mut others: Vec<_> = (0..3).map(|_| Process::start("open", &folder.file())).collect();
        others.iter_mut().for_each(Process::go);
        for other in others {
            assert_eq!(other.end(), ["opened"]);
        }
        let mut store = Sqlite::open(folder.file()).unwrap();
        assert_eq!(store.timers(&TimerQuery::new()).unwrap().len(), 3);
    }
}

#[test]
fn a_process_that_is_killed_in_a_transaction_has_written_nothing() {
    let folder = Folder::new();
    let mut store = Sqlite::open(folder.file()).unwrap();
    let timers: Vec<NewTimer> = (0..30).map(|_| timer()).collect();
    store.insert(&timers).unwrap();
    let before = store.timers(&TimerQuery::new()).unwrap();
    let mut other = Process::start("stop in the middle", &folder.file());
    other.go();
    assert_eq!(other.next().as_deref(), Some("inside"));
    let log = std::fs::metadata(folder.file().with_extension("db-wal")).unwrap().len();
    assert!(log > 1_000_000, "only {log} bytes of it are written");
    other.kill();
    assert_eq!(store.timers(&TimerQuery::new()).unwrap(), before);
    let new = timer();
    assert_eq!(store.insert(from_ref(&new)).unwrap(), [Inserted::Created]);
    let mut again = Sqlite::open(folder.file()).unwrap();
    assert_eq!(again.timers(&TimerQuery::new()).unwrap().len(), before.len() + 1);
    let db = Connection::open(folder.file()).unwrap();
    let sound: String = db.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}
