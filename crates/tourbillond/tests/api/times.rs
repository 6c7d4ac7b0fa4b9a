use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::{Value, json};
use tourbillon_durable::store::RecordQuery;
use tourbillon_durable::{Outcome, Reason};

use super::{Api, SCHEDULES, all_keys, definition, keyed, nightly, one, open, runs};

/// The time so many seconds from now, as RFC 3339.
fn from_now(seconds: i64) -> String {
    let now = Timestamp::try_from(SystemTime::now()).unwrap();
    now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap().to_string()
}

#[tokio::test]
async fn bounds_and_a_lane_are_read_as_they_were_put() {
    let api = Api::new();
    let windows = json!([
        { "from": "2190-01-02T00:00:00Z", "until": "2190-01-03T00:00:00Z", "then": "skip" },
        { "from": "2190-01-04T00:00:00+01:00", "until": "2190-01-05T00:00:00Z",
          "then": "run_at_end" },
    ]);
    let (start, end) = ("2190-01-01T00:00:00Z", "2190-01-06T00:00:00Z");
    let bounds = json!({ "start": start, "end": end, "excluded": windows });
    for (key, mut when) in [("a", nightly()), ("b", json!({ "every": "1h" }))] {
        when.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
        let mut wanted = definition(when.clone());
        wanted["lane"] = json!("customer-7");
        let made = api.put(&one(key), wanted.clone()).await.expect(201);
        assert_eq!((&made["when"], &made["lane"]), (&when, &json!("customer-7")));
        let next = made["next"][0].as_str().unwrap();
        assert!(next.starts_with("2190-01-01"), "{next}");
        assert_eq!(api.get(&one(key)).await.expect(200), made);
        let listed = api.get(&format!("{SCHEDULES}?prefix={key}")).await.expect(200);
        assert_eq!(listed["items"][0]["when"], when);
        // The same again is no change; without bounds it is another, which begins at once.
        assert_eq!(api.put(&one(key), wanted.clone()).await.expect(200), made);
        for name in ["start", "end", "excluded"] {
            wanted["when"].as_object_mut().unwrap().remove(name);
        }
        let plain = api.put(&one(key), wanted).await.expect(200);
        assert_eq!((&plain["version"], &plain["when"]["start"]), (&json!(2), &Value::Null));
        assert!(plain["next"][0].as_str().unwrap() < next);
    }
}

#[tokio::test]
async fn bounds_and_lanes_that_make_no_sense_are_refused_by_field() {
    let api = Api::new();
    type Change<'a> = &'a dyn Fn(&mut Value);
    let put = async |change: Change| {
        let mut wanted = definition(nightly());
        change(&mut wanted);
        api.put(&one("a"), wanted).await
    };
    let window = |from: &str, until: &str| json!({ "from": from, "until": until });
    let (early, late) = ("2190-01-01T00:00:00Z", "2190-01-02T00:00:00Z");
    let cases: [(Change, &[&str]); 10] = [
        (&|d| d["when"]["start"] = json!("soon"), &["when.start"]),
        (&|d| (d["when"]["start"], d["when"]["end"]) = (late.into(), early.into()), &["when.end"]),
        (
            &|d| d["when"]["excluded"] = json!([window(early, late), window(late, "x")]),
            &["when.excluded[1].until"],
        ),
        (&|d| d["when"]["excluded"] = json!([window(late, late)]), &["when.excluded[0].until"]),
        (&|d| d["when"]["excluded"] = vec![window(early, late); 101].into(), &["when.excluded"]),
        (&|d| d["when"] = json!({ "at": late, "end": late }), &["when"]),
        (&|d| d["lane"] = json!("a b"), &["lane"]),
        (&|d| d["lane"] = json!(""), &["lane"]),
        (&|d| (d["lane"], d["overlap"]) = ("a".into(), json!({ "queue": 3 })), &["overlap"]),
        (&|d| (d["lane"], d["jitter"]) = ("a".into(), "5s".into()), &["jitter"]),
    ];
    for (change, fields) in cases {
        let answer = put(change).await;
        assert_eq!(answer.fields(), fields, "{:#}", answer.body);
        answer.expect(422);
    }
    let mut at = definition(json!({ "at": late }));
    api.put(&one("once"), at.clone()).await.expect(201);
    at["lane"] = json!("a");
    let moved = api.put(&one("once"), at).await;
    assert_eq!(moved.fields(), ["lane"]);
}

