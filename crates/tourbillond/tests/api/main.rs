//! The API, in process, on the store in memory and on SQLite.

mod access;
mod alerts;
mod audit;
mod document;
mod errors;
mod history;
mod keys;
mod labels;
mod last_runs;
mod lists;
mod operations;
mod overview;
mod promises;
#[path = "../support/receiver.rs"]
mod receiver;
mod recipes;
mod schedules;
mod search;
mod secrets;
mod site;
mod times;
mod trial;
mod unreadable;
mod xtimer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::middleware::map_request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tourbillon::Timer;
use tourbillon_durable::store::{Memory, NewTimer};
use tourbillon_durable::{Store, Time, TimerId};
use tourbillond::config::{App, Config, Token, hash};
use tourbillond::{Service, routes};
use tower::ServiceExt as _;

/// A service, and its routes.
struct Api {
    service: Arc<Service>,
    router: Router,
}

/// Answer to a request.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    /// Returns the problem's fields.
    fn fields(&self) -> Vec<&str> {
        let errors = self.body["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
        errors.iter().filter_map(|error| error["field"].as_str()).collect()
    }

    /// Returns the body, and requires this status.
    #[track_caller]
    fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{:#}", self.body);
        self.body
    }
}

/// The configuration with one app of its own, without tokens.
fn open() -> Config {
    let apps = BTreeMap::from([("default".to_owned(), App::default())]);
    Config { apps, ..Config::default() }
}

/// The request, with a host unless it names one.
async fn with_host(mut request: Request<Body>) -> Request<Body> {
    let headers = request.headers_mut();
    headers.entry("host").or_insert(HeaderValue::from_static("localhost"));
    request
}

impl Api {
    fn new() -> Self {
        Self::of(open())
    }

    fn of(config: Config) -> Self {
        Self::with(Box::new(Memory::new(&Timer::global())), config)
    }

    fn with(store: Box<dyn Store>, config: Config) -> Self {
        Self::by(store, config, &Timer::global())
    }

    fn by(store: Box<dyn Store>, config: Config, timer: &Timer) -> Self {
        let service = Service::start(store, config, timer).unwrap();
        let router = routes::router(Arc::clone(&service)).layer(map_request(with_host));
        Self { service, router }
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
        let body = serde_json::from_slice(&body).unwrap_or_else(|_| text());
        Answer { status: parts.status, headers: parts.headers, body }
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> Answer {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// Sends with a token, unless that is empty, and with a body, unless that is null.
    async fn by_token(&self, token: &str, method: Method, path: &str, body: Value) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.header("content-type", "application/json");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(request.body(Body::from(body)).unwrap()).await
    }

    /// Waits until `/readyz` is answered with this status.
    async fn ready(&self, status: u16) -> Answer {
        loop {
            let answer = self.get("/readyz").await;
            if answer.status.as_u16() == status {
                return answer;
            }
            Timer::global().sleep(Duration::from_millis(20)).await;
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, body).await
    }

    async fn put(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PUT, path, body).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, Value::Null).await
    }
}

/// A token: this word, with a name or without.
fn token(name: Option<&str>, word: &str, scope: &str) -> Token {
    let sha256 = hex::encode(hash(word));
    serde_json::from_value(json!({ "name": name, "sha256": sha256, "scope": scope })).unwrap()
}

const SCHEDULES: &str = "/v1/apps/default/schedules";

fn one(key: &str) -> String {
    format!("{SCHEDULES}/{key}")
}

/// A definition that calls a public host at these times.
fn definition(when: Value) -> Value {
    json!({ "when": when, "callback": { "url": "https://hooks.example.com/x" } })
}

/// Makes a definition with a key.
fn keyed(key: &str, when: Value) -> Value {
    let mut definition = definition(when);
    definition["key"] = key.into();
    definition
}

/// Ends a run of a key by the worker's attempt, which leaves this detail; `None` for a final
/// failure.
async fn end_run(fires: &mut tourbillon_durable::Worker, detail: Option<&str>) -> String {
    let fire = fires.next().await.unwrap();
    let id = fire.id().to_string();
    match detail {
        Some(detail) => fire.complete_with(detail).await.unwrap(),
        None => fire.give_up("no").await.unwrap(),
    }
    id
}

/// The keys of a page.
fn keys(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().filter_map(|item| item["key"].as_str()).collect()
}

/// The runs that a query finds.
async fn runs(api: &Api, query: &str) -> Vec<Value> {
    let runs = api.get(&format!("/v1/apps/default/runs?{query}")).await.expect(200);
    runs["items"].as_array().unwrap().clone()
}

/// The keys of all pages of a list that begins with `path`, and how many pages it has.
async fn all_keys(api: &Api, path: &str) -> (Vec<String>, usize) {
    let (mut all, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = api.get(&format!("{path}{cursor}")).await.expect(200);
        assert!(page.to_string().len() < (1 << 20) + (64 << 10));
        all.extend(keys(&page).into_iter().map(str::to_owned));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (all, pages),
        }
    }
}

/// Stores so many one-shots of the far future, of the keys `k00000` and so on, with these payloads.
fn insert<'a>(store: &mut Memory, count: usize, payload: impl Fn(usize) -> &'a Value) {
    let at = Time::from_micros(4_102_444_800_000_000);
    let timer = |number| {
        let mut timer = NewTimer::new(TimerId::new(at), "http.default", at);
        timer.name = Some(format!("default/k{number:05}"));
        timer.payload = payload(number).to_string().into_bytes();
        timer
    };
    store.insert(&(0..count).map(timer).collect::<Vec<_>>()).unwrap();
}

/// Something that is far off.
fn nightly() -> Value {
    json!({ "cron": "0 2 * * *", "zone": "Europe/Berlin" })
}
