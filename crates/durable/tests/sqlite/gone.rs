//! A file that is deleted, moved or replaced under a node: the node ends, and says why.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use tourbillon_durable::store::{Sqlite, Store};
use tourbillon_durable::{EndError, Engine, StoreError, StoreErrorKind};

use super::file::timer;
use super::folder::Folder;

const MOMENT: Duration = Duration::from_millis(20);

/// Long enough for a slow machine, so that no test hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a node and a connection without one on a file, does `harm` to the file, and waits for the
/// node's end.
fn ends_after(harm: impl FnOnce(&Path)) {
    let folder = Folder::new();
    let mut store = Sqlite::open(folder.file()).unwrap();
    let engine = Engine::builder().heartbeat(MOMENT).start(store.connect().unwrap()).unwrap();
    let client = engine.client().unwrap();
    let mut mails = engine.worker("mail", 1);
    let test = async {
        client.once("mail", SystemTime::now()).create().await.unwrap();
        let fire = mails.next().await.unwrap();
        harm(&folder.file());
        assert!(mails.next().await.is_none());
        let why = engine.ended().await.unwrap();
        assert_eq!(why.kind(), StoreErrorKind::Gone, "{why}");
        assert!(!fire.is_current());
        assert_eq!(fire.complete().await, Err(EndError::Stopped));
        let refused = client.once("mail", SystemTime::now()).create().await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Gone);
    };
    pollster::block_on(tourbillon::timeout(LIMIT, test)).expect("the node lives on");
    assert_eq!(store.insert(&[timer()]).unwrap_err().kind(), StoreErrorKind::Gone);
    assert_eq!(store.now().unwrap_err().kind(), StoreErrorKind::Gone);
    assert_eq!(store.connect().map(drop).unwrap_err().kind(), StoreErrorKind::Gone);
}

/// Whether another connection has changed the log at each of SQLite's tries.
fn is_disturbed(made: &Result<Sqlite, StoreError>) -> bool {
    made.as_ref().is_err_and(|error| error.to_string().contains("locking protocol"))
}

fn beside(file: &Path) -> std::path::PathBuf {
    file.with_extension("other")
}

#[test]
fn a_node_ends_when_its_file_is_deleted() {
    ends_after(|file| fs::remove_file(file).unwrap());
}

#[test]
fn a_node_ends_when_its_file_is_moved() {
    ends_after(|file| fs::rename(file, beside(file)).unwrap());
}

#[test]
fn a_node_ends_when_the_folder_of_its_file_is_moved() {
    ends_after(|file| {
        let folder = file.parent().unwrap();
        let moved = folder.with_extension("moved");
        fs::rename(folder, &moved).unwrap();
        // The folder that goes with the test.
        fs::create_dir(folder).unwrap();
        fs::remove_dir_all(moved).unwrap();
    });
}

#[test]
fn a_node_ends_when_a_backup_is_restored_over_its_file() {
    ends_after(|file| {
        let backup = beside(file);
        let source = Connection::open(file).unwrap();
        source.execute("VACUUM INTO ?", [backup.to_str().unwrap()]).unwrap();
        fs::rename(backup, file).unwrap();
    });
}

#[test]
fn a_node_ends_when_its_file_was_deleted_and_another_is_made() {
    ends_after(|file| {
        fs::remove_file(file).unwrap();
        // The log of the deleted file is there still, under the same name. While the node writes to
        // it, SQLite may give up a file that begins with it.
        let made = (0..10).map(|_| Sqlite::open(file)).find(|made| !is_disturbed(made));
        drop(made.expect("SQLite gives up each time").unwrap());
    });
}
