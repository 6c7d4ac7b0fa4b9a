//! Clients that take connections, and do nothing with them.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use super::{MEMORY_MAX, PATIENCE, SCHEDULES, Tourbillond, good_receiver};

/// Number of connections that the attacker has at a time.
const FLOOD: usize = 2_000;

/// Number of callbacks that are due under attack, half of them made before.
const DUE: usize = 100;

/// Raises the limit on this process's descriptors as far as it may.
fn many_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    assert!(maximum.is_none_or(|most| most > 2 * FLOOD as u64), "the attack needs descriptors");
}

/// Opens connections and keeps them: first so many as the attacker has, or as are accepted; and
/// then more as time goes by, until it is stopped.
fn flood(address: String, stop: Arc<AtomicBool>, first: &'static [u8]) -> thread::JoinHandle<()> {
    let address = address.parse().unwrap();
    let (fills, filled) = channel();
    let flood = thread::spawn(move || {
        let (mut open, mut failures) = (Vec::new(), 0);
        while !stop.load(SeqCst) {
            if open.len() >= FLOOD || failures >= 5 {
                let _ = fills.send(());
                thread::sleep(Duration::from_millis(5));
            }
            if open.len() < FLOOD * 3 / 2 {
                let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1));
                match stream {
                    Ok(mut stream) => {
                        let _ = stream.write_all(first);
                        open.push(stream);
                        failures = 0;
                    }
                    Err(_) => failures += 1,
                }
            }
        }
    });
    filled.recv().unwrap();
    flood
}

fn is_withstood(limits: &str, first: &'static [u8]) {
    many_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    let script = format!("ulimit {limits}; exec \"$0\" \"$@\"");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_tourbillond")]);
    let service = Tourbillond::run(shell, folder.path(), &[]);
    let (address, calls) = good_receiver();
    let make = |number: usize, after: &str| {
        // By name, too, because that takes the resolver.
        let address = if number % 2 == 0 {
            address.clone()
        } else {
            address.replace("127.0.0.1", "localhost")
        };
        service.once(&number.to_string(), after, &format!("http://{address}/{number}"), "60s");
    };
    (0..DUE / 2).for_each(|number| make(number, "3s"));
    let stop = Arc::new(AtomicBool::new(false));
    let flood = flood(service.address.clone(), Arc::clone(&stop), first);
    let mut slowest = Duration::ZERO;
    for number in DUE / 2..DUE {
        let start = Instant::now();
        make(number, "0s");
        slowest = slowest.max(start.elapsed());
    }
    let called: BTreeSet<_> =
        (0..DUE).map(|_| calls.recv_timeout(PATIENCE).expect("every due callback")).collect();
    assert_eq!(called.len(), DUE);
    service.wait_for("succeeded", DUE);
    assert_eq!(service.runs("dead"), Vec::<Value>::new());
    assert!(service.runs("succeeded").iter().all(|run| run["failures"] == 0));
    let sent = first.len();
    println!("{limits}, {sent} bytes sent: the slowest of {} answers took {slowest:?}", DUE / 2);
    stop.store(true, SeqCst);
    flood.join().unwrap();
    assert!(service.stop());
}

#[test]
fn idle_sockets_starve_neither_clients_nor_callbacks_at_a_low_limit() {
    is_withstood("-n 1024", b"");
}

#[test]
fn idle_sockets_starve_neither_clients_nor_callbacks_at_a_low_soft_limit() {
    is_withstood("-Sn 1024", b"");
}

#[test]
fn requests_that_do_not_come_to_their_end_starve_nobody_either() {
    is_withstood(
        "-n 1024",
        b"POST /v1/preview HTTP/1.1\r\nhost: localhost\r\n\
        content-type: application/json\r\ncontent-length: 100\r\n\r\n{",
    );
}

/// Number of requests that do not come to their end, and the bytes of each.
const UNFINISHED: usize = 6_000;
const SENT: usize = 60_000;

