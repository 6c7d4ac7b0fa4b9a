use std::io;

use axum::body::Body;
use axum::http::Request;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};
use tourbillon_durable::store::Sqlite;

use super::{Api, SCHEDULES, definition, keyed, nightly, one, open};

/// A definition that is refused, and the fields that are named.
fn wrong() -> Vec<(Value, Vec<&'static str>)> {
    let with = |field: &str, value: Value| {
        let mut definition = definition(nightly());
        definition[field] = value;
        definition
    };
    let when = |when: Value| definition(when);
    let callback = |callback: Value| with("callback", callback);
    vec![
        (when(json!({ "cron": "* * *" })), vec!["when.cron"]),
        (when(json!({ "cron": "0 0 31 2 *" })), vec!["when.cron"]),
        (when(json!({ "cron": "0 26 * * *" })), vec!["when.cron"]),
        (when(json!({ "cron": "@reboot" })), vec!["when.cron"]),
        (when(json!({ "cron": "0 0 * * *", "zone": "Mars/Olympus" })), vec!["when.zone"]),
        (when(json!({ "cron": "0 0 * * *", "when": "now" })), vec!["when.when"]),
        (when(json!({ "cron": 5 })), vec!["when.cron"]),
        (when(json!({ "zone": "UTC", "every": "1h" })), vec!["when"]),
        (when(json!({})), vec!["when"]),
        (when(json!({ "every": "1h", "after": "1h" })), vec!["when"]),
        (when(json!({ "every": "0.5s" })), vec!["when.every"]),
        (when(json!({ "every": "-1h" })), vec!["when.every"]),
        (when(json!({ "every": "often" })), vec!["when.every"]),
        (when(json!({ "every": "2 months" })), vec!["when.every"]),
        (when(json!({ "at": "tomorrow" })), vec!["when.at"]),
        (when(json!({ "at": "2030-01-01T00:00:00" })), vec!["when.at"]),
        (when(json!({ "after": "999999 h 1 fortnight" })), vec!["when.after"]),
        (with("color", json!("red")), vec!["color"]),
        (with("missed", json!("never")), vec!["missed"]),
        (with("missed", json!(5)), vec!["missed"]),
        (with("missed", json!({})), vec!["missed"]),
        (with("missed", json!({ "skip": 1, "catch_up": 2 })), vec!["missed"]),
        (with("missed", json!("catch_up")), vec!["missed.catch_up"]),
        (with("missed", json!({ "catch_up": -1 })), vec!["missed.catch_up"]),
        (with("missed", json!({ "catch_up": "3" })), vec!["missed.catch_up"]),
        (with("missed", json!({ "skip": 3 })), vec!["missed.skip"]),
        (with("missed", json!({ "catch_up": 0 })), vec!["missed.catch_up"]),
        (with("overlap", json!({ "queue": 0 })), vec!["overlap.queue"]),
        (with("jitter", json!("2 years")), vec!["jitter"]),
        (with("jitter", json!("400 d")), vec!["jitter"]),
        (with("on_time_within", json!("soon")), vec!["on_time_within"]),
        (
            with("retry", json!({ "attempts": 0, "first": "2s", "longest": "1s" })),
            vec!["retry.first", "retry.attempts"],
        ),
        (with("retry", json!({ "attempts": 3, "pause": "1s" })), vec!["retry.pause"]),
        (with("retry", json!({ "attempts": 1_000, "first": "0s" })), vec!["retry.first"]),
        (with("retry", json!({ "longest": "25h" })), vec!["retry.longest"]),
        (with("enabled", json!("yes")), vec!["enabled"]),
        (callback(json!({})), vec!["callback.url"]),
        (callback(json!({ "url": 7 })), vec!["callback.url"]),
        (callback(json!({ "url": null })), vec!["callback.url"]),
        (callback(json!([])), vec!["callback"]),
        (callback(json!("http://example.com")), vec!["callback"]),
        (callback(json!({ "url": "http://h", "headers": [] })), vec!["callback.headers"]),
        (callback(json!({ "url": "http://h", "headers": { "a": 1 } })), vec!["callback.headers.a"]),
        (when(json!(5)), vec!["when"]),
        (when(json!({ "every": true })), vec!["when.every"]),
        (with("retry", json!("often")), vec!["retry"]),
        (with("retry", json!({ "attempts": 1.5 })), vec!["retry.attempts"]),
        (with("retry", json!({ "attempts": 1e300 })), vec!["retry.attempts"]),
        (with("retry", json!({ "attempts": -1 })), vec!["retry.attempts"]),
        (with("enabled", json!({ "a": [] })), vec!["enabled"]),
        (callback(json!({ "url": "ftp://example.com" })), vec!["callback.url"]),
        (callback(json!({ "url": "http://169.254.169.254/" })), vec!["callback.url"]),
        (with("key", json!("a/b")), vec!["key"]),
        (with("key", json!(7)), vec!["key"]),
        (with("key", json!("k".repeat(121))), vec!["key"]),
        (with("key", json!("")), vec!["key"]),
        (with("key", json!(".")), vec!["key"]),
        (with("key", json!("..")), vec!["key"]),
        (with("key", json!("a\u{0}")), vec!["key"]),
        (with("key", json!("a\n")), vec!["key"]),
        (with("key", json!("\u{e9}")), vec!["key"]),
        (with("key", json!("e\u{301}")), vec!["key"]),
        (with("key", json!("\u{ff0e}\u{ff0e}")), vec!["key"]),
    ]
}

