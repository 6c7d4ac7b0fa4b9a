//! Attempts that are answered 202, and completed by a call.

use axum::Router;
use axum::body::Body;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tourbillon_durable::store::{Sqlite, TimerUpdate};
use tower::ServiceExt as _;

use super::times::put;
use super::*;
use crate::config::Secret;

/// An app that signs, so that its callbacks can be completed.
fn signs() -> App {
    App { secrets: vec![Secret("a secret of the app".to_owned())], ..app(8) }
}

fn definition(receiver: &Receiver, path: &str, within: &str) -> Value {
    json!({
        "when": { "at": "2020-01-01T00:00:00Z" },
        "callback": { "url": receiver.url(1, path), "complete_within": within },
        "retry": { "attempts": 2, "first": "1s" },
    })
}

/// A service with an attempt that waits, and the receiver that said so.
async fn waiting(attempts: u32) -> (Receiver, Arc<Service>, Completes) {
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", signs())]));
    let mut once = definition(&receiver, "202", "1h");
    once["retry"]["attempts"] = json!(attempts);
    put(&service, "one", once).await;
    let completes = Completes::of(&receiver.next().await);
    run_in(&service, &completes, "waiting").await;
    (receiver, service, completes)
}

/// Time after which a test fails if an event does not come.
const HANGS: Duration = Duration::from_secs(60);

/// Call that a receiver makes.
#[derive(Clone, Debug)]
struct Completes {
    path: String,
    token: String,
}

impl Completes {
    fn of(call: &Call) -> Self {
        let header = |name: &str| call.headers[name].to_str().unwrap().to_owned();
        let token = header("tourbillon-completion-token");
        Self { path: header("tourbillon-completion-path"), token }
    }