#[tokio::test]
async fn a_preview_notes_what_does_not_run_and_what_runs_for_it() {
    let api = Api::new();
    let when = json!({
        "every": "1h", "start": "2190-01-01T01:00:00Z", "end": "2190-01-01T08:00:00Z",
        "excluded": [
            { "from": "2190-01-01T03:00:00Z", "until": "2190-01-01T04:30:00Z",
              "then": "run_at_end" },
            { "from": "2190-01-01T06:00:00Z", "until": "2190-01-01T07:00:00Z" },
        ],
    });
    let noted = |list: &Value| -> Vec<_> {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let hour = |one: &Value| text(&one["at"])[11..16].to_owned();
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (hour(one), text(&one["note"])))
            .collect()
    };
    let all = [
        ("01:00", "-"),
        ("02:00", "-"),
        ("03:00", "excluded"),
        ("04:00", "excluded"),
        ("04:30", "run_at_end"),
        ("05:00", "-"),
        ("06:00", "excluded"),
        ("07:00", "-"),
        ("08:00", "-"),
    ];
    let all = all.map(|(hour, note)| (hour.to_owned(), note.to_owned()));
    let free = api.post("/v1/preview", json!({ "when": when, "count": 100 })).await.expect(200);
    assert_eq!(noted(&free), all);
    let made = api.put(&one("a"), definition(when)).await.expect(201);
    assert_eq!(made["next"].as_array().unwrap().len(), 5);
    assert!(!made["next"].to_string().contains("03:00:00"), "{made:#}");
    let pause = json!({ "until": "2190-01-01T01:30:00Z" });
    api.post(&one("a/pause"), pause).await.expect(200);
    let kept = api.get(&one("a/preview?count=100")).await.expect(200);
    let mut paused = all.clone();
    paused[0].1 = "paused".to_owned();
    assert_eq!(noted(&kept), paused);
    let shown = api.get(&one("a")).await.expect(200);
    assert_eq!(shown["paused_until"], "2190-01-01T01:30:00Z");
    assert_eq!(shown["next"][0], "2190-01-01T02:00:00Z");
}

#[tokio::test]
async fn a_preview_says_what_other_schedulers_read_in_another_way() {
    let api = Api::new();
    for (cron, notes) in [
        ("0 0 13 * FRI", json!(["either_day"])),
        ("0 0 */2 * 1", json!(["both_days"])),
        ("0 0 *,5 * 1", json!(["both_days"])),
        ("0 0 1-31 * 1", json!(["either_day"])),
        ("0 0 9 * * 1-5", json!(["weekday_numbers"])),
        ("0 0 9 1 * 2L", json!(["either_day", "weekday_numbers"])),
        ("0 0 9 ? * MON-FRI,SUN#2", json!(null)),
        ("0 0 9 * * */2", json!(null)),
        ("0 9 * * 1-5", json!(null)),
        ("@weekly", json!(null)),
    ] {
        let asked = json!({ "when": { "cron": cron }, "count": 1 });
        let free = api.post("/v1/preview", asked).await.expect(200);
        assert_eq!(
            (&free["notes"], free["items"].as_array().unwrap().len()),
            (&notes, 1),
            "{cron}"
        );
    }
    api.put(&one("a"), definition(json!({ "cron": "0 0 13 * FRI" }))).await.expect(201);
    let kept = api.get(&one("a/preview?count=1")).await.expect(200);
    assert_eq!(kept["notes"], json!(["either_day"]));
}

