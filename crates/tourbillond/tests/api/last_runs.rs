//! A list of schedules shows the runs that ended last.

use serde_json::{Value, json};

use super::{Api, SCHEDULES, all_keys, end_run, keyed, nightly, runs};

/// Detail of a run whose attempts ended so.
fn detail(attempts: &[(u64, Option<u16>)]) -> String {
    let lines = attempts.iter().enumerate().map(|(number, (ms, status))| {
        let started = "2026-01-01T00:00:00Z";
        let mut line = json!({ "attempt": number + 1, "started": started, "ms": ms });
        if let Some(status) = status {
            line["status"] = json!(status);
        }
        line.to_string()
    });
    lines.collect::<Vec<_>>().join("\n")
}

async fn listed(api: &Api, query: &str) -> Vec<Value> {
    let page = api.get(&format!("{SCHEDULES}?{query}")).await.expect(200);
    page["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn each_schedule_of_a_list_has_its_last_runs_the_newest_first() {
    let api = Api::new();
    let mut fires = api.service.worker("http.default", 1).unwrap();
    for key in ["a", "b", "c"] {
        api.post(SCHEDULES, keyed(key, nightly())).await.expect(201);
    }
    let mut of = Vec::new();
    for (key, detail) in [
        ("a", Some(detail(&[(12, Some(200))]))),
        ("c", Some(detail(&[(9, Some(503)), (7, Some(204))]))),
        ("a", None),
        ("a", Some(detail(&[(5_000, None)]))),
    ] {
        api.post(&format!("{SCHEDULES}/{key}/run-now"), json!(null)).await.expect(200);
        of.push(end_run(&mut fires, detail.as_deref()).await);
    }
    let items = listed(&api, "last_runs=2").await;
    let last = |item: &Value, field: &str| -> Vec<Value> {
        item["last_runs"].as_array().unwrap().iter().map(|run| run[field].clone()).collect()
    };
    assert_eq!(last(&items[0], "id"), [json!(of[3]), json!(of[2])]);
    assert_eq!(last(&items[0], "state"), ["succeeded", "dead"]);
    assert_eq!(last(&items[0], "ms"), [json!(5_000), json!(null)]);
    assert_eq!(last(&items[0], "status"), [json!(null), json!(null)]);
    assert_eq!(items[1]["last_runs"], json!([]));
    assert_eq!(
        (last(&items[2], "id"), last(&items[2], "ms")),
        (vec![json!(of[1])], vec![json!(7)])
    );
    assert_eq!(last(&items[2], "status"), [204]);

    // They equal the list of runs.
    let runs = runs(&api, "key=a").await;
    let all = listed(&api, "last_runs=20&prefix=a").await;
    for field in ["id", "state", "scheduled_for", "recorded"] {
        let shown = runs.iter().map(|run| run[field].clone()).collect::<Vec<_>>();
        assert_eq!(last(&all[0], field), shown, "{field}");
    }
    for query in ["", "last_runs=0"] {
        assert_eq!(listed(&api, query).await[0].get("last_runs"), None);
    }
    let searched = listed(&api, "search=c&last_runs=5").await;
    assert_eq!(last(&searched[0], "id"), [json!(of[1])]);
}

#[tokio::test]
async fn a_number_of_runs_that_is_too_high_is_refused() {
    let api = Api::new();
    let answer = api.get(&format!("{SCHEDULES}?last_runs=21")).await;
    assert_eq!((answer.status.as_u16(), answer.fields()), (422, vec!["last_runs"]));
    api.get(&format!("{SCHEDULES}?last_runs=-1")).await.expect(400);
}

#[tokio::test]
async fn a_page_with_long_runs_ends_sooner_and_the_next_continues() {
    const MANY: usize = 30;
    let api = Api::new();
    let mut fires = api.service.worker("http.default", 1).unwrap();
    let long = "x".repeat(8_000);
    for number in 0..MANY {
        let key = format!("k{number:02}");
        api.post(SCHEDULES, keyed(&key, nightly())).await.expect(201);
        for _ in 0..20 {
            api.post(&format!("{SCHEDULES}/{key}/run-now"), json!(null)).await.expect(200);
            end_run(&mut fires, Some(&long)).await;
        }
    }
    // They have 4.8 MB; a list that does not show them is one page.
    assert_eq!(listed(&api, "").await.len(), MANY);
    for query in ["last_runs=20", "last_runs=20&search=k"] {
        for item in listed(&api, query).await {
            assert_eq!(item["last_runs"].as_array().unwrap().len(), 20);
        }
        let (keys, pages) = all_keys(&api, &format!("{SCHEDULES}?{query}")).await;
        let all: Vec<_> = (0..MANY).map(|number| format!("k{number:02}")).collect();
        assert_eq!((keys, pages > 1), (all, true), "{query}");
    }
}
