//! Addresses of several hosts; one of them takes writes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tourbillon_durable::StoreErrorKind;
use tourbillon_durable::store::{Postgres, Store};

use crate::cluster::Database;
use crate::faults::{ANSWERS, Proxy, REQUESTS};
use crate::listening::Ear;
use crate::replica::Pair;

/// A host that takes connections and is of no use.
struct Fake {
    port: u16,
    connections: Arc<AtomicUsize>,
    /// Number of connections that were closed.
    closed: Arc<AtomicUsize>,
}

impl Fake {
    /// Makes a host that does `answer` with each connection, for as long as that is open.
    fn new(answer: fn(TcpStream)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let fake = Self { port, connections: Arc::default(), closed: Arc::default() };
        let (connections, closed) = (fake.connections.clone(), fake.closed.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                connections.fetch_add(1, Ordering::SeqCst);
                let closed = closed.clone();
                thread::spawn(move || {
                    answer(stream.unwrap());
                    closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        fake
    }
}

/// Takes all and answers nothing.
fn hang(mut stream: TcpStream) {
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

/// Lets everybody in, and says of itself that it takes no writes.
fn read_only(stream: TcpStream) {
    let_in(stream, "on");
}

/// Lets everybody in, says of itself that it takes writes, and answers nothing else.
fn hang_later(stream: TcpStream) {
    let_in(stream, "off");
}

fn let_in(mut stream: TcpStream, read_only: &str) {
    // Messages: a tag, a length that counts itself, a content.
    let welcome = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x01Z\0\0\0\x05I";
    let column = b"T\0\0\0\x1b\0\x01r\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";
    let length = read_only.len() as u8;
    let row = [&[b'D', 0, 0, 0, 10 + length, 0, 1, 0, 0, 0, length], read_only.as_bytes()].concat();
    let end = b"C\0\0\0\x09SHOW\0Z\0\0\0\x05I";
    let mut buffer = [0; 4096];
    for answer in [&welcome[..], &[&column[..], &row, end].concat()] {
        if !matches!(stream.read(&mut buffer), Ok(1..)) {
            return;
        }
        stream.write_all(answer).unwrap();
    }
    hang(stream);
}

/// A port that nobody listens on.
fn dead() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn address(ports: &[u16]) -> String {
    let hosts: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!(
        "postgres://tourbillon@{}/postgres?sslmode=disable&target_session_attrs=read-write",
        hosts.join(",")
    )
}

#[test]
fn a_host_that_takes_writes_is_found_in_every_place() {
    let pair = Pair::new();
    let live = pair.ports().0;
    Postgres::connect(&address(&[live])).unwrap();
    let of_no_use = [dead(), Fake::new(hang).port, pair.ports().1, Fake::new(read_only).port];
    thread::scope(|scope| {
        for one in of_no_use {
            for other in of_no_use {
                for hosts in [[live, one, other], [one, live, other], [one, other, live]] {
                    scope.spawn(move || {
                        // On a busy machine the live host may need longer than it is given.
                        let is_found = |_| Postgres::connect(&address(&hosts)).is_ok();
                        assert!((0..10).any(is_found), "{hosts:?}, live {live}");
                    });
                }
            }
        }
    });
}

#[test]
fn an_address_without_a_host_that_takes_writes_names_each() {
    let pair = Pair::new();
    let hosts = [dead(), pair.ports().1];
    let error = Postgres::connect(&address(&hosts)).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    for host in hosts {
        assert!(error.to_string().contains(&format!("127.0.0.1:{host}: ")), "{error}");
    }
}

#[test]
fn the_host_that_answered_last_is_tried_first() {
    let pair = Pair::new();
    let hung = Fake::new(hang);
    let store = Postgres::connect(&address(&[hung.port, pair.ports().0])).unwrap();
    assert_eq!(hung.connections.load(Ordering::SeqCst), 1);
    store.connect().unwrap();
    assert_eq!(hung.connections.load(Ordering::SeqCst), 1);
}

/// Hosts of `database`, behind a useless one.
fn behind(fake: &Fake, database: &Database) -> String {
    format!("127.0.0.1:{},{}", fake.port, database.server())
}

#[test]
fn the_connection_to_a_host_that_hangs_is_closed_once_another_is_found() {
    let database = Database::new();
    let hung = Fake::new(hang_later);
    let address = database.address_of(&behind(&hung, &database), "sslmode=disable");
    // On a busy machine the live host may need longer than it is given.
    let mut store = (0..10).find_map(|_| Postgres::connect(&address).ok()).unwrap();
    let is_closed = |_| {
        thread::sleep(Duration::from_millis(10));
        hung.closed.load(Ordering::SeqCst) == hung.connections.load(Ordering::SeqCst)
    };
    assert!((0..6_000).any(is_closed));
    store.now().unwrap();
}

#[test]
fn a_primary_that_hangs_is_left() {
    let pair = Pair::new();
    let live = pair.ports().0;
    let proxy = Proxy::new(([127, 0, 0, 1], live).into());
    let mut store = Postgres::connect(&address(&[proxy.address.port(), live])).unwrap();
    proxy.swallow(REQUESTS, true);
    proxy.swallow(ANSWERS, true);
    assert_eq!(store.now().unwrap_err().kind(), StoreErrorKind::Unavailable);
    store.now().unwrap();
}

#[test]
fn a_listener_leaves_a_server_that_takes_no_more_writes() {
    let pair = Pair::new();
    let ear = Ear::of(&Postgres::connect(&pair.primary()).unwrap());
    ear.wait_until_it_listens();
    pair.set("default_transaction_read_only", "on");
    // The host that is left, and the host that is refused.
    ear.deaf();
    ear.deaf();
    pair.set("default_transaction_read_only", "off");
    ear.wait_until_it_listens();
}
