//! The binary as a process: it starts, calls back, stops in good order, and finds everything again.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// A running service.
struct Tourbillond {
    process: Child,
    address: String,
}

impl Tourbillond {
    fn start(folder: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
        command.args(["--listen", "127.0.0.1:0"]).args(flags).current_dir(folder);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").expect("it prints its URL").to_owned();
        Self { process, address }
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Asks it to stop; returns whether it did in good order.
    fn stop(mut self) -> bool {
        self.signal("TERM");
        self.process.wait().unwrap().success()
    }

    /// The status and the body of an answer.
    fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }
}

impl Drop for Tourbillond {
    fn drop(&mut self) {
        let _ = self.process.kill();
    }
}

/// Takes one callback, says that it is done, and returns its head and its body.
fn receive(listener: &TcpListener) -> (String, String) {
    let (stream, _) = listener.accept().unwrap();
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.get_mut().write_all(answer).unwrap();
    (head, String::from_utf8(body).unwrap())
}

const SCHEDULES: &str = "/v1/apps/default/schedules";

#[test]
fn it_calls_back_and_finds_everything_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/tick", listener.local_addr().unwrap());
    let callback = json!({ "url": url, "body": "{{key}}" });

    let service = Tourbillond::start(folder.path(), &[]);
    assert!(folder.path().join("tourbillon.db").exists());
    assert_eq!(service.call("", "GET", "/readyz", &Value::Null).0, 200);
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
fn apps_are_read_again_and_a_wrong_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("apps.toml");
    let write = |app: &str, token: &str| {
        let sha256 = hex::encode(tourbillond::config::hash(token));
        let text = format!("[apps.{app}]\ntokens = [{{ sha256 = '{sha256}', scope = 'write' }}]\n");
        std::fs::write(&file, text).unwrap();
    };
    write("default", "one");
    let service = Tourbillond::start(folder.path(), &["--config", file.to_str().unwrap()]);
    let status = |token: &str| service.call(token, "GET", SCHEDULES, &Value::Null).0;
    assert_eq!((status("one"), status("two"), status("")), (200, 401, 401));
    std::fs::write(&file, "[apps.default]\ntoken = 'x'\n").unwrap();
    service.signal("HUP");
    assert_eq!(status("one"), 200);
    write("default", "two");
    service.signal("HUP");
    while status("two") != 200 {
        std::thread::yield_now();
    }
    assert_eq!(status("one"), 401);
    assert!(service.stop());
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
}

#[test]
fn a_token_is_printed_with_its_hash() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
    let output = command.args(["token", "--write"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (token, line) = text.trim().split_once('\n').unwrap();
    let sha256 = hex::encode(tourbillond::config::hash(token));
    assert_eq!(line, format!("tokens = [{{ sha256 = \"{sha256}\", scope = \"write\" }}]"));
}
