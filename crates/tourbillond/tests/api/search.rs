//! Search in a list of schedules, and totals.

use serde_json::json;
use tourbillon::Timer;
use tourbillon_durable::store::{Memory, Store as _};

use super::{
    Api, SCHEDULES, all_keys, definition, end_run, insert, keyed, keys, nightly, one, open,
};

/// Two schedules and two one-shots; one of each is disabled.
async fn filled() -> Api {
    let api = Api::new();
    let at = json!({ "at": "2100-01-01T00:00:00Z" });
    for (key, when) in [
        ("Mail-nightly", &nightly()),
        ("mail-once", &at),
        ("report:MAIL", &nightly()),
        ("z.email", &at),
        ("backup", &nightly()),
    ] {
        api.post(SCHEDULES, keyed(key, when.clone())).await.expect(201);
    }
    for key in ["report:MAIL", "z.email"] {
        api.post(&one(&format!("{key}/disable")), json!(null)).await.expect(200);
    }
    api
}

#[tokio::test]
async fn schedules_are_found_by_a_part_of_their_key() {
    let api = filled().await;
    let list = async |query: &str| api.get(&format!("{SCHEDULES}?{query}")).await.expect(200);
    let all = ["Mail-nightly", "mail-once", "report:MAIL", "z.email"];
    for text in ["mail", "MAIL", "aIl"] {
        let page = list(&format!("search={text}")).await;
        assert_eq!((keys(&page), page.get("next")), (all.to_vec(), None), "{text}");
    }
    // The items equal a list without a search.
    let whole = list("").await;
    let found = list("search=mail").await;
    assert_eq!(found["items"][0], whole["items"][0]);
    // Neither the app's name nor a pattern is found.
    for text in ["default", "%25", "mail_once", "none", "ma%C3%AFl"] {
        assert_eq!(keys(&list(&format!("search={text}")).await), [""; 0], "{text}");
    }
    assert_eq!(keys(&list("search=mail&kind=once").await), ["mail-once", "z.email"]);
    assert_eq!(keys(&list("search=mail&kind=repeated").await), ["Mail-nightly", "report:MAIL"]);
    assert_eq!(keys(&list("search=mail&state=enabled").await), ["Mail-nightly"]);
    assert_eq!(keys(&list("search=mail&state=disabled").await), ["report:MAIL", "z.email"]);
    assert_eq!(keys(&list("search=mail&state=pending").await), ["mail-once"]);
    assert_eq!(keys(&list("search=mail&state=running").await), [""; 0]);
    assert_eq!(keys(&list("search=once&prefix=mail").await), ["mail-once"]);

    let (found, pages) = all_keys(&api, &format!("{SCHEDULES}?search=mail&limit=1")).await;
    assert_eq!((found.iter().map(String::as_str).collect(), pages), (all.to_vec(), 4));
}

#[tokio::test]
async fn a_list_has_a_total_if_it_is_asked_for() {
    let api = filled().await;
    let total = async |query: &str| {
        let page = api.get(&format!("{SCHEDULES}?limit=1&{query}")).await.expect(200);
        assert_eq!(page.get("total").is_some(), query.contains("count=true"), "{query}");
        page["total"]["count"].as_u64()
    };
    for (query, expected) in [
        ("count=true", Some(5)),
        ("count=true&cursor=mail-once", Some(5)),
        ("count=true&search=mail", Some(4)),
        ("count=true&search=mail&state=disabled", Some(2)),
        ("count=true&state=enabled", Some(2)),
        ("count=true&state=pending", Some(1)),
        ("count=true&state=disabled&kind=once", Some(1)),
        ("count=true&state=running", Some(0)),
        ("count=true&kind=repeated&prefix=ma", Some(0)),
        ("count=false", None),
        ("search=mail", None),
    ] {
        assert_eq!(total(query).await, expected, "{query}");
    }
    let page = api.get(&format!("{SCHEDULES}?count=true")).await.expect(200);
    assert_eq!(page["total"], json!({ "count": 5, "at_least": false }));
}

#[tokio::test]
async fn a_text_that_is_empty_or_too_long_is_refused() {
    let api = Api::new();
    for text in [String::new(), "x".repeat(101)] {
        let answer = api.get(&format!("{SCHEDULES}?search={text}")).await;
        assert_eq!((answer.status.as_u16(), answer.fields()), (422, vec!["search"]));
    }
    api.get(&format!("{SCHEDULES}?search={}", "x".repeat(100))).await.expect(200);
    api.get(&format!("{SCHEDULES}?count=maybe")).await.expect(400);
}

/// A search reads so many schedules and one-shots of each page, whether or not they fit.
#[tokio::test]
async fn a_search_that_few_keys_fit_continues_after_so_many() {
    let mut store = Memory::new(&Timer::global());
    let api = Api::with(store.connect().unwrap(), open());
    let payload = json!({
        "definition": definition(json!({ "at": "2100-01-01T00:00:00Z" })),
        "created": "2026-01-01T00:00:00Z",
    });
    insert(&mut store, 20_050, |_| &payload);
    let list = async |query: &str| api.get(&format!("{SCHEDULES}?{query}")).await.expect(200);
    let first = list("search=k2004&count=true").await;
    assert_eq!((keys(&first), &first["next"]), (vec![], &json!("k19999")));
    assert_eq!(first["total"], json!({ "count": 0, "at_least": true }));
    let second = list("search=k2004&cursor=k19999").await;
    assert_eq!((keys(&second).len(), keys(&second)[0]), (10, "k20040"));
    assert_eq!(second.get("next"), None);
}

#[tokio::test]
async fn runs_are_found_by_a_part_of_their_key() {
    let api = filled().await;
    let mut fires = api.service.worker("http.default", 1).unwrap();
    for key in ["Mail-nightly", "backup", "Mail-nightly"] {
        api.post(&one(&format!("{key}/run-now")), json!(null)).await.expect(200);
        end_run(&mut fires, (key == "backup").then_some("")).await;
    }
    let list =
        async |query: &str| api.get(&format!("/v1/apps/default/runs?{query}")).await.expect(200);
    assert_eq!(keys(&list("search=mAIL").await), ["Mail-nightly"; 2]);
    assert_eq!(keys(&list("search=mail&state=succeeded").await), [""; 0]);
    assert_eq!(keys(&list("search=backup&state=succeeded").await), ["backup"]);
    let pending = ["mail-once", "z.email"];
    assert_eq!(keys(&list("search=mail&state=pending").await), pending);
    assert_eq!(keys(&list("search=once&state=pending").await), pending[..1]);
    assert_eq!(keys(&list("search=%25").await), [""; 0]);
    let first = list("search=mail&limit=1").await;
    let next = format!("search=mail&limit=1&cursor={}", first["next"].as_str().unwrap());
    assert_ne!(list(&next).await["items"][0]["id"], first["items"][0]["id"]);
    assert_eq!(api.get("/v1/apps/default/runs?search=").await.fields(), ["search"]);
}
