//! Header values that are not shown, and secrets of the configuration that are named.

use axum::http::{Method, Request};
use serde_json::{Value, json};
use tourbillon_durable::store::ScheduleQuery;
use tourbillond::config::{App, Config};

use super::{Answer, Api, SCHEDULES, keyed, nightly, one, open};

/// Text that an answer has in place of a value.
const MASK: &str = "••••••••";

/// Two apps with a secret each, for one host.
fn config() -> Config {
    let app = |secret: &str| -> App {
        let own = json!({ "value": "Bearer of-the-configuration", "hosts": ["hooks.example.com"] });
        serde_json::from_value(json!({ "header_secrets": { secret: own } })).unwrap()
    };
    let mut config = open();
    config.apps.insert("default".to_owned(), app("ledger"));
    config.apps.insert("other".to_owned(), app("of-other"));
    config
}

fn api() -> Api {
    Api::of(config())
}

/// A schedule with a header.
fn with(key: &str, name: &str, value: impl Into<Value>) -> Value {
    let mut definition = keyed(key, nightly());
    definition["callback"]["headers"] = json!({ name: value.into() });
    definition
}

/// Returns the definition to put, without its key.
fn without_key(mut definition: Value) -> Value {
    definition.as_object_mut().unwrap().remove("key");
    definition
}

/// Returns the stored text of each schedule.
async fn kept(api: &Api) -> String {
    let rows = api.service.client.schedules(ScheduleQuery::new()).await;
    let payloads = rows.unwrap().into_iter().map(|row| String::from_utf8(row.payload).unwrap());
    payloads.collect()
}

fn headers(answer: Value) -> Value {
    answer["callback"]["headers"].clone()
}

#[tokio::test]
async fn values_of_sensitive_headers_are_in_no_answer() {
    let api = api();
    let names = [
        "Authorization",
        "authorization",
        "Cookie",
        "X-Api-Key",
        "X-ApiKey",
        "Ocp-Apim-Subscription-Key",
        "X-Auth",
        "X-Gitlab-Token",
        "Client-Secret",
        "X-Password",
        "X-Hub-Signature-256",
        "X-Session-Id",
    ];
    for (index, name) in names.iter().enumerate() {
        let key = format!("k{index}");
        let wanted = with(&key, name, "Bearer hunter2");
        for answer in [
            api.post(SCHEDULES, wanted.clone()).await,
            api.put(&one(&key), without_key(wanted)).await,
            api.get(&one(&key)).await,
        ] {
            assert!(answer.status.is_success(), "{answer:?}");
            assert_eq!(headers(answer.body), json!({ *name: MASK }), "{name}");
        }
    }
    let list = api.get(SCHEDULES).await.expect(200).to_string();
    assert!(!list.contains("hunter2"), "{list}");
    // Others are shown as they are.
    for name in ["X-Team", "Content-Type", "User-Agent", "X-Author", "X-Monkey"] {
        let wanted = with(&name.to_lowercase(), name, "ops");
        let made = api.post(SCHEDULES, wanted).await.expect(201);
        assert_eq!(headers(made), json!({ name: "ops" }));
    }
    // One-shots too, also once they are over.
    let mut once = with("once", "Authorization", "Bearer hunter2");
    once["when"] = json!({ "at": "2100-01-01T00:00:00Z" });
    let made = api.post(SCHEDULES, once).await.expect(201);
    assert_eq!(headers(made), json!({ "Authorization": MASK }));
    api.delete(&one("once")).await.expect(200);
    let over = api.get(&one("once")).await;
    assert!(!over.body.to_string().contains("hunter2"), "{over:?}");
}

