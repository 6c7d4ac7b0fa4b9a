//! The overview says which of its figures are the least there is.

use serde_json::json;

use super::{Api, SCHEDULES, keyed, nightly};

#[tokio::test]
async fn schedules_that_are_not_looked_at_make_the_next_hour_at_least() {
    let api = Api::new();
    // The first by name come once a night; schedules within the hour are further down.
    for index in 0..1_000 {
        api.post(SCHEDULES, keyed(&format!("a{index:04}"), nightly())).await.expect(201);
    }
    for index in 0..3 {
        let each = keyed(&format!("b{index}"), json!({ "every": "1s" }));
        api.post(SCHEDULES, each).await.expect(201);
    }
    let overview = api.get("/v1/overview").await.expect(200);
    assert_eq!(overview["at_least"], json!(["pending_next_hour"]));
    assert_eq!(overview["enabled"], 1_003);
}