#[tokio::test]
async fn periods_are_counted_from_an_anchor() {
    let api = Api::new();
    let when = json!({ "every": "1h", "anchor": "2190-01-01T00:17:00Z" });
    let at = async |from: &str| {
        let asked = json!({ "when": when, "count": 2, "from": from });
        let found = api.post("/v1/preview", asked).await.expect(200);
        [0, 1].map(|nth| found["items"][nth]["at"].as_str().unwrap().to_owned())
    };
    // The anchor itself is no occurrence, nor is any time before it.
    let first = ["2190-01-01T01:17:00Z", "2190-01-01T02:17:00Z"];
    assert_eq!(at("2026-01-01T00:00:00Z").await, first);
    assert_eq!(at("2190-01-01T00:00:00Z").await, first);
    assert_eq!(at("2190-01-01T01:17:00Z").await, ["2190-01-01T02:17:00Z", "2190-01-01T03:17:00Z"]);
    let made = api.put(&one("a"), definition(when.clone())).await.expect(201);
    assert_eq!((&made["when"], &made["next"][0]), (&when, &json!(first[0])));
    // The same definition is the same schedule, and another anchor moves its times.
    let same = api.put(&one("a"), definition(when.clone())).await.expect(200);
    assert_eq!(same["version"], made["version"]);
    let moved = json!({ "every": "1h", "anchor": "2190-01-01T00:20:00Z" });
    let moved = api.put(&one("a"), definition(moved)).await.expect(200);
    assert_eq!(moved["next"][0], "2190-01-01T01:20:00Z");
    let wrong = json!({ "every": "1h", "anchor": "00:17" });
    assert_eq!(api.put(&one("b"), definition(wrong)).await.fields(), ["when.anchor"]);
    let wrong = json!({ "cron": "0 * * * *", "anchor": "2190-01-01T00:17:00Z" });
    assert_eq!(api.put(&one("b"), definition(wrong)).await.status, 422);
}

#[tokio::test]
async fn a_pause_lasts_until_its_time_or_until_it_is_enabled() {
    let api = Api::new();
    api.put(&one("a"), definition(json!({ "every": "1h" }))).await.expect(201);
    let until = from_now(1_000_000);
    let pause = json!({ "until": until });
    for _ in 0..2 {
        let stopped = api.post(&one("a/pause"), pause.clone()).await.expect(200);
        assert_eq!(stopped, json!({ "running": [] }));
    }
    let paused = api.get(&one("a")).await.expect(200);
    assert_eq!((&paused["state"], &paused["enabled"]), (&json!("enabled"), &json!(true)));
    assert!(paused["next"][0].as_str().unwrap() >= &*until);
    // Another callback leaves the pause, and other times end it.
    let mut wanted = definition(json!({ "every": "1h" }));
    wanted["callback"]["body"] = json!("more");
    let changed = api.put(&one("a"), wanted).await.expect(200);
    assert_eq!(changed["paused_until"], paused["paused_until"]);
    let moved = api.put(&one("a"), definition(json!({ "every": "2h" }))).await.expect(200);
    assert_eq!(moved["paused_until"], Value::Null);
    api.post(&one("a/pause"), pause.clone()).await.expect(200);
    api.post(&one("a/enable"), json!(null)).await.expect(200);
    assert_eq!(api.get(&one("a")).await.expect(200)["paused_until"], Value::Null);

    let past = api.post(&one("a/pause"), json!({ "until": from_now(-5) })).await;
    assert_eq!(past.fields(), ["until"]);
    past.expect(422);
    api.post(&one("a/disable"), json!(null)).await.expect(200);
    api.post(&one("a/pause"), pause.clone()).await.expect(409);
    let once = definition(json!({ "at": "2199-01-01T00:00:00Z" }));
    api.put(&one("once"), once).await.expect(201);
    api.post(&one("once/pause"), pause.clone()).await.expect(409);
    api.post(&one("nothing/pause"), pause).await.expect(404);
}

