//! Receivers that misbehave.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::{MEMORY_MAX, PATIENCE, SCHEDULES, Tourbillond, good_receiver, head, receiver};

/// Reads the request, sends this, and then `rest` for as long as the other side takes it.
fn answers(first: &'static [u8], rest: &'static [u8]) -> impl Fn(TcpStream) + Clone {
    move |mut stream| {
        let _ = head(&mut stream);
        let _ = stream.write_all(first);
        while !rest.is_empty() && stream.write_all(rest).is_ok() {}
    }
}

/// Reads the request, and sends this byte by byte, again and again.
fn dribbles(first: &'static [u8], byte: &'static [u8]) -> impl Fn(TcpStream) + Clone {
    move |mut stream| {
        let _ = head(&mut stream);
        let _ = stream.write_all(first);
        while stream.write_all(byte).is_ok() {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Answers that fail by their first bytes, and the bytes sent after those.
const WRONG: [(&str, &[u8], &[u8]); 16] = [
    ("reads-and-closes", b"", b""),
    ("no-http", b"SSH-2.0-OpenSSH_9.6\r\n", b""),
    ("bytes", &[0; 512], &[0xff; 4096]),
    ("endless-line", b"HTTP/1.1 200 ", &[b'x'; 4096]),
    ("endless-head", b"HTTP/1.1 200 OK\r\nx: ", &[b'x'; 4096]),
    ("many-headers", b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
    ("informs", b"", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"),
    ("cut-body", b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nx", b""),
    ("wrong-length", b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", b""),
    ("two-lengths", b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx", b""),
    ("wrong-chunk", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b""),
    (
        "huge-chunk",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        b"",
    ),
    (
        "redirects",
        b"HTTP/1.1 307 Go\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
        b"",
    ),
    (
        "upgrades",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"x",
    ),
    ("unavailable", b"HTTP/1.1 503 No\r\nretry-after: 99999999\r\ncontent-length: 0\r\n\r\n", b""),
    ("no-status", b"HTTP/1.1 2000 OK\r\n\r\n", b""),
];

/// Answers that are known as successes from the part that can be read.
const STRANGE: [(&str, &[u8], &[u8]); 2] = [
    ("endless-body", b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 65536]),
    ("terminal", b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n\x1b[2J\0\xff\xfe\x07", b""),
];

/// Receivers by name, and whether their conduct counts as success.
fn hostile() -> Vec<(&'static str, String, bool)> {
    let body = b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n";
    let closes = |stream: TcpStream| stream.shutdown(Shutdown::Both).unwrap_or(());
    let mut all = vec![
        ("silent", receiver(|_open| thread::sleep(PATIENCE)), false),
        ("closes", receiver(closes), false),
        ("slow-head", receiver(dribbles(b"HTTP/1.1 200 OK\r\nx: ", b"x")), false),
        ("slow-body", receiver(dribbles(body, b"x")), false),
    ];
    for (list, succeeds) in [(&WRONG[..], false), (&STRANGE[..], true)] {
        for (name, first, rest) in list {
            all.push((name, receiver(answers(first, rest)), succeeds));
        }
    }
    all
}

#[test]
fn hostile_receivers_end_each_in_a_record_and_delay_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let service = Tourbillond::start(folder.path(), &[]);
    let (address, calls) = good_receiver();
    let url = format!("http://{address}/");
    let ticks = json!({ "key": "tick", "when": { "every": "1s" }, "callback": { "url": url } });
    service.ask("POST", SCHEDULES, ticks, 201);
    let hostile = hostile();
    let deadly = hostile.iter().filter(|(.., succeeds)| !succeeds).count();
    for (name, address, _) in &hostile {
        service.once(name, "0s", &format!("http://{address}/"), "1s");
    }
    service.wait_for("dead", deadly);
    let dead = service.runs("dead");
    let keys = |runs: &[serde_json::Value]| -> Vec<String> {
        runs.iter().map(|run| run["key"].as_str().unwrap().to_owned()).collect()
    };
    let dead_keys = keys(&dead);
    for (name, _, succeeds) in &hostile {
        assert_eq!(dead_keys.iter().any(|key| key == name), !succeeds, "{name}");
    }
    for run in &dead {
        let last = run["ended_attempts"].as_array().unwrap().last().unwrap().clone();
        assert!(last["error"].as_str().is_some_and(|error| !error.is_empty()), "{run}");
    }
    // Successful ones have a record that can be shown.
    for (name, ..) in hostile.iter().filter(|(.., succeeds)| *succeeds) {
        let path = format!("/v1/apps/default/runs?state=succeeded&key={name}");
        while service.ask("GET", &path, json!(null), 200)["items"][0].is_null() {}
        let run = service.ask("GET", &path, json!(null), 200)["items"][0].clone();
        let answer = run["ended_attempts"][0]["answer"].as_str().unwrap().to_owned();
        assert!(answer.chars().all(|char| !char.is_control()), "{answer:?}");
    }
    // The good one is called meanwhile, and afterwards.
    for _ in 0..3 {
        calls.recv_timeout(PATIENCE).unwrap();
    }
    let memory = service.memory();
    println!("{} MB at most", memory >> 20);
    assert!(memory < MEMORY_MAX, "{} MB", memory >> 20);
    assert!(service.stop());
}
