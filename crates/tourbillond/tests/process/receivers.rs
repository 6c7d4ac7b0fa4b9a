//! Receivers by TLS, with an authority that the test makes.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustls::pki_types::CertificateDer;
use rustls::{ServerConnection, StreamOwned};
use serde_json::{Value, json};

use super::authority::{Authority, pem};
use super::{LIMIT, Tourbillond, first, http, is_kept};

/// A call: its head, and the client certificate that it came with.
type Call = (String, Option<CertificateDer<'static>>);

/// Starts a receiver by TLS that says yes to each call, as [`tls_receiver_and`] does.
fn tls_receiver(authority: &Authority, asks: bool) -> (u16, Receiver<Call>) {
    tls_receiver_and(authority, asks, |_| ("204 Done", String::new()))
}

/// Starts a receiver by TLS that answers a call by its head: with a status and a body. With `asks`,
/// a client needs a certificate. Returns its port.
fn tls_receiver_and(
    authority: &Authority,
    asks: bool,
    answer: impl Fn(&str) -> (&'static str, String) + Send + 'static,
) -> (u16, Receiver<Call>) {
    let config = authority.server(asks);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (called, calls) = channel();
    thread::spawn(move || {
        for tcp in listener.incoming() {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = StreamOwned::new(connection, tcp.unwrap());
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            if head.ends_with(b"\r\n\r\n") {
                let shown = stream.conn.peer_certificates().map(|chain| chain[0].clone());
                let head = String::from_utf8(head).unwrap();
                let length = header(&head, "content-length").unwrap_or("0").parse().unwrap();
                // Unread bytes would reset the connection, and the answer with it.
                let _ = stream.read_exact(&mut vec![0; length]);
                let (status, body) = answer(&head);
                let _ = called.send((head, shown));
                let _ = write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\n\r\n{body}");
            }
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    (port, calls)
}

/// Returns the value of a header.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Makes a one-shot of one attempt, and returns its run once that has ended.
fn called(service: &Tourbillond, app: &str, key: &str, url: &str) -> Value {
    make(service, app, key, json!({ "url": url }));
    ended(service, app, key)
}

/// Makes a one-shot of one attempt.
fn make(service: &Tourbillond, app: &str, key: &str, mut callback: Value) {
    callback["timeout"] = json!("100s");
    let retry = json!({ "attempts": 1 });
    let once =
        json!({ "key": key, "when": { "after": "0s" }, "retry": retry, "callback": callback });
    let path = format!("/v1/apps/{app}/schedules");
    let (status, answer) = service.call("", "POST", &path, &once);
    assert_eq!(status, 201, "{answer}");
}

/// Waits for the end of a run.
fn ended(service: &Tourbillond, app: &str, key: &str) -> Value {
    loop {
        let run = first(service, &format!("/v1/apps/{app}/runs?key={key}"));
        if ["succeeded", "dead"].iter().any(|state| run["state"] == *state) {
            return run;
        }
        thread::yield_now();
    }
}

/// Starts a service on a system that trusts this authority alone.
fn start_where(folder: &Path, trusted: &Authority) -> Tourbillond {
    std::fs::write(folder.join("system.pem"), pem("CERTIFICATE", trusted.own())).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
    command.env_remove("SSL_CERT_DIR").env("SSL_CERT_FILE", "system.pem");
    Tourbillond::run(command, folder, &["--config", "apps.toml"])
}

#[test]
fn a_receiver_of_an_authority_of_the_systems_is_called_unless_the_app_has_its_own_only() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    other.issue(folder.path());
    let (port, _calls) = tls_receiver(&authority, false);
    let own = "networks = ['127.0.0.0/8']\n";
    let text = format!(
        "[apps.default]\n{own}[apps.beside]\n{own}ca = 'ca.pem'\n\
         [apps.only]\n{own}ca = 'ca.pem'\nca_only = true\n"
    );
    std::fs::write(folder.path().join("apps.toml"), text).unwrap();
    let service = start_where(folder.path(), &authority);
    for (app, state) in [("default", "succeeded"), ("beside", "succeeded"), ("only", "dead")] {
        let run = called(&service, app, "one", &format!("https://localhost:{port}/"));
        assert_eq!(run["state"], state, "{app}: {run}");
        let why = run["ended_attempts"][0]["error"].as_str().unwrap_or_default();
        assert_eq!(why.contains("UnknownIssuer"), state == "dead", "{app}: {run}");
    }
    assert!(service.stop());
}

#[test]
fn a_receiver_of_an_authority_of_the_apps_own_is_called_by_that_app_alone() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.issue(folder.path());
    let (port, calls) = tls_receiver(&authority, false);
    let own = "networks = ['127.0.0.0/8']\n";
    let text = format!("[apps.default]\n{own}[apps.inner]\n{own}ca = 'ca.pem'\n");
    std::fs::write(folder.path().join("apps.toml"), text).unwrap();
    let service = start_where(folder.path(), &Authority::new());
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("https://{host}:{port}/{host}");
        let run = called(&service, "inner", host, &url);
        assert_eq!(run["state"], "succeeded", "{run}");
        let attempt = &run["ended_attempts"][0];
        assert_eq!(attempt["request"]["url"], url, "{run}");
        assert_eq!(attempt["headers"], json!({ "connection": "close" }), "{run}");
        for (step, is_there) in
            [("resolve_ms", host == "localhost"), ("connect_ms", true), ("tls_ms", true)]
        {
            assert_eq!(attempt["timing"][step].is_u64(), is_there, "{step}: {run}");
        }
        let (head, shown) = calls.recv_timeout(LIMIT).unwrap();
        assert!(head.starts_with(&format!("POST /{host} HTTP/1.1\r\n")), "{head}");
        assert_eq!(shown, None);
        let run = called(&service, "default", host, &url);
        let attempt = &run["ended_attempts"][0];
        assert!(attempt["error"].as_str().unwrap().contains("UnknownIssuer"), "{run}");
        assert_eq!(attempt["request"]["url"], url, "{run}");
        assert!(attempt["timing"]["connect_ms"].is_u64(), "{run}");
        assert!(attempt["timing"]["tls_ms"].is_null(), "{run}");
    }
    assert!(calls.try_recv().is_err(), "no request is sent before the certificate is known");
    assert!(service.stop());
}

#[test]
fn a_client_certificate_is_shown_to_its_hosts_alone_and_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let one = authority.issue(folder.path());
    let (port, calls) = tls_receiver(&authority, true);
    let text = "[apps.default]\nnetworks = ['127.0.0.0/8']\nca = 'ca.pem'\nca_only = true\n\
                [[apps.default.client_certificates]]\ncertificate = 'chain.pem'\n\
                key = 'key.pem'\nhosts = ['localhost']\n";
    std::fs::write(folder.path().join("apps.toml"), text).unwrap();
    let service = Tourbillond::start(folder.path(), &["--config", "apps.toml"]);
    let url = |host: &str| format!("https://{host}:{port}/");
    let run = called(&service, "default", "known", &url("localhost"));
    assert_eq!(run["state"], "succeeded", "{run}");
    assert_eq!(calls.recv_timeout(LIMIT).unwrap().1, Some(one));
    let run = called(&service, "default", "other", &url("127.0.0.1"));
    assert_eq!(run["state"], "dead", "{run}");
    assert!(calls.try_recv().is_err(), "a call without a certificate is refused");
    let other = authority.issue(folder.path());
    service.signal("HUP");
    for number in 0.. {
        let run = called(&service, "default", &number.to_string(), &url("localhost"));
        assert_eq!(run["state"], "succeeded", "{run}");
        if calls.recv_timeout(LIMIT).unwrap().1.as_ref() == Some(&other) {
            break;
        }
    }
    assert!(service.stop());
}

/// Starts a proxy that makes one tunnel. Returns its port, and the heads of its requests.
fn proxy() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asked, heads) = channel();
    thread::spawn(move || {
        let mut near = BufReader::new(listener.accept().unwrap().0);
        let (head, _) = http::read(&mut near);
        let mut near = near.into_inner();
        let far = TcpStream::connect(head.split(' ').nth(1).unwrap()).unwrap();
        asked.send(head).unwrap();
        near.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
        let (mut out, mut back) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let (mut near, mut far) = (near, far);
        thread::spawn(move || std::io::copy(&mut near, &mut far));
        let _ = std::io::copy(&mut back, &mut out);
    });
    (port, heads)
}

