use axum::http::Method;
use serde_json::{Value, json};

use super::Api;

const DEF: &str = "/api/timer/v1/def";

fn timer() -> Value {
    json!({
        "app": "default",
        "name": "nightly",
        "creator": "ann",
        "status": 1,
        "cron": "30 2 * * * *",
        "notifyHTTPParam": {
            "method": "POST",
            "url": "https://hooks.example.com/x",
            "header": { "X-A": ["1", "2"] },
            "body": "{}"
        }
    })
}

async fn create(api: &Api, timer: Value) -> u64 {
    let made = api.post(DEF, timer).await.expect(200);
    assert_eq!((&made["code"], &made["err"]), (&json!(0), &Value::Null), "{made}");
    made["id"].as_u64().unwrap()
}

async fn get(api: &Api, id: u64) -> Value {
    api.get(&format!("{DEF}?id={id}")).await.expect(200)
}

#[tokio::test]
async fn a_timer_is_made_shown_switched_and_removed() {
    let api = Api::new();
    let id = create(&api, timer()).await;
    let mut shown = timer();
    shown["id"] = id.into();
    assert_eq!(get(&api, id).await, json!({ "code": 0, "msg": "", "err": null, "data": shown }));
    let done = json!({ "code": 0, "msg": "", "err": null });
    let turn = async |to: &str| {
        api.post(&format!("/api/timer/v1/{to}"), json!({ "id": id })).await.expect(200)
    };
    assert_eq!(turn("unable").await["code"], -1);
    assert_eq!(turn("enable").await, done);
    assert_eq!(turn("enable").await["code"], -1);
    assert_eq!(get(&api, id).await["data"]["status"], 2);
    assert_eq!(turn("unable").await, done);
    assert_eq!(get(&api, id).await["data"]["status"], 1);
    let ours = api.get(&format!("/v1/apps/default/schedules/xtimer.{id}")).await.expect(200);
    assert_eq!(ours["when"], json!({ "cron": "30 2 * * *", "zone": "UTC" }));
    assert_eq!(ours["callback"]["headers"], json!({ "X-A": "1, 2" }));
    let removed = api.call(Method::DELETE, DEF, json!({ "id": id })).await.expect(200);
    assert_eq!(removed, done);
    assert_eq!(get(&api, id).await["code"], -1);
}

#[tokio::test]
async fn a_timer_is_changed_by_what_is_given() {
    let api = Api::new();
    let id = create(&api, timer()).await;
    let change = json!({ "id": id, "cron": "15,45 */2 * * *", "status": 2 });
    api.call(Method::PATCH, DEF, change).await.expect(200);
    let shown = get(&api, id).await;
    let shown = &shown["data"];
    assert_eq!((&shown["cron"], &shown["status"]), (&json!("15,45 */2 * * *"), &json!(2)));
    assert_eq!((&shown["name"], &shown["creator"]), (&json!("nightly"), &json!("ann")));
}

#[tokio::test]
async fn timers_are_listed_by_page_the_newest_first() {
    let api = Api::new();
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.push(create(&api, timer()).await);
        // Identities are in order to the millisecond.
        tourbillon::sleep(std::time::Duration::from_millis(2)).await;
    }
    ids.reverse();
    let list = async |query: &str| {
        let path = format!("/api/timer/v1/defs?app=default{query}");
        let page = api.get(&path).await.expect(200);
        let ids = page["data"].as_array().unwrap().iter();
        (ids.map(|def| def["id"].as_u64().unwrap()).collect::<Vec<_>>(), page["total"].clone())
    };
    assert_eq!(list("").await, (ids[..10].to_vec(), json!(12)));
    assert_eq!(list("&pageIndex=2").await, (ids[10..].to_vec(), json!(12)));
    assert_eq!(list("&pageIndex=2&pageSize=5").await, (ids[5..10].to_vec(), json!(12)));
    assert_eq!(list("&pageIndex=9").await, (vec![], json!(12)));
}

#[tokio::test]
async fn records_are_those_of_the_timer() {
    let api = Api::new();
    let id = create(&api, timer()).await;
    let path = format!("/api/task/v1/records?timerID={id}&pageIndex=1&pageSize=5");
    let records = api.get(&path).await.expect(200);
    assert_eq!(records, json!({ "code": 0, "msg": "", "err": null, "data": [], "total": 0 }));
}

#[tokio::test]
async fn what_is_wrong_is_said_in_its_json() {
    let api = Api::new();
    for field in ["app", "name", "creator", "cron", "notifyHTTPParam"] {
        let mut timer = timer();
        timer[field] = Value::Null;
        timer.as_object_mut().unwrap().remove(field);
        let wrong = api.post(DEF, timer).await.expect(400);
        assert_eq!(wrong["code"], -1);
        assert!(wrong["msg"].as_str().unwrap().contains(field), "{wrong}");
    }
    let mut never = timer();
    never["cron"] = json!("0 0 31 2 *");
    assert_eq!(api.post(DEF, never).await.expect(400)["code"], -1);
    assert_eq!(api.get(DEF).await.expect(400)["code"], -1);
    assert_eq!(get(&api, 7).await["code"], -1);
}

#[tokio::test]
async fn a_page_with_too_many_bytes_is_refused_and_smaller_ones_are_whole() {
    let api = Api::new();
    let mut large = timer();
    large["notifyHTTPParam"]["body"] = "x".repeat(47_000).into();
    for _ in 0..30 {
        create(&api, large.clone()).await;
    }
    let list = async |size: usize| {
        api.get(&format!("/api/timer/v1/defs?app=default&pageSize={size}")).await
    };
    let refused = list(30).await.expect(400);
    assert!(refused["msg"].as_str().unwrap().contains("pageSize"), "{refused}");
    let whole = list(20).await.expect(200);
    assert_eq!((whole["data"].as_array().unwrap().len(), &whole["total"]), (20, &json!(30)));
}
