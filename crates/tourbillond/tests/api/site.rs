//! Requests that name another host, or come from another site's page.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::json;
use tourbillond::config::Config;
use tourbillond::routes::Reached;
use tower::ServiceExt as _;

use super::xtimer::{DEF, timer};
use super::{Answer, Api, SCHEDULES, definition, keyed, nightly, one, open};

/// A service that is known by `hosts` too.
fn known_by(hosts: &[&str]) -> Api {
    let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
    Api::of(Config { hosts, ..open() })
}

/// Sends a request with these headers, that came to this address.
async fn ask(api: &Api, method: &Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::empty()).unwrap();
    request.extensions_mut().insert(Reached("10.1.2.3".parse::<IpAddr>().unwrap()));
    api.send(request).await
}

async fn get(api: &Api, path: &str, headers: &[(&str, &str)]) -> u16 {
    ask(api, &Method::GET, path, headers).await.status.as_u16()
}

async fn post(api: &Api, path: &str, headers: &[(&str, &str)]) -> u16 {
    ask(api, &Method::POST, path, headers).await.status.as_u16()
}

/// Every kind of path: the page, its files, the API, XTimer's, what machines ask for, and none.
const PATHS: [&str; 9] = [
    "/",
    "/assets/app.js",
    "/v1/openapi.json",
    "/v1/apps",
    "/healthz",
    "/readyz",
    "/metrics",
    "/api/timer/v1/defs?app=default",
    "/nothing",
];

#[tokio::test]
async fn only_requests_that_name_this_service_are_answered() {
    let api = known_by(&["timers.example.com", "*.corp.example", "other.example:8443"]);
    for host in [
        "localhost",
        "localhost:8321",
        "LocalHost.:1",
        "127.0.0.1",
        "127.0.0.1:9",
        "127.9.9.9",
        "[::1]:8321",
        "[::ffff:127.0.0.1]",
        "0.0.0.0:8321",
        "10.1.2.3:8321",
        "[::ffff:10.1.2.3]:8321",
        "timers.example.com",
        "Timers.Example.Com.:8321",
        "one.corp.example",
        "a.b.corp.example:80",
        "other.example:8443",
    ] {
        assert_eq!(get(&api, "/v1/apps", &[("host", host)]).await, 200, "{host}");
    }
    for host in [
        "rebound.example",
        "rebound.example:8321",
        "localhost.example",
        "127.0.0.1.example",
        "evil-timers.example.com",
        "timers.example.com.evil.example",
        "corp.example",
        "other.example",
        "10.1.2.4",
        "128.0.0.1",
        "[::2]",
        "user@localhost",
        "localhost/",
        "localhost#",
        "localhost\\evil.example",
        "loc\talhost",
        "localhost:port",
        "[::1",
        ":8321",
        "",
    ] {
        for path in PATHS {
            assert_eq!(get(&api, path, &[("host", host)]).await, 421, "{host} {path}");
        }
        assert_eq!(post(&api, &one("a/run-now"), &[("host", host)]).await, 421, "{host}");
    }
    for (path, text) in [("/v1/apps", "detail"), ("/api/timer/v1/defs?app=default", "msg")] {
        let refused = ask(&api, &Method::GET, path, &[("host", "rebound.example")]).await;
        assert!(refused.expect(421)[text].as_str().unwrap().contains("`hosts`"), "{path}");
    }
}

#[tokio::test]
async fn the_target_of_a_request_counts_as_much_as_its_host() {
    let api = Api::new();
    let host = [("host", "localhost")];
    assert_eq!(get(&api, "http://127.0.0.1:8321/v1/apps", &host).await, 200);
    assert_eq!(get(&api, "http://rebound.example/v1/apps", &host).await, 421);
}

#[tokio::test]
async fn a_request_has_one_host() {
    let api = Api::new();
    let routes = tourbillond::routes::router(api.service.clone());
    for path in PATHS {
        let none = Request::get(path).body(Body::empty()).unwrap();
        assert_eq!(routes.clone().oneshot(none).await.unwrap().status(), 400, "{path}");
        for other in ["localhost", "rebound.example"] {
            let two = [("host", "localhost"), ("host", other)];
            assert_eq!(get(&api, path, &two).await, 400, "{path}");
        }
    }
}

#[tokio::test]
async fn hosts_are_read_again_with_the_rest() {
    let api = Api::new();
    let host = [("host", "timers.example.com")];
    assert_eq!(get(&api, "/v1/apps", &host).await, 421);
    let hosts = vec!["timers.example.com".parse().unwrap()];
    api.service.reload(Config { hosts, ..open() });
    assert_eq!(get(&api, "/v1/apps", &host).await, 200);
}