#[tokio::test]
async fn a_masked_value_that_is_sent_back_is_kept() {
    let api = api();
    let made = api.post(SCHEDULES, with("a", "Authorization", "Bearer hunter2")).await.expect(201);
    let put = async |when: &Value, headers: &Value| {
        let mut definition = json!({ "when": when, "callback": made["callback"] });
        definition["callback"]["headers"] = headers.clone();
        api.put(&one("a"), definition).await.expect(200)
    };
    let (when, shown) = (&made["when"], &made["callback"]["headers"]);
    // As it was shown: nothing changes.
    assert_eq!(put(when, shown).await, made);
    let moved = put(&json!({ "every": "1h" }), shown).await;
    assert_eq!((&moved["callback"]["headers"], &moved["version"]), (shown, &json!(2)));
    assert!(kept(&api).await.contains("Bearer hunter2"));
    // Names of headers are the same in large and small letters.
    put(when, &json!({ "authorization": MASK })).await;
    assert!(kept(&api).await.contains("Bearer hunter2"));
    // Another value replaces it, and a header that is left out is removed.
    put(when, &json!({ "Authorization": "Bearer other" })).await;
    let text = kept(&api).await;
    assert!(text.contains("Bearer other") && !text.contains("hunter2"), "{text}");
    put(when, &json!({})).await;
    assert!(!kept(&api).await.contains("Bearer other"));
}

#[tokio::test]
async fn a_masked_value_is_kept_for_the_host_it_was_given_for_alone() {
    let api = api();
    let made = api.post(SCHEDULES, with("a", "Authorization", "Bearer hunter2")).await.expect(201);
    let put = async |url: &str| {
        let mut callback = made["callback"].clone();
        callback["url"] = url.into();
        api.put(&one("a"), json!({ "when": made["when"], "callback": callback })).await
    };
    for url in [
        "https://thief.example.net/x",
        "https://example.com/x",
        "http://hooks.example.com/x",
        "https://hooks.example.com:444/x",
    ] {
        let refused = put(url).await;
        assert_eq!(refused.fields(), ["callback.headers.Authorization"], "{url}");
        refused.expect(422);
    }
    put("https://hooks.example.com/elsewhere?a=b").await.expect(200);
    assert!(kept(&api).await.contains("Bearer hunter2"));
}

#[tokio::test]
async fn a_mask_without_a_value_to_keep_is_refused() {
    let api = api();
    let refused = |answer: Answer, field: &str| {
        assert_eq!(answer.fields(), [field], "{answer:?}");
        answer.expect(422);
    };
    let auth = "callback.headers.Authorization";
    refused(api.post(SCHEDULES, with("a", "Authorization", MASK)).await, auth);
    let put = without_key(with("a", "Authorization", MASK));
    refused(api.put(&one("a"), put).await, auth);
    api.post(SCHEDULES, with("a", "X-Team", "ops")).await.expect(201);
    let put = without_key(with("a", "Authorization", MASK));
    refused(api.put(&one("a"), put).await, auth);
    assert_eq!(headers(api.get(&one("a")).await.expect(200)), json!({ "X-Team": "ops" }));
}

#[tokio::test]
async fn a_secret_is_named_and_its_value_is_nowhere() {
    let api = api();
    let named = json!({ "secret": "ledger" });
    let wanted = with("a", "Authorization", named.clone());
    let made = api.post(SCHEDULES, wanted.clone()).await.expect(201);
    assert_eq!(headers(made.clone()), json!({ "Authorization": named }));
    assert_eq!(api.post(SCHEDULES, wanted.clone()).await.expect(200), made);
    assert_eq!(api.put(&one("a"), without_key(wanted)).await.expect(200), made);
    // Its text elsewhere is a value like any other.
    api.post(SCHEDULES, with("b", "X-Team", "${secret:ledger} {{secret}}")).await.expect(201);
    let kept = kept(&api).await;
    assert!(kept.contains("${secret:ledger} {{secret}}"), "{kept}");
    assert!(!kept.contains("of-the-configuration"), "{kept}");
    let apps = api.get("/v1/apps").await.expect(200);
    assert_eq!(apps[0]["header_secrets"], json!(["ledger"]));
    assert!(!apps.to_string().contains("of-the-configuration"));
}