/// Fails if a problem speaks of the reader's types or positions.
#[track_caller]
fn plain(problem: &Value) {
    let text = problem.to_string();
    let words = [
        "struct",
        "enum",
        "variant",
        "untagged",
        "tuple",
        "sequence",
        " map",
        "u32",
        "u64",
        "usize",
        "integer `",
        "column",
        "deseriali",
        "invalid type",
        "invalid value",
        "missing field",
        "unit",
        "digit",
    ];
    for word in words {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert_ne!(problem["detail"], "", "{text}");
}

#[tokio::test]
async fn what_is_wrong_with_a_definition_is_said_by_field() {
    let api = Api::new();
    for (definition, fields) in wrong() {
        let answer = api.post(SCHEDULES, definition.clone()).await;
        assert_eq!(answer.status, 422, "{definition}: {answer:?}");
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        assert_eq!(answer.fields(), fields, "{definition}: {}", answer.body);
        plain(&answer.body);
        // A reader of the text itself, where the other has a value already.
        let mut definition = definition;
        if definition.as_object_mut().unwrap().remove("key").is_none() {
            let answer = api.put(&one("k"), definition.clone()).await;
            assert_eq!(answer.fields(), fields, "{definition}: {}", answer.body);
            plain(&answer.body);
        }
    }
    let mut once = definition(json!({ "after": "1h" }));
    once["overlap"] = json!("skip");
    once["jitter"] = json!("1s");
    assert_eq!(api.post(SCHEDULES, once).await.fields(), ["overlap", "jitter"]);
    let all = json!({
        "key": "a/b", "when": { "every": "1ms" }, "jitter": "often",
        "callback": { "url": "ftp://h", "timeout": "0s" },
    });
    let fields = ["key", "when.every", "jitter", "callback.url", "callback.timeout"];
    assert_eq!(api.post(SCHEDULES, all).await.fields(), fields);
    let missing = api.post(SCHEDULES, json!({ "when": nightly() })).await.expect(422);
    assert!(missing["detail"].as_str().unwrap().contains("callback"), "{missing}");
    assert_eq!(api.get(SCHEDULES).await.expect(200), json!({ "items": [] }));
}

#[tokio::test]
async fn a_definition_that_is_only_checked_is_not_kept() {
    let api = Api::new();
    let made = api.put(&one("k"), definition(nightly())).await.expect(201);
    let (right, wrong) = (json!({ "every": "1h" }), json!({ "every": "1ms" }));
    let (all, key) = (format!("{SCHEDULES}?check=true"), format!("{}?check=true", one("k")));
    api.post(&all, keyed("other", right.clone())).await.expect(204);
    api.put(&key, definition(right)).await.expect(204);
    assert_eq!(api.post(&all, keyed("a/b", wrong.clone())).await.fields(), ["key", "when.every"]);
    assert_eq!(api.put(&key, definition(wrong)).await.fields(), ["when.every"]);
    api.get(&one("other")).await.expect(404);
    assert_eq!(api.get(&one("k")).await.expect(200), made);
}

#[tokio::test]
async fn a_body_is_json_and_complete() {
    let api = Api::new();
    let send = async |kind: &str, body: &str| {
        let request = Request::post(SCHEDULES).header("content-type", kind);
        api.send(request.body(Body::from(body.to_owned())).unwrap()).await
    };
    send("text/plain", "{}").await.expect(415);
    for body in ["", "{", "{\"a\": 1,", "nul", "{} {}", "\u{1}"] {
        let problem = send("application/json; charset=utf-8", body).await.expect(400);
        assert_eq!(problem["status"], 400, "{body}");
    }
    for body in ["[]", "5", "null", "\"a\""] {
        plain(&send("application/json", body).await.expect(422));
    }
    let twice = send("application/json", "{\"when\": {\"at\": \"\", \"at\": 1}}").await;
    assert_eq!(twice.fields(), ["when.at"], "{}", twice.body);
    let deep = "{\"a\":".repeat(10_000);
    send("application/json", &deep).await.expect(400);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let api = Api::new();
    let mut large = keyed("a", nightly());
    large["callback"]["body"] = "x".repeat(100_000).into();
    let answer = api.post(SCHEDULES, large.clone()).await;
    assert_eq!(answer.headers["connection"], "close");
    answer.expect(413);
    // A definition that is large only once all is put together.
    large["callback"]["body"] = "x".repeat(49_000).into();
    let answer = api.post(SCHEDULES, large).await;
    assert_eq!(answer.status, 422);
    assert_eq!(answer.fields(), ["callback.body"]);
    // A body that never ends, of unknown length: reading stops.
    let piece = || Ok::<_, io::Error>(Frame::data(Bytes::from(vec![b' '; 4096])));
    let endless = StreamBody::new(futures_util::stream::repeat_with(piece));
    let request = Request::post(SCHEDULES).header("content-type", "application/json");
    api.send(request.body(Body::new(endless.boxed_unsync())).unwrap()).await.expect(413);
}

#[tokio::test]
async fn a_route_or_a_query_that_is_not_known_is_a_problem() {
    let api = Api::new();
    let problem = api.get("/v1/nothing").await;
    assert_eq!(problem.headers["content-type"], "application/problem+json");
    problem.expect(404);
    api.delete("/v1/apps").await.expect(405);
    api.get("/v1/apps/other/schedules").await.expect(404);
    api.get(&one("a")).await.expect(404);
    for (query, field) in [
        ("limitt=3", "limitt"),
        ("limit=many", "limit"),
        ("limit=", "limit"),
        ("limit=-1", "limit"),
        ("limit=99999999999", "limit"),
        ("limit=1&limit=2", "limit"),
        ("state=gone", "state"),
        ("kind=", "kind"),
    ] {
        let answer = api.get(&format!("{SCHEDULES}?{query}")).await;
        assert_eq!(answer.fields(), [field], "{query}: {}", answer.body);
        plain(&answer.expect(400));
    }
    assert_eq!(api.get(&format!("{SCHEDULES}?limit=0")).await.fields(), ["limit"]);
    assert_eq!(api.get(&format!("{SCHEDULES}?limit=1001")).await.fields(), ["limit"]);
    api.get("/v1/apps/default/runs?cursor=x").await.expect(422);
    api.get("/v1/apps/default/runs?since=x").await.expect(422);
    api.get("/v1/apps/default/runs/7").await.expect(404);
    api.get("/v1/apps/default/runs/x").await.expect(404);
}

#[tokio::test]
async fn a_path_is_text_and_its_key_is_one() {
    let api = Api::new();
    for key in [".", "..", "%2e", "%2E%2e", "a%2Fb", "%2F", "a%00", "a%0A", "%C3%A9", "a%20b"] {
        let answer = api.put(&one(key), definition(nightly())).await;
        assert_eq!(answer.fields(), ["key"], "{key}: {}", answer.body);
        answer.expect(422);
        api.get(&one(key)).await.expect(404);
        api.delete(&one(key)).await.expect(404);
    }
    api.put(&format!("{SCHEDULES}/"), definition(nightly())).await.expect(404);
    for key in ["...", ".a", "a.", "a..b", "~", "-", "@:+", "..%61"] {
        api.put(&one(key), definition(nightly())).await.expect(201);
        api.get(&one(key)).await.expect(200);
    }
    let paths = [one("%ff"), one("%ff/preview"), "/v1/apps/%ff/runs/7".to_owned()];
    for path in paths {
        let answer = api.get(&path).await;
        assert_eq!(answer.headers["content-type"], "application/problem+json", "{path}");
        plain(&answer.expect(400));
    }
}

#[tokio::test]
async fn with_the_store_away_requests_can_be_repeated_later() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("timers.db");
    let api = Api::with(Box::new(Sqlite::open(&file).unwrap()), open());
    api.ready(200).await;
    // Another process has it all to itself.
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let answer = api.post(SCHEDULES, keyed("a", nightly())).await;
    assert_eq!(answer.headers["retry-after"], "2");
    assert_eq!(answer.expect(503)["status"], 503);
    other.execute_batch("ROLLBACK").unwrap();
    api.post(SCHEDULES, keyed("a", nightly())).await.expect(201);
}
