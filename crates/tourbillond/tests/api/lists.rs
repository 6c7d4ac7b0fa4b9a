use std::time::Duration;

use serde_json::{Value, json};

use super::{Api, SCHEDULES, all_keys, keyed, keys, nightly, one, runs};

#[tokio::test]
async fn schedules_and_one_shots_are_listed_together_page_by_page() {
    let api = Api::new();
    let at = json!({ "at": "2100-01-01T00:00:00Z" });
    for (key, when) in
        [("b.once", &at), ("a", &nightly()), ("c", &nightly()), ("b", &nightly()), ("d.once", &at)]
    {
        api.post(SCHEDULES, keyed(key, when.clone())).await.expect(201);
    }
    api.post(&one("b/disable"), json!(null)).await.expect(200);
    api.post(&one("d.once/disable"), json!(null)).await.expect(200);
    let list = async |query: &str| api.get(&format!("{SCHEDULES}?{query}")).await.expect(200);
    let all = list("").await;
    assert_eq!(keys(&all), ["a", "b", "b.once", "c", "d.once"]);
    assert_eq!(all.get("next"), None);
    let first = list("limit=2").await;
    assert_eq!((keys(&first), &first["next"]), (vec!["a", "b"], &json!("b")));
    let second = list("limit=2&cursor=b").await;
    assert_eq!((keys(&second), &second["next"]), (vec!["b.once", "c"], &json!("c")));
    let third = list("limit=2&cursor=c").await;
    assert_eq!((keys(&third), third.get("next")), (vec!["d.once"], None));
    assert_eq!(keys(&list("prefix=b").await), ["b", "b.once"]);
    assert_eq!(keys(&list("kind=once").await), ["b.once", "d.once"]);
    assert_eq!(keys(&list("kind=repeated").await), ["a", "b", "c"]);
    assert_eq!(keys(&list("state=enabled").await), ["a", "c"]);
    assert_eq!(keys(&list("state=disabled").await), ["b", "d.once"]);
    assert_eq!(keys(&list("state=pending").await), ["b.once"]);
    assert_eq!(keys(&list("state=pending&limit=1&prefix=d").await), Vec::<&str>::new());
}

#[tokio::test]
async fn runs_are_listed_by_state_and_schedule() {
    let api = Api::new();
    for key in ["a", "b", "c"] {
        let at = json!({ "at": "2100-01-01T00:00:00Z" });
        api.post(SCHEDULES, keyed(key, at)).await.expect(201);
    }
    api.delete(&one("a")).await.expect(200);
    api.delete(&one("b")).await.expect(200);
    let list =
        async |query: &str| api.get(&format!("/v1/apps/default/runs?{query}")).await.expect(200);
    assert_eq!(keys(&list("").await), ["b", "a"]);
    assert_eq!(keys(&list("order=oldest").await), ["a", "b"]);
    assert_eq!(keys(&list("state=cancelled&key=a").await), ["a"]);
    assert_eq!(keys(&list("state=dead").await), Vec::<&str>::new());
    assert_eq!(keys(&list("until=2020-01-01T00:00:00Z").await), Vec::<&str>::new());
    let first = list("limit=1").await;
    let next = first["next"].as_str().unwrap();
    assert_eq!(keys(&list(&format!("limit=1&cursor={next}")).await), ["a"]);
    let pending = list("state=pending").await;
    assert_eq!(keys(&pending), ["c"]);
    assert_eq!(pending["items"][0]["due"], "2100-01-01T00:00:00Z");
    let run = &first["items"][0];
    assert_eq!((&run["reason"], &run["can_retry"]), (&json!("cancelled"), &json!(false)));
    let path = format!("/v1/apps/default/runs/{}", run["id"].as_str().unwrap());
    assert_eq!(&api.get(&path).await.expect(200), run);
}

#[tokio::test]
async fn a_dead_run_is_made_again_once() {
    let api = Api::new();
    let mut fires = api.service.worker("http.default", 4).unwrap();
    api.post(SCHEDULES, keyed("a", json!({ "after": "0s" }))).await.expect(201);
    fires.next().await.unwrap().give_up("no").await.unwrap();
    let dead = runs(&api, "key=a&state=dead").await.remove(0);
    assert_eq!((&dead["reason"], &dead["can_retry"]), (&json!("given up"), &json!(true)));
    let retry = format!("/v1/apps/default/runs/{}/retry", dead["id"].as_str().unwrap());
    let made = api.post(&retry, json!(null)).await.expect(200);
    let again = fires.next().await.unwrap();
    assert_eq!(made["id"], again.id().to_string());
    let path = format!("/v1/apps/default/runs/{}", again.id());
    let shown = api.get(&path).await.expect(200);
    assert_eq!((&shown["key"], &shown["state"]), (&json!("a"), &json!("running")));
    assert_eq!(api.post(&retry, json!(null)).await.expect(200), made);
    api.post(&format!("{path}/retry"), json!(null)).await.expect(409);
    assert_eq!(api.get(&one("a")).await.expect(200)["state"], "running");
    again.complete().await.unwrap();
    assert_eq!(runs(&api, "key=a").await.len(), 2);
}

