//! Labels of schedules, and lists by a label.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tourbillon::Timer;
use tourbillon_durable::store::{Memory, Store as _};

use super::{Api, SCHEDULES, all_keys, definition, insert, keyed, keys, nightly, one, open};

fn labelled(key: &str, when: Value, labels: &Value) -> Value {
    let mut body = keyed(key, when);
    body["labels"] = labels.clone();
    body
}

#[tokio::test]
async fn labels_are_kept_and_changed_with_the_definition() {
    let api = Api::new();
    let labels = json!({ "team": "billing", "example.com/urgent": "" });
    let made = api.post(SCHEDULES, labelled("a", nightly(), &labels)).await.expect(201);
    assert_eq!(made["labels"], labels);
    // The same again is no change, and other labels are.
    api.post(SCHEDULES, labelled("a", nightly(), &labels)).await.expect(200);
    let other = json!({ "team": "Müller & Söhne: 1" });
    api.post(SCHEDULES, labelled("a", nightly(), &other)).await.expect(409);
    let mut body = definition(nightly());
    body["labels"] = other.clone();
    api.put(&one("a"), body).await.expect(200);
    let shown = api.get(&one("a")).await.expect(200);
    assert_eq!(shown["labels"], other);
    assert_ne!(shown["version"], made["version"]);
    api.put(&one("a"), definition(nightly())).await.expect(200);
    assert_eq!(api.get(&one("a")).await.expect(200).get("labels"), None);

    let at = json!({ "at": "2100-01-01T00:00:00Z" });
    api.post(SCHEDULES, labelled("once", at, &labels)).await.expect(201);
    api.post(&one("once/disable"), json!(null)).await.expect(200);
    assert_eq!(api.get(&one("once")).await.expect(200)["labels"], labels);
}

#[tokio::test]
async fn labels_that_are_wrong_are_refused() {
    let api = Api::new();
    let many = |count: usize| {
        let all: BTreeMap<_, _> = (0..count).map(|index| (format!("n{index}"), "")).collect();
        json!(all)
    };
    let long = |count: usize| "x".repeat(count);
    for (labels, field) in [
        (many(21), "labels"),
        (json!({ "": "x" }), "labels"),
        (json!({ "team:a": "x" }), "labels"),
        (json!({ "straße": "x" }), "labels"),
        (json!({ long(64): "x" }), "labels"),
        (json!({ "team": long(121) }), "labels.team"),
        (json!({ "team": "a\nb" }), "labels.team"),
    ] {
        let answer = api.post(SCHEDULES, labelled("a", nightly(), &labels)).await;
        assert_eq!((answer.status.as_u16(), answer.fields()), (422, vec![field]), "{labels}");
    }
    for labels in [many(20), json!({ long(63): "ü".repeat(120) })] {
        let mut body = definition(nightly());
        body["labels"] = labels;
        let status = api.put(&one("a"), body).await.status.as_u16();
        assert!(matches!(status, 200 | 201), "{status}");
    }
}

#[tokio::test]
async fn schedules_are_found_by_a_label() {
    let api = Api::new();
    let at = json!({ "at": "2100-01-01T00:00:00Z" });
    for (key, when, labels) in [
        ("a-mail", &nightly(), json!({ "team": "billing", "urgent": "" })),
        ("b", &nightly(), json!({ "team": "sales" })),
        ("c-mail", &at, json!({ "team": "billing" })),
        ("d", &at, json!({})),
        ("e", &nightly(), json!({ "team": "a:b", "body": "team" })),
    ] {
        api.post(SCHEDULES, labelled(key, when.clone(), &labels)).await.expect(201);
    }
    api.post(&one("b/disable"), json!(null)).await.expect(200);
    let list = async |query: &str| api.get(&format!("{SCHEDULES}?{query}")).await.expect(200);
    for (query, expected) in [
        ("label=team:billing", vec!["a-mail", "c-mail"]),
        ("label=team", vec!["a-mail", "b", "c-mail", "e"]),
        ("label=team:a:b", vec!["e"]),
        ("label=urgent:", vec!["a-mail"]),
        ("label=team:", vec![]),
        ("label=billing", vec![]),
        ("label=Team", vec![]),
        ("label=team&kind=once", vec!["c-mail"]),
        ("label=team&state=disabled", vec!["b"]),
        ("label=team&prefix=a", vec!["a-mail"]),
        ("label=team:billing&search=C-M", vec!["c-mail"]),
        ("label=team:sales&search=mail", vec![]),
    ] {
        let page = list(&format!("{query}&count=true")).await;
        assert_eq!((keys(&page), page.get("next")), (expected.clone(), None), "{query}");
        let total = json!({ "count": expected.len(), "at_least": false });
        assert_eq!(page["total"], total, "{query}");
    }
    for search in ["", "&search=mail"] {
        let paged = format!("{SCHEDULES}?label=team:billing&limit=1{search}");
        assert_eq!(all_keys(&api, &paged).await.0, ["a-mail", "c-mail"]);
    }
    for label in ["", ":x"] {
        let answer = api.get(&format!("{SCHEDULES}?label={label}")).await;
        assert_eq!((answer.status.as_u16(), answer.fields()), (422, vec!["label"]));
    }
}

/// A page with a label reads so many definitions, whether or not they have it.
#[tokio::test]
async fn a_label_that_few_schedules_have_continues_after_so_many() {
    let mut store = Memory::new(&Timer::global());
    let api = Api::with(store.connect().unwrap(), open());
    let of = |labels: Value| {
        let mut definition = definition(json!({ "at": "2100-01-01T00:00:00Z" }));
        definition["labels"] = labels;
        json!({ "definition": definition, "created": "2026-01-01T00:00:00Z" })
    };
    let (few, others) = (of(json!({ "few": "" })), of(json!({ "others": "" })));
    insert(&mut store, 16_400, |number| if number < 16_390 { &others } else { &few });
    let list = async |query: &str| api.get(&format!("{SCHEDULES}?{query}")).await.expect(200);
    let first = list("label=few&count=true").await;
    assert_eq!((keys(&first), &first["next"]), (vec![], &json!("k16383")));
    assert_eq!(first["total"], json!({ "count": 0, "at_least": true }));
    let second = list("label=few&cursor=k16383").await;
    assert_eq!((keys(&second).len(), keys(&second)[0]), (10, "k16390"));
    assert_eq!(second.get("next"), None);
    // So many names are found by a text, and each is looked up.
    let searched = list("label=few&search=k&cursor=k15000").await;
    assert_eq!((keys(&searched), &searched["next"]), (vec![], &json!("k16000")));
}
