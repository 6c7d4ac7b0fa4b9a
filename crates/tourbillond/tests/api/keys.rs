//! Meaning of a key over time, and under requests at the same time.

use std::future::Future;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use super::{Answer, Api, SCHEDULES, definition, keyed, nightly, one, runs};

const AT: &str = "2100-01-01T00:00:00Z";
const LATER: &str = "2101-01-01T00:00:00Z";

fn at(time: &str) -> Value {
    json!({ "at": time })
}

/// Makes requests so that each of them is between two calls of the store when the others are: the
/// store is busy while they begin, and then takes one call of each after the other.
async fn at_once<T>(
    api: &Api,
    requests: impl IntoIterator<Item = impl Future<Output = T>>,
) -> Vec<T> {
    api.post(SCHEDULES, keyed("busy", json!({ "cron": "0 0 29 2 *" }))).await;
    let busy = api.service.client.upcoming("default/busy", 500);
    let requests = futures_util::future::join_all(requests);
    let (busy, answers) = futures_util::future::join(busy, requests).await;
    assert_eq!(busy.unwrap().len(), 500);
    answers
}

async fn put(api: &Api, key: &str, tag: &str, definition: Value) -> Answer {
    let request = Request::put(one(key)).header("content-type", "application/json");
    let request = request.header("if-match", tag).body(Body::from(definition.to_string()));
    api.send(request.unwrap()).await
}

#[tokio::test]
async fn of_two_puts_with_one_tag_one_wins() {
    let api = Api::new();
    let hours = |n: usize| json!({ "every": format!("{n}h") });
    let years = |n: usize| at(&format!("{}-01-01T00:00:00Z", 2100 + n));
    let kinds: [(&str, &dyn Fn(usize) -> Value); 2] = [("every", &hours), ("once", &years)];
    for (key, when) in kinds {
        for _ in 0..3 {
            let made = api.put(&one(key), definition(when(1))).await;
            let tag = made.headers["etag"].to_str().unwrap().to_owned();
            let puts = (2..5).map(|n| put(&api, key, &tag, definition(when(n))));
            let answers = at_once(&api, puts).await;
            let (won, lost): (Vec<_>, Vec<_>) =
                answers.into_iter().partition(|answer| answer.status == 200);
            assert_eq!(won.len(), 1, "{key}: {won:?}");
            assert!(lost.iter().all(|answer| answer.status == 412), "{key}: {lost:?}");
            assert_eq!(api.get(&one(key)).await.expect(200), won[0].body);
        }
    }
}

#[tokio::test]
async fn a_one_shot_that_is_fired_and_disabled_at_once_is_not_both() {
    let api = Api::new();
    for number in 0..5 {
        let key = format!("k{number}");
        api.post(SCHEDULES, keyed(&key, at(AT))).await.expect(201);
        let (fire, disable) = (one(&format!("{key}/run-now")), one(&format!("{key}/disable")));
        let requests = [&fire, &disable].map(|path| api.post(path, json!(null)));
        let answers = at_once(&api, requests).await;
        let [fired, disabled] = <[Answer; 2]>::try_from(answers).unwrap();
        disabled.expect(200);
        assert!([200, 409].contains(&fired.status.as_u16()), "{fired:?}");
        assert_eq!(api.get(&one(&key)).await.expect(200)["state"], "disabled");
    }
}

#[tokio::test]
async fn requests_at_the_same_time_make_one_of_a_key() {
    let api = Api::new();
    for number in 0..5 {
        let key = format!("k{number}");
        if number % 2 == 0 {
            // The key was used before.
            api.post(SCHEDULES, keyed(&key, at(AT))).await.expect(201);
            api.delete(&one(&key)).await.expect(200);
        }
        let all = [nightly(), at(AT), at(LATER)];
        let requests = all.map(|when| api.post(SCHEDULES, keyed(&key, when)));
        let answers = at_once(&api, requests).await;
        let made = answers.iter().filter(|answer| answer.status == 201).count();
        assert!(made <= 1, "{answers:?}");
        let left = api.get(&format!("{SCHEDULES}?prefix={key}")).await.expect(200);
        let left = left["items"].as_array().unwrap();
        let left = left.iter().filter(|found| found["key"] == key.as_str()).count();
        assert_eq!(left, made, "{answers:?}");
    }
}

