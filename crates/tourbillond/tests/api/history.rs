//! Numbers of runs by time.

use std::time::Duration;

use serde_json::{Value, json};
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;
use tourbillon_durable::Time;
use tourbillon_durable::store::Memory;
use tourbillond::model;

use super::{Api, SCHEDULES, end_run, keyed, nightly, one, runs};

const HISTORY: &str = "/v1/apps/default/history";

/// The numbers of all buckets, in the order of the document.
fn sums(history: &Value) -> [u64; 4] {
    ["succeeded", "dead", "skipped", "cancelled"].map(|state| {
        let buckets = history["buckets"].as_array().unwrap().iter();
        buckets.filter_map(|bucket| bucket[state].as_u64()).sum()
    })
}

async fn filled() -> Api {
    let api = Api::new();
    let mut fires = api.service.worker("http.default", 1).unwrap();
    for (key, detail) in [("a", Some("")), ("b", Some("")), ("a", None), ("a", Some(""))] {
        api.put(&one(key), super::definition(nightly())).await;
        api.post(&one(&format!("{key}/run-now")), json!(null)).await.expect(200);
        end_run(&mut fires, detail).await;
    }
    api.post(SCHEDULES, keyed("c", json!({ "at": "2100-01-01T00:00:00Z" }))).await.expect(201);
    api.delete(&one("c")).await.expect(200);
    api
}

#[tokio::test]
async fn a_history_counts_the_runs_of_a_day_by_the_hour() {
    let api = filled().await;
    let history = api.get(HISTORY).await.expect(200);
    assert_eq!((sums(&history), history.get("counted_since")), ([3, 1, 0, 1], None));
    let buckets = history["buckets"].as_array().unwrap();
    assert_eq!((buckets.len(), &buckets[0]["start"]), (24, &history["since"]));
    let time = |value: &Value| model::time(value.as_str().unwrap()).unwrap();
    let (since, until) = (time(&history["since"]), time(&history["until"]));
    assert_eq!(until.since(since).as_secs(), 86_400);
    for pair in buckets.windows(2) {
        assert_eq!(time(&pair[1]["start"]).since(time(&pair[0]["start"])).as_secs(), 3_600);
    }
    let own = api.get(&format!("{HISTORY}?key=a&buckets=1")).await.expect(200);
    assert_eq!((sums(&own), own["buckets"].as_array().unwrap().len()), ([2, 1, 0, 0], 1));
    assert_eq!(sums(&api.get(&format!("{HISTORY}?key=none")).await.expect(200)), [0; 4]);
}

#[tokio::test]
async fn a_history_counts_each_run_in_the_part_that_it_ended_in() {
    let api = filled().await;
    let runs = runs(&api, "order=oldest").await;
    let recorded: Vec<&str> = runs.iter().filter_map(|run| run["recorded"].as_str()).collect();
    let micros = |text: &str| model::time(text).unwrap().as_micros();
    // From the second to before the last, in parts of a microsecond and some.
    let (since, until) = (recorded[1], recorded[4]);
    let query = format!("since={since}&until={until}&buckets=168");
    let history = api.get(&format!("{HISTORY}?{query}")).await.expect(200);
    assert_eq!((&history["since"], &history["until"]), (&json!(since), &json!(until)));
    let ended = recorded.iter().filter(|at| **at >= since && **at < until).count() as u64;
    assert_eq!(sums(&history).iter().sum::<u64>(), ended);
    let buckets = history["buckets"].as_array().unwrap();
    let starts = buckets.iter().map(|bucket| bucket["start"].as_str().unwrap());
    let ends = starts.chain([until]).map(micros).collect::<Vec<_>>();
    for (bucket, part) in buckets.iter().zip(ends.windows(2)) {
        let within = recorded.iter().filter(|at| (part[0]..part[1]).contains(&micros(at))).count();
        let counted = sums(&json!({ "buckets": [bucket] })).iter().sum::<u64>();
        assert_eq!(counted, within as u64, "{bucket}");
    }
}

#[tokio::test]
async fn the_parts_of_a_history_are_within_its_span() {
    let api = Api::new();
    let span = "since=2026-01-01T00:00:00Z&until=2026-01-01T00:00:00.000003Z&buckets=168";
    let history = api.get(&format!("{HISTORY}?{span}")).await.expect(200);
    let micros = |value: &Value| model::time(value.as_str().unwrap()).unwrap().as_micros();
    let buckets = history["buckets"].as_array().unwrap();
    assert_eq!(buckets.len(), 168);
    assert!(buckets.iter().all(|bucket| micros(&bucket["start"]) <= micros(&history["until"])));
}

#[tokio::test]
async fn a_history_that_was_just_counted_is_served_again() {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    let api = Api::by(Box::new(Memory::new(&Timer::global())), super::open(), &timer);
    let cancel = async |key: &str| {
        api.post(SCHEDULES, keyed(key, json!({ "at": "2100-01-01T00:00:00Z" }))).await.expect(201);
        api.delete(&one(key)).await.expect(200);
    };
    let cancelled = async |query: &str| {
        let asked = "since=2020-01-01T00:00:00Z&until=2100-01-01T00:00:00Z";
        sums(&api.get(&format!("{HISTORY}?{asked}{query}")).await.expect(200))[3]
    };
    cancel("a").await;
    assert_eq!(cancelled("").await, 1);
    cancel("b").await;
    assert_eq!(cancelled("").await, 1);
    // Other arguments are counted by themselves.
    assert_eq!((cancelled("&key=b").await, cancelled("&buckets=2").await), (1, 2));
    clock.advance(Duration::from_secs(1));
    assert_eq!(cancelled("").await, 2);
}

#[tokio::test]
async fn a_history_of_no_time_or_of_too_many_parts_is_refused() {
    let api = Api::new();
    let now = model::rfc3339(Time::from_micros(1_700_000_000_000_000));
    for (query, field) in [
        ("buckets=0".to_owned(), "buckets"),
        ("buckets=169".to_owned(), "buckets"),
        ("since=yesterday".to_owned(), "since"),
        (format!("since={now}&until={now}"), "since"),
    ] {
        let answer = api.get(&format!("{HISTORY}?{query}")).await;
        assert_eq!((answer.status.as_u16(), answer.fields()), (422, vec![field]), "{query}");
    }
    // A day before the end.
    let history = api.get(&format!("{HISTORY}?until={now}")).await.expect(200);
    assert_eq!(history["since"], "2023-11-13T22:13:20Z");
    api.get("/v1/apps/other/history").await.expect(404);
}
