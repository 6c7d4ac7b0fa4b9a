use serde_json::{Value, json};

use super::Api;

pub(super) const DEF: &str = "/api/timer/v1/def";

/// A timer that never runs while a test does, and is not enabled.
pub(super) fn timer() -> Value {
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
