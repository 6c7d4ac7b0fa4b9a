//! The data of time zones change between two runs of the service.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tourbillon_durable::Time;
use tourbillon_durable::store::{Sqlite, Store as _};

use super::tourbillond_process::Tourbillond;
use super::{LIMIT, SCHEDULES};

const SYSTEM: &str = "/usr/share/zoneinfo";

const DAY_US: i64 = 86_400_000_000;

const HOUR_US: i64 = 3_600_000_000;

/// Puts the rules of a zone into a folder, as the zone `Moved` of a version of the data.
fn put(folder: &Path, zone: &str, version: &str) {
    fs::copy(Path::new(SYSTEM).join(zone), folder.join("Moved")).unwrap();
    fs::write(folder.join("tzdata.zi"), format!("# version {version}\n")).unwrap();
}

#[test]
fn a_schedule_keeps_its_local_time_when_its_zone_gets_other_rules() {
    let folder = tempfile::tempdir().unwrap();
    let zones = folder.path().join("zoneinfo");
    fs::create_dir(&zones).unwrap();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
        command.env("TZDIR", &zones);
        Tourbillond::run(command, folder.path(), &[])
    };
    let next = || {
        let mut store = Sqlite::open(folder.path().join("tourbillon.db")).unwrap();
        store.schedule("default/nine").unwrap().1.unwrap().next.unwrap()
    };
    let hour = |next: Time| next.as_micros().rem_euclid(DAY_US) / HOUR_US;

    put(&zones, "Asia/Tokyo", "2025b");
    let service = start();
    let when = json!({ "cron": "0 9 * * *", "zone": "Moved" });
    let callback = json!({ "url": "https://hooks.example.com/" });
    let nine = json!({ "key": "nine", "when": when, "callback": callback });
    let made = service.call("", "POST", SCHEDULES, &nine);
    assert_eq!(made.0, 201, "{}", made.1);
    assert_eq!(hour(next()), 0);
    assert!(service.stop());

    // An hour behind Tokyo.
    put(&zones, "Asia/Shanghai", "2026f");
    let service = start();
    let limit = Instant::now() + LIMIT;
    while hour(next()) != 1 {
        assert!(Instant::now() < limit, "it stays at {}", next());
        std::thread::sleep(Duration::from_millis(20));
    }
    let data = format!("version=\"2026f in {}\"", zones.display());
    let (_, metrics) = service.call("", "GET", "/metrics", &Value::Null);
    let metrics = metrics.as_str().unwrap();
    for line in [
        format!("tourbillond_zone_data_info{{{data}}} 1"),
        "tourbillond_rezoned_total 1".to_owned(),
        "tourbillond_unreadable_total 0".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    let shown = service.call("", "GET", &format!("{SCHEDULES}/nine"), &Value::Null).1;
    assert!(shown["next"][0].as_str().unwrap().ends_with("T01:00:00Z"), "{shown}");
    assert!(service.stop());

    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
    let told = command.env("TZDIR", &zones).arg("--version").output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let zones = format!(" (time zones 2026f in {})\n", zones.display());
    assert_eq!(told, format!("tourbillond {}{zones}", env!("CARGO_PKG_VERSION")));
}
