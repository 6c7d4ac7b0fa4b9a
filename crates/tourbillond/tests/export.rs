//! Schedules move between services and databases by `tourbillonctl export` and `import`.
//! `ci/durable-postgres.sh` makes the PostgreSQL.

#[path = "support/ctl.rs"]
mod ctl;
#[path = "support/http.rs"]
mod http;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/tourbillond.rs"]
mod tourbillond_process;

use std::io::{BufReader, Write as _};
use std::path::Path;

use ctl::ctl;
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

/// The lines of a service, with everything in it.
fn export(service: &Tourbillond) -> Vec<u8> {
    let output = ctl(&service.address, &["export"], b"");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn import(service: &Tourbillond, lines: &[u8]) -> String {
    let output = ctl(&service.address, &["import", "--yes", "-"], lines);
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
            "labels": { "team": "é, a:b", "urgent": "" },
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
    assert_eq!(text.lines().count(), 7);
    assert!(text.ends_with("\n{\"end\":6}\n"), "{text}");
    assert!(text.starts_with(r#"{"key":"a:nightly@x","when":{"cron":"0 2 * * *","#), "{text}");
    assert!(!text.contains("after\":") && !text.contains("hunter2"), "{text}");
    assert!(import(to, &lines).ends_with("6 done\n"));
    assert_eq!(String::from_utf8(export(to)).unwrap(), text);
    assert_eq!(import(to, &lines), "nothing differs\n");
    // Each stands as it did.
    for key in ["a:nightly@x", "every", "at", "at-off", "after", "after-off"] {
        let path = format!("{SCHEDULES}/{key}");
        let [here, there] = [from, to].map(|service| service.call("", "GET", &path, &Value::Null));
        // An occurrence may fall between the two, so their times to come are not compared.
        for field in ["state", "at"] {
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
    let notes = String::from_utf8(ctl(&from.address, &["export"], b"").stderr).unwrap();
    assert_eq!(notes, "header secrets, by name alone: ledger\n");
    moves(&from, &to);
    let one = ctl(&from.address, &["export", "--prefix", "at"], b"");
    assert_eq!(one.stdout.split(|byte| *byte == b'\n').count(), 4);
    assert!(from.stop() && to.stop());
}

#[test]
fn schedules_move_from_sqlite_to_postgresql_and_are_the_same_bytes_again() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let from = start(folders[0].path(), "timers.db");
    let to = start(folders[1].path(), &postgres::database("export"));
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
    let pause = json!({ "until": "2199-01-01T00:00:00Z" });
    assert_eq!(from.call("", "POST", &format!("{SCHEDULES}/k/pause"), &pause).0, 200);
    let output = ctl(&from.address, &["export"], b"");
    assert_eq!(output.status.code(), Some(4));
    let notes = String::from_utf8(output.stderr).unwrap();
    let (header, paused) = ("k: callback.headers.Cookie", "k: its pause");
    assert_eq!(notes, format!("not exported: {header}\nnot exported: {paused}\n"));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("hunter2"));
    assert_eq!(import(&from, &output.stdout), "nothing differs\n", "it has the value");
    let refused = ctl(&to.address, &["import", "--yes", "-"], &output.stdout);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).ends_with("\n  k: callback.headers.Cookie\n"),
        "{refused:?}"
    );
    let filled = String::from_utf8(output.stdout).unwrap().replace("••••••••", "hunter2");
    assert!(import(&to, filled.as_bytes()).ends_with("1 done\n"));
    assert!(from.stop() && to.stop());
}

/// A line of an export.
fn line(key: &str, when: Value, url: &str) -> String {
    let line = json!({ "key": key, "when": when, "callback": { "url": url } });
    format!("{line}\n")
}

#[test]
fn what_is_over_or_past_is_not_called_again_and_a_refusal_keeps_no_other_waiting() {
    let folder = tempfile::tempdir().unwrap();
    // Its app may call this host.
    let service = Tourbillond::start(folder.path(), &[]);
    let url = "http://127.0.0.1:1/";
    let at = json!({ "at": "2020-01-01T00:00:00Z" });
    let once = json!({ "key": "over", "when": at, "callback": { "url": url },
        "retry": { "attempts": 1 } });
    assert_eq!(service.call("", "POST", SCHEDULES, &once).0, 201);
    let state = |key: &str| {
        let (status, found) = service.call("", "GET", &format!("{SCHEDULES}/{key}"), &Value::Null);
        if status == 404 { Value::Null } else { found["state"].clone() }
    };
    while state("over") != "dead" {
        std::thread::yield_now();
    }
    let lines = line("over", at.clone(), url) + &line("past", at.clone(), url);
    let whole = |lines: &str| format!("{lines}{{\"end\":{}}}\n", lines.lines().count());
    // A finished one-shot cannot be replaced. Its neighbours are imported.
    let other = json!({ "at": "2199-01-01T00:00:00Z" });
    let again = line("over", other.clone(), url) + &line("z", other, url);
    for (lines, code, out, err) in [
        (
            &*lines,
            0,
            "nothing differs\n",
            "over: over (dead)\nnot made: past: its time has passed; `--past` makes it\n",
        ),
        (&*again, 1, "+ over\n+ z\n1 done\n", "not done: over: 409 Conflict: "),
    ] {
        let output = ctl(&service.address, &["import", "--yes", "-"], whole(lines).as_bytes());
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), out);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with(err), "{said}");
    }
    assert_eq!((state("over"), state("past")), ("dead".into(), Value::Null));
    assert_eq!(state("z"), "pending");
    let past = ctl(&service.address, &["import", "--yes", "--past", "-"], whole(&lines).as_bytes());
    assert_eq!(String::from_utf8(past.stdout).unwrap(), "+ past\n1 done\n");
    assert_ne!(state("past"), Value::Null);
    assert!(service.stop());
}

