//! The audit log: who changed what, by the name of the token.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{Method, Request};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tourbillond::config::{App, Config, hash};

use super::xtimer::{DEF, timer};
use super::{Api, SCHEDULES, definition, keyed, nightly, one, token};

/// A service with an audit log, and two tokens for one app, so that one can take the other's place.
fn audited() -> (TempDir, Api) {
    let tokens = vec![
        token(Some("deploy-2029"), "old word", "write"),
        token(Some("deploy-2030"), "new word", "write"),
        token(None, "nameless", "write"),
        token(Some("viewer"), "see", "read"),
    ];
    let app = App { tokens, ..App::default() };
    let other = App { tokens: vec![token(Some("other"), "other", "write")], ..App::default() };
    let apps = BTreeMap::from([("default".to_owned(), app), ("other".to_owned(), other)]);
    let admin = vec![token(Some("operator"), "all", "write")];
    let config = Config { apps, admin, ..Config::default() };
    let api = Api::of(config);
    let folder = tempfile::tempdir().unwrap();
    api.service.keep_audit(&folder.path().join("audit.jsonl")).unwrap();
    (folder, api)
}

/// Entries of the log in a folder by token, action, key and status, the oldest first.
fn entries(folder: &TempDir) -> Vec<[String; 4]> {
    let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    let field = |entry: &Value, name: &str| match &entry[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let entry = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        ["token", "action", "key", "status"].map(|name| field(&entry, name))
    };
    // A line that is being written has no end yet.
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(entry).collect()
}

#[tokio::test]
async fn each_change_is_logged_with_the_name_of_its_token() {
    let (folder, api) = audited();
    let call = async |token: &str, method: Method, path: &str, body: Value| {
        api.by_token(token, method, path, body).await.status.as_u16()
    };
    let (post, put) = (Method::POST, Method::PUT);
    assert_eq!(call("old word", post.clone(), SCHEDULES, keyed("a b", nightly())).await, 422);
    assert_eq!(call("old word", post.clone(), SCHEDULES, keyed("a", nightly())).await, 201);
    let again = call("old word", post.clone(), SCHEDULES, keyed("a", nightly())).await;
    assert_eq!(again, 200, "it changes nothing, and leaves no line");
    assert_eq!(call("new word", put, &one("a"), definition(json!({ "every": "1h" }))).await, 200);
    assert_eq!(call("see", post.clone(), &format!("{}/disable", one("a")), Value::Null).await, 403);
    assert_eq!(
        call("wrong", post.clone(), &format!("{}/disable", one("a")), Value::Null).await,
        401
    );
    for verb in ["disable", "enable", "run-now"] {
        let path = format!("{}/{verb}", one("%61"));
        assert_eq!(call("nameless", post.clone(), &path, Value::Null).await, 200);
    }
    assert_eq!(call("all", post.clone(), &format!("{}/enable", one("b")), Value::Null).await, 404);
    assert_eq!(call("all", Method::DELETE, &one("a"), Value::Null).await, 200);
    assert_eq!(call("all", post, "/v1/preview", json!({ "when": nightly() })).await, 200);
    let nameless = format!("sha256:{}", &hex::encode(hash("nameless"))[..12]);
    let all = [
        ["deploy-2029", "create_schedule", "a", "201"],
        ["deploy-2030", "put_schedule", "a", "200"],
        [&nameless, "disable_schedule", "a", "200"],
        [&nameless, "enable_schedule", "a", "200"],
        [&nameless, "run_schedule_now", "a", "200"],
        ["operator", "delete_schedule", "a", "200"],
    ];
    let all: Vec<_> = all.iter().map(|entry| entry.map(str::to_owned)).collect();
    assert_eq!(entries(&folder), all);
    // It has the name of a token, not the token.
    let file = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    for word in ["old word", "new word", "hooks.example.com"] {
        assert!(!file.contains(word), "{file}");
    }
}

