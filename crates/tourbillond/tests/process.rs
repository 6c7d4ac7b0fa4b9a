//! The binary as a process: it starts, calls back, stops in good order, and finds everything again.

#[path = "support/authority.rs"]
mod authority;
#[path = "process/container.rs"]
mod container;
#[path = "support/ctl.rs"]
mod ctl;
#[path = "support/http.rs"]
mod http;
#[path = "process/manual.rs"]
mod manual;
#[path = "process/receivers.rs"]
mod receivers;
#[path = "process/tls.rs"]
mod tls;
#[path = "support/tourbillond.rs"]
mod tourbillond_process;
#[path = "process/zones.rs"]
mod zones;

use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ctl::ctl;
use serde_json::{Value, json};
use tourbillond_process::Tourbillond;

/// Takes one callback, says that it is done, and returns its head and its body.
fn receive(listener: &TcpListener) -> (String, String) {
    receive_and(listener, |_| String::new())
}

/// Receives a call, and answers with what `answer` makes of the head.
fn receive_and(listener: &TcpListener, answer: impl Fn(&str) -> String) -> (String, String) {
    let (stream, _) = listener.accept().unwrap();
    let mut stream = BufReader::new(stream);
    let (head, body) = http::read(&mut stream);
    let answer = answer(&head);
    let length = answer.len();
    let status = "HTTP/1.1 200 OK\r\nconnection: close";
    write!(stream.get_mut(), "{status}\r\ncontent-length: {length}\r\n\r\n{answer}").unwrap();
    (head.to_ascii_lowercase(), body)
}

/// Long enough for a slow machine, so that no test hangs.
const LIMIT: Duration = Duration::from_secs(120);

const SCHEDULES: &str = "/v1/apps/default/schedules";

#[test]
fn it_calls_back_and_finds_everything_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/tick", listener.local_addr().unwrap());
    let callback = json!({ "url": url, "body": "{{key}}" });

    let service = Tourbillond::start(folder.path(), &[]);
    assert!(folder.path().join("tourbillon.db").exists());
    while service.call("", "GET", "/readyz", &Value::Null).0 != 200 {
        std::thread::yield_now();
    }
    let ticks = json!({ "key": "tick", "when": { "every": "1s" }, "callback": callback });
    assert_eq!(service.call("", "POST", SCHEDULES, &ticks).0, 201);
    let far = json!({ "at": "2100-01-01T00:00:00Z" });
    let far = json!({ "key": "far", "when": far, "callback": callback });
    assert_eq!(service.call("", "POST", SCHEDULES, &far).0, 201);
    let (head, _) = receive(&listener);
    assert!(head.starts_with("post /tick http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nidempotency-key: "), "{head}");
    assert!(service.stop());

    let service = Tourbillond::start(folder.path(), &[]);
    receive(&listener);
    let (_, listed) = service.call("", "GET", SCHEDULES, &Value::Null);
    let keys: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|item| &item["key"]).collect();
    assert_eq!(keys, ["far", "tick"]);
    let disable = format!("{SCHEDULES}/tick/disable");
    assert_eq!(service.call("", "POST", &disable, &Value::Null).0, 200);
    let runs = "/v1/apps/default/runs?key=tick&state=succeeded";
    let (_, runs) = service.call("", "GET", runs, &Value::Null);
    assert!(!runs["items"].as_array().unwrap().is_empty(), "{runs}");
    assert!(service.stop());
}

#[test]
fn it_ends_with_an_error_when_its_file_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let service = Tourbillond::start(folder.path(), &[]);
    while service.call("", "GET", "/readyz", &Value::Null).0 != 200 {
        std::thread::yield_now();
    }
    std::fs::remove_file(folder.path().join("tourbillon.db")).unwrap();
    // It listens until it has the error that it ends with.
    let begun = Instant::now();
    while TcpStream::connect(&service.address).is_ok() {
        assert!(begun.elapsed() < LIMIT, "it listens on");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!service.stop());
}

#[test]
fn it_refuses_to_start_with_what_makes_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
        let output = command.args(flags).current_dir(folder.path()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--listen", "0.0.0.0:0"]).contains("no token is configured"));
    assert!(refused(&["--listen", "nowhere"]).contains("--listen"));
    assert!(refused(&["--config", "missing.toml"]).contains("missing.toml"));
    assert!(refused(&["--log", "a=b=c"]).contains("tourbillond: "));
    assert!(refused(&["--store", "no/such/folder/timers.db"]).contains("tourbillond: "));
    assert!(refused(&["--store", ":memory:"]).contains("does not name a file"));
    assert!(!folder.path().join(":memory:").exists());
}

#[test]
fn a_token_is_printed_with_its_hash() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
    let output = command.args(["token", "--write"]).output().unwrap();
    let mut wrong = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
    let wrong = wrong.args(["token", "--name", "a\"b"]).output().unwrap();
    assert_eq!((wrong.status.code(), &*wrong.stdout), (Some(1), &b""[..]), "no file can have it");
    let text = String::from_utf8(output.stdout).unwrap();
    let (token, line) = text.trim().split_once('\n').unwrap();
    let sha256 = hex::encode(tourbillond::config::hash(token));
    assert_eq!(line, format!("tokens = [{{ sha256 = \"{sha256}\", scope = \"write\" }}]"));
}

