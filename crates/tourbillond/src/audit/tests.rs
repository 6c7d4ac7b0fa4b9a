use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::*;

fn log(path: &Path) -> Audit {
    Audit::open(path, &Timer::global()).unwrap()
}

fn entry(app: &str, key: &str, token: &str) -> AuditEntry {
    AuditEntry {
        at: "2030-01-01T00:00:00Z".to_owned(),
        node: "n".to_owned(),
        token: Some(token.to_owned()),
        app: app.to_owned(),
        key: Some(key.to_owned()),
        run: None,
        action: "put_schedule".to_owned(),
        status: Some(200),
    }
}

/// The keys of the lines of a file.
fn keys(path: &Path) -> Vec<String> {
    parse(&std::fs::read_to_string(path).unwrap())
}

fn parse(text: &str) -> Vec<String> {
    let entry = |line: &str| serde_json::from_str::<AuditEntry>(line).unwrap().key.unwrap();
    text.lines().map(entry).collect()
}

/// Waits for an effect of the log's thread. Fails if it does not come.
#[track_caller]
fn wait(is_so: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "what is waited for does not come");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_file_that_is_moved_away_is_followed_by_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = log(&path);
    audit.append(&entry("a", "old", "t")).await.unwrap();
    let moved = folder.path().join("audit.1");
    std::fs::rename(&path, &moved).unwrap();
    audit.append(&entry("a", "new", "t")).await.unwrap();
    assert_eq!(keys(&moved), ["old"]);
    assert_eq!(keys(&path), ["new"]);
}