#[tokio::test]
async fn a_range_is_backfilled_in_parts_and_once() {
    let api = Api::new();
    // Ten hours, and four of them are excluded. The schedule has ended, so that it adds none.
    let when = json!({
        "every": "1h", "end": "2020-01-02T00:00:00Z",
        "excluded": [{ "from": "2020-01-01T04:00:00Z", "until": "2020-01-01T08:00:00Z" }],
    });
    api.put(&one("a"), definition(when)).await.expect(201);
    let mut range = json!({
        "since": "2020-01-01T00:00:00Z", "until": "2020-01-01T10:00:00Z", "limit": 4,
    });
    let first = api.post(&one("a/backfill"), range.clone()).await.expect(200);
    assert_eq!((&first["made"], &first["existed"]), (&json!(4), &json!(0)));
    range["since"] = first["rest"].clone();
    let rest = api.post(&one("a/backfill"), range.clone()).await.expect(200);
    assert_eq!(rest, json!({ "made": 2, "existed": 0 }));
    let again = api.post(&one("a/backfill"), range.clone()).await.expect(200);
    assert_eq!(again, json!({ "made": 0, "existed": 2 }));
    assert_eq!(runs(&api, "key=a&state=pending").await.len(), 6);

    let to_come = json!({ "since": "2020-01-01T00:00:00Z", "until": from_now(3_600) });
    let to_come = api.post(&one("a/backfill"), to_come).await;
    assert_eq!(to_come.fields(), ["until"]);
    to_come.expect(422);
    let wrong = json!({ "since": from_now(5), "until": from_now(0), "limit": 1_001 });
    let wrong = api.post(&one("a/backfill"), wrong).await;
    assert_eq!(wrong.fields(), ["limit", "until"]);
    wrong.expect(422);
    api.post(&one("a/disable"), json!(null)).await.expect(200);
    range["limit"] = json!(1);
    api.post(&one("a/backfill"), range.clone()).await.expect(409);
    let once = definition(json!({ "at": "2199-01-01T00:00:00Z" }));
    api.put(&one("once"), once).await.expect(201);
    api.post(&one("once/backfill"), range.clone()).await.expect(409);
    api.post(&one("nothing/backfill"), range).await.expect(404);
}

#[tokio::test]
async fn a_one_shot_that_waits_in_its_lane_is_pending_and_names_of_lanes_are_of_an_app() {
    let mut config = open();
    config.apps.insert("other".to_owned(), Default::default());
    let api = Api::of(config);
    let put = async |app: &str, key: &str, at: &str| {
        let mut once = definition(json!({ "at": at }));
        once["lane"] = json!("l");
        api.put(&format!("/v1/apps/{app}/schedules/{key}"), once).await.expect(201)
    };
    put("default", "first", "2199-01-01T00:00:00Z").await;
    let second = put("default", "second", "2199-01-02T00:00:00Z").await;
    assert_eq!(second["state"], "pending");
    assert_eq!(second["next"], json!(["2199-01-02T00:00:00Z"]));
    let listed = async |state: &str| all_keys(&api, &format!("{SCHEDULES}?state={state}")).await.0;
    assert_eq!(listed("pending").await, ["first", "second"]);
    assert!(listed("disabled").await.is_empty());
    // A lane of the same name in another app is another: its front is due at its time.
    put("other", "third", "2199-01-03T00:00:00Z").await;
    // A lane is promoted after the answer.
    let due = loop {
        let due = api.get("/v1/apps/other/runs?state=pending").await.expect(200);
        if due["items"][0]["due"] != Value::Null {
            break due;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(due["items"][0]["due"], "2199-01-03T00:00:00Z");
    assert_eq!(runs(&api, "state=pending&key=second").await[0]["due"], Value::Null);
    api.post(&one("second/disable"), json!(null)).await.expect(200);
    assert_eq!(listed("disabled").await, ["second"]);
    assert_eq!(listed("pending").await, ["first"]);
}

#[tokio::test]
async fn an_excluded_time_is_recorded_as_skipped_with_its_reason() {
    let api = Api::new();
    let when = json!({
        "every": "1s", "excluded": [{ "from": from_now(-60), "until": from_now(600) }],
    });
    api.post(SCHEDULES, keyed("a", when)).await.expect(201);
    let record = loop {
        let records = api.service.reader.records(RecordQuery::new()).await.unwrap();
        if let Some(record) = records.into_iter().next() {
            break record;
        }
        api.service.timer.sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((record.outcome, record.reason), (Outcome::Skipped, Some(Reason::Excluded)));
}