#[test]
fn a_receiver_by_tls_is_called_through_the_proxy_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.issue(folder.path());
    let (port, calls) = tls_receiver(&authority, false);
    let (near, heads) = proxy();
    let text = "[apps.default]\nnetworks = ['127.0.0.0/8']\nca = 'ca.pem'\n\
                [apps.default.proxy]\nenvironment = true\n";
    std::fs::write(folder.path().join("apps.toml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
    for name in ["https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"] {
        command.env_remove(name);
    }
    command.env("HTTPS_PROXY", format!("http://127.0.0.1:{near}"));
    let service = Tourbillond::run(command, folder.path(), &["--config", "apps.toml"]);
    let run = called(&service, "default", "one", &format!("https://localhost:{port}/"));
    assert_eq!(run["state"], "succeeded", "{run}");
    calls.recv_timeout(LIMIT).unwrap();
    let head = heads.recv_timeout(LIMIT).unwrap();
    assert!(head.starts_with(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n")), "{head}");
    assert!(service.stop());
}

/// Starts a token endpoint at `/token`, and a receiver at any other path that says no to the first
/// token. Returns its port, and the first lines and tokens of the requests.
fn token_receiver() -> (u16, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (called, calls) = channel();
    thread::spawn(move || {
        let mut granted = 0;
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (head, _) = http::read(&mut stream);
            let token = header(&head, "authorization").unwrap_or_default();
            let (status, body) = if head.starts_with("POST /token ") {
                granted += 1;
                let token = format!("hunter2-number-{granted}");
                let answer = json!({ "access_token": token, "token_type": "Bearer" });
                ("200 OK", answer.to_string())
            } else if token.ends_with("-1") {
                ("401 No", String::new())
            } else {
                ("200 OK", format!("welcome {token}"))
            };
            let _ = called.send((head.lines().next().unwrap().to_owned(), token.to_owned()));
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}");
            write!(stream.get_mut(), "{head}\r\n\r\n{body}").unwrap();
        }
    });
    (port, calls)
}

#[test]
fn a_token_that_is_refused_is_fetched_anew_once_within_the_attempt_and_kept_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let (port, calls) = token_receiver();
    let text = format!(
        "[apps.default]\nnetworks = ['127.0.0.0/8']\n[apps.default.header_secrets.erp]\n\
         hosts = ['127.0.0.1']\n[apps.default.header_secrets.erp.oauth]\n\
         token_url = 'http://127.0.0.1:{port}/token'\nclient_id = 'a'\n\
         client_secret = 'hunter2-secret'\nin_body = true\n"
    );
    std::fs::write(folder.path().join("apps.toml"), text).unwrap();
    let service = Tourbillond::start(folder.path(), &["--config", "apps.toml"]);
    let headers = json!({ "Authorization": { "secret": "erp" } });
    for key in ["one", "other"] {
        let url = format!("http://127.0.0.1:{port}/hook");
        make(&service, "default", key, json!({ "url": url, "headers": headers }));
        let run = ended(&service, "default", key);
        assert_eq!((&run["state"], &run["attempts"]), (&json!("succeeded"), &json!(1)), "{run}");
        let attempt = &run["ended_attempts"][0];
        assert_eq!(attempt["request"]["headers"]["authorization"], "••••••••", "{run}");
        assert!(!run.to_string().contains("hunter2"), "{run}");
    }
    let calls = (0..5).map(|_| calls.recv_timeout(LIMIT).unwrap()).collect::<Vec<_>>();
    let of = |path: &str, token: &str| (format!("POST {path} HTTP/1.1"), token.to_owned());
    let [first, second] = ["Bearer hunter2-number-1", "Bearer hunter2-number-2"];
    let expected = [of("/token", ""), of("/hook", first), of("/token", ""), of("/hook", second)];
    assert_eq!(calls[..4], expected);
    assert_eq!(calls[4], of("/hook", second), "the token is kept for the next attempt");
    assert!(!is_kept(folder.path(), "hunter2"));
    assert!(service.stop());
}

