use serde_json::{Value, json};
use tourbillond::config::App;

use super::{Api, SCHEDULES, definition, nightly, one, open};

/// A definition with all alerts.
fn watched() -> Value {
    let mut watched = definition(nightly());
    watched["notify"] = json!({
        "url": "https://hooks.example.com/alert",
        "headers": { "Authorization": "Bearer hunter2", "X-Who": "me" },
    });
    watched["success_within"] = json!("25h");
    watched["disable_after"] = json!(5);
    watched
}

#[tokio::test]
async fn alerts_are_read_as_they_were_put_but_for_what_lets_somebody_in() {
    let api = Api::new();
    let made = api.put(&one("a"), watched()).await.expect(201);
    let mut notify = watched()["notify"].clone();
    notify["headers"]["Authorization"] = json!("••••••••");
    assert_eq!((&made["notify"], &made["success_within"]), (&notify, &json!("25h")));
    assert_eq!((&made["disable_after"], &made["disabled_by"]), (&json!(5), &Value::Null));
    assert_eq!(api.get(&one("a")).await.expect(200), made);
    let listed = api.get(SCHEDULES).await.expect(200);
    assert_eq!(listed["items"][0]["notify"], notify);
    // The mask keeps the value for the same host alone.
    let mut again = watched();
    again["notify"] = notify;
    assert_eq!(api.put(&one("a"), again.clone()).await.expect(200), made);
    again["notify"]["url"] = json!("https://elsewhere.example.com/");
    let moved = api.put(&one("a"), again).await;
    assert_eq!(moved.fields(), ["notify.headers.Authorization"]);
    moved.expect(422);
}

#[tokio::test]
async fn alerts_that_make_no_sense_are_refused_by_field() {
    let api = Api::new();
    let cases: [(&str, Value, &str); 8] = [
        ("notify", json!({ "url": "https://h.example/", "body": "{{run}}" }), "notify.body"),
        ("notify", json!({ "url": "ftp://h/" }), "notify.url"),
        ("notify", json!({ "url": "https://h.example/", "method": "GET" }), "notify.method"),
        ("notify", Value::Null, "success_within"),
        ("success_within", json!("1ms"), "success_within"),
        ("success_within", json!("often"), "success_within"),
        ("success_within", json!("9000h"), "success_within"),
        ("disable_after", json!(101), "disable_after"),
    ];
    for (field, value, wrong) in cases {
        let mut definition = watched();
        definition[field] = value;
        let answer = api.put(&one("a"), definition).await;
        assert_eq!(answer.fields(), [wrong], "{:#}", answer.body);
        answer.expect(422);
    }
    for (list, is_good) in [(json!([200, 404]), true), (json!([200, 99]), false)] {
        let mut definition = watched();
        definition["callback"]["success"] = list.clone();
        let answer = api.put(&one("b"), definition).await;
        assert_eq!(answer.fields(), if is_good { &[][..] } else { &["callback.success"] });
        assert_eq!(answer.body["callback"]["success"] == list, is_good);
    }
    let mut once = watched();
    once["when"] = json!({ "at": "2190-01-01T00:00:00Z" });
    let answer = api.put(&one("a"), once.clone()).await;
    assert_eq!(answer.fields(), ["success_within", "disable_after"]);
    for field in ["success_within", "disable_after"] {
        once.as_object_mut().unwrap().remove(field);
    }
    api.put(&one("a"), once).await.expect(201);
}

#[tokio::test]
async fn the_alerts_of_an_app_are_shown_as_its_defaults_and_a_zero_is_none() {
    let mut config = open();
    let alerts = json!({ "success_within": "25h", "disable_after": 5 });
    let app = serde_json::from_value::<App>(alerts).unwrap();
    config.apps.insert("watched".to_owned(), app);
    let api = Api::of(config);
    let apps = api.get("/v1/apps").await.expect(200);
    let defaults = |app: usize| &apps[app]["defaults"];
    assert_eq!(apps[1]["name"], "watched");
    for (field, value) in [("success_within", json!("25h")), ("disable_after", json!(5))] {
        assert_eq!((defaults(0).get(field), defaults(1)[field].clone()), (None, value));
    }
    // Nobody is to get a notice, so none is missed.
    let mut none = definition(nightly());
    (none["success_within"], none["disable_after"]) = (json!("0s"), json!(0));
    let shown = api.put(&one("a"), none).await.expect(201);
    assert_eq!((&shown["success_within"], &shown["disable_after"]), (&json!("0s"), &json!(0)));
}
