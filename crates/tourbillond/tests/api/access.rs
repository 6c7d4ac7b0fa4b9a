use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tourbillon::Timer;
use tourbillon_durable::Time;
use tourbillond::config::{App, Config};
use tourbillond::model::AppLimits;
use tower::ServiceExt as _;

use super::xtimer::{DEF, timer};
use super::{Answer, Api, SCHEDULES, keyed, nightly, token};

/// Two apps, each with tokens, and tokens for both.
fn config() -> Config {
    let app = |tokens| App { tokens, ..App::default() };
    let apps = BTreeMap::from([
        (
            "default".to_owned(),
            app(vec![token(None, "see", "read"), token(None, "change", "write")]),
        ),
        ("other".to_owned(), app(vec![token(None, "other", "write")])),
    ]);
    let admin = vec![token(None, "see-all", "read"), token(None, "change-all", "write")];
    Config { apps, admin, ..Config::default() }
}

async fn get(api: &Api, token: &str, path: &str) -> Answer {
    api.by_token(token, Method::GET, path, Value::Null).await
}

#[tokio::test]
async fn a_token_is_good_for_its_app_and_its_scope() {
    let api = Api::of(config());
    let get = async |token: &str, path: &str| get(&api, token, path).await;
    let nobody = get("", SCHEDULES).await;
    assert_eq!(nobody.headers["www-authenticate"], "Bearer");
    nobody.expect(401);
    get("unknown", SCHEDULES).await.expect(401);
    get("see ", SCHEDULES).await.expect(200);
    get("other", SCHEDULES).await.expect(403);
    get("other", "/v1/apps/nothing/schedules").await.expect(403);
    get("see-all", "/v1/apps/nothing/schedules").await.expect(404);
    for token in ["see", "change", "see-all", "change-all"] {
        get(token, SCHEDULES).await.expect(200);
    }
    let post = async |token: &str| {
        api.by_token(token, Method::POST, SCHEDULES, keyed("a", nightly())).await
    };
    post("see").await.expect(403);
    post("see-all").await.expect(403);
    post("other").await.expect(403);
    post("change").await.expect(201);
    post("change-all").await.expect(200);
    let names = async |token: &str| {
        let apps = get(token, "/v1/apps").await.expect(200);
        let apps = apps.as_array().unwrap().iter();
        apps.map(|app| app["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("see").await, ["default"]);
    assert_eq!(names("see-all").await, ["default", "other"]);
    get("other", "/v1/overview?app=default").await.expect(403);
    assert_eq!(get("other", "/v1/overview").await.expect(200)["enabled"], 0);
    assert_eq!(get("see-all", "/v1/overview").await.expect(200)["enabled"], 1);
}

#[tokio::test]
async fn what_needs_no_token_and_what_needs_one() {
    let api = Api::of(config());
    api.ready(200).await;
    for path in ["/healthz", "/readyz", "/v1/openapi.json"] {
        get(&api, "", path).await.expect(200);
    }
    for path in [
        "/metrics",
        "/v1/apps",
        "/v1/overview",
        "/v1/live",
        "/api/timer/v1/defs?app=default",
        "/api/timer/v1/def?id=1",
        "/api/task/v1/records?timerID=1",
    ] {
        get(&api, "", path).await.expect(401);
    }
    get(&api, "see", "/metrics").await.expect(403);
    get(&api, "see-all", "/metrics").await.expect(200);
}

#[tokio::test]
async fn an_authorization_of_another_kind_is_refused() {
    let api = Api::of(config());
    for value in ["see", "Basic see", "Bearer", "Bearer see more", ""] {
        let request = Request::get(SCHEDULES).header("authorization", value);
        api.send(request.body(Body::empty()).unwrap()).await.expect(401);
    }
    let request = Request::get(SCHEDULES).header("authorization", "bearer see");
    api.send(request.body(Body::empty()).unwrap()).await.expect(200);
}

#[tokio::test]
async fn tokens_that_are_taken_back_are_refused_at_once_and_end_their_streams() {
    let api = Api::of(config());
    let follow = async || {
        let request = Request::get("/v1/live").header("authorization", "Bearer see");
        let request = request.body(Body::empty()).unwrap();
        api.router.clone().oneshot(request).await.unwrap()
    };
    let mut less = config();
    less.apps.get_mut("default").unwrap().tokens.remove(0);
    let mut stream = follow().await.into_body();
    assert!(stream.frame().await.is_some());
    api.service.reload(less);
    // An event that was under way may still come.
    let more = async { while stream.frame().await.is_some() {} };
    let within = std::time::Duration::from_secs(60);
    Timer::global().timeout(within, more).await.expect("the stream ends");
    assert_eq!(follow().await.status(), 401);
}

#[tokio::test]
async fn a_timer_of_xtimer_is_removed_or_missing_for_a_token_that_could_remove_it() {
    let api = Api::of(config());
    let call = async |token: &str, method, body| api.by_token(token, method, DEF, body).await.body;
    let id = call("change", Method::POST, timer()).await["id"].as_u64().unwrap();
    let delete = async |token: &str, id: u64| {
        call(token, Method::DELETE, json!({ "id": id })).await["code"].as_i64().unwrap()
    };
    // It is there, and another number of the same app and one of no app are not.
    for (token, codes) in [
        ("other", [-1, -1, 0]),
        ("see", [-1, -1, -1]),
        ("see-all", [-1, -1, -1]),
        ("change", [0, 0, 0]),
        ("change-all", [0, 0, 0]),
    ] {
        for (id, code) in [id, id ^ 1, 1].into_iter().zip(codes) {
            assert_eq!(delete(token, id).await, code, "{token}, {id}");
        }
    }
}

#[tokio::test]
async fn an_app_has_no_more_schedules_than_it_may() {
    let mut config = super::open();
    let app = config.apps.get_mut("default").unwrap();
    app.limits = AppLimits { schedules: 2, ..AppLimits::default() };
    let api = Api::of(config);
    api.post(SCHEDULES, keyed("a", nightly())).await.expect(201);
    api.post(SCHEDULES, keyed("b", json!({ "after": "1h" }))).await.expect(201);
    let full = api.post(SCHEDULES, keyed("c", nightly())).await;
    assert!(full.headers.contains_key("retry-after"));
    full.expect(429);
    api.put(&super::one("c"), super::definition(nightly())).await.expect(429);
    // An existing schedule can be sent again, and a removed one makes room.
    api.post(SCHEDULES, keyed("a", nightly())).await.expect(200);
    api.delete(&super::one("b")).await.expect(200);
    api.post(SCHEDULES, keyed("c", nightly())).await.expect(201);
}

#[tokio::test]
async fn the_last_use_of_each_token_is_shown_by_its_name_from_its_first_request_on() {
    tourbillond::metrics::collect();
    let named = |name| token(Some(name), name, "read");
    let app = App { tokens: vec![named("use-own"), named("use-none")], ..App::default() };
    let apps = BTreeMap::from([("a".to_owned(), app)]);
    let config = Config { apps, admin: vec![named("use-all")], ..Config::default() };
    let api = Api::of(config);
    let text = async || match get(&api, "use-all", "/metrics").await.body {
        Value::String(text) => text,
        other => panic!("{other}"),
    };
    let last_uses = async || {
        let text = text().await;
        ["use-own", "use-none", "use-all"].map(|name| {
            let line = format!("tourbillond_token_last_use_timestamp_seconds{{token=\"{name}\"}} ");
            let value = text.lines().find_map(|text| text.strip_prefix(&line)).unwrap();
            value.parse::<f64>().unwrap()
        })
    };
    let start = Time::from(Timer::global().wall_now()).as_micros() as f64 / 1e6;
    let [own, none, all] = last_uses().await;
    assert_eq!((own, none), (0.0, 0.0));
    assert!(all >= start, "{all} {start}");
    // A request that is refused is a use, and one with another token is none.
    get(&api, "use-own", "/v1/overview?app=b").await.expect(403);
    get(&api, "use-nobody", "/v1/apps").await.expect(401);
    let [own, none, later] = last_uses().await;
    assert!(own >= all && later >= own && none == 0.0, "{own} {none} {later}");
    assert!(!text().await.contains("use-nobody"));
    api.service.stop().await;
}
