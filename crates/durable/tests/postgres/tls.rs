//! Encrypted connections, and connections that do not count as encrypted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use tourbillon_durable::store::{Postgres, Store};
use tourbillon_durable::{StoreError, StoreErrorKind};

use crate::cluster::{Database, PATIENT};
use crate::replica::Pair;

/// The host that the server's certificate is for.
fn localhost(database: &Database) -> String {
    format!("localhost:{}", database.server().port())
}

fn file(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run it by the script"))
}

fn ca() -> String {
    file("TOURBILLON_POSTGRES_CA")
}

fn other_ca() -> String {
    file("TOURBILLON_POSTGRES_OTHER_CA")
}

fn connect(database: &Database, host: &str, parameters: &str) -> Result<Postgres, StoreError> {
    Postgres::connect(&database.address_of(host, parameters))
}

/// Returns whether the server says that all of the store's connections are encrypted.
fn is_encrypted(database: &Database) -> bool {
    let sql = "
        SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE datname = current_database() AND application_name = 'tourbillon'";
    database.client().query_one(sql, &[]).unwrap().get(0)
}

#[test]
fn a_server_with_the_right_certificate_is_taken() {
    let database = Database::new();
    let (localhost, ca) = (localhost(&database), ca());
    for mode in ["verify-full", "verify-ca", "require", "prefer"] {
        let parameters = format!("sslmode={mode}&sslrootcert={ca}");
        let mut store = connect(&database, &localhost, &parameters).unwrap();
        let mut second = store.connect().unwrap();
        assert!(is_encrypted(&database), "{mode}");
        store.now().unwrap();
        second.now().unwrap();
    }
}

#[test]
fn it_is_asked_for_by_pairs_too() {
    let database = Database::new();
    let url = database.address_of(&localhost(&database), "");
    let (login, rest) = url.strip_prefix("postgres://").unwrap().split_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap();
    let (name, _) = rest.split_once('/').unwrap().1.split_once('?').unwrap();
    let (port, ca) = (database.server().port(), ca());
    let pairs = format!(
        "host=localhost port={port} user={user} password={password} dbname={name} {PATIENT} \
         sslmode = verify-full sslrootcert='{ca}'"
    );
    let _store = Postgres::connect(&pairs).unwrap();
    assert!(is_encrypted(&database));
}

#[test]
fn without_roots_whoever_answers_is_taken_and_encrypted_unless_disabled() {
    let database = Database::new();
    for parameters in ["", "sslmode=prefer", "sslmode=require", "sslmode=disable"] {
        let host = database.server().to_string();
        let _store = connect(&database, &host, parameters).unwrap();
        assert_eq!(is_encrypted(&database), parameters != "sslmode=disable", "{parameters}");
    }
}

/// Refused because of the certificate.
fn assert_refused(database: &Database, host: &str, parameters: &str, why: &str) {
    let error = connect(database, host, parameters).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    let said = error.to_string();
    assert!(said.contains("certificate") && said.contains(why), "{parameters}: {error}");
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let database = Database::new();
    let (localhost, other) = (localhost(&database), other_ca());
    for mode in ["verify-full", "verify-ca", "require", "prefer"] {
        let parameters = format!("sslmode={mode}&sslrootcert={other}");
        assert_refused(&database, &localhost, &parameters, "UnknownIssuer");
    }
    // No authority of the world has signed it.
    for parameters in ["sslmode=verify-full", "sslrootcert=system"] {
        let error = connect(&database, &localhost, parameters).unwrap_err();
        // Some systems trust nobody.
        let is_empty = error.to_string().contains("the system trusts no authority");
        assert!(is_empty || error.to_string().contains("UnknownIssuer"), "{error}");
    }
}

#[test]
fn a_certificate_for_another_host_is_refused() {
    let database = Database::new();
    let (address, ca) = (database.server().to_string(), ca());
    let full = format!("sslmode=verify-full&sslrootcert={ca}");
    assert_refused(&database, &address, &full, "not valid for name");
    // That is not asked for here.
    let parameters = format!("sslmode=verify-ca&sslrootcert={ca}");
    connect(&database, &address, &parameters).unwrap();
}

#[test]
fn a_login_is_bound_to_the_connection() {
    let database = Database::new();
    let localhost = localhost(&database);
    connect(&database, &localhost, "sslmode=require&channel_binding=require").unwrap();
    connect(&database, &localhost, "sslmode=disable&channel_binding=require").unwrap_err();
}

#[test]
fn files_that_make_no_sense_are_refused() {
    let database = Database::new();
    let localhost = localhost(&database);
    let ca = ca();
    for parameters in [
        "sslmode=verify-full&sslrootcert=/no/such/file",
        "sslmode=require&sslrootcert=/dev/null",
        &format!("sslmode=require&sslcert={ca}&sslkey={ca}"),
    ] {
        let error = connect(&database, &localhost, parameters).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Invalid, "{parameters}: {error}");
    }
}

/// A server without TLS: says so, and passes on what one connection says then. Its thread returns
/// how many bytes that were.
fn without_tls(server: SocketAddr) -> (SocketAddr, thread::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 8];
        client.read_exact(&mut request).unwrap();
        client.write_all(b"N").unwrap();
        let server = TcpStream::connect(server).unwrap();
        let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || carry(back.0, back.1));
        carry(client.try_clone().unwrap(), server.try_clone().unwrap())
    });
    (address, serving)
}

/// Carries bytes, and returns how many.
fn carry(mut from: TcpStream, mut to: TcpStream) -> usize {
    let mut buffer = [0; 4096];
    let mut sum = 0;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        sum += count;
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
    sum
}

#[test]
fn a_server_without_tls_is_refused_if_it_is_required() {
    let database = Database::new();
    let (address, serving) = without_tls(database.server());
    let error = connect(&database, &address.to_string(), "sslmode=require").unwrap_err();
    assert!(error.to_string().contains("does not support TLS"), "{error}");
    assert_eq!(serving.join().unwrap(), 0, "something was said in plain text");
}

#[test]
fn a_server_without_tls_is_taken_if_it_is_preferred() {
    let database = Database::new();
    let (address, serving) = without_tls(database.server());
    connect(&database, &address.to_string(), "sslmode=prefer").unwrap();
    assert_ne!(serving.join().unwrap(), 0);
}

#[test]
fn a_certificate_of_version_1_is_taken_where_none_is_verified() {
    let pair = Pair::new();
    pair.encrypt();
    for mode in ["prefer", "require"] {
        let address = pair.primary().replace("sslmode=disable", &format!("sslmode={mode}"));
        drop(Postgres::connect(&address).unwrap());
    }
}
