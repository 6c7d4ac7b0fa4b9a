//! The overview says which of its figures are the least there is.

use serde_json::json;

use super::{Api, SCHEDULES, end_run, keyed, nightly, one};

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

#[tokio::test]
async fn a_schedule_that_fails_often_hides_no_other_that_fails() {
    let api = Api::new();
    let mut fires = api.service.worker("http.default", 1).unwrap();
    for key in ["often", "once", "well"] {
        api.post(SCHEDULES, keyed(key, nightly())).await.expect(201);
    }
    let runs = [("once", 1), ("well", 1), ("often", 90)];
    for (key, count) in runs {
        for _ in 0..count {
            api.post(&one(&format!("{key}/run-now")), json!(null)).await.expect(200);
            end_run(&mut fires, (key == "well").then_some("")).await;
        }
    }
    let overview = api.get("/v1/overview").await.expect(200);
    let failing = overview["failing"].as_array().unwrap().iter();
    let failing = failing.map(|one| [one["key"].clone(), one["dead_runs"].clone()]);
    let expected = [[json!("often"), json!(90)], [json!("once"), json!(1)]];
    assert_eq!(failing.collect::<Vec<_>>(), expected);
    assert_eq!(overview["at_least"], json!([]));
}