#[tokio::test]
async fn a_foreign_page_gets_nothing_but_public_files() {
    let api = known_by(&["timers.example.com", "proxy.example:8443"]);
    api.post(SCHEDULES, keyed("a", nightly())).await.expect(201);
    let own: [&[(&str, &str)]; 9] = [
        &[],
        &[("sec-fetch-site", "none")],
        &[("sec-fetch-site", "same-origin"), ("origin", "http://localhost:8321")],
        &[("origin", "http://localhost:8321")],
        &[("origin", "HTTP://LOCALHOST:8321")],
        &[("origin", "http://timers.example.com")],
        &[("origin", "https://timers.example.com")],
        &[("origin", "https://timers.example.com:443")],
        &[("origin", "https://proxy.example:8443")],
    ];
    let foreign: [&[(&str, &str)]; 13] = [
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "anything")],
        &[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-origin"), ("origin", "http://evil.example")],
        &[("origin", "http://localhost:8321"), ("origin", "http://evil.example")],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
        &[("origin", "")],
        &[("origin", "http://localhost:3000")],
        &[("origin", "http://127.0.0.1:8321")],
        &[("origin", "http://timers.example.com:3000")],
        &[("origin", "https://proxy.example")],
    ];
    let host = [("host", "localhost:8321")];
    let disable = one("a/disable");
    for headers in own {
        let headers = [&host, headers].concat();
        assert_eq!(get(&api, "/v1/apps", &headers).await, 200, "{headers:?}");
        assert_eq!(post(&api, &disable, &headers).await, 200, "{headers:?}");
    }
    for headers in foreign {
        let headers = [&host, headers].concat();
        for path in PATHS {
            let is_public = matches!(path, "/" | "/assets/app.js" | "/v1/openapi.json");
            let status = if is_public { 200 } else { 403 };
            assert_eq!(get(&api, path, &headers).await, status, "{path} {headers:?}");
        }
        for verb in ["enable", "disable", "run-now"] {
            assert_eq!(post(&api, &one(&format!("a/{verb}")), &headers).await, 403, "{headers:?}");
        }
        for (method, path) in [
            (Method::POST, "/"),
            (Method::POST, "/v1/openapi.json"),
            (Method::OPTIONS, SCHEDULES),
            (Method::DELETE, &one("a")),
            (Method::POST, "/v1/apps/default/runs/7/retry"),
            (Method::POST, DEF),
            (Method::PATCH, DEF),
            (Method::DELETE, DEF),
            (Method::POST, "/api/timer/v1/enable"),
        ] {
            let answer = ask(&api, &method, path, &headers).await;
            let is_xtimer = path.starts_with("/api/");
            assert_eq!(answer.body["code"] == -1, is_xtimer, "{}", answer.body);
            assert_eq!(answer.status, 403, "{method} {path} {headers:?}");
        }
    }
    assert_eq!(api.get(&one("a")).await.expect(200)["state"], "disabled");
}

#[tokio::test]
async fn the_page_is_own_on_the_default_port_too() {
    let api = Api::new();
    for (origin, status) in [
        ("http://localhost", 200),
        ("https://localhost", 200),
        ("http://localhost:80", 200),
        ("http://localhost:8321", 403),
    ] {
        let headers = [("host", "localhost"), ("origin", origin)];
        assert_eq!(get(&api, "/v1/apps", &headers).await, status, "{origin}");
    }
}

/// Types of body that a form of any page can send, and others that are not JSON.
const FORMS: [&str; 5] = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "",
    "application/octet-stream",
];

#[tokio::test]
async fn what_a_form_can_send_is_refused_on_every_route() {
    let api = Api::new();
    api.post(SCHEDULES, keyed("a", nightly())).await.expect(201);
    let id = json!({ "id": 7 });
    let body = definition(nightly());
    let post = Method::POST;
    for (method, path, body) in [
        (&post, SCHEDULES, body.to_string()),
        (&post, "/v1/preview", json!({ "when": nightly() }).to_string()),
        (&post, DEF, timer().to_string()),
        (&Method::PATCH, DEF, id.to_string()),
        (&Method::DELETE, DEF, id.to_string()),
        (&post, "/api/timer/v1/enable", id.to_string()),
        (&post, "/api/timer/v1/unable", id.to_string()),
        (&post, &one("a/enable"), String::new()),
        (&post, &one("a/disable"), String::new()),
        (&post, &one("a/run-now"), String::new()),
        (&post, &one("a/run-now"), "x=".to_owned()),
        (&post, "/v1/apps/default/runs/7/retry", String::new()),
    ] {
        let is_xtimer = path.starts_with("/api/");
        for kind in FORMS {
            let request = Request::builder().method(method).uri(path).header("content-type", kind);
            let answer = api.send(request.body(Body::from(body.clone())).unwrap()).await;
            assert_eq!(answer.body["code"] == -1, is_xtimer, "{}", answer.body);
            assert_eq!(answer.status, 415, "{method} {path} {kind}");
        }
        if !body.is_empty() && !is_xtimer {
            let request = Request::post(path).body(Body::from(body)).unwrap();
            assert_eq!(api.send(request).await.status, 415, "{path} without a type");
        }
    }
    assert_eq!(api.get(&one("a")).await.expect(200)["state"], "enabled");
    let xtimers = api.get("/api/timer/v1/defs?app=default").await.expect(200);
    assert_eq!(xtimers["total"], 0);
}