#[tokio::test]
async fn what_cannot_be_written_stops_changes_and_is_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sub").join("audit.jsonl");
    assert!(Audit::open(&path, &Timer::global()).is_err(), "there is no folder");
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let audit = log(&path);
    audit.check().unwrap();
    std::fs::remove_dir_all(folder.path().join("sub")).unwrap();
    audit.append(&entry("a", "first", "t")).await.unwrap_err();
    assert_eq!(audit.check(), Err(AuditError::Failed));
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    wait(|| audit.check().is_ok());
    audit.append(&entry("a", "second", "t")).await.unwrap();
    assert_eq!(keys(&path), ["first", "second"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_whose_folder_cannot_be_synced_is_refused_at_the_start() {
    // A file that can be written, in a folder that cannot be synced.
    let file = Path::new("/proc/self/comm");
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("audit.jsonl");
    std::os::unix::fs::symlink(file, &link).unwrap();
    for path in [file, &link] {
        let error = Audit::open(path, &Timer::global()).unwrap_err();
        assert!(error.to_string().contains("folder"), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_that_cannot_be_synced_is_refused_at_the_start() {
    let error = Audit::open(Path::new("/dev/null"), &Timer::global()).unwrap_err();
    assert!(error.to_string().contains("the file cannot be synced"), "{error}");
}

#[tokio::test]
async fn a_line_that_was_written_in_part_is_ended_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = log(&path);
    audit.append(&entry("a", "first", "t")).await.unwrap();
    // A node that was killed leaves a part of a line.
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, b"{\"at\":").unwrap();
    audit.append(&entry("a", "second", "t")).await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, after) = text.split_once("{\"at\":\n").unwrap();
    assert_eq!((parse(before), parse(after)), (vec!["first".into()], vec!["second".into()]));
}

/// A disk that acts by a test's orders.
#[derive(Clone, Default)]
struct Disk(Arc<DiskState>);

#[derive(Default)]
struct DiskState {
    text: Mutex<Vec<u8>>,
    /// Bytes that it has room for before it fails.
    room: AtomicUsize,
    /// True if a sync of the file fails.
    is_bad: AtomicBool,
    /// Writes and syncs that were asked for.
    asked: AtomicUsize,
    /// Inode of the file, another one for each file.
    inode: AtomicU64,
    /// True if the file is gone.
    is_gone: AtomicBool,
    /// Times that the folder cannot be opened.
    bad_names: AtomicUsize,
    /// True if a sync of the folder fails.
    is_folder_bad: AtomicBool,
    /// Syncs of the folder that were asked for.
    named: AtomicUsize,
    /// Held by a test, it keeps a sync waiting.
    hangs: Mutex<()>,
}

impl writer::Sink for Disk {
    fn append(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        let room = self.0.room.load(Ordering::SeqCst);
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let count = text.len().min(room);
        self.0.room.fetch_sub(count, Ordering::SeqCst);
        self.0.text.lock().unwrap().extend(&text[..count]);
        Ok(count)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        drop(self.0.hangs.lock().unwrap());
        match self.0.is_bad.load(Ordering::SeqCst) {
            true => Err(io::Error::other("a bad block")),
            false => Ok(()),
        }
    }

    fn is_deleted(&self) -> bool {
        false
    }

    fn id(&self) -> io::Result<writer::FileId> {
        let inode = self.0.inode.load(Ordering::SeqCst);
        Ok(writer::FileId { device: 1, inode, made: None })
    }
}

fn on(disk: &Disk, timer: &Timer) -> Audit {
    let own = disk.clone();
    Audit::start(Path::new("unused"), timer, own).unwrap()
}

impl writer::Place for Disk {
    type File = Self;

    fn make(&mut self) {
        if self.0.is_gone.swap(false, Ordering::SeqCst) {
            self.0.inode.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn open(&mut self) -> io::Result<Self> {
        Ok(self.clone())
    }

    fn sync(&mut self) -> Result<(), Fault> {
        self.0.named.fetch_add(1, Ordering::SeqCst);
        let bad = &self.0.bad_names;
        match bad.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Err(Fault::Write(io::Error::other("no descriptor"))),
            Err(_) if self.0.is_folder_bad.load(Ordering::SeqCst) => {
                Err(Fault::Sync(io::Error::other("a bad block")))
            }
            Err(_) => Ok(()),
        }
    }
}

/// A disk that panics.
struct Broken;

impl writer::Place for Broken {
    type File = Disk;

    fn make(&mut self) {}

    fn open(&mut self) -> io::Result<Disk> {
        panic!("the thread panics")
    }

    fn sync(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

/// The keys of the lines that a disk has.
fn kept(disk: &Disk) -> Vec<String> {
    parse(std::str::from_utf8(&disk.0.text.lock().unwrap()).unwrap())
}

#[tokio::test]
async fn a_write_that_failed_is_continued_and_nothing_is_appended_twice() {
    let disk = Disk::default();
    let audit = on(&disk, &Timer::global());
    // Full in the middle of the first line.
    disk.0.room.store(7, Ordering::SeqCst);
    assert_eq!(audit.append(&entry("a", "k0", "t")).await, Err(AuditError::Failed));
    for key in ["k1", "k2"] {
        drop(audit.append_later(&entry("a", key, "t")));
    }
    wait(|| disk.0.room.load(Ordering::SeqCst) == 0 && audit.check().is_err());
    // However often it is asked, the thread alone tries again.
    let asked = disk.0.asked.load(Ordering::SeqCst);
    for _ in 0..1_000 {
        assert_eq!(audit.check(), Err(AuditError::Failed));
    }
    assert!(disk.0.asked.load(Ordering::SeqCst) < asked + 1_000);
    disk.0.room.store(usize::MAX, Ordering::SeqCst);
    wait(|| audit.check().is_ok());
    assert_eq!(kept(&disk), ["k0", "k1", "k2"]);
}

#[tokio::test]
async fn no_line_is_reported_before_the_disk_has_the_name_of_its_file() {
    let disk = Disk::default();
    disk.0.room.store(usize::MAX, Ordering::SeqCst);
    let audit = on(&disk, &Timer::global());
    let names = || disk.0.named.load(Ordering::SeqCst);
    // Once for a process, which does not know who made the file, and once for each further file.
    for count in [1, 1] {
        audit.append(&entry("a", "old", "t")).await.unwrap();
        assert_eq!(names(), count);
    }
    disk.0.bad_names.store(2, Ordering::SeqCst);
    disk.0.is_gone.store(true, Ordering::SeqCst);
    assert_eq!(audit.append(&entry("a", "new", "t")).await, Err(AuditError::Failed));
    wait(|| audit.check().is_ok());
    assert_eq!(names(), 4);
    audit.append(&entry("a", "newer", "t")).await.unwrap();
    assert_eq!((names(), kept(&disk).len()), (4, 4));
    // Another program makes one in its place, as logrotate does.
    disk.0.inode.fetch_add(1, Ordering::SeqCst);
    audit.append(&entry("a", "newest", "t")).await.unwrap();
    assert_eq!(names(), 5);
}

/// Name of the variable that says which sync fails in a process of its own.
const BAD: &str = "TOURBILLOND_TEST_BAD_SYNC";

#[test]
fn a_sync_that_fails_ends_the_process_before_the_answer() {
    if let Ok(which) = std::env::var(BAD) {
        return ended_by(&which);
    }
    let name = "audit::tests::a_sync_that_fails_ends_the_process_before_the_answer";
    for which in ["file", "folder"] {
        let mut own = Command::new(std::env::current_exe().unwrap());
        own.args(["--exact", "--nocapture", "--test-threads", "1", name]).env(BAD, which);
        let output = own.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        // A test that fails ends with another status.
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text.contains("the audit log cannot be synced: the node ends"), "{text}");
        assert!(text.contains("a bad block") && !text.contains("answered"), "{text}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn ended_by(which: &str) {
    tracing_subscriber::fmt().with_ansi(false).init();
    let disk = Disk::default();
    disk.0.room.store(usize::MAX, Ordering::SeqCst);
    let audit = on(&disk, &Timer::global());
    let is_bad = if which == "file" { &disk.0.is_bad } else { &disk.0.is_folder_bad };
    is_bad.store(true, Ordering::SeqCst);
    let answer = audit.append(&entry("a", "first", "t")).await;
    println!("answered: {answer:?}");
}

#[tokio::test]
async fn a_disk_that_hangs_and_too_many_lines_stop_changes() {
    let disk = Disk::default();
    disk.0.room.store(usize::MAX, Ordering::SeqCst);
    let (clock, timer) = crate::watched::clocked();
    let audit = on(&disk, &timer);
    let hangs = disk.0.hangs.lock().unwrap();
    let first = audit.append_later(&entry("a", "first", "t"));
    wait(|| disk.0.asked.load(Ordering::SeqCst) >= 2);
    let second = audit.append_later(&entry("a", "second", "t"));
    clock.advance(SLOW - Duration::from_nanos(1));
    assert_eq!(audit.check(), Ok(()));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(audit.check(), Err(AuditError::Slow));
    drop(hangs);
    assert_eq!((first.await, second.await), (Ok(Ok(())), Ok(Ok(()))));
    assert_eq!(audit.check(), Ok(()));

    let hangs = disk.0.hangs.lock().unwrap();
    let asked = disk.0.asked.load(Ordering::SeqCst);
    let _first = audit.append_later(&entry("a", "first", "t"));
    wait(|| disk.0.asked.load(Ordering::SeqCst) >= asked + 2);
    for _ in 1..WAITING {
        drop(audit.append_later(&entry("a", "k", "t")));
    }
    assert_eq!(audit.check(), Ok(()));
    let last = audit.append_later(&entry("a", "last", "t"));
    assert_eq!(audit.check(), Err(AuditError::Slow));
    drop(hangs);
    last.await.unwrap().unwrap();
    assert_eq!(audit.check(), Ok(()));
}

#[tokio::test]
async fn a_closed_log_has_all_lines_and_a_log_without_its_thread_permits_nothing() {
    let disk = Disk::default();
    disk.0.room.store(usize::MAX, Ordering::SeqCst);
    let audit = on(&disk, &Timer::global());
    let wanted: Vec<_> = (0..3_000).map(|number| format!("k{number}")).collect();
    for key in &wanted {
        drop(audit.append_later(&entry("a", key, "t")));
    }
    audit.close();
    assert_eq!(kept(&disk), wanted);
    assert_eq!(audit.check(), Err(AuditError::Closed));
    assert_eq!(audit.append(&entry("a", "late", "t")).await, Err(AuditError::Closed));

    let audit = Audit::start(Path::new("unused"), &Timer::global(), Broken).unwrap();
    assert_eq!(audit.append(&entry("a", "first", "t")).await, Err(AuditError::Closed));
    // The line is dropped before the thread has ended.
    wait(|| audit.check().is_err());
    assert_eq!(audit.check(), Err(AuditError::Closed));
}

#[test]
fn a_log_that_cannot_be_written_is_closed_all_the_same() {
    let disk = Disk::default();
    let audit = on(&disk, &Timer::global());
    drop(audit.append_later(&entry("a", "first", "t")));
    audit.close();
    assert_eq!(kept(&disk), [""; 0]);
}