#[tokio::test]
async fn a_secret_is_for_its_app_and_its_hosts_alone() {
    let api = api();
    let field = ["callback.headers.Authorization"];
    let named = |secret: &str, url: &str| {
        let mut definition = with("a", "Authorization", json!({ "secret": secret }));
        definition["callback"]["url"] = url.into();
        definition
    };
    let good = "https://hooks.example.com/x";
    for (secret, url) in [
        ("nothing", good),
        ("of-other", good),
        ("Ledger", good),
        ("ledger", "https://thief.example.net/x"),
        ("ledger", "https://a.hooks.example.com/x"),
        ("ledger", "https://hooks.example.com.example.net/x"),
        // Not in clear.
        ("ledger", "http://hooks.example.com/x"),
    ] {
        let answer = api.post(SCHEDULES, named(secret, url)).await;
        assert_eq!(answer.fields(), field, "{secret} {url}: {answer:?}");
        answer.expect(422);
        let put = without_key(named(secret, url));
        api.put(&one("a"), put).await.expect(422);
    }
    let other = "/v1/apps/other/schedules";
    assert_eq!(api.post(other, named("ledger", good)).await.fields(), field);
    api.post(other, named("of-other", good)).await.expect(201);
    api.post(SCHEDULES, named("ledger", good)).await.expect(201);
    for wrong in [
        json!(null),
        json!({}),
        json!({ "secret": 5 }),
        json!({ "secret": "ledger", "value": "x" }),
        json!(["a"]),
        json!(7),
    ] {
        let answer = api.post(SCHEDULES, with("b", "Authorization", wrong.clone())).await;
        assert_eq!(answer.status, 422, "{wrong}: {answer:?}");
        assert!(answer.fields()[0].starts_with(field[0]), "{wrong}: {answer:?}");
    }
}

#[tokio::test]
async fn a_timer_of_xtimer_is_masked_and_keeps_its_values_when_it_is_sent_back() {
    let api = api();
    const DEF: &str = "/api/timer/v1/def";
    let mut timer = json!({
        "app": "default", "name": "n", "creator": "ann", "status": 1, "cron": "30 2 * * *",
        "notifyHTTPParam": {
            "method": "POST", "url": "https://hooks.example.com/x",
            "header": { "Authorization": ["Bearer hunter2"], "X-A": ["1", "2"] },
        }
    });
    let id = api.post(DEF, timer.clone()).await.expect(200)["id"].as_u64().unwrap();
    let masked = json!({ "Authorization": [MASK], "X-A": ["1", "2"] });
    let shown = api.get(&format!("{DEF}?id={id}")).await.expect(200);
    assert_eq!(shown["data"]["notifyHTTPParam"]["header"], masked);
    let list = api.get("/api/timer/v1/defs?app=default").await.expect(200);
    assert_eq!(list["data"][0]["notifyHTTPParam"]["header"], masked);
    let ours = api.get(&one(&format!("xtimer.{id}"))).await.expect(200);
    assert_eq!(headers(ours), json!({ "Authorization": MASK, "X-A": "1, 2" }));
    // As it was shown, but for the method.
    let mut back = shown["data"].clone();
    back["notifyHTTPParam"]["method"] = json!("PUT");
    let done = api.call(Method::PATCH, DEF, back.clone()).await.expect(200);
    assert_eq!(done["code"], 0, "{done}");
    let text = kept(&api).await;
    assert!(text.contains("Bearer hunter2") && !text.contains(MASK), "{text}");
    // And only a name.
    api.call(Method::PATCH, DEF, json!({ "id": id, "name": "m" })).await.expect(200);
    let text = kept(&api).await;
    assert!(text.contains("Bearer hunter2") && !text.contains(MASK), "{text}");
    // Not for another host, and not for a new timer.
    back["notifyHTTPParam"]["url"] = json!("https://thief.example.net/");
    assert_eq!(api.call(Method::PATCH, DEF, back).await.body["code"], -1);
    timer["notifyHTTPParam"]["header"] = masked;
    assert_eq!(api.post(DEF, timer).await.body["code"], -1);
}

#[tokio::test]
async fn the_document_tells_of_masks_and_secrets() {
    let api = api();
    let request = Request::get("/v1/openapi.json").body(axum::body::Body::empty()).unwrap();
    let document = api.send(request).await.expect(200);
    let schemas = &document["components"]["schemas"];
    let header = &schemas["Header"];
    assert_eq!(header["oneOf"].as_array().map(Vec::len), Some(2), "{header}");
    assert!(header.to_string().contains(MASK), "{header}");
    let headers = &schemas["Callback"]["properties"]["headers"];
    assert!(headers.to_string().contains("#/components/schemas/Header"), "{headers}");
}
