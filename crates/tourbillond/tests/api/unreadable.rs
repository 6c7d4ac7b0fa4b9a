//! A schedule that a node cannot read: for a zone that its machine lacks.

use std::time::Duration;

use serde_json::{Value, json};
use tourbillon::Timer;
use tourbillon_durable::Rule;
use tourbillon_durable::store::calls::Change;
use tourbillon_durable::store::{Memory, Store as _};

use super::{Api, SCHEDULES, definition, keyed, nightly, one, open};

/// Gives a schedule a zone that no machine has, and lets it be due.
fn lose_zone(store: &mut Memory, key: &str) {
    let (now, row) = store.schedule(&format!("default/{key}")).unwrap();
    let row = row.unwrap();
    let policies = row.texts().1;
    let rule = Rule::from_text("cron Mars/Olympus 0 2 * * *", &policies);
    let mut lost = row.clone();
    (lost.rule, lost.next) = (rule, Some(now));
    let change = Change {
        name: &row.name,
        expect: Some(row.version),
        row: Some(&lost),
        withdraw: None,
        skipped: &[],
    };
    store.change(&change).unwrap();
}

#[tokio::test]
async fn a_schedule_whose_zone_a_node_lacks_says_so_and_can_be_stopped() {
    let mut store = Memory::new(&Timer::global());
    let api = Api::with(Box::new(store.clone()), open());
    for key in ["disabled", "paused", "put", "removed", "fine"] {
        api.post(SCHEDULES, keyed(key, nightly())).await.expect(201);
        if key != "fine" {
            lose_zone(&mut store, key);
        }
    }
    let why = "`cron Mars/Olympus 0 2 * * *` is not a schedule: \
               time zone: `Mars/Olympus` is not known";
    let listed = api.get(SCHEDULES).await.expect(200);
    for item in listed["items"].as_array().unwrap() {
        let is_fine = item["key"] == "fine";
        assert_eq!(item["unreadable"], if is_fine { Value::Null } else { json!(why) });
        assert_eq!((&item["state"], item["next"].get(0).is_some()), (&json!("enabled"), is_fine));
    }
    let run = |key: &str, act: &str| format!("{}/{act}", one(key));
    let refused = api.post(&run("put", "run-now"), Value::Null).await.expect(409);
    assert!(refused["detail"].as_str().unwrap().contains(why), "{refused}");
    let stats = || api.service.stats().unwrap();
    while stats().not_understood < 4 {
        Timer::global().sleep(Duration::from_millis(20)).await;
    }

    api.post(&run("disabled", "disable"), Value::Null).await.expect(200);
    let disabled = api.get(&one("disabled")).await.expect(200);
    assert_eq!((&disabled["state"], &disabled["unreadable"]), (&json!("disabled"), &Value::Null));
    api.post(&run("disabled", "enable"), Value::Null).await.expect(409);
    let until = json!({ "until": "2199-01-01T00:00:00Z" });
    api.post(&run("paused", "pause"), until.clone()).await.expect(200);
    let paused = api.get(&one("paused")).await.expect(200);
    assert_eq!((&paused["paused_until"], &paused["unreadable"]), (&until["until"], &json!(why)));
    let put = api.put(&one("put"), definition(nightly())).await.expect(200);
    assert_eq!((&put["unreadable"], put["next"].as_array().unwrap().len()), (&Value::Null, 5));
    api.delete(&one("removed")).await.expect(200);
    api.get(&one("removed")).await.expect(404);
}