/// Answers each request of a client by its method and path, on connections of one request each, and
/// returns the address and the requests, with `If-Match`.
fn fake(
    answers: impl Fn(&str) -> (u16, Value) + Send + 'static,
) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (asks, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (head, _) = http::read(&mut stream);
            let (line, fields) = head.split_once(" HTTP/1.1\r\n").unwrap();
            let fields = fields.to_ascii_lowercase();
            let tag = fields.lines().find_map(|line| line.strip_prefix("if-match:"));
            let asked = format!("{line}{}", tag.unwrap_or_default());
            let (status, body) = answers(&asked);
            let body = body.to_string();
            let _ = asks.send(asked);
            let end = format!("connection: close\r\ncontent-length: {}", body.len());
            write!(stream.get_mut(), "HTTP/1.1 {status} X\r\n{end}\r\n\r\n{body}").unwrap();
        }
    });
    (address, asked)
}

#[test]
fn what_another_deletes_or_changes_meanwhile_is_left_as_it_is() {
    // A service where `gone` is deleted after it was listed, and `k` changed.
    let own = |key: &str| {
        json!({ "key": key, "state": "enabled", "version": 7, "when": { "every": "1h" },
            "callback": { "url": "https://example.com/", "method": "POST", "headers": {},
                "body": "", "body_bytes": 1 }, "enabled": true })
    };
    let (address, asked) = fake(move |head| match head.split('?').next().unwrap() {
        "GET /v1/apps/default/schedules" => (200, json!({ "items": [own("gone"), own("k")] })),
        "GET /v1/apps/default/schedules/k" => {
            let mut whole = own("k");
            whole["callback"].as_object_mut().unwrap().remove("body_bytes");
            (200, whole)
        }
        "PUT /v1/apps/default/schedules/k \"7\"" => (412, json!({ "title": "Stale" })),
        "POST /v1/apps/default/schedules" => (201, json!({})),
        _ => (404, json!({ "title": "Not Found" })),
    });
    let output = ctl(&address, &["export"], b"");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("{\"key\":\"k\"") && text.ends_with("{\"end\":1}\n"), "{text}");
    assert_eq!(asked.try_iter().count(), 3);
    let when = json!({ "every": "2h" });
    let lines = ["gone", "k"].map(|key| line(key, when.clone(), "https://example.com/")).concat();
    let output = ctl(&address, &["import", "--yes", "-"], (lines + "{\"end\":2}\n").as_bytes());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "not done: k: 412 Stale\n");
    let writes: Vec<_> = asked.try_iter().filter(|head| !head.starts_with("GET")).collect();
    assert_eq!(
        writes,
        ["POST /v1/apps/default/schedules", "PUT /v1/apps/default/schedules/k \"7\""]
    );
}
