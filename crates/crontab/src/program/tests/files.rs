//! Files that the program runs jobs from.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use super::directory;
use crate::program::files::{Files, Load};
use tourbillon_crontab::Format;

const JOB: &str = "@daily true\n";

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn write(path: &Path, mode: u32) {
    fs::write(path, JOB).expect("a file can be written");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it has its mode");
}

fn files(path: &Path, owner: Option<u32>) -> Files {
    let mut files = Files::new(Some("UTC".to_owned())).expect("it is named");
    files.owner = owner;
    files.add(path, Some(Format::User)).expect("the path is there");
    files
}

/// The names of the files that jobs are from, and the reports on the others.
fn loaded(path: &Path, owner: Option<u32>) -> (Vec<String>, Vec<String>) {
    let Load { jobs, faults, .. } = files(path, owner).load();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let told = |fault: &String| fault.rsplit_once('/').unwrap().1.to_owned();
    (jobs.iter().map(|entry| name(&entry.path)).collect(), faults.iter().map(told).collect())
}

#[test]
fn files_that_others_may_write_and_links_and_what_is_no_file_are_refused_with_a_line() {
    let directory = directory("refused");
    let at = |name: &str| directory.join(name);
    for (name, mode) in [("good", 0o644), ("secret", 0o600), ("group", 0o664), ("all", 0o646)] {
        write(&at(name), mode);
    }
    write(&at("hard1"), 0o644);
    fs::hard_link(at("hard1"), at("hard2")).expect("a link can be made");
    symlink(at("good"), at("soft")).expect("a link can be made");
    symlink(at("nowhere"), at("broken")).expect("a link can be made");
    fs::create_dir(at("sub")).expect("a directory can be made");
    let made = Command::new("mkfifo").arg(at("fifo")).status().expect("there is `mkfifo`");
    assert!(made.success());
    // Names that cron passes over.
    write(&at("good~"), 0o644);
    write(&at(".good"), 0o644);

    let (jobs, faults) = loaded(&directory, Some(me()));
    assert_eq!(jobs, ["good", "secret"]);
    assert_eq!(
        faults,
        [
            "all: refused: others than its owner may write to it (mode 0646)",
            "broken: refused: it is a symbolic link",
            "fifo: refused: it is not a regular file",
            "group: refused: others than its owner may write to it (mode 0664)",
            "hard1: refused: it has 2 hard links",
            "hard2: refused: it has 2 hard links",
            "soft: refused: it is a symbolic link",
            "sub: refused: it is not a regular file",
        ]
    );
    for name in ["all", "fifo", "soft", "hard1"] {
        assert_eq!(loaded(&at(name), Some(me())).0, [""; 0], "{name}, by itself");
    }
    // Where nothing is run, all is read that can be without waiting.
    let (jobs, faults) = loaded(&directory, None);
    assert_eq!(jobs, ["all", "good", "group", "hard1", "hard2", "secret", "soft"]);
    assert_eq!(faults.len(), 3, "{faults:?}");
}

#[test]
fn files_of_another_owner_are_refused_and_those_of_root_are_not() {
    let path = directory("owner").join("theirs");
    write(&path, 0o644);
    let (owner, other) = if me() == 0 { (65534, 0) } else { (me(), me() + 1) };
    chown(&path, Some(owner), None).expect("root may, and others may give it to themselves");
    let (jobs, faults) = loaded(&path, Some(other));
    let told = format!("theirs: refused: its owner is user {owner}, which is neither root nor");
    assert!(jobs.is_empty() && faults[0].starts_with(&told), "{jobs:?}, {faults:?}");
    assert_eq!(loaded(&path, Some(owner)).0, ["theirs"]);
    if me() == 0 {
        chown(&path, Some(0), None).expect("root may");
        assert_eq!(loaded(&path, Some(65534)).0, ["theirs"]);
    }
}

#[test]
fn a_change_of_the_mode_alone_is_a_change() {
    let path = directory("mode").join("jobs");
    write(&path, 0o666);
    let mut files = files(&path, Some(me()));
    assert_eq!(files.load().jobs.len(), 0);
    assert!(!files.have_changed());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it has its mode");
    assert!(files.have_changed());
    assert_eq!(files.load().jobs.len(), 1);
    assert!(!files.have_changed());
}

#[test]
fn a_huge_file_is_refused_without_being_read() {
    let path = directory("huge").join("jobs");
    let file = fs::File::create(&path).expect("a file can be made");
    // As long as this, and nothing in it.
    file.set_len(1 << 40).expect("a file may have holes");
    let (jobs, faults) = loaded(&path, None);
    assert!(jobs.is_empty() && faults[0].contains("larger than"), "{faults:?}");
    fs::remove_file(&path).expect("it is there");
}
