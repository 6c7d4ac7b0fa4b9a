//! Requests whose host only a listener sees as it came. `browser/attacks.test.mjs` has the pages of
//! other sites.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::{PATIENCE, SCHEDULES, Tourbillond};

/// The status of the answer to a request with these headers.
fn send(service: &Tourbillond, line: &str, headers: &[&str]) -> u16 {
    let mut stream = TcpStream::connect(&service.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let headers = headers.iter().map(|header| format!("{header}\r\n")).collect::<String>();
    write!(stream, "{line} HTTP/1.1\r\n{headers}connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_request_names_one_host_on_the_wire_too() {
    let folder = tempfile::tempdir().unwrap();
    let service = Tourbillond::start(folder.path(), &[]);
    let host = format!("host: {}", service.address);
    let port = service.address.rsplit(':').next().unwrap();
    let rebound = format!("host: rebound.example:{port}");
    let list = format!("GET {SCHEDULES}");
    for (line, headers, status) in [
        (&list, &[&*host][..], 200),
        (&format!("GET http://rebound.example:{port}/v1/apps"), &[&host], 421),
        // No host, and two.
        (&list, &[], 400),
        (&list, &[&host, &host], 400),
        (&list, &[&host, &rebound], 400),
        (&list, &[&rebound, &host], 400),
    ] {
        assert_eq!(send(&service, line, headers), status, "{line} {headers:?}");
    }
    assert!(service.stop());
}