/// Waits until a list has an item, and returns the first.
fn first(service: &Tourbillond, path: &str) -> Value {
    loop {
        let (_, listed) = service.call("", "GET", path, &Value::Null);
        if let Some(item) = listed["items"].get(0) {
            return item.clone();
        }
        std::thread::yield_now();
    }
}

/// Returns whether a file of the database has this in it.
fn is_kept(folder: &Path, text: &str) -> bool {
    let has = |name: &str| {
        let bytes = std::fs::read(folder.join(name)).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    has("tourbillon.db") || has("tourbillon.db-wal")
}

#[test]
fn a_secret_is_put_in_when_a_request_is_sent_and_is_kept_nowhere() {
    const VALUE: &str = "Bearer hunter2-of-the-file";
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let file = folder.path().join("apps.toml");
    let own = "[apps.default]\nnetworks = ['127.0.0.0/8']\n";
    let secret = format!("ledger = {{ value = '{VALUE}', hosts = ['127.0.0.1'] }}\n");
    std::fs::write(&file, format!("{own}[apps.default.header_secrets]\n{secret}")).unwrap();
    let service = Tourbillond::start(folder.path(), &["--config", file.to_str().unwrap()]);
    let once = |key: &str, value: Value| {
        json!({
            "key": key, "when": { "after": "0s" }, "retry": { "attempts": 1 },
            "callback": { "url": url, "headers": { "Authorization": value } },
        })
    };
    let run = |key: &str| format!("/v1/apps/default/runs?key={key}");
    // A receiver that sends back its requests.
    for (key, value, sent) in [
        ("named", json!({ "secret": "ledger" }), VALUE),
        ("literal", json!("Bearer hunter2-of-the-definition"), "Bearer hunter2-of-the-definition"),
    ] {
        assert_eq!(service.call("", "POST", SCHEDULES, &once(key, value)).0, 201);
        let (head, _) = receive_and(&listener, str::to_owned);
        assert!(head.contains(&format!("authorization: {}", sent.to_ascii_lowercase())), "{head}");
        let run = first(&service, &run(key));
        assert_eq!(run["state"], "succeeded", "{run}");
        let answer = run["ended_attempts"][0]["answer"].as_str().unwrap();
        assert!(answer.contains("authorization: ••••••••"), "{answer}");
        let headers = &run["ended_attempts"][0]["request"]["headers"];
        assert_eq!(headers["authorization"], "••••••••", "{run}");
        assert!(!run.to_string().contains("hunter2"), "{run}");
    }
    assert!(!is_kept(folder.path(), "hunter2-of-the-file"));
    // Gone from the file, it is missed when a request is to be sent, and the run says so.
    let mut later = once("later", json!({ "secret": "ledger" }));
    later["when"] = json!({ "at": "2100-01-01T00:00:00Z" });
    assert_eq!(service.call("", "POST", SCHEDULES, &later).0, 201);
    std::fs::write(&file, own).unwrap();
    service.signal("HUP");
    let refused =
        || service.call("", "POST", SCHEDULES, &once("no", json!({ "secret": "ledger" })));
    while refused().0 != 422 {
        std::thread::yield_now();
    }
    let fire = format!("{SCHEDULES}/later/run-now");
    assert_eq!(service.call("", "POST", &fire, &Value::Null).0, 200);
    let run = first(&service, &run("later"));
    assert_eq!(run["state"], "dead", "{run}");
    let why = run["ended_attempts"][0]["error"].as_str().unwrap();
    assert_eq!(why, "header Authorization names a secret that the app does not have");
    assert!(service.stop());
}

#[test]
fn a_database_is_made_for_its_owner_alone_whatever_the_umask_is() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 000; exec \"$0\" --listen 127.0.0.1:0"]);
    shell.arg(env!("CARGO_BIN_EXE_tourbillond")).current_dir(folder.path());
    let service = Tourbillond::spawn(shell);
    for name in ["tourbillon.db", "tourbillon.db-wal", "tourbillon.db-shm"] {
        let file = std::fs::metadata(folder.path().join(name)).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600, "{name}");
    }
    assert!(service.stop());
}

#[test]
fn files_with_secrets_that_others_can_read_are_warned_about_once() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    assert!(Tourbillond::start(folder.path(), &[]).stop());
    let [file, database, log] =
        ["apps.toml", "tourbillon.db", "log"].map(|name| folder.path().join(name));
    let sha256 = hex::encode(tourbillond::config::hash("one"));
    std::fs::write(&file, format!("[admin]\ntokens = [{{ sha256 = '{sha256}' }}]\n")).unwrap();
    for path in [&file, &database] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
    command.args(["--listen", "127.0.0.1:0", "--config", "apps.toml"]).current_dir(folder.path());
    command.stderr(std::fs::File::create(&log).unwrap());
    let service = Tourbillond::spawn(command);
    let said = || std::fs::read_to_string(&log).unwrap();
    service.signal("HUP");
    while !said().contains("configuration read again") {
        std::thread::yield_now();
    }
    assert!(service.stop());
    let log = said();
    for line in ["chmod 640 apps.toml", "chmod 600 tourbillon.db`"] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
}

