use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use tourbillon_durable::store::Sqlite;

use super::{Api, SCHEDULES, definition, keyed, nightly, one, open, runs};

#[tokio::test]
async fn a_schedule_is_made_once_however_often_it_is_sent() {
    let api = Api::new();
    let made = api.post(SCHEDULES, keyed("night", nightly())).await;
    assert_eq!(made.headers["etag"], "\"1\"");
    let made = made.expect(201);
    assert_eq!((&made["app"], &made["key"]), (&json!("default"), &json!("night")));
    assert_eq!((&made["state"], &made["version"]), (&json!("enabled"), &json!(1)));
    assert_eq!(made["next"].as_array().unwrap().len(), 5);
    assert_eq!(made["callback"]["method"], "POST");
    assert_eq!(api.post(SCHEDULES, keyed("night", nightly())).await.expect(200), made);
    api.post(SCHEDULES, keyed("night", json!({ "every": "1h" }))).await.expect(409);
    assert_eq!(api.get(&one("night")).await.expect(200), made);
    // Without a key each is another.
    let first = api.post(SCHEDULES, definition(nightly())).await.expect(201);
    let second = api.post(SCHEDULES, definition(nightly())).await.expect(201);
    assert_ne!(first["key"], second["key"]);
}

#[tokio::test]
async fn a_schedule_is_replaced_from_the_version_that_was_seen() {
    let api = Api::new();
    let put = async |version: &str, every: &str| {
        let body = definition(json!({ "every": every })).to_string();
        let request = Request::put(one("a")).header("content-type", "application/json");
        let request = request.header("if-match", version).body(Body::from(body)).unwrap();
        api.send(request).await
    };
    put("\"1\"", "1h").await.expect(412);
    api.put(&one("a"), definition(json!({ "every": "1h" }))).await.expect(201);
    let changed = put("\"1\"", "2h").await.expect(200);
    assert_eq!((&changed["version"], &changed["when"]["every"]), (&json!(2), &json!("2h")));
    put("\"1\"", "3h").await.expect(412);
    put("one", "3h").await.expect(400);
    assert_eq!(api.get(&one("a")).await.expect(200), changed);
    api.put(&one("a"), definition(json!({ "every": "4h" }))).await.expect(200);
    let once = definition(json!({ "at": "2100-01-01T00:00:00Z" }));
    api.put(&one("a"), once).await.expect(409);
}

#[tokio::test]
async fn a_put_of_the_same_definition_changes_nothing() {
    let api = Api::new();
    let every = definition(json!({ "every": "1h" }));
    let at = definition(json!({ "at": "2100-01-01T00:00:00Z" }));
    for (key, definition) in [("every", every), ("once", at)] {
        let put = async |trace: &str, definition: &serde_json::Value| {
            let request = Request::put(one(key)).header("content-type", "application/json");
            let request = request.header("traceparent", trace);
            api.send(request.body(Body::from(definition.to_string())).unwrap()).await
        };
        let trace =
            |digit: char| format!("00-{}-b7ad6b7169203331-01", digit.to_string().repeat(32));
        let made = put(&trace('1'), &definition).await.expect(201);
        let again = put(&trace('2'), &definition).await;
        assert_eq!(again.headers["etag"], format!("\"{}\"", made["version"]).as_str());
        assert_eq!(again.expect(200), made, "{key}");
        assert_eq!(api.get(&one(key)).await.expect(200), made, "{key}");
        // Another definition has another version, and was made when it was made.
        let mut other = definition.clone();
        other["callback"]["body"] = json!("more");
        let changed = put(&trace('3'), &other).await.expect(200);
        assert_ne!(changed["version"], made["version"], "{key}");
        assert_eq!(changed["created"], made["created"], "{key}");
        // The same definition enables a schedule that was disabled since.
        api.post(&one(&format!("{key}/disable")), json!(null)).await.expect(200);
        let enabled = put(&trace('4'), &other).await.expect(200);
        assert_eq!(enabled["enabled"], true, "{key}");
    }
}