#[tokio::test]
async fn changes_by_xtimers_routes_are_logged_by_the_number_of_the_timer() {
    let (folder, api) = audited();
    let made = api.by_token("old word", Method::POST, DEF, timer()).await.expect(200);
    let id = json!({ "id": made["id"] });
    let post = async |verb: &str| {
        let path = format!("/api/timer/v1/{verb}");
        api.by_token("old word", Method::POST, &path, id.clone()).await.expect(200)["code"].clone()
    };
    assert_eq!(post("enable").await, 0);
    assert_eq!(post("enable").await, -1, "refused, with status 200");
    api.by_token("old word", Method::DELETE, DEF, id.clone()).await.expect(200);
    api.by_token("old word", Method::DELETE, DEF, id.clone()).await.expect(200);
    let key = format!("xtimer.{}", made["id"]);
    let entry = |action: &str| ["deploy-2029", action, &key, "200"].map(str::to_owned);
    let all = ["xtimer_create", "xtimer_enable", "xtimer_delete"].map(entry);
    assert_eq!(entries(&folder), all);
}

#[tokio::test]
async fn without_a_log_that_can_be_written_nothing_is_changed() {
    let (folder, api) = audited();
    let file = folder.path().join("audit.jsonl");
    std::fs::remove_file(&file).unwrap();
    // A folder in the place of the file.
    std::fs::create_dir(&file).unwrap();
    let by = async |token: &str, key: &str| {
        api.by_token(token, Method::POST, SCHEDULES, keyed(key, nightly())).await
    };
    let post = async |key: &str| by("all", key).await;
    let first = post("first").await.expect(500);
    assert!(first["detail"].as_str().unwrap().contains("the answer was 201"), "{first}");
    let second = post("second").await;
    assert!(second.headers.contains_key("retry-after"));
    let second = second.expect(503);
    assert_eq!(
        second["detail"],
        "the audit log cannot be written; the log of the node says why; nothing was changed"
    );
    // Others learn nothing of it.
    by("wrong", "second").await.expect(401);
    by("see", "second").await.expect(403);
    by("other", "second").await.expect(403);
    let timer = api.by_token("all", Method::POST, DEF, timer()).await.expect(503);
    assert_eq!(timer["code"], -1, "XTimer's JSON: {timer}");
    api.by_token("all", Method::GET, &one("second"), Value::Null).await.expect(404);
    std::fs::remove_dir(&file).unwrap();
    // Its thread tries again by itself.
    while post("third").await.status.as_u16() == 503 {
        tokio::task::yield_now().await;
    }
    let keys = entries(&folder).into_iter().map(|[_, _, key, _]| key);
    assert_eq!(keys.collect::<Vec<_>>(), ["first", "third"]);
}

#[tokio::test]
async fn a_timer_of_xtimers_whose_line_is_not_written_is_answered_in_its_json() {
    let (folder, api) = audited();
    let file = folder.path().join("audit.jsonl");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let answer = api.by_token("all", Method::POST, DEF, timer()).await.expect(500);
    assert_eq!(answer["code"], -1, "{answer}");
    assert!(answer["msg"].as_str().unwrap().contains("the answer was 200"), "{answer}");
}

#[tokio::test]
async fn a_request_that_is_not_awaited_is_logged_without_a_status() {
    let (folder, api) = audited();
    // Dropped where it waits for the database, unless that has answered already.
    let is_left = |key: &String| {
        let body = keyed(key, nightly()).to_string();
        let request = Request::post(SCHEDULES).header("content-type", "application/json");
        let request = request.header("authorization", "Bearer all").body(Body::from(body)).unwrap();
        tower::ServiceExt::oneshot(api.router.clone(), request).now_or_never().is_none()
    };
    let left = (0..).map(|number| format!("a{number}")).find(is_left).unwrap();
    // The line is written by another thread.
    let line = loop {
        if let Some(line) = entries(&folder).into_iter().find(|[_, _, key, _]| *key == left) {
            break line;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(line, ["operator", "create_schedule", &left, "null"].map(str::to_owned));
}
