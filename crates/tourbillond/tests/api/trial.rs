//! A callback is tested: sent once, by the rules of all others, and nothing is kept of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;
use tourbillon_durable::store::Memory;
use tourbillond::config::{App, Config};
use tourbillond::dispatch;

use super::receiver::Receiver;
use super::{Api, token};

const TEST: &str = "/v1/apps/default/test";

/// The app of these tests, with more of it.
fn config(more: Value) -> Config {
    let mut app = json!({ "networks": ["127.0.0.0/8"] });
    app.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let app: App = serde_json::from_value(app).unwrap();
    Config { apps: BTreeMap::from([("default".to_owned(), app)]), ..Config::default() }
}

/// A service by this timer that has called back once.
async fn calling(config: Config, timer: &Timer) -> Api {
    let api = Api::by(Box::new(Memory::new(&Timer::global())), config, timer);
    dispatch::start(&api.service);
    // Until the app has a dispatcher.
    while api.post(TEST, json!({ "url": "http://127.0.0.1:1/" })).await.status == 503 {
        tokio::task::yield_now().await;
    }
    api
}

#[tokio::test]
async fn a_callback_is_sent_once_and_nothing_is_kept_of_it() {
    let ledger = json!({ "value": "Bearer of-the-configuration", "hosts": ["127.0.0.1"] });
    let more = json!({ "secrets": ["signs callbacks"], "header_secrets": { "ledger": ledger } });
    let api = calling(config(more), &Timer::global()).await;
    let mut receiver = Receiver::start().await;
    for status in [503, 204] {
        let callback = json!({
            "method": "PUT",
            "url": receiver.url(1, &format!("{status}?x=1")),
            "headers": { "Authorization": { "secret": "ledger" }, "X-Own": "1" },
            "body": "{{app}} {{schedule}} {{attempt}}",
        });
        let ended = api.post(TEST, callback).await.expect(200);
        let call = receiver.next().await;
        let seen = ["tourbillon-test", "authorization", "x-own", "tourbillon-attempt"];
        let seen = seen.map(|name| call.headers[name].to_str().unwrap());
        assert_eq!(seen, ["true", "Bearer of-the-configuration", "1", "1"]);
        for name in ["tourbillon-signature", "idempotency-key"] {
            assert!(call.headers.contains_key(name), "{name}");
        }
        assert_eq!(call.body, "default test 1");
        assert_eq!((&ended["status"], &ended["attempt"]), (&json!(status), &json!(1)));
        assert_eq!(ended["error"].is_string(), status == 503, "{ended:#}");
        assert!(ended["ms"].is_u64());
        // A secret that comes back is masked.
        assert!(!ended.to_string().contains("of-the-configuration"), "{ended:#}");
        let answer = ended["answer"].as_str().unwrap_or_default();
        assert_eq!(answer.ends_with("••••••••"), status == 503, "{ended:#}");
        let request = &ended["request"];
        assert_eq!(request["method"], "PUT");
        assert!(request["url"].as_str().unwrap().ends_with(&format!("/{status}?x=1")));
        assert_eq!(request["headers"]["tourbillon-test"], "true");
        assert!(ended["headers"]["date"].is_string(), "{ended:#}");
    }
    for list in ["runs", "runs?state=pending", "schedules"] {
        let page = api.get(&format!("/v1/apps/default/{list}")).await.expect(200);
        assert_eq!(page["items"], json!([]), "{list}");
    }
}

#[tokio::test]
async fn a_callback_that_cannot_be_sent_is_refused_by_its_fields() {
    let api = calling(config(json!({ "destinations": ["127.0.0.1"] })), &Timer::global()).await;
    let url = "http://127.0.0.1:1/";
    for (callback, field) in [
        (json!({ "url": "http://10.0.0.1/" }), "url"),
        (json!({ "url": url, "method": "FETCH" }), "method"),
        (json!({ "url": url, "timeout": "1h" }), "timeout"),
        (
            json!({ "url": url, "headers": { "Authorization": "••••••••" } }),
            "headers.Authorization",
        ),
        (json!({ "url": url, "headers": { "Tourbillon-Test": "no" } }), "headers.Tourbillon-Test"),
        (json!({ "url": url, "headers": { "A": { "secret": "none" } } }), "headers.A"),
        (json!({ "url": url, "when": { "after": "0s" } }), "when"),
    ] {
        let answer = api.post(TEST, callback.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.fields()), (422, vec![field]), "{callback}");
    }
    // Nobody listens there: that is an attempt, and it failed.
    let ended = api.post(TEST, json!({ "url": url })).await.expect(200);
    assert_eq!((ended.get("status"), ended["error"].is_string()), (None, true));
    api.post("/v1/apps/other/test", json!({ "url": url })).await.expect(404);
}

#[tokio::test]
async fn one_test_of_an_app_is_under_way_at_a_time() {
    let api = Arc::new(calling(config(json!({})), &Timer::global()).await);
    let mut receiver = Receiver::start().await;
    let callback = json!({ "url": receiver.url(1, "hang") });
    // Also while nobody waits for it any more.
    for is_awaited in [true, false] {
        receiver.go.send_replace(false);
        let (sender, sent) = (api.clone(), callback.clone());
        let first = tokio::spawn(async move { sender.post(TEST, sent).await });
        receiver.next().await;
        if !is_awaited {
            first.abort();
        }
        for _ in 0..2 {
            api.post(TEST, callback.clone()).await.expect(409);
        }
        receiver.go.send_replace(true);
        match first.await {
            Ok(answer) => _ = answer.expect(200),
            Err(error) => assert!(error.is_cancelled() && !is_awaited),
        }
    }
    loop {
        match api.post(TEST, callback.clone()).await.status.as_u16() {
            409 => tokio::task::yield_now().await,
            status => break assert_eq!(status, 200),
        }
    }
}

#[tokio::test]
async fn the_rate_of_an_app_counts_its_tests() {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    let config = config(json!({ "limits": { "due_per_second": 1 } }));
    let api = calling(config, &timer).await;
    let callback = json!({ "url": "http://127.0.0.1:1/" });
    for _ in 0..2 {
        let refused = api.post(TEST, callback.clone()).await;
        assert!(refused.headers.contains_key("retry-after"));
        refused.expect(429);
    }
    clock.advance(Duration::from_secs(1));
    api.post(TEST, callback.clone()).await.expect(200);
}

#[tokio::test]
async fn a_test_needs_a_token_that_may_write_and_is_in_the_audit_log() {
    let tokens = vec![token(Some("deploy"), "one", "write"), token(Some("viewer"), "see", "read")];
    let mut config = config(json!({}));
    config.apps.get_mut("default").unwrap().tokens = tokens;
    let api = Api::of(config);
    let folder = tempfile::tempdir().unwrap();
    api.service.keep_audit(&folder.path().join("audit.jsonl")).unwrap();
    dispatch::start(&api.service);
    let test = async |token: &str| {
        api.by_token(token, Method::POST, TEST, json!({ "url": "http://127.0.0.1:1/" })).await
    };
    test("see").await.expect(403);
    while test("one").await.status == 503 {
        tokio::task::yield_now().await;
    }
    let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    let entries: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let newest = entries.last().unwrap();
    let seen = ["token", "action", "app", "status"].map(|name| newest[name].clone());
    assert_eq!(seen, [json!("deploy"), json!("test_callback"), json!("default"), json!(200)]);
    assert!(entries.iter().all(|entry| entry["token"] == "deploy"), "{entries:?}");
}