    /// Makes the call. Returns the status and the body of its answer.
    async fn send(&self, service: &Arc<Service>, call: Value) -> (u16, Value) {
        let request = hyper::Request::post(&self.path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", self.token));
        asked(service, request.body(Body::from(call.to_string())).unwrap()).await
    }
}

async fn asked(service: &Arc<Service>, request: hyper::Request<Body>) -> (u16, Value) {
    let router: Router = crate::routes::router(service.clone());
    let answer = router.oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn get(service: &Arc<Service>, path: &str) -> Value {
    let request = hyper::Request::get(path).header("host", "localhost");
    asked(service, request.body(Body::empty()).unwrap()).await.1
}

/// Returns the run of a completion, once it is in this state.
async fn run_in(service: &Arc<Service>, of: &Completes, state: &str) -> Value {
    let path = of.path.split("/attempts/").next().unwrap();
    let is_in = until(async || get(service, path).await["state"] == state);
    let came = service.timer.timeout(HANGS, is_in).await;
    let run = get(service, path).await;
    assert!(came.is_ok(), "it is not {state}: {run:#}");
    run
}

async fn listed(service: &Arc<Service>, state: &str) -> usize {
    let page = get(service, &format!("/v1/apps/a/runs?state={state}")).await;
    page["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn an_attempt_that_waits_succeeds_by_a_call_and_a_repeat_says_the_same() {
    let (mut receiver, service, completes) = waiting(2).await;
    let run = run_in(&service, &completes, "waiting").await;
    let waits = &run["ended_attempts"][0];
    assert_eq!((&waits["status"], &waits["completion"]["state"]), (&json!(202), &json!("waiting")));
    assert!(run["due"].as_str() > waits["completion"]["until"].as_str(), "{run}");
    assert_eq!((run["failures"].as_u64(), run["attempts"].as_u64()), (Some(0), Some(1)));
    // Neither in the request nor in the echoing answer.
    assert_eq!(waits["answer"], format!("this is 202{}", model::MASK));
    assert!(!run.to_string().contains(&completes.token), "{run}");
    assert_eq!((listed(&service, "waiting").await, listed(&service, "pending").await), (1, 0));

    let done = json!({ "outcome": "succeeded", "text": "42 rows" });
    let first = completes.send(&service, done.clone()).await;
    assert_eq!((first.0, &first.1["outcome"]), (200, &json!("succeeded")), "{first:?}");
    // Whether the end is recorded yet or not.
    assert_eq!(completes.send(&service, done.clone()).await, first);
    let run = run_in(&service, &completes, "succeeded").await;
    let completion = &run["ended_attempts"][0]["completion"];
    assert_eq!(
        (&completion["state"], &completion["text"]),
        (&json!("succeeded"), &json!("42 rows"))
    );
    assert_eq!(run["failures"], 0);
    assert_eq!(completes.send(&service, done).await, first);
    let (status, why) = completes.send(&service, json!({ "outcome": "failed" })).await;
    assert_eq!(status, 409, "{why}");
    assert_eq!(run_in(&service, &completes, "succeeded").await, run);
    assert!(receiver.calls.try_recv().is_err());
    service.stop().await;
}

#[tokio::test]
async fn an_attempt_that_is_completed_as_failed_is_tried_again_until_the_last() {
    let (mut receiver, service, first) = waiting(2).await;
    // As long as it may be.
    let text = "ü".repeat(200);
    let failed = json!({ "outcome": "failed", "text": text });
    assert_eq!(first.send(&service, failed.clone()).await.0, 200);
    let second = Completes::of(&receiver.next().await);
    assert_ne!(second.token, first.token);
    // A repeat for the first says the same, and does nothing to the second.
    assert_eq!(first.send(&service, failed.clone()).await.0, 200);
    assert_eq!(first.send(&service, json!({ "outcome": "succeeded" })).await.0, 409);
    run_in(&service, &second, "waiting").await;
    assert_eq!(second.send(&service, failed).await.0, 200);
    let run = run_in(&service, &second, "dead").await;
    assert_eq!((&run["failures"], &run["reason"]), (&json!(2), &json!("failed")));
    for attempt in run["ended_attempts"].as_array().unwrap() {
        assert_eq!(attempt["error"], format!("completed as failed: {text}"));
        assert_eq!(attempt["completion"]["state"], "failed");
    }
    service.stop().await;
}

#[tokio::test]
async fn an_attempt_that_is_not_completed_in_time_failed_and_a_late_call_changes_nothing() {
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", signs())]));
    put(&service, "one", definition(&receiver, "202", "1s")).await;
    let first = Completes::of(&receiver.next().await);
    let second = Completes::of(&receiver.next().await);
    let done = json!({ "outcome": "succeeded" });
    let (status, why) = first.send(&service, done.clone()).await;
    assert_eq!(status, 410, "{why}");
    let run = run_in(&service, &second, "dead").await;
    assert_eq!((&run["failures"], &run["reason"]), (&json!(2), &json!("failed")));
    for attempt in run["ended_attempts"].as_array().unwrap() {
        let error = "answered 202, and was not completed in time";
        assert_eq!((&attempt["error"], &attempt["status"]), (&json!(error), &json!(202)));
        assert_eq!(attempt["completion"]["state"], "expired");
    }
    for late in [&first, &second] {
        assert_eq!(late.send(&service, done.clone()).await.0, 410);
    }
    assert_eq!(run_in(&service, &second, "dead").await, run);
    service.stop().await;
}

#[tokio::test]
async fn a_receiver_that_is_still_working_has_the_time_anew() {
    let (_receiver, service, completes) = waiting(2).await;
    let until = |run: &Value| run["ended_attempts"][0]["completion"]["until"].clone();
    let before = until(&run_in(&service, &completes, "waiting").await);
    let (status, answer) = completes.send(&service, json!({ "outcome": "working" })).await;
    assert_eq!((status, &answer["outcome"]), (200, &json!("working")));
    assert!(answer["until"].as_str() > before.as_str(), "{answer} {before}");
    assert_eq!(until(&run_in(&service, &completes, "waiting").await), answer["until"]);
    let done = completes.send(&service, json!({ "outcome": "succeeded" })).await;
    assert_eq!(done.0, 200);
    // A finished attempt works no longer.
    assert_eq!(completes.send(&service, json!({ "outcome": "working" })).await.0, 409);
    run_in(&service, &completes, "succeeded").await;
    service.stop().await;
}

#[tokio::test]
async fn no_other_token_completes_and_each_is_refused_alike() {
    let apps = [("a", signs()), ("b", app(8))];
    let (mut receiver, service) = (Receiver::start().await, service(&apps));
    for key in ["one", "other"] {
        put(&service, key, definition(&receiver, "202", "1h")).await;
    }
    let one = Completes::of(&receiver.next().await);
    let other = Completes::of(&receiver.next().await);
    let at = |path: String| Completes { path, ..one.clone() };
    let mut refusals = Vec::new();
    for wrong in [
        Completes { token: other.token.clone(), ..one.clone() },
        Completes { token: "a secret of the app".to_owned(), ..one.clone() },
        Completes { token: String::new(), ..one.clone() },
        at(one.path.replace("/attempts/1/", "/attempts/2/")),
        at(one.path.replace("/apps/a/", "/apps/b/")),
        at(one.path.replace("/apps/a/", "/apps/none/")),
        at("/v1/apps/a/runs/no-run/attempts/1/completion".to_owned()),
    ] {
        refusals.push(wrong.send(&service, json!({ "outcome": "succeeded" })).await);
    }
    assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{refusals:?}");
    assert_eq!(refusals[0].0, 401);
    for of in [&one, &other] {
        run_in(&service, of, "waiting").await;
    }
    service.stop().await;
}

#[tokio::test]
async fn another_node_completes_what_a_node_left_that_is_gone() {
    let mut receiver = Receiver::start().await;
    let folder = tempfile::tempdir().unwrap();
    let node = || {
        let timer = Timer::global();
        let store = Box::new(Sqlite::open(folder.path().join("timers")).unwrap());
        let service = Service::start(store, config(&[("a", signs())]), &timer).unwrap();
        start(&service);
        service
    };
    let first = node();
    put(&first, "one", definition(&receiver, "202", "1h")).await;
    let completes = Completes::of(&receiver.next().await);
    run_in(&first, &completes, "waiting").await;
    first.stop().await;
    let second = node();
    run_in(&second, &completes, "waiting").await;
    let done = completes.send(&second, json!({ "outcome": "succeeded" })).await;
    assert_eq!(done.0, 200, "{done:?}");
    let run = run_in(&second, &completes, "succeeded").await;
    assert_eq!(run["node"], second.node().to_string());
    assert!(receiver.calls.try_recv().is_err());
    second.stop().await;
}

#[tokio::test]
async fn what_is_cancelled_or_disabled_while_it_waits_is_over_for_its_receiver() {
    let (mut receiver, service, one) = waiting(2).await;
    let mut all = vec![one];
    let mut repeated = definition(&receiver, "202", "1h");
    for key in ["disabled", "paused", "moved", "changed"] {
        repeated["when"] = json!({ "every": "8640000s" });
        put(&service, key, repeated.clone()).await;
        service.catalog.run_now("a", key).await.unwrap();
        all.push(Completes::of(&receiver.next().await));
    }
    for of in &all {
        run_in(&service, of, "waiting").await;
    }
    let catalog = &service.catalog;
    catalog.remove("a", "one").await.unwrap();
    catalog.switch("a", "disabled", false).await.unwrap();
    let later = service.client.now().await.unwrap() + Duration::from_secs(3_600);
    catalog.pause("a", "paused", later).await.unwrap();
    // A schedule with unchanged times continues, whatever else is another.
    repeated["callback"]["url"] = json!(receiver.url(1, "204"));
    put(&service, "changed", repeated.clone()).await;
    repeated["when"] = json!({ "every": "8640001s" });
    put(&service, "moved", repeated).await;
    let changed = all.pop().unwrap();
    for of in &all {
        let (status, why) = of.send(&service, json!({ "outcome": "succeeded" })).await;
        assert_eq!(status, 410, "{why}");
        run_in(&service, of, "cancelled").await;
    }
    run_in(&service, &changed, "waiting").await;
    assert_eq!(changed.send(&service, json!({ "outcome": "succeeded" })).await.0, 200);
    run_in(&service, &changed, "succeeded").await;
    assert!(receiver.calls.try_recv().is_err());
    service.stop().await;
}

#[tokio::test]
async fn a_wait_whose_end_no_node_was_there_for_is_over_for_its_receiver() {
    let mut receiver = Receiver::start().await;
    let store = Memory::new(&Timer::global());
    let node = || {
        let apps = [("a", signs())];
        Service::start(store.connect().unwrap(), config(&apps), &Timer::global()).unwrap()
    };
    let first = node();
    start(&first);
    let mut once = definition(&receiver, "202", "1h");
    once["retry"] = json!({ "attempts": 1 });
    put(&first, "one", once).await;
    let completes = Completes::of(&receiver.next().await);
    run_in(&first, &completes, "waiting").await;
    // As if it had stood still until after the end.
    waits_until(&first, "2020-01-01T00:00:00Z", Duration::from_secs(3_600)).await;
    first.stop().await;
    let second = node();
    let (status, why) = completes.send(&second, json!({ "outcome": "succeeded" })).await;
    assert_eq!(status, 410, "{why}");
    waits_until(&second, "2020-01-01T00:00:00Z", Duration::ZERO).await;
    start(&second);
    let run = run_in(&second, &completes, "dead").await;
    assert_eq!(states(&run), ["expired"]);
    second.stop().await;
}

#[tokio::test]
async fn a_schedule_has_an_unfinished_run_while_it_waits_and_has_succeeded_after() {
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", signs())]));
    let mut alone = definition(&receiver, "202", "1h");
    alone["when"] = json!({ "every": "8640000s" });
    (alone["overlap"], alone["success_within"]) = (json!("skip"), json!("2400h"));
    alone["notify"] = json!({ "url": receiver.url(1, "200") });
    put(&service, "alone", alone).await;
    let due = async || service.catalog.watch("a", "alone").await.unwrap().unwrap().due();
    let before = due().await;
    service.catalog.run_now("a", "alone").await.unwrap();
    let completes = Completes::of(&receiver.next().await);
    run_in(&service, &completes, "waiting").await;
    let busy = service.catalog.run_now("a", "alone").await.unwrap_err();
    assert!(busy.to_string().contains("unfinished"), "{busy}");
    assert_eq!(due().await, before);
    assert_eq!(completes.send(&service, json!({ "outcome": "succeeded" })).await.0, 200);
    run_in(&service, &completes, "succeeded").await;
    assert!(due().await > before);
    service.catalog.run_now("a", "alone").await.unwrap();
    assert_eq!(receiver.next().await.path, "202");
    service.stop().await;
}

#[tokio::test]
async fn a_run_that_waits_keeps_its_lane_and_takes_no_place_of_the_app() {
    let one = App { limits: model::AppLimits { concurrent: 1, ..app(1).limits }, ..signs() };
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", one)]));
    let inside = |path: &str| {
        let mut definition = definition(&receiver, path, "1h");
        definition["lane"] = json!("l");
        definition
    };
    let (first, next) = (inside("202"), inside("200"));
    let free = definition(&receiver, "204", "1h");
    put(&service, "first", first).await;
    let completes = Completes::of(&receiver.next().await);
    run_in(&service, &completes, "waiting").await;
    put(&service, "next", next).await;
    put(&service, "free", free).await;
    // The one place of the app is free, and the lane is not.
    assert_eq!(receiver.next().await.path, "204");
    records(&service, 1).await;
    assert!(receiver.calls.try_recv().is_err());
    run_in(&service, &completes, "waiting").await;
    assert_eq!(completes.send(&service, json!({ "outcome": "succeeded" })).await.0, 200);
    assert_eq!(receiver.next().await.path, "200");
    service.stop().await;
}

#[tokio::test]
async fn a_run_that_is_given_another_time_while_it_waits_is_sent_anew() {
    let (mut receiver, service, first) = waiting(2).await;
    service.catalog.run_now("a", "one").await.unwrap();
    let second = Completes::of(&receiver.next().await);
    let run = run_in(&service, &second, "waiting").await;
    assert_eq!(first.send(&service, json!({ "outcome": "succeeded" })).await.0, 410);
    assert_eq!((&run["failures"], states(&run)), (&json!(0), vec!["superseded", "waiting"]));
    put(&service, "one", definition(&receiver, "200", "2h")).await;
    assert_eq!(receiver.next().await.path, "200");
    assert_eq!(second.send(&service, json!({ "outcome": "succeeded" })).await.0, 410);
    run_in(&service, &second, "succeeded").await;
    service.stop().await;
}

/// Returns the states of the completions of a run's attempts.
fn states(run: &Value) -> Vec<&str> {
    let attempts = run["ended_attempts"].as_array().unwrap().iter();
    attempts.map(|attempt| attempt["completion"]["state"].as_str().unwrap_or("none")).collect()
}

#[tokio::test]
async fn a_one_shot_that_is_disabled_while_it_waits_stays_so_whatever_its_receiver_says() {
    let (mut receiver, service, first) = waiting(2).await;
    service.catalog.switch("a", "one", false).await.unwrap();
    for outcome in ["working", "succeeded", "failed"] {
        let (status, why) = first.send(&service, json!({ "outcome": outcome })).await;
        assert_eq!(status, 410, "{why}");
    }
    let run = run_in(&service, &first, "pending").await;
    assert_eq!((&run["due"], states(&run)), (&Value::Null, vec!["waiting"]));
    assert!(receiver.calls.try_recv().is_err());
    // Enabled, it is sent, and the wait before is no failure.
    service.catalog.switch("a", "one", true).await.unwrap();
    let second = Completes::of(&receiver.next().await);
    let run = run_in(&service, &second, "waiting").await;
    assert_eq!((&run["failures"], states(&run)), (&json!(0), vec!["superseded", "waiting"]));
    service.stop().await;
}

/// Sets the end of the wait of the only run, and when it is due, as if time or a clock had moved.
async fn waits_until(service: &Arc<Service>, until: &str, pause: Duration) {
    let query = TimerQuery::new().kind("http.a");
    let timer = service.client.timers(query).await.unwrap().remove(0);
    let definition = serde_json::from_slice::<Stored>(&timer.new.payload).unwrap().definition;
    let mut open = callback::open(&timer.detail, &definition, timer.version).unwrap();
    open.completion.as_mut().unwrap().until = until.to_owned();
    let closed = callback::closed(&timer.detail, &open);
    let detail = callback::opened(&closed, &definition, timer.version + 1);
    let done = service.client.amend(&timer, detail, pause).await.unwrap();
    assert_eq!(done, TimerUpdate::Done);
}

#[tokio::test]
async fn a_one_shot_that_is_put_again_while_it_waits_is_sent_at_its_new_time() {
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", signs())]));
    let mut after = definition(&receiver, "202", "1h");
    (after["when"], after["retry"]) = (json!({ "after": "1s" }), json!({ "attempts": 1 }));
    put(&service, "one", after.clone()).await;
    let first = Completes::of(&receiver.next().await);
    run_in(&service, &first, "waiting").await;
    // So the wait is over by the new time.
    waits_until(&service, "2020-01-01T00:00:00Z", Duration::from_secs(3_600)).await;
    put(&service, "one", after).await;
    let second = Completes::of(&receiver.next().await);
    let run = run_in(&service, &second, "waiting").await;
    assert_eq!(first.send(&service, json!({ "outcome": "succeeded" })).await.0, 410);
    assert_eq!((&run["failures"], states(&run)), (&json!(0), vec!["superseded", "waiting"]));
    service.stop().await;
}

#[tokio::test]
async fn a_wait_is_over_when_its_timer_is_due_also_by_a_clock_that_steps_back() {
    let (mut receiver, service, completes) = waiting(1).await;
    waits_until(&service, "2199-01-01T00:00:00Z", Duration::ZERO).await;
    let run = run_in(&service, &completes, "dead").await;
    assert_eq!((&run["failures"], states(&run)), (&json!(1), vec!["expired"]));
    assert!(receiver.calls.try_recv().is_err());
    service.stop().await;
}

#[tokio::test]
async fn the_secret_of_a_header_and_the_token_in_the_text_of_a_call_are_not_kept() {
    let secret = |value: &str| -> App {
        let secret = format!(r#"{{ "value": "{value}", "hosts": ["127.0.0.1"] }}"#);
        let secret = serde_json::from_str(&secret).unwrap();
        App { header_secrets: [("erp".to_owned(), secret)].into(), ..signs() }
    };
    let mut receiver = Receiver::start().await;
    let service = service(&[("a", secret("Bearer hunter2-hunter2"))]);
    let mut definition = definition(&receiver, "202", "1h");
    definition["retry"]["attempts"] = json!(1);
    definition["callback"]["headers"] = json!({ "Authorization": { "secret": "erp" } });
    put(&service, "one", definition).await;
    let call = receiver.next().await;
    assert_eq!(call.headers["authorization"], "Bearer hunter2-hunter2");
    let completes = Completes::of(&call);
    run_in(&service, &completes, "waiting").await;
    let mut config = (*service.config()).clone();
    config.apps.insert("a".to_owned(), secret("Bearer hunter3-hunter3"));
    service.reload(config);
    let text = format!("refused Bearer hunter2-hunter2 and {}", completes.token);
    let failed = json!({ "outcome": "failed", "text": text });
    assert_eq!(completes.send(&service, failed).await.0, 200);
    let run = run_in(&service, &completes, "dead").await;
    let error = run["ended_attempts"][0]["error"].as_str().unwrap();
    let mask = model::MASK;
    assert_eq!(error, format!("completed as failed: refused Bearer {mask} and {mask}"));
    assert!(!run.to_string().contains("hunter"), "{run}");
    service.stop().await;
}
