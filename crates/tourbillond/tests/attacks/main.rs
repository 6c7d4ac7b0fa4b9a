//! Attacks on the binary as a process: by names of other hosts, by clients that hold on to
//! resources, and by receivers. The tests assert that others are served, that nothing is lost, and
//! how much memory it takes. They print times, and assert none.

mod pages;
mod receivers;
mod sockets;
#[path = "../support/tourbillond.rs"]
mod tourbillond_process;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tourbillond_process::Tourbillond;

const SCHEDULES: &str = "/v1/apps/default/schedules";

/// Longest time for something that has to happen: as good as forever.
const PATIENCE: Duration = Duration::from_secs(120);

/// The most memory that the service may have had, in bytes.
const MEMORY_MAX: usize = 200 << 20;

impl Tourbillond {
    /// The most memory that the process has had, in bytes.
    fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
    }

    /// Asks for something without a token; returns the answer, if the status was this.
    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: Value, status: u16) -> Value {
        let (found, answer) = self.call("", method, path, &body);
        assert_eq!(found, status, "{method} {path}: {answer}");
        answer
    }

    /// Makes something that calls `url` once and is not tried again.
    fn once(&self, key: &str, after: &str, url: &str, timeout: &str) {
        let callback = json!({ "url": url, "timeout": timeout });
        let retry = json!({ "attempts": 1, "first": "1s", "longest": "1s" });
        let when = json!({ "after": after });
        let once = json!({ "key": key, "when": when, "callback": callback, "retry": retry });
        self.ask("POST", SCHEDULES, once, 201);
    }

    /// Runs in this state, a thousand at most.
    fn runs(&self, state: &str) -> Vec<Value> {
        let path = format!("/v1/apps/default/runs?limit=1000&state={state}");
        let runs = self.ask("GET", &path, Value::Null, 200);
        runs["items"].as_array().unwrap().clone()
    }

    /// Waits until so many runs are in this state.
    fn wait_for(&self, state: &str, count: usize) {
        while self.runs(state).len() < count {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A receiver: an address, and what `handle` makes of each of its connections, each on a thread of
/// its own.
fn receiver(handle: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = handle.clone();
            thread::spawn(move || handle(stream));
        }
    });
    address
}

/// Reads up to the end of a head; `None` if there is none.
fn head(stream: &mut TcpStream) -> Option<String> {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        text.extend(byte);
    }
    String::from_utf8(text).ok()
}

/// A receiver that obeys, and the paths of its calls.
fn good_receiver() -> (String, Receiver<String>) {
    let (called, calls) = channel();
    let address = receiver(move |mut stream| {
        let Some(head) = head(&mut stream) else { return };
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let _ = stream.write_all(b"HTTP/1.1 204 Done\r\nconnection: close\r\n\r\n");
        let _ = called.send(path);
    });
    (address, calls)
}