#[tokio::test]
async fn an_overview_counts_what_is_to_come() {
    let api = Api::new();
    api.post(SCHEDULES, keyed("a", json!({ "every": "1m" }))).await.expect(201);
    api.post(SCHEDULES, keyed("b", nightly())).await.expect(201);
    api.post(SCHEDULES, keyed("c", json!({ "after": "10m 1s" }))).await.expect(201);
    api.post(&one("b/disable"), json!(null)).await.expect(200);
    let overview = api.get("/v1/overview").await.expect(200);
    assert_eq!((&overview["enabled"], &overview["disabled"]), (&json!(1), &json!(1)));
    assert_eq!((&overview["running"], &overview["at_least"]), (&json!(0), &json!([])));
    let nodes = overview["nodes"].as_array().unwrap();
    assert!(nodes.iter().all(|node| node["this"] == true), "{nodes:?}");
    let minutes = overview["pending_next_hour"].as_array().unwrap();
    let sum: u64 = minutes.iter().filter_map(Value::as_u64).sum();
    // The schedule that is due right now may have a timer already.
    assert!((60..=61).contains(&sum), "{minutes:?}");
    api.get("/v1/overview?app=other").await.expect(404);
}

#[tokio::test]
async fn who_follows_gets_an_overview_and_then_runs() {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    let api = Api::new();
    let request = Request::get("/v1/live").body(Body::empty()).unwrap();
    let answer = api.router.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    assert_eq!(answer.headers()["x-accel-buffering"], "no");
    let mut body = answer.into_body();
    let mut next = async || {
        let frame = tourbillon::timeout(Duration::from_secs(60), body.frame()).await.unwrap();
        frame.map(|frame| String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
    };
    assert!(next().await.unwrap().starts_with("event: overview\ndata: {"));
    let mut run: tourbillond::model::Run = serde_json::from_value(json!({
        "id": "1", "app": "other", "key": "a", "scheduled_for": "2026-01-01T00:00:00Z",
        "state": "succeeded", "attempts": 1, "failures": 0, "can_retry": false
    }))
    .unwrap();
    api.service.runs.send(run.clone().into()).unwrap();
    run.app = "default".to_owned();
    api.service.runs.send(run.into()).unwrap();
    let event = loop {
        let event = next().await.unwrap();
        if !event.starts_with("event: overview") {
            break event;
        }
    };
    assert!(event.starts_with("event: run\ndata: {\"id\":\"1\",\"app\":\"default\""), "{event}");
    api.service.begin_stop();
    while next().await.is_some() {}
}

#[tokio::test]
async fn a_page_ends_by_its_bytes_and_leaves_bodies_out() {
    let api = Api::new();
    let at = json!({ "at": "2100-01-01T00:00:00Z" });
    let mut made = Vec::new();
    for number in 0..40 {
        let key = format!("k{number:02}");
        let when = if number % 2 == 0 { nightly() } else { at.clone() };
        let mut large = keyed(&key, when);
        large["callback"]["body"] = "x".repeat(47_000).into();
        api.post(SCHEDULES, large).await.expect(201);
        made.push(key);
    }
    let mut callback = Value::Null;
    for search in ["", "&search=k"] {
        let list = format!("{SCHEDULES}?limit=1000{search}");
        let first = api.get(&list).await.expect(200);
        assert!(first.to_string().len() < 50_000, "no bodies");
        callback = first["items"][0]["callback"].clone();
        assert_eq!((&callback["body_bytes"], callback.get("body")), (&json!(47_000), None));
        assert_eq!(keys(&first).last(), first["next"].as_str().as_ref());
        assert_eq!(all_keys(&api, &list).await, (made.clone(), 2), "{search}");
    }
    let shown = api.get(&one("k00")).await.expect(200);
    assert_eq!(shown["callback"]["body"].as_str().unwrap().len(), 47_000);
    assert_eq!(shown["callback"].get("body_bytes"), None);
    // An item of a list does not count as a definition without a body.
    let item = json!({ "when": nightly(), "callback": callback });
    assert_eq!(api.put(&one("k00"), item).await.fields(), ["callback.body_bytes"]);

    let (pending, pages) = all_keys(&api, "/v1/apps/default/runs?limit=1000&state=pending").await;
    // They are due at the same time, so in the order of their identities.
    let pending = std::collections::BTreeSet::from_iter(pending);
    assert_eq!((pending, pages), (made.into_iter().skip(1).step_by(2).collect(), 1));
}