#[tokio::test]
async fn the_defaults_that_are_served_are_those_that_hold() {
    let api = Api::new();
    let apps = api.get("/v1/apps").await.expect(200);
    let defaults = &apps[0]["defaults"];
    let retry = json!({ "attempts": 5, "first": "10s", "longest": "2m" });
    assert_eq!(defaults["retry"], retry);
    assert_eq!((&defaults["timeout"], &defaults["on_time_within"]), (&json!("10s"), &json!("1m")));
    let mut definition = definition(nightly());
    for given in [json!({}), json!({ "attempts": 3 })] {
        let mut all = retry.clone();
        all.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
        definition["retry"] = given;
        let made = api.put(&one("a"), definition.clone()).await;
        assert_eq!(made.body["retry"], all);
    }
}

#[tokio::test]
async fn a_put_of_a_delay_counts_from_each_put() {
    let api = Api::new();
    let after = definition(json!({ "after": "1h" }));
    let first = api.put(&one("a"), after.clone()).await.expect(201);
    let second = api.put(&one("a"), after).await.expect(200);
    assert_ne!(first["next"], second["next"]);
    assert_eq!(first["created"], second["created"]);
}

#[tokio::test]
async fn a_schedule_is_disabled_and_enabled_and_removed() {
    let api = Api::new();
    api.post(SCHEDULES, keyed("a", nightly())).await.expect(201);
    let nothing = json!({ "running": [] });
    assert_eq!(api.post(&one("a/disable"), json!(null)).await.expect(200), nothing);
    assert_eq!(api.post(&one("a/disable"), json!(null)).await.expect(200), nothing);
    let shown = api.get(&one("a")).await.expect(200);
    assert_eq!((&shown["state"], &shown["next"]), (&json!("disabled"), &json!([])));
    // It was asked for as it is, so this makes nothing, and it stays disabled.
    let again = api.post(SCHEDULES, keyed("a", nightly())).await.expect(200);
    assert_eq!(again["enabled"], false);
    assert_eq!(api.post(&one("a/enable"), json!(null)).await.expect(200), nothing);
    assert_eq!(api.get(&one("a")).await.expect(200)["state"], "enabled");
    assert_eq!(api.delete(&one("a")).await.expect(200), nothing);
    api.get(&one("a")).await.expect(404);
    api.delete(&one("a")).await.expect(404);
    api.post(&one("a/enable"), json!(null)).await.expect(404);
}

#[tokio::test]
async fn one_may_be_made_disabled() {
    let api = Api::new();
    for (key, when) in [("every", json!({ "every": "1s" })), ("once", json!({ "after": "0s" }))] {
        let mut definition = keyed(key, when);
        definition["enabled"] = false.into();
        let made = api.post(SCHEDULES, definition).await.expect(201);
        assert_eq!((&made["state"], &made["next"]), (&json!("disabled"), &json!([])), "{key}");
    }
}

#[tokio::test]
async fn a_one_shot_is_held_moved_and_taken_back() {
    let api = Api::new();
    let at = json!({ "at": "2100-01-01T00:00:00Z" });
    let made = api.post(SCHEDULES, keyed("a", at.clone())).await.expect(201);
    assert_eq!((&made["state"], &made["next"]), (&json!("pending"), &json!([at["at"]])));
    assert_eq!(api.post(SCHEDULES, keyed("a", at.clone())).await.expect(200), made);
    api.post(SCHEDULES, keyed("a", json!({ "after": "1h" }))).await.expect(409);
    api.post(&one("a/disable"), json!(null)).await.expect(200);
    assert_eq!(api.get(&one("a")).await.expect(200)["state"], "disabled");
    api.post(&one("a/enable"), json!(null)).await.expect(200);
    let enabled = api.get(&one("a")).await.expect(200);
    assert_eq!((&enabled["state"], &enabled["next"]), (&made["state"], &made["next"]));
    assert_eq!((&made["version"], &enabled["version"]), (&json!(1), &json!(3)));
    let later = definition(json!({ "at": "2101-01-01T00:00:00Z" }));
    let moved = api.put(&one("a"), later).await.expect(200);
    assert_eq!(moved["next"], json!(["2101-01-01T00:00:00Z"]));
    assert_ne!(moved["version"], made["version"]);
    api.delete(&one("a")).await.expect(200);
    api.get(&one("a")).await.expect(404);
    assert_eq!(runs(&api, "key=a").await[0]["state"], "cancelled");
}

