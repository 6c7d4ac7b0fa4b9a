//! Readiness and metrics for an operator's tools.

use std::collections::BTreeSet;
use std::convert::Infallible;

use axum::body::Body;
use axum::http::{Method, Request};
use futures_util::FutureExt as _;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use serde_json::json;
use tourbillon_durable::store::Sqlite;

use super::{Api, SCHEDULES, definition, keyed, nightly, one, open};

#[tokio::test]
async fn a_node_is_ready_only_while_the_database_takes_writes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("timers.db");
    let api = Api::with(Box::new(Sqlite::open(&file).unwrap()), open());
    api.ready(200).await;
    // Reads continue, as of a replica or a full disk.
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let answer = api.ready(503).await;
    assert_eq!(answer.headers["retry-after"], "2");
    assert_eq!(answer.body, json!("the database takes no writes\n"));
    api.get(SCHEDULES).await.expect(200);
    api.get("/healthz").await.expect(200);
    other.execute_batch("ROLLBACK").unwrap();
    api.ready(200).await;
    // A node that has left is asked for nothing more.
    api.service.stop().await;
    assert_ne!(api.ready(503).await.body, json!("ready\n"));
}

/// Value of a label in a line of metrics.
fn label<'a>(line: &'a str, name: &str) -> &'a str {
    let (_, rest) = line.split_once(&format!("{name}=\"")).unwrap_or_else(|| panic!("{line}"));
    rest.split('"').next().unwrap()
}

#[tokio::test]
async fn metrics_say_what_they_are_and_no_client_makes_series() {
    tourbillond::metrics::collect();
    let api = Api::new();
    api.ready(200).await;
    api.post(SCHEDULES, keyed("a", nightly())).await.expect(201);
    for number in 0..50 {
        api.get(&one(&format!("k{number}"))).await.expect(404);
        api.get(&format!("/v1/none/{number}")).await.expect(404);
        let method = Method::from_bytes(format!("M{number}").as_bytes()).unwrap();
        let request = Request::builder().method(method).uri(format!("/x{number}"));
        api.send(request.body(Body::empty()).unwrap()).await.expect(404);
    }
    // A client that goes before it is answered.
    let never = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let request = Request::post("/v1/preview").header("content-type", "application/json");
    let request = request.body(Body::new(StreamBody::new(never).boxed_unsync())).unwrap();
    assert!(api.send(request).now_or_never().is_none());
    let answer = api.get("/metrics").await;
    let text = answer.body.as_str().unwrap();
    let names = |start: &str| -> BTreeSet<_> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(start));
        lines.map(|line| line.split(' ').next().unwrap()).collect()
    };
    let (helped, typed) = (names("# HELP "), names("# TYPE "));
    assert_eq!(helped, typed);
    let series = || text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let family = |line: &str| {
        let name = line.split(['{', ' ']).next().unwrap();
        let parts = ["_bucket", "_sum", "_count"];
        parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name).to_owned()
    };
    for line in series() {
        assert!(helped.contains(&*family(line)), "{line}");
        assert!(!line.contains("quantile"), "{line}");
    }
    for name in [
        "tourbillond_build_info",
        "tourbillond_requests_total",
        "tourbillond_request_seconds",
        "tourbillond_database_seconds",
        "tourbillond_schedules",
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
    ] {
        assert!(typed.contains(name), "{name}: {text}");
    }
    let document = api.get("/v1/openapi.json").await.expect(200);
    let mut routes: BTreeSet<&str> =
        document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    routes.extend(["none", "/", "/assets/{name}"]);
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"];
    for line in series().filter(|line| line.starts_with("tourbillond_request")) {
        assert!(routes.contains(label(line, "route")), "{line}");
        assert!(methods.contains(&label(line, "method")), "{line}");
    }
    let made = "tourbillond_requests_total{route=\"/v1/apps/{app}/schedules\",method=\"POST\",\
                status=\"201\"}";
    assert!(text.contains(made), "{text}");
    let gone = "tourbillond_requests_total{route=\"/v1/preview\",method=\"POST\",status=\"none\"}";
    assert!(text.contains(gone), "{text}");
    let operations: BTreeSet<_> = series()
        .filter(|line| line.starts_with("tourbillond_database_seconds"))
        .map(|line| label(line, "operation"))
        .collect();
    assert!(
        operations.contains("create_schedules") && operations.contains("join"),
        "{operations:?}"
    );
}

#[tokio::test]
async fn an_overview_counts_occurrences_up_to_a_bound_and_says_so() {
    let api = Api::new();
    for number in 0..30 {
        let every = definition(json!({ "every": "1s" }));
        api.put(&one(&format!("k{number}")), every).await.expect(201);
    }
    let cut = api.get("/v1/overview").await.expect(200);
    assert_eq!(cut["at_least"], json!(["pending_next_hour"]));
    let minutes = cut["pending_next_hour"].as_array().unwrap();
    let all: u64 = minutes.iter().map(|minute| minute.as_u64().unwrap()).sum();
    // With a few that are timers already.
    assert!((99_000..101_000).contains(&all), "{all}");
}