/// Lets the one run of a key die.
async fn kill(api: &Api, fires: &mut tourbillon_durable::Worker, key: &str) -> String {
    let fire = fires.next().await.unwrap();
    assert_eq!(fire.name(), Some(&*format!("default/{key}")));
    let id = fire.id().to_string();
    fire.give_up("no").await.unwrap();
    assert_eq!(runs(api, &format!("key={key}&state=dead")).await[0]["id"], id);
    id
}

#[tokio::test]
async fn a_dead_run_is_made_again_while_its_key_is_there() {
    let api = Api::new();
    let mut fires = api.service.worker("http.default", 4).unwrap();
    let retry =
        async |id: &str| api.post(&format!("/v1/apps/default/runs/{id}/retry"), json!(null)).await;
    for (key, when) in [("once", json!({ "after": "0s" })), ("every", nightly())] {
        api.post(SCHEDULES, keyed(key, when)).await.expect(201);
        if key == "every" {
            api.post(&one("every/run-now"), json!(null)).await.expect(200);
        }
        let dead = kill(&api, &mut fires, key).await;
        api.delete(&one(key)).await.expect(200);
        let refused = retry(&dead).await.expect(409);
        assert!(refused["detail"].as_str().unwrap().contains("deleted"), "{refused}");
        // Nor in the name of the key's present holder.
        api.post(SCHEDULES, keyed(key, at(AT))).await.expect(201);
        retry(&dead).await.expect(409);
        assert_eq!(runs(&api, &format!("state=pending&key={key}")).await.len(), 1);
    }
}

#[tokio::test]
async fn the_delete_of_a_one_shot_that_is_over_frees_its_key_and_leaves_no_run() {
    let api = Api::new();
    let mut fires = api.service.worker("http.default", 4).unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let made = api.post(SCHEDULES, keyed("a", json!({ "after": "0s" }))).await.expect(201);
        ids.insert(0, made["id"].as_str().unwrap().to_owned());
        super::end_run(&mut fires, Some("[]")).await;
        assert_eq!(api.get(&one("a")).await.expect(200)["state"], "succeeded");
        api.put(&one("a"), definition(json!({ "after": "0s" }))).await.expect(409);
        api.delete(&one("a")).await.expect(200);
        api.get(&one("a")).await.expect(404);
        api.delete(&one("a")).await.expect(404);
    }
    let listed = runs(&api, "").await;
    let listed: Vec<_> = listed.iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(listed, ids);
    assert_eq!(runs(&api, "key=a&state=cancelled").await, [] as [Value; 0]);
    let history = api.get("/v1/apps/default/history?buckets=1").await.expect(200);
    assert_eq!(history["buckets"][0]["cancelled"], 0);
    let outcomes = &api.get("/v1/overview").await.expect(200)["outcomes"];
    assert_eq!((&outcomes["succeeded"], &outcomes["cancelled"]), (&json!(3), &json!(0)));
    // Nor among the last runs of what has the key next.
    api.post(SCHEDULES, keyed("a", nightly())).await.expect(201);
    let page = api.get(&format!("{SCHEDULES}?last_runs=20")).await.expect(200);
    let last = page["items"][0]["last_runs"].as_array().unwrap();
    assert!(last.len() == 3 && last.iter().all(|run| run["state"] == "succeeded"), "{last:?}");
}

#[tokio::test]
async fn a_retry_that_was_taken_back_is_not_acknowledged_again() {
    let api = Api::new();
    let mut fires = api.service.worker("http.default", 4).unwrap();
    api.post(SCHEDULES, keyed("a", nightly())).await.expect(201);
    api.post(&one("a/run-now"), json!(null)).await.expect(200);
    let dead = kill(&api, &mut fires, "a").await;
    drop(fires);
    let path = format!("/v1/apps/default/runs/{dead}/retry");
    let again = api.post(&path, json!(null)).await.expect(200);
    assert_eq!(api.post(&path, json!(null)).await.expect(200), again);
    api.post(&one("a/disable"), json!(null)).await.expect(200);
    api.post(&path, json!(null)).await.expect(409);
    api.post(&one("a/enable"), json!(null)).await.expect(200);
    let refused = api.post(&path, json!(null)).await.expect(409);
    let id = again["id"].as_str().unwrap();
    assert!(refused["detail"].as_str().unwrap().contains(id), "{refused}");
}
