//! The database of time zones, and the machine's own zone.
//!
//! Both follow variables of the environment, so each case is a process of its own: this program
//! again, with one test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use tourbillon_cron::{Schedule as _, ZoneData, system_zone};

use super::{cron, shown, utc};

const SYSTEM: &str = "/usr/share/zoneinfo";

/// Runs an ignored test of this file in another process. Returns what it prints.
fn alone(test: &str, variables: &[(&str, &Path)]) -> String {
    let mut program = Command::new(env::current_exe().expect("it has a path"));
    program.args([&format!("zones::{test}"), "--exact", "--ignored", "--nocapture"]);
    let output = program.envs(variables.iter().copied()).output().expect("it can be run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// An empty folder of this name.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder can be made");
    path
}

#[test]
fn the_systems_zone_has_a_name_or_is_an_error_that_shows_the_setting() {
    let copy = folder("copied").join("localtime");
    fs::copy(Path::new(SYSTEM).join("Europe/Berlin"), &copy).expect("the system has zones");
    let copy = copy.to_str().expect("it is UTF-8");
    for (tz, name) in [
        ("Europe/Berlin", "Europe/Berlin"),
        (":Europe/Berlin", "Europe/Berlin"),
        ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        // By all programs' convention this is a way to ask for UTC.
        ("", "UTC"),
    ] {
        let told = alone("prints_the_systems_zone", &[("TZ", Path::new(tz))]);
        assert!(told.contains(&format!("zone {name}\n")), "{tz}: {told}");
    }
    for tz in [
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "UTC0",
        copy,
        "posix/Europe/Berlin",
        "right/Europe/Berlin",
        "/usr/share/zoneinfo/posix/Europe/Berlin",
        "Mars/Olympus",
        "localtime",
        "Etc/Unknown",
    ] {
        let told = alone("prints_the_systems_zone", &[("TZ", Path::new(tz))]);
        let error = format!("error TZ is `{tz}`, which names no time zone of the database\n");
        assert!(told.contains(&error), "{tz}: {told}");
    }
}

#[test]
#[ignore = "a part of the test above"]
fn prints_the_systems_zone() {
    match system_zone() {
        Ok(zone) => println!("\nzone {zone}"),
        Err(error) => println!("\nerror {error}"),
    }
}

#[test]
fn a_zone_keeps_its_rules_until_the_data_are_reloaded_and_it_is_parsed_again() {
    let folder = folder("zoneinfo");
    put(&folder, "Europe/Berlin", "2025b");
    alone("follows_the_data", &[("TZDIR", &folder)]);
}

/// Puts the rules of a zone into a folder, as the zone `Moved`.
fn put(folder: &Path, zone: &str, version: &str) {
    fs::copy(Path::new(SYSTEM).join(zone), folder.join("Moved")).expect("the system has zones");
    fs::write(folder.join("tzdata.zi"), format!("# version {version}\nR a b\n")).expect("written");
}

#[test]
#[ignore = "a part of the test above"]
fn follows_the_data() {
    let folder = PathBuf::from(env::var_os("TZDIR").expect("it is set"));
    let next = |of: &tourbillon_cron::Cron| shown(of.next_after(utc("2026-01-05")).unwrap());
    let before = ZoneData::current();
    assert_eq!(before.to_string(), format!("2025b in {}", folder.display()));
    assert_eq!((before.version(), before.path()), (Some("2025b"), Some(&*folder)));
    let old = cron("0 9 * * *", "Moved");
    assert_eq!(next(&old), "2026-01-05T08:00");

    put(&folder, "Asia/Tokyo", "2026f");
    ZoneData::reload();
    assert_ne!(ZoneData::current(), before);
    assert_eq!(ZoneData::current().version(), Some("2026f"));
    assert_eq!(next(&cron("0 9 * * *", "Moved")), "2026-01-06T00:00");
    // Pure functions of time: these do not change.
    assert_eq!(next(&old), "2026-01-05T08:00");

    // Other systems' copies.
    fs::remove_file(folder.join("tzdata.zi")).expect("it is there");
    assert_eq!(ZoneData::current().version(), None);
    fs::write(folder.join("+VERSION"), "2024a\n").expect("written");
    assert_eq!(ZoneData::current().version(), Some("2024a"));
}