#[test]
fn a_token_is_fetched_by_tls_from_an_authority_of_the_apps_own_alone() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let own = authority.issue(folder.path());
    // The endpoint and the receiver ask for the app's certificate.
    let (port, calls) = tls_receiver_and(&authority, true, |head| {
        let granted = json!({ "access_token": "hunter2-token", "token_type": "Bearer" });
        match head.starts_with("POST /token ") {
            true => ("200 OK", granted.to_string()),
            false => ("200 OK", String::new()),
        }
    });
    let app = |name: &str, trust: &str| {
        format!(
            "[apps.{name}]\nnetworks = ['127.0.0.0/8']\n{trust}\
             [apps.{name}.header_secrets.erp]\nhosts = ['localhost']\n\
             [apps.{name}.header_secrets.erp.oauth]\n\
             token_url = 'https://localhost:{port}/token'\n\
             client_id = 'a'\nclient_secret = 'hunter2-secret'\n"
        )
    };
    let certificate = "certificate = 'chain.pem', key = 'key.pem', hosts = ['localhost']";
    let trust = format!("ca = 'ca.pem'\nclient_certificates = [{{ {certificate} }}]\n");
    let text = app("default", "") + &app("inner", &trust);
    std::fs::write(folder.path().join("apps.toml"), text).unwrap();
    let service = start_where(folder.path(), &Authority::new());
    let run = |app: &str| {
        let url = format!("https://localhost:{port}/hook");
        let headers = json!({ "Authorization": { "secret": "erp" } });
        make(&service, app, "one", json!({ "url": url, "headers": headers }));
        ended(&service, app, "one")
    };
    // Without that authority, neither the secret of the client nor a request is sent.
    let dead = run("default");
    let why = dead["ended_attempts"][0]["error"].as_str().unwrap();
    assert!(why.starts_with("the token of `erp`: "), "{why}");
    assert!(why.contains("UnknownIssuer"), "{why}");
    assert!(calls.try_recv().is_err());
    let done = run("inner");
    assert_eq!(done["state"], "succeeded", "{done}");
    for (path, sent) in [("/token", "Basic "), ("/hook", "Bearer hunter2-token")] {
        let (head, shown) = calls.recv_timeout(LIMIT).unwrap();
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{head}");
        assert!(header(&head, "authorization").unwrap().starts_with(sent), "{head}");
        assert_eq!(shown.as_ref(), Some(&own), "{path}");
    }
    assert!(calls.try_recv().is_err());
    assert!(!is_kept(folder.path(), "hunter2"));
    assert!(service.stop());
}

