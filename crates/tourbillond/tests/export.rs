//! Schedules move between services and databases by `tourbillonctl export` and `import`.
//! `ci/durable-postgres.sh` makes the PostgreSQL.

#[path = "support/tourbillond.rs"]
mod tourbillond_process;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tourbillond_process::Tourbillond;

const SCHEDULES: &str = "/v1/apps/default/schedules";

/// Starts a service whose app has the secret `ledger`, on a file or another store.
fn start(folder: &Path, store: &str) -> Tourbillond {
    let text = "[apps.default.header_secrets]\n\
                ledger = { value = 'Bearer hunter2', hosts = ['example.com'] }\n";
    std::fs::write(folder.join("apps.toml"), text).unwrap();
    Tourbillond::start(folder, &["--config", "apps.toml", "--store", store])
}

fn ctl(service: &Tourbillond, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillonctl"));
    command.args(["--url", &format!("http://{}", service.address)]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(input).unwrap();
    process.wait_with_output().unwrap()
}

/// The lines of a service, which have all that there is.
fn export(service: &Tourbillond) -> Vec<u8> {
    let output = ctl(service, &["export"], b"");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn import(service: &Tourbillond, lines: &[u8]) -> String {
    let output = ctl(service, &["import", "--yes", "-"], lines);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes a schedule of each kind, and one-shots, in a state of each kind.
fn fill(service: &Tourbillond) {
    let callback = json!({
        "url": "https://example.com/", "method": "PUT", "timeout": "3s",
        "body": "line\n\"quoted\" \u{1F980} {{key}}", "headers": {
            "Authorization": { "secret": "ledger" }, "X-Shown": "a: b"
        }
    });
    let callback = &callback;
    let all = [
        json!({ "key": "a:nightly@x", "when": { "cron": "0 2 * * *", "zone": "Europe/Berlin" },
            "missed": { "catch_up": 3 }, "overlap": { "queue": 2 }, "jitter": "5s",
            "on_time_within": "2m", "retry": { "attempts": 7, "first": "2s", "longest": "9s" } }),
        json!({ "key": "every", "when": { "every": "1h" }, "missed": "skip", "enabled": false }),
        json!({ "key": "at", "when": { "at": "2199-01-01T00:00:00+02:00" } }),
        json!({ "key": "at-off", "when": { "at": "2199-01-01T00:00:00Z" }, "enabled": false }),
        json!({ "key": "after", "when": { "after": "1000h" } }),
        json!({ "key": "after-off", "when": { "after": "1000h" }, "enabled": false }),
    ];
    for mut one in all {
        one["callback"] = callback.clone();
        assert_eq!(service.call("", "POST", SCHEDULES, &one).0, 201, "{one}");
    }
    let disable = format!("{SCHEDULES}/at/disable");
    assert_eq!(service.call("", "POST", &disable, &Value::Null).0, 200);
    let enable = format!("{SCHEDULES}/every/enable");
    assert_eq!(service.call("", "POST", &enable, &Value::Null).0, 200);
}

/// Moves all schedules of a service into an empty one.
fn moves(from: &Tourbillond, to: &Tourbillond) {
    let lines = export(from);
    let text = String::from_utf8(lines.clone()).unwrap();
    assert_eq!(text.lines().count(), 6);
    assert!(text.starts_with(r#"{"key":"a:nightly@x","when":{"cron":"0 2 * * *","#), "{text}");
    assert!(!text.contains("after\":") && !text.contains("hunter2"), "{text}");
    assert!(import(to, &lines).ends_with("6 done\n"));
    assert_eq!(String::from_utf8(export(to)).unwrap(), text);
    assert_eq!(import(to, &lines), "nothing differs\n");
    // Each stands as it did.
    for key in ["a:nightly@x", "every", "at", "at-off", "after", "after-off"] {
        let path = format!("{SCHEDULES}/{key}");
        let [here, there] = [from, to].map(|service| service.call("", "GET", &path, &Value::Null));
        for field in ["state", "at", "next"] {
            assert_eq!(here.1[field], there.1[field], "{key} {field}");
        }
    }
    assert_eq!(export(from), lines, "an export and an import change nothing at its source");
}

#[test]
fn schedules_move_from_sqlite_to_sqlite_and_are_the_same_bytes_again() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [from, to] = folders.each_ref().map(|folder| start(folder.path(), "timers.db"));
    fill(&from);
    let notes = String::from_utf8(ctl(&from, &["export"], b"").stderr).unwrap();
    assert_eq!(notes, "header secrets, by name alone: ledger\n");
    moves(&from, &to);
    let one = ctl(&from, &["export", "--prefix", "at"], b"");
    assert_eq!(one.stdout.split(|byte| *byte == b'\n').count(), 3);
    assert!(from.stop() && to.stop());
}

#[test]
fn schedules_move_from_sqlite_to_postgresql_and_are_the_same_bytes_again() {
    let environment = |name: &str| {
        std::env::var(name).unwrap_or_else(|_| {
            panic!("{name} is not set; `ci/durable-postgres.sh` makes a cluster")
        })
    };
    let cluster = environment("TOURBILLON_POSTGRES");
    let name = format!("tourbillond_export_{}", std::process::id());
    let mut psql = Command::new(Path::new(&environment("TOURBILLON_POSTGRES_BIN")).join("psql"));
    psql.args([&cluster, "-c", &format!("CREATE DATABASE {name}")]).stdout(Stdio::null());
    assert!(psql.status().unwrap().success());
    let (server, _) = cluster.rsplit_once('/').unwrap();
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let from = start(folders[0].path(), "timers.db");
    let to = start(folders[1].path(), &format!("{server}/{name}"));
    fill(&from);
    moves(&from, &to);
    assert!(from.stop() && to.stop());
}

#[test]
fn an_export_without_all_values_says_so_and_an_import_asks_for_them() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [from, to] = folders.each_ref().map(|folder| start(folder.path(), "timers.db"));
    let one = json!({
        "key": "k", "when": { "every": "1h" },
        "callback": { "url": "https://example.com/", "headers": { "Cookie": "hunter2" } }
    });
    assert_eq!(from.call("", "POST", SCHEDULES, &one).0, 201);
    let output = ctl(&from, &["export"], b"");
    assert_eq!(output.status.code(), Some(4));
    let notes = String::from_utf8(output.stderr).unwrap();
    assert_eq!(notes, "not exported: k: callback.headers.Cookie\n");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("hunter2"));
    assert_eq!(import(&from, &output.stdout), "nothing differs\n", "it has the value");
    let refused = ctl(&to, &["import", "--yes", "-"], &output.stdout);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).ends_with("\n  k: callback.headers.Cookie\n"),
        "{refused:?}"
    );
    let filled = String::from_utf8(output.stdout).unwrap().replace("••••••••", "hunter2");
    assert!(import(&to, filled.as_bytes()).ends_with("1 done\n"));
    assert!(from.stop() && to.stop());
}
