//! A client of XTimer's routes against the service as a process, row by row of the table in the
//! README. Each request is what XTimer's own client, in Go, writes to the connection.

#[path = "support/http.rs"]
mod http;
#[path = "support/tourbillond.rs"]
mod tourbillond_process;

use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use http::read;
use serde_json::{Value, json};
use tourbillond_process::Tourbillond;

const DEF: &str = "/api/timer/v1/def";

/// The service, and a client with the one connection that it keeps.
struct XTimer {
    service: Tourbillond,
    stream: BufReader<TcpStream>,
    _folder: tempfile::TempDir,
}

impl XTimer {
    fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let service = Tourbillond::start(folder.path(), flags);
        let stream = BufReader::new(TcpStream::connect(&service.address).unwrap());
        Self { service, stream, _folder: folder }
    }

    /// Sends a body as Go's `net/http` does, which names no content type by itself.
    fn send(&mut self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (address, length) = (&self.service.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: Go-http-client/1.1\r\n\
             Content-Length: {length}\r\nAccept-Encoding: gzip\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let (head, body) = read(&mut self.stream);
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    /// Sends what XTimer's client sends, and returns the answer if its status is 200.
    #[track_caller]
    fn call(&mut self, method: &str, path: &str, body: &Value) -> Value {
        // Its GET has a body, too: `null`.
        let (status, answer) = self.send(method, path, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Sends the same, and requires an answer without an error.
    #[track_caller]
    fn done(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.call(method, path, body);
        let ends = ["code", "msg", "err"].map(|name| &answer[name]);
        assert_eq!(ends, [&json!(0), &json!(""), &Value::Null], "{answer}");
        answer
    }

    fn get(&mut self, path: &str) -> Value {
        self.done("GET", path, &Value::Null)
    }

    #[track_caller]
    fn create(&mut self, timer: &Value) -> u64 {
        self.done("POST", DEF, timer)["id"].as_u64().unwrap()
    }

    fn enable(&mut self, id: u64) {
        self.done("POST", "/api/timer/v1/enable", &json!({ "id": id }));
    }

    fn shown(&mut self, id: u64) -> Value {
        self.get(&format!("{DEF}?id={id}"))["data"].clone()
    }

    fn records(&mut self, id: u64) -> Value {
        self.get(&format!("/api/task/v1/records?timerID={id}&pageIndex=1&pageSize=50"))
    }

    /// Sends to the service's own routes, as the page does.
    fn own(&self, method: &str, key: &str, body: &Value) -> (u16, Value) {
        self.service.call("", method, &format!("/v1/apps/default/schedules/{key}"), body)
    }
}

/// Takes one callback, and answers it.
fn receive(listener: &TcpListener, answer: &str) -> (String, String) {
    let mut stream = BufReader::new(listener.accept().unwrap().0);
    let request = read(&mut stream);
    stream.get_mut().write_all(answer.as_bytes()).unwrap();
    request
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";

fn notify(url: &str) -> Value {
    json!({ "method": "POST", "url": url, "header": { "X-A": ["1"] }, "body": "{}" })
}

fn timer(app: &str, cron: &str, notify: Value) -> Value {
    json!({
        "app": app, "name": "nightly", "creator": "ann", "status": 1, "cron": cron,
        "notifyHTTPParam": notify
    })
}

fn nightly() -> Value {
    timer("default", "30 2 * * *", notify("https://hooks.example.com/x"))
}

/// Each second.
const ALWAYS: &str = "* * * * * * *";

#[test]
fn a_timer_is_made_shown_listed_switched_and_deleted() {
    let mut xtimer = XTimer::start(&[]);
    let id = xtimer.create(&nightly());
    let mut shown = nightly();
    shown["id"] = id.into();
    assert_eq!(xtimer.shown(id), shown);
    let listed = xtimer.get("/api/timer/v1/defs?app=default&pageIndex=1&pageSize=10");
    assert_eq!((&listed["data"], &listed["total"]), (&json!([&shown]), &json!(1)));
    let by_id = json!({ "id": id });
    xtimer.enable(id);
    assert_eq!(xtimer.shown(id)["status"], 2);
    // A change to the present state is an error, as there.
    assert_ne!(xtimer.call("POST", "/api/timer/v1/enable", &by_id)["err"], Value::Null);
    xtimer.done("POST", "/api/timer/v1/unable", &by_id);
    assert_ne!(xtimer.call("POST", "/api/timer/v1/unable", &by_id)["err"], Value::Null);
    let change = json!({ "id": id, "creator": "bob", "cron": "15,45 */2 * * * *", "status": 2 });
    xtimer.done("PATCH", DEF, &change);
    shown.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    assert_eq!(xtimer.shown(id), shown);
    let (_, ours) = xtimer.own("GET", &format!("xtimer.{id}"), &Value::Null);
    assert_eq!(ours["when"], json!({ "cron": "15,45 */2 * * *", "zone": "UTC" }));
    // A deleted timer stays deleted, however often.
    xtimer.done("DELETE", DEF, &by_id);
    xtimer.done("DELETE", DEF, &by_id);
    for (method, path) in [("POST", "/api/timer/v1/enable"), ("POST", "/api/timer/v1/unable")] {
        assert_ne!(xtimer.call(method, path, &by_id)["err"], Value::Null);
    }
    assert_ne!(xtimer.call("GET", &format!("{DEF}?id={id}"), &Value::Null)["err"], Value::Null);
    assert!(xtimer.service.stop());
}

#[test]
fn what_cannot_be_bound_is_a_bad_request() {
    let mut xtimer = XTimer::start(&[]);
    let mut bad = |method: &str, path: &str, body: &str| {
        let (status, answer) = xtimer.send(method, path, body);
        assert_eq!((status, &answer["code"]), (400, &json!(-1)), "{path} {body}: {answer}");
        assert_ne!(answer["err"], Value::Null);
        answer["msg"].as_str().unwrap().to_owned()
    };
    for field in ["app", "name", "creator", "cron", "notifyHTTPParam"] {
        let mut timer = nightly();
        timer[field] = Value::Null;
        let why = bad("POST", DEF, &timer.to_string());
        assert!(why.contains(field), "{why}");
    }
    let never = timer("default", "0 0 31 2 *", notify("https://hooks.example.com/x"));
    bad("POST", DEF, &never.to_string());
    for body in ["", "{", "[]", "{\"id\": \"1\"}", "{\"id\": 0}", "{}", "{\"id\": -1}"] {
        bad("DELETE", DEF, body);
        bad("POST", "/api/timer/v1/enable", body);
    }
    for query in ["", "?id=", "?id=0", "?id=x", "?id=-1", "?ID=1"] {
        bad("GET", &format!("{DEF}{query}"), "null");
    }
    for query in ["?pageIndex=1", "?app=default&pageIndex=x", "?app=default&pageSize=1.5"] {
        bad("GET", &format!("/api/timer/v1/defs{query}"), "null");
    }
    for query in ["", "?timerID=0", "?timerID=1&pageSize=99999999999999999999"] {
        bad("GET", &format!("/api/task/v1/records{query}"), "null");
    }
}

#[test]
fn names_are_read_in_any_case() {
    let mut xtimer = XTimer::start(&[]);
    let sent = r#"{
        "App": "default", "NAME": "nightly", "Creator": "ann", "Cron": "30 2 * * *", "unknown": 1,
        "NotifyHttpParam": {
            "Method": "post", "URL": "https://hooks.example.com/x", "Header": null
        }
    } and what follows"#;
    let (status, made) = xtimer.send("POST", DEF, sent);
    assert_eq!((status, &made["code"]), (200, &json!(0)), "{made}");
    let id = made["id"].as_u64().unwrap();
    let shown = xtimer.shown(id);
    // Not enabled unless it is asked for, and its method as it came.
    assert_eq!(
        (&shown["status"], &shown["notifyHTTPParam"]["method"]),
        (&json!(1), &json!("post"))
    );
    xtimer.done("POST", "/api/timer/v1/enable", &json!({ "ID": id }));
}

#[test]
fn pages_are_found_by_any_number() {
    let mut xtimer = XTimer::start(&[]);
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.insert(0, xtimer.create(&nightly()));
        // Identities are in order to the millisecond.
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut list = |query: &str| {
        let page = xtimer.get(&format!("/api/timer/v1/defs?app=default{query}"));
        assert_eq!(page["total"], 12);
        let data = page["data"].as_array().unwrap();
        data.iter().map(|def| def["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    for first in ["", "&pageIndex=0", "&pageIndex=-7", "&pageIndex=", "&pageSize=-1", "&other=1"] {
        assert_eq!(list(first), ids[..10], "{first}");
    }
    assert_eq!(list("&pageIndex=2"), ids[10..]);
    assert_eq!(list("&pageIndex=2&pageSize=5"), ids[5..10]);
    assert_eq!(list("&pageSize=2&pageSize=1"), ids[..2]);
    assert_eq!(list("&pageIndex=9&pageSize=100"), [0; 0]);
    assert_eq!(list("&pageIndex=9223372036854775807&pageSize=100"), [0; 0]);
}

#[test]
fn any_app_is_kept_by_one_that_a_flag_names() {
    let app = "\u{8ba2}\u{5355}/a b\"c";
    let mut xtimer = XTimer::start(&[]);
    let other = timer(app, "30 2 * * *", notify("https://hooks.example.com/x"));
    let refused = xtimer.call("POST", DEF, &other);
    assert!(refused["msg"].as_str().unwrap().contains("--xtimer-app"), "{refused}");

    let mut xtimer = XTimer::start(&["--xtimer-app", "default"]);
    let id = xtimer.create(&other);
    let own = xtimer.create(&nightly());
    assert_eq!(xtimer.shown(id)["app"], app);
    let escaped = "%E8%AE%A2%E5%8D%95/a+b%22c";
    for (app, id) in [(escaped, id), ("default", own)] {
        let listed = xtimer.get(&format!("/api/timer/v1/defs?app={app}"));
        assert_eq!((&listed["total"], &listed["data"][0]["id"]), (&json!(1), &json!(id)));
    }
    // XTimer's client does not escape the values of a query.
    let raw = xtimer.get("/api/timer/v1/defs?app=\u{8ba2}\u{5355}");
    assert_eq!((&raw["data"], &raw["total"]), (&json!([]), &json!(0)));
    let (_, shown) = xtimer.own("GET", &format!("xtimer.{id}"), &Value::Null);
    let view = json!({ "id": id, "app": app, "name": "nightly", "creator": "ann" });
    assert_eq!(shown["xtimer"], view);
}

#[test]
fn expressions_of_its_parser_are_taken() {
    let mut xtimer = XTimer::start(&[]);
    for cron in [
        "0 9 * january,Feb sunday",
        "*/5 * * * *",
        "15,45 */2 * * *",
        "0 0 L * ? *",
        "0 0 0 15W * ? *",
        "0 0 * * 5#2",
        "0 0 * * fridayL",
        "@hourly",
    ] {
        let id = xtimer.create(&timer("default", cron, notify("https://hooks.example.com/x")));
        assert_eq!(xtimer.shown(id)["cron"], cron);
        xtimer.enable(id);
    }
    let (_, refused) = xtimer.send(
        "POST",
        DEF,
        &timer("default", "0 0 1 1 * 2030", notify("https://hooks.example.com/x")).to_string(),
    );
    assert!(refused["msg"].as_str().unwrap().contains("year"), "{refused}");
}

#[test]
fn a_callback_has_the_lines_and_the_body_that_xtimer_sends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let mut xtimer = XTimer::start(&[]);
    let body = "{\"a\": \"{{x}} {{key}}\", \"b\": \"\u{e9}\"}";
    let with = |method: &str| {
        json!({
            "method": method, "url": url, "body": body,
            "header": { "X-A": ["1", "2, 3"], "X-None": [], "Content-Type": ["application/json"] }
        })
    };
    for (method, sent) in [("post", json!(body)), ("PATCH", json!(body)), ("get", Value::Null)] {
        let made = timer("default", ALWAYS, with(method));
        let id = xtimer.create(&made);
        xtimer.enable(id);
        let (head, received) = receive(&listener, OK);
        let upper = method.to_ascii_uppercase();
        assert!(head.starts_with(&format!("{upper} /hook HTTP/1.1\r\n")), "{head}");
        assert!(head.contains("x-a: 1\r\nx-a: 2, 3\r\n"), "{head}");
        assert!(!head.to_ascii_lowercase().contains("x-none"), "{head}");
        assert_eq!(serde_json::from_str::<Value>(&received).unwrap(), sent, "{received}");
        xtimer.done("POST", "/api/timer/v1/unable", &json!({ "id": id }));
        assert_eq!(xtimer.shown(id)["notifyHTTPParam"], made["notifyHTTPParam"]);
        // A callback that was under way ends before the next of another.
        listener.set_nonblocking(true).unwrap();
        while listener.accept().is_ok() {}
        listener.set_nonblocking(false).unwrap();
    }
}

#[test]
fn records_are_those_of_the_timer_and_outlive_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let mut xtimer = XTimer::start(&[]);
    let id = xtimer.create(&timer("default", ALWAYS, notify(&url)));
    xtimer.enable(id);
    receive(&listener, OK);
    // A redirect is not followed: it is a failure.
    let moved = "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n";
    receive(&listener, moved);
    let succeeded = loop {
        let records = xtimer.records(id);
        let data = records["data"].as_array().unwrap();
        if let Some(found) = data.iter().find(|task| task["status"] == 2) {
            break found.clone();
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let own = (&succeeded["app"], &succeeded["timerID"], &succeeded["output"]);
    assert_eq!(own, (&json!("default"), &json!(id), &json!("200 {}")));
    xtimer.done("DELETE", DEF, &json!({ "id": id }));
    let kept = xtimer.records(id);
    assert!(kept["data"].as_array().unwrap().contains(&succeeded), "{kept}");
    assert!(kept["total"].as_u64().unwrap() >= 1);
    let none = xtimer.records(7);
    assert_eq!((&none["data"], &none["total"]), (&json!([]), &json!(0)));
}

#[test]
fn a_timer_stays_xtimers_whatever_other_routes_make_of_it() {
    let mut xtimer = XTimer::start(&[]);
    let id = xtimer.create(&nightly());
    let key = format!("xtimer.{id}");
    let edited = json!({
        "when": { "cron": "0 5 * * *", "zone": "Europe/Berlin" },
        "callback": {
            "method": "PUT", "url": "https://hooks.example.com/y", "body": "{{key}}",
            "headers": { "X-A": "1", "X-B": "2" }
        },
        "overlap": "skip",
        "enabled": true
    });
    let (status, answer) = xtimer.own("PUT", &key, &edited);
    assert_eq!(status, 200, "{answer}");
    let view = json!({ "id": id, "name": "nightly", "creator": "ann" });
    assert_eq!(answer["xtimer"], view);
    let shown = xtimer.shown(id);
    assert_eq!((&shown["name"], &shown["status"]), (&json!("nightly"), &json!(2)));
    assert_eq!(shown["cron"], "0 5 * * *");
    let notify = json!({
        "method": "PUT", "url": "https://hooks.example.com/y", "body": "{{key}}",
        "header": { "X-A": ["1"], "X-B": ["2"] }
    });
    assert_eq!(shown["notifyHTTPParam"], notify);
    let listed = xtimer.get("/api/timer/v1/defs?app=default");
    assert_eq!(listed["data"], json!([shown]));
    // Nor does a change by XTimer's route undo a field that it does not know.
    xtimer.done("PATCH", DEF, &json!({ "id": id, "name": "daily" }));
    let (_, answer) = xtimer.own("GET", &key, &Value::Null);
    assert_eq!(
        (&answer["overlap"], &answer["when"]["zone"]),
        (&json!("skip"), &json!("Europe/Berlin"))
    );
    assert_eq!((&answer["xtimer"]["name"], &answer["enabled"]), (&json!("daily"), &json!(true)));
}