/// Sends that many requests, which begin so, and returns the most memory that the service took.
fn memory_of_unfinished(begin: &str) -> usize {
    many_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let service = Tourbillond::start(folder.path(), &[]);
    let request = format!("{begin}{}", "x".repeat(SENT));
    let mut open = Vec::new();
    for _ in 0..UNFINISHED {
        let mut stream = TcpStream::connect(&service.address).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        // A client that is cut sees an error.
        let _ = stream.write_all(request.as_bytes());
        open.push(stream);
    }
    service.ask("GET", SCHEDULES, Value::Null, 200);
    let memory = service.memory();
    println!("{UNFINISHED} requests of {SENT} bytes: {} MiB at most", memory >> 20);
    assert!(service.stop());
    memory
}

#[test]
fn large_heads_that_do_not_come_to_their_end_take_little_memory() {
    let memory = memory_of_unfinished("GET / HTTP/1.1\r\nhost: localhost\r\nx: ");
    assert!(memory <= 100 << 20, "{memory}");
}

#[test]
fn large_bodies_that_do_not_come_to_their_end_take_bounded_memory() {
    let length = SENT + 1;
    let memory = memory_of_unfinished(&format!(
        "POST {SCHEDULES} HTTP/1.1\r\nhost: localhost\r\n\
        content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    ));
    assert!(memory <= MEMORY_MAX, "{memory}");
}

/// Number of definitions, and the length of the body of each.
const DEFINITIONS: usize = 1_000;
const BODY: usize = 47_000;

/// Number of clients that do not read, of each kind.
const UNREAD: usize = 24;

#[test]
fn unread_answers_leave_memory_and_time_for_others() {
    many_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let service = Tourbillond::start(folder.path(), &[]);
    let key = |number: usize| format!("d{number:04}");
    thread::scope(|scope| {
        for part in 0..8 {
            let service = &service;
            scope.spawn(move || {
                for number in (part..DEFINITIONS).step_by(8) {
                    let url = "http://127.0.0.1:9/";
                    let callback = json!({ "url": url, "body": "x".repeat(BODY) });
                    let when = json!({ "every": "8760h" });
                    let made = json!({ "key": key(number), "when": when, "callback": callback });
                    service.ask("POST", SCHEDULES, made, 201);
                }
            });
        }
    });
    let one = format!("{SCHEDULES}/{}", key(7));
    let list = format!("{SCHEDULES}?limit=1000");
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let attacks = [get(&list), get(&one), get(&one).repeat(100)];
    let open: Vec<_> = attacks
        .iter()
        .flat_map(|attack| std::iter::repeat_n(attack, UNREAD))
        .map(|attack| {
            let mut stream = TcpStream::connect(&service.address).unwrap();
            stream.write_all(attack.as_bytes()).unwrap();
            stream
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for number in 0..20 {
        let start = Instant::now();
        service.ask("GET", &format!("{SCHEDULES}/{}", key(number)), Value::Null, 200);
        service.ask("GET", &format!("{SCHEDULES}?limit=10"), Value::Null, 200);
        slowest = slowest.max(start.elapsed());
    }
    // Beside all that, the list is read to its end: each once, without bodies.
    let (mut keys, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = service.ask("GET", &format!("{list}&cursor={cursor}"), Value::Null, 200);
        for item in page["items"].as_array().unwrap() {
            assert_eq!(item["callback"]["body_bytes"], BODY);
            assert_eq!(item["callback"].get("body"), None);
            keys.push(item["key"].as_str().unwrap().to_owned());
        }
        pages += 1;
        let Some(next) = page["next"].as_str() else { break };
        cursor = next.to_owned();
    }
    assert_eq!(keys, (0..DEFINITIONS).map(key).collect::<Vec<_>>());
    assert!(pages > 1);
    let shown = service.ask("GET", &one, Value::Null, 200);
    assert_eq!(shown["callback"]["body"].as_str().unwrap().len(), BODY);
    assert_eq!(shown["callback"].get("body_bytes"), None);
    let memory = service.memory();
    println!("{} MB at most; the slowest two answers took {slowest:?}", memory >> 20);
    assert!(memory < MEMORY_MAX, "{} MB", memory >> 20);
    drop(open);
    assert!(service.stop());
}
