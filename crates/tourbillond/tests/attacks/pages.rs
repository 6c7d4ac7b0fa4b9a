//! Requests that pages of other sites make a browser send. `browser/attacks.test.mjs` has one.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{PATIENCE, SCHEDULES, Tourbillond, good_receiver};

/// The status of the answer to a request with these headers.
fn send(service: &Tourbillond, line: &str, headers: &[&str], body: &str) -> u16 {
    let mut stream = TcpStream::connect(&service.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let headers = headers.iter().map(|header| format!("{header}\r\n")).collect::<String>();
    let length = body.len();
    write!(
        stream,
        "{line} HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn foreign_pages_and_rebound_names_make_fire_and_read_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let service = Tourbillond::start(folder.path(), &[]);
    let (address, calls) = good_receiver();
    let url = format!("http://{address}/attack");
    let own = json!({ "key": "own", "when": { "every": "8760h" }, "callback": { "url": url } });
    service.ask("POST", SCHEDULES, own, 201);

    let timer = json!({
        "app": "default", "name": "a", "creator": "b", "status": 2, "cron": "* * * * * * *",
        "notifyHTTPParam": { "method": "POST", "url": url, "header": { "X-Inner": ["1"] } }
    });
    let once = json!({ "key": "made", "when": { "after": "0s" }, "callback": { "url": url } });
    let (timer, once) = (timer.to_string(), once.to_string());
    let host = format!("host: {}", service.address);
    let port = service.address.rsplit(':').next().unwrap();
    let rebound = format!("host: rebound.example:{port}");
    let (text, json) = ("content-type: text/plain", "content-type: application/json");
    let create = format!("POST {SCHEDULES}");
    let fire = format!("POST {SCHEDULES}/own/run-now");
    let list = format!("GET {SCHEDULES}");
    let def = "POST /api/timer/v1/def";
    let sibling = "origin: http://127.0.0.1:3000";
    let foreign = "origin: http://evil.example";
    let cross = "sec-fetch-site: cross-site";
    for (line, headers, body, status) in [
        // A form, or a script that does not ask; of an old browser, too.
        (def, &[&*host, text][..], &*timer, 415),
        (def, &[&host, text, foreign], &timer, 403),
        (def, &[&host, text, sibling], &timer, 403),
        (def, &[&host, json, cross], &timer, 403),
        // A body without a type, which XTimer's client sends, and a script can.
        (def, &[&host, foreign], &timer, 403),
        (def, &[&host, cross], &timer, 403),
        (def, &[&rebound], &timer, 421),
        (&create, &[&host, json, foreign], &once, 403),
        (&fire, &[&host, foreign], "", 403),
        (&fire, &[&host, sibling], "", 403),
        (&fire, &[&host, "origin: null"], "", 403),
        (&fire, &[&host, cross], "", 403),
        (&fire, &[&host, "sec-fetch-site: same-site"], "", 403),
        (&fire, &[&host, text], "", 415),
        (&list, &[&host, cross], "", 403),
        // A name that leads to the service for the moment: all is of one origin.
        (&list, &[&rebound], "", 421),
        (&list, &[&rebound, "sec-fetch-site: same-origin"], "", 421),
        (&create, &[&rebound, json, &format!("origin: http://rebound.example:{port}")], &once, 421),
        (&fire, &[&rebound], "", 421),
        ("GET /", &[&rebound], "", 421),
        (&format!("GET http://rebound.example:{port}/v1/apps"), &[&host], "", 421),
        // No host, and two.
        (&list, &[], "", 400),
        (&list, &[&host, &host], "", 400),
        (&list, &[&host, &rebound], "", 400),
        (&list, &[&rebound, &host], "", 400),
    ] {
        assert_eq!(send(&service, line, headers, body), status, "{line} {headers:?}");
    }

    // Its own page, and a client that is none, are answered.
    let origin = format!("origin: http://{}", service.address);
    assert_eq!(send(&service, &list, &[&host, &origin, "sec-fetch-site: same-origin"], ""), 200);
    let listed = service.ask("GET", SCHEDULES, Value::Null, 200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    service.once("last", "0s", &format!("http://{address}/last"), "60s");
    assert_eq!(calls.recv_timeout(PATIENCE).unwrap(), "/last");
    assert!(service.stop());
}