#[test]
fn a_file_is_applied_once_also_with_values_that_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let service = Tourbillond::start(folder.path(), &[]);
    let apply = |value: &str, consent: &str| {
        let text = format!(
            "[schedules.a]\nwhen = {{ every = '1h' }}\n[schedules.a.callback]\n\
             url = 'https://example.com/'\nheaders = {{ Authorization = '{value}' }}\n\
             body = 'which a list leaves out'\n"
        );
        let file = folder.path().join("schedules.toml");
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let output = ctl(&service.address, &["apply", consent, "-f", file], b"");
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(apply("Bearer one", "--yes").0, 0);
    assert_eq!(apply("Bearer one", "--dry-run"), (0, "nothing differs\n".to_owned()));
    let differs = "~ a\n    callback.headers: a value that is not shown\n".to_owned();
    assert_eq!(apply("Bearer two", "--dry-run"), (3, differs));
    assert_eq!(apply("Bearer two", "--yes").0, 0);
    assert_eq!(apply("Bearer two", "--dry-run").0, 0);
    assert!(service.stop());
}

#[test]
fn a_callback_is_tested_and_a_schedule_found_from_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let service = Tourbillond::start(folder.path(), &[]);
    let definition =
        json!({ "when": { "every": "1h" }, "callback": { "url": "http://127.0.0.1/" } });
    for (key, labels) in [("nightly-mail", json!({ "team": "mail" })), ("report", json!({}))] {
        let mut definition = definition.clone();
        definition["labels"] = labels;
        let (status, _) = service.call("", "PUT", &format!("{SCHEDULES}/{key}"), &definition);
        assert_eq!(status, 201);
    }
    let run = |arguments: &[&str]| {
        let output = ctl(&service.address, arguments, b"");
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, shown) = run(&["schedules", "--search", "MAIL"]);
    assert_eq!((code, shown.contains("nightly-mail"), shown.contains("report")), (0, true, false));
    let (code, shown) = run(&["schedules", "--label", "team:mail"]);
    assert_eq!((code, shown.contains("team:mail"), shown.contains("report")), (0, true, false));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let receiver = std::thread::spawn(move || receive_and(&listener, |_| "thanks".to_owned()));
    let (code, shown) = run(&["test", "--to", &url, "--body", "{{schedule}}"]);
    let (head, body) = receiver.join().unwrap();
    assert_eq!((code, &*body), (0, "test"), "{shown}");
    assert!(head.contains("tourbillon-test: true") && shown.contains("thanks"), "{head}{shown}");
    // Nobody listens there any more.
    assert_eq!(run(&["test", "--to", &url]).0, 1);
    assert!(service.stop());
}

#[test]
fn the_log_of_a_node_with_nothing_wrong_has_its_start_and_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
    command.args(["--listen", "127.0.0.1:0"]).current_dir(folder.path());
    command.stderr(std::fs::File::create(&log).unwrap());
    let service = Tourbillond::spawn(command);
    let get = |path: &str| service.call("", "GET", path, &Value::Null);
    while get("/readyz").0 != 200 {
        std::thread::yield_now();
    }
    // Some beats, in which all that is periodic has had its turn: scans, plans, maintenance.
    let beat = || get("/v1/overview").1["nodes"][0]["beat"].clone();
    for _ in 0..4 {
        let last = beat();
        while beat() == last {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    // What succeeds is no news either.
    let url = format!("http://{}/tick", listener.local_addr().unwrap());
    let tick = json!({ "key": "tick", "when": { "every": "1s" }, "callback": { "url": url } });
    assert_eq!(service.call("", "POST", SCHEDULES, &tick).0, 201);
    // Each is answered until the test ends, so that none fails.
    let (calls, called) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        loop {
            receive(&listener);
            if calls.send(()).is_err() {
                return;
            }
        }
    });
    for _ in 0..2 {
        called.recv().unwrap();
    }
    for path in ["/", "/healthz", "/readyz", "/metrics", "/nothing", "/v1/apps/default/runs/7"] {
        get(path);
    }
    let delete = service.call("", "DELETE", &format!("{SCHEDULES}/tick"), &Value::Null);
    assert_eq!(delete.0, 200);
    assert!(service.stop());
    let log = std::fs::read_to_string(&log).unwrap();
    let (_, after) = log.split_once("started").unwrap();
    let lines: Vec<_> = after.lines().skip(1).filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(lines, ["stopping", "stopped"], "{log}");
    drop(called);
}