#[tokio::test]
async fn what_is_fired_runs_now_and_is_taken_back_with_its_schedule() {
    let api = Api::new();
    let fire = async |key: &str| api.post(&one(&format!("{key}/run-now")), json!(null)).await;
    let runs = async |query: &str| runs(&api, query).await;
    fire("a").await.expect(404);
    let mut skipping = keyed("a", nightly());
    skipping["overlap"] = json!("skip");
    api.post(SCHEDULES, skipping).await.expect(201);
    // Nobody calls back here, so it stays pending.
    let made = fire("a").await.expect(200);
    let pending = runs("state=pending&key=a").await;
    assert_eq!((pending.len(), &pending[0]["id"]), (1, &made["id"]));
    let busy = fire("a").await.expect(409);
    assert!(busy["detail"].as_str().unwrap().contains("another run"), "{busy}");
    let listed = api.get(SCHEDULES).await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    api.post(&one("a/disable"), json!(null)).await.expect(200);
    assert_eq!(runs("state=pending").await.len(), 0);
    assert_eq!(runs("state=cancelled&key=a").await[0]["id"], made["id"]);
    assert_eq!(fire("a").await.expect(409)["detail"], "the schedule is disabled; enable it first");
    api.post(&one("a/enable"), json!(null)).await.expect(200);
    fire("a").await.expect(200);
    api.delete(&one("a")).await.expect(200);
    assert_eq!(runs("state=pending").await.len(), 0);

    let at = json!({ "at": "2100-01-01T00:00:00Z" });
    let once = api.post(SCHEDULES, keyed("b", at)).await.expect(201);
    assert_eq!(fire("b").await.expect(200)["id"], once["id"]);
    let shown = api.get(&one("b")).await.expect(200);
    assert!(shown["next"][0].as_str().unwrap() < "2100", "{shown}");
    api.delete(&one("b")).await.expect(200);
    fire("b").await.expect(404);
}

#[tokio::test]
async fn a_preview_knows_the_zone() {
    let api = Api::new();
    api.post(SCHEDULES, keyed("a", json!({ "cron": "30 2 * * *", "zone": "America/New_York" })))
        .await
        .expect(201);
    let path = one("a/preview?count=2&from=2026-03-07T12:00:00Z");
    let gap = json!([
        {
            "at": "2026-03-08T07:00:00Z", "local": "2026-03-08T03:00:00", "offset": "-04",
            "note": "gap"
        },
        { "at": "2026-03-09T06:30:00Z", "local": "2026-03-09T02:30:00", "offset": "-04" },
    ]);
    assert_eq!(api.get(&path).await.expect(200), json!({ "items": gap }));
    let free = json!({
        "when": { "every": "6h" }, "count": 2, "from": "2026-01-01T00:00:00Z"
    });
    let times = api.post("/v1/preview", free).await.expect(200);
    assert_eq!(times["items"][1]["at"], "2026-01-01T12:00:00Z");
    assert_eq!(api.get(&one("a/preview?count=0")).await.fields(), ["count"]);
    assert_eq!(api.get(&one("a/preview?from=now")).await.fields(), ["from"]);
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = || Box::new(Sqlite::open(folder.path().join("timers.db")).unwrap());
    let api = Api::with(store(), open());
    let every = api.post(SCHEDULES, keyed("a", nightly())).await.expect(201);
    let at = json!({ "at": "2100-01-01T00:00:00Z" });
    let once = api.post(SCHEDULES, keyed("b", at)).await.expect(201);
    api.service.stop().await;
    drop(api);
    let api = Api::with(store(), open());
    assert_eq!(api.get(&one("a")).await.expect(200), every);
    assert_eq!(api.get(&one("b")).await.expect(200), once);
}