#[test]
fn a_receiver_by_tls_answers_202_and_completes_its_attempt_later_by_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.issue(folder.path());
    let (port, calls) =
        tls_receiver_and(&authority, false, |_| ("202 Accepted", "queued".to_owned()));
    let text = "[apps.default]\nnetworks = ['127.0.0.0/8']\nca = 'ca.pem'\nca_only = true\n\
                secrets = ['a secret of the app']\n";
    std::fs::write(folder.path().join("apps.toml"), text).unwrap();
    let service = Tourbillond::start(folder.path(), &["--config", "apps.toml"]);
    let url = format!("https://localhost:{port}/load");
    for (key, outcome, state) in [("good", "succeeded", "succeeded"), ("bad", "failed", "dead")] {
        make(&service, "default", key, json!({ "url": url, "complete_within": "6h" }));
        let (head, _) = calls.recv_timeout(LIMIT).unwrap();
        let of_attempt = |name: &str| header(&head, &format!("tourbillon-completion-{name}"));
        let (path, token) = (of_attempt("path").unwrap(), of_attempt("token").unwrap());
        let waiting = first(&service, &format!("/v1/apps/default/runs?key={key}&state=waiting"));
        assert_eq!(waiting["state"], "waiting", "{waiting}");
        let call = json!({ "outcome": outcome, "text": "42 rows" });
        assert_eq!(service.call("", "POST", path, &call).0, 401);
        for _ in 0..2 {
            let (status, answer) = service.call(token, "POST", path, &call);
            assert_eq!((status, &answer["outcome"]), (200, &json!(outcome)), "{answer}");
        }
        let run = ended(&service, "default", key);
        assert_eq!(run["state"], state, "{run}");
        let attempt = &run["ended_attempts"][0];
        assert_eq!((&attempt["status"], &attempt["answer"]), (&json!(202), &json!("queued")));
        assert_eq!(attempt["completion"]["state"], outcome, "{run}");
        assert!(attempt["timing"]["tls_ms"].is_u64(), "{run}");
        assert!(run.to_string().contains("42 rows"), "{run}");
    }
    assert!(calls.try_recv().is_err(), "what is completed is not called again");
    assert!(service.stop());
}
