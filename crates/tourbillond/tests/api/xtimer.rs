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

#[tokio::test]
async fn a_page_with_too_many_bytes_is_refused_and_smaller_ones_are_whole() {
    let api = Api::new();
    let mut large = timer();
    large["notifyHTTPParam"]["body"] = "x".repeat(47_000).into();
    for _ in 0..30 {
        assert_eq!(api.post(DEF, large.clone()).await.expect(200)["code"], 0);
    }
    let list = async |size: usize| {
        api.get(&format!("/api/timer/v1/defs?app=default&pageSize={size}")).await
    };
    let refused = list(30).await.expect(400);
    assert!(refused["msg"].as_str().unwrap().contains("pageSize"), "{refused}");
    let whole = list(20).await.expect(200);
    assert_eq!((whole["data"].as_array().unwrap().len(), &whole["total"]), (20, &json!(30)));
}
