mod alerts;
mod completion;
mod times;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tokio::net::TcpListener;
use tourbillon::Timer;
use tourbillon_durable::store::calls::{Change, Skip};
use tourbillon_durable::store::{Memory, RecordQuery, TimerQuery};
use tourbillon_durable::{Outcome, Reason, Record, Retry, Store, StoreError, StoreErrorKind};

use super::*;
use crate::config::Config;
use crate::dispatch::{head, is_starved, start};
use crate::model::{Callback, Definition};
use crate::receiver::{Call, Receiver};
use crate::watched::{Side, Watched};

fn app(concurrent: u32) -> App {
    let limits =
        model::AppLimits { concurrent, per_host: concurrent, ..model::AppLimits::default() };
    let networks = vec!["127.0.0.0/8".parse().unwrap()];
    App { limits, networks, ..App::default() }
}

fn config(apps: &[(&str, App)]) -> Config {
    let apps = apps.iter().map(|(name, app)| ((*name).to_owned(), app.clone())).collect();
    Config { apps, ..Config::default() }
}

fn service(apps: &[(&str, App)]) -> Arc<Service> {
    let timer = Timer::global();
    let store = Box::new(Memory::new(&timer));
    let service = Service::start(store, config(apps), &timer).unwrap();
    start(&service);
    service
}

/// Makes a one-shot that is due now, of three attempts with the shortest pause.
async fn once(service: &Service, app: &str, key: &str, url: &str) {
    let stored = json!({
        "definition": {
            "when": { "at": "2026-01-01T00:00:00Z" },
            "callback": { "url": url, "body": "{{key}} {{attempt}}", "timeout": "100s" },
        },
        "created": "2026-01-01T00:00:00Z",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    });
    let pause = Duration::from_secs(1);
    let once = service.client.once(&model::kind(app), std::time::SystemTime::now());
    let once = once.name(model::name(app, key)).payload(stored.to_string());
    let once = once.retry(Retry::new(3, pause, pause));
    once.create().await.unwrap();
}

/// Waits until this is so.
async fn until(is_so: impl AsyncFn() -> bool) {
    while !is_so().await {
        tourbillon::sleep(Duration::from_millis(5)).await;
    }
}

/// The records, once there are so many.
async fn records(service: &Service, count: usize) -> Vec<Record> {
    let all = async || service.reader.records(RecordQuery::new()).await.unwrap();
    until(async || all().await.len() >= count).await;
    all().await
}

#[tokio::test]
async fn what_is_due_is_called_and_what_was_answered_is_kept() {
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", app(8))]));
    let mut runs = service.runs.subscribe();
    once(&service, "a", "one", &receiver.url(1, "201")).await;
    let call = receiver.next().await;
    let header = |name: &str| call.headers[name].to_str().unwrap();
    assert_eq!(call.body, format!("{} 1", header("idempotency-key")));
    assert_eq!(header("tourbillon-attempt"), "1");
    assert!(header("traceparent").starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
    let run = runs.recv().await.unwrap();
    // A client that gets the event finds the record.
    let records = service.reader.records(RecordQuery::new()).await.unwrap();
    assert_eq!(records[0].outcome, Outcome::Succeeded);
    let attempts = read_attempts(&records[0].detail);
    assert_eq!(
        (attempts.len(), attempts[0].status, &*attempts[0].answer),
        (1, Some(201), "this is 201")
    );
    assert_eq!((&*run.app, &*run.key, run.state), ("a", "one", RunState::Succeeded));
    assert_eq!(run.ended_attempts, attempts);
    service.stop().await;
}

#[tokio::test]
async fn what_fails_is_tried_again_and_dead_in_the_end_with_all_tries() {
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", app(8))]));
    once(&service, "a", "one", &receiver.url(1, "503")).await;
    let mut keys = Vec::new();
    for attempt in 1..=3 {
        let call = receiver.next().await;
        assert_eq!(call.headers["tourbillon-attempt"], attempt.to_string());
        keys.push(call.headers["idempotency-key"].clone());
    }
    assert!(keys[0] == keys[1] && keys[1] == keys[2]);
    let records = records(&service, 1).await;
    let record = &records[0];
    assert_eq!((record.outcome, record.reason), (Outcome::Dead, Some(Reason::Failed)));
    assert_eq!(record.failures, 3);
    let attempts = read_attempts(&record.detail);
    assert_eq!(attempts.iter().map(|each| each.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(attempts.iter().all(|each| each.status == Some(503) && each.error.is_some()));
    service.stop().await;
}

#[tokio::test]
async fn a_receiver_that_hangs_delays_no_other_host_and_no_other_app() {
    const HOSTS: u32 = 30;
    let mut receiver = Receiver::start().await;
    let service = service(&[("a", app(16)), ("b", app(16))]);
    for turn in 0..4 {
        for host in 1..=HOSTS {
            // The first hangs, and has as many as all others.
            let path = if host == 1 { "hang" } else { "200" };
            let apps = if host == 1 { &["a"][..] } else { &["a", "b"] };
            for app in apps {
                once(&service, app, &format!("{host}-{turn}"), &receiver.url(host, path)).await;
            }
        }
        for more in 0..HOSTS {
            once(&service, "a", &format!("hang-{turn}-{more}"), &receiver.url(1, "hang")).await;
        }
    }
    // All others are called and recorded while it hangs.
    let others = 4 * 2 * (HOSTS as usize - 1);
    let recorded = records(&service, others).await;
    assert_eq!(recorded.len(), others);
    let mut hung = 0;
    while let Ok(call) = receiver.calls.try_recv() {
        hung += usize::from(call.path == "hang");
    }
    // It has half of the app at most.
    assert!((1..=8).contains(&hung), "{hung}");
}

#[tokio::test]
async fn a_new_configuration_brings_and_takes_away_apps() {
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", app(8))]));
    once(&service, "a", "hangs", &receiver.url(1, "hang")).await;
    assert_eq!(receiver.next().await.path, "hang");
    once(&service, "b", "waits", &receiver.url(1, "200")).await;
    service.reload(config(&[("b", app(8))]));
    assert_eq!(receiver.next().await.path, "200");
    once(&service, "a", "stays", &receiver.url(1, "200")).await;
    // The attempt under way continues.
    receiver.go.send_replace(true);
    let ended = records(&service, 2).await;
    assert!(ended.iter().all(|record| record.outcome == Outcome::Succeeded));
    service.reload(config(&[("a", app(8)), ("b", app(8))]));
    assert_eq!(receiver.next().await.path, "200");
    assert_eq!(records(&service, 3).await.len(), 3);
    service.stop().await;
}

#[tokio::test]
async fn a_stop_waits_for_what_runs_and_hands_back_what_waits() {
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", app(1))]));
    once(&service, "a", "runs", &receiver.url(1, "hang")).await;
    assert_eq!(receiver.next().await.path, "hang");
    once(&service, "a", "waits", &receiver.url(1, "200")).await;
    let stopping = tokio::spawn({
        let service = service.clone();
        async move { service.stop().await }
    });
    until(async || service.stats().is_none()).await;
    assert!(!stopping.is_finished());
    receiver.go.send_replace(true);
    stopping.await.unwrap();
    let records = service.reader.records(RecordQuery::new()).await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].name.as_deref(), Some("a/runs"));
    let pending = service.reader.timers(TimerQuery::new()).await.unwrap();
    assert_eq!(pending.len(), 1);
    assert!(pending[0].running.is_none());
}

/// An app whose notices go to the receiver.
fn told(receiver: &Receiver) -> App {
    let url = receiver.url(9, "notice");
    let notify = crate::model::Notify { url, headers: BTreeMap::new(), body: None };
    App { notify: Some(notify), secrets: vec![crate::config::Secret("s".to_owned())], ..app(8) }
}

#[tokio::test]
async fn a_dead_run_makes_one_notice_that_is_signed_and_has_none_of_its_own() {
    let mut receiver = Receiver::start().await;
    let app = told(&receiver);
    let service = service(&[("silenced", app)]);
    once(&service, "silenced", "one", &receiver.url(1, "410")).await;
    assert_eq!(receiver.next().await.path, "410");
    let call = receiver.next().await;
    assert_eq!(call.path, "notice");
    assert!(call.headers.contains_key("tourbillon-signature"));
    let records = records(&service, 2).await;
    let dead = records.iter().find(|record| record.outcome == Outcome::Dead).unwrap();
    let body: serde_json::Value = serde_json::from_str(&call.body).unwrap();
    let expected = json!({
        "event": "dead",
        "app": "silenced",
        "key": "one",
        "text": format!(
            "silenced/one: the run of {} is dead: answered 410 Gone",
            model::rfc3339(dead.scheduled_for)
        ),
        "run": dead.timer.to_string(),
        "scheduled_for": model::rfc3339(dead.scheduled_for),
        "attempts": 1,
        "status": 410,
        "error": "answered 410 Gone",
    });
    assert_eq!(body, expected);
    service.stop().await;
    assert!(receiver.calls.try_recv().is_err());
    // A notice that arrives is no success of its app.
    let text = crate::metrics::text();
    let metric = "tourbillond_last_success_timestamp_seconds{app=\"silenced\"} ";
    let last = text.lines().find_map(|line| line.strip_prefix(metric));
    assert!(last.is_none_or(|last| last == "0"), "{last:?}");
    assert!(text.contains("tourbillond_callbacks_total{app=\"silenced\",outcome=\"succeeded\"} 1"));
}

#[tokio::test]
async fn a_notice_that_cannot_be_delivered_makes_no_further_notice() {
    let receiver = Receiver::start().await;
    let mut app = told(&receiver);
    app.notify.as_mut().unwrap().url = receiver.url(9, "410");
    let service = service(&[("a", app)]);
    once(&service, "a", "one", &receiver.url(1, "410")).await;
    let records = records(&service, 2).await;
    assert!(records.iter().all(|record| record.reason == Some(Reason::GivenUp)));
    service.stop().await;
    let pending = service.reader.timers(TimerQuery::new()).await.unwrap();
    assert_eq!(pending.len(), 0);
    assert_eq!(receiver.calls.len(), 2);
}

/// Runs the schedule `a/r` once, with this answer of its receiver.
async fn run_answered(receiver: &mut Receiver, service: &Service, path: &str) {
    let callback = json!({ "url": receiver.url(1, path) });
    let definition = json!({ "when": { "every": "8640000s" }, "callback": callback });
    times::put(service, "r", definition).await;
    service.catalog.run_now("a", "r").await.unwrap();
    assert_eq!(receiver.next().await.path, path);
}

/// Waits until every run is over.
async fn all_over(service: &Service) {
    until(async || service.reader.timers(TimerQuery::new()).await.unwrap().is_empty()).await;
}

fn event(call: &Call) -> String {
    let body: serde_json::Value = serde_json::from_str(&call.body).unwrap();
    body["event"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_recovery_is_told_after_many_skipped_runs_and_reads_that_fail() {
    let mut receiver = Receiver::start().await;
    let (app, timer) = (told(&receiver), Timer::global());
    let mut memory = Memory::new(&timer);
    // For a while records cannot be read.
    let (fails, failed) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
    let (is_failing, has_failed) = (Arc::clone(&fails), Arc::clone(&failed));
    let store = Watched::store(memory.clone(), move |side, name, _| {
        if side == Side::Before && name == "records" && is_failing.load(Ordering::SeqCst) {
            has_failed.store(true, Ordering::SeqCst);
            return Err(StoreError::new(StoreErrorKind::Unavailable, "not now"));
        }
        Ok(())
    });
    let service = Service::start(store, config(&[("a", app)]), &timer).unwrap();
    start(&service);
    run_answered(&mut receiver, &service, "410").await;
    assert_eq!(event(&receiver.next().await), "dead");
    all_over(&service).await;

    let row = memory.schedule("a/r").unwrap().1.unwrap();
    let skip = |second: i64| {
        let at = tourbillon_durable::Time::from_micros(second * 1_000_000);
        let id = tourbillon_durable::TimerId::of_occurrence(row.id, at);
        let (outcome, reason) = (Outcome::Skipped, Reason::Missed);
        Skip { id, scheduled_for: at, outcome, reason }
    };
    let skipped: Vec<_> = (1..=300).map(skip).collect();
    let expect = Some(row.version);
    let change = Change { name: "a/r", expect, row: Some(&row), withdraw: None, skipped: &skipped };
    memory.change(&change).unwrap();

    // The definition is put before records cannot be read.
    fails.store(true, Ordering::SeqCst);
    run_answered(&mut receiver, &service, "200").await;
    until(async || failed.load(Ordering::SeqCst)).await;
    fails.store(false, Ordering::SeqCst);
    all_over(&service).await;
    assert_eq!(receiver.calls.try_recv().map(|call| event(&call)), Ok("recovered".to_owned()));

    // An attempt that succeeded since is no recovery, whatever was dead before it.
    run_answered(&mut receiver, &service, "200").await;
    all_over(&service).await;
    service.stop().await;
    assert!(receiver.calls.try_recv().is_err());
}

#[tokio::test]
async fn the_last_attempt_of_what_is_not_understood_makes_a_notice() {
    let mut receiver = Receiver::start().await;
    let service = service(&[("a", told(&receiver))]);
    let strange = |name: &str, payload: &str| {
        let once = service.client.once("http.a", std::time::SystemTime::now());
        once.name(name).payload(payload).retry(Retry::NEVER).create()
    };
    strange("a/strange", "{}").await.unwrap();
    let call = receiver.next().await;
    assert_eq!((call.path.as_str(), event(&call).as_str()), ("notice", "dead"));
    let body: serde_json::Value = serde_json::from_str(&call.body).unwrap();
    assert_eq!(body["key"], "strange");
    assert!(body["error"].as_str().unwrap().starts_with("this node cannot read the definition"));
    all_over(&service).await;
    // A notice of a later version has none of its own.
    strange("a/later", r#"{"is_notice": true}"#).await.unwrap();
    assert_eq!(records(&service, 3).await.len(), 3);
    service.stop().await;
    assert!(receiver.calls.try_recv().is_err());
}

#[test]
fn notices_that_no_payload_has_room_for_are_refused() {
    let headers = |count: usize| {
        let header = |number| (format!("X-{number}"), "v".repeat(2 * 1024).into());
        (0..count).map(header).collect::<BTreeMap<_, _>>()
    };
    let checked = |headers| {
        let url = "http://127.0.0.1/".to_owned();
        let notify = crate::model::Notify { url, headers, body: None };
        crate::dispatch::check_all(&config(&[("a", App { notify: Some(notify), ..app(1) })]))
    };
    assert_eq!(checked(headers(20)), Ok(()));
    let why = checked(headers(40)).unwrap_err();
    assert!(why.starts_with("app `a`: `notify.headers` makes 9"), "{why}");
    let own = BTreeMap::from([("content-type".to_owned(), "application/cloudevents+json".into())]);
    assert_eq!(checked(own), Ok(()));
}

#[test]
fn a_notice_that_could_not_be_sent_is_refused_with_its_app_and_field() {
    let url = "ftp://h/".to_owned();
    let notify = crate::model::Notify { url, headers: BTreeMap::new(), body: None };
    let app = App { notify: Some(notify), ..app(1) };
    let why = crate::dispatch::check_all(&config(&[("a", app)])).unwrap_err();
    assert_eq!(why, "app `a`: `notify.url` begins with neither http:// nor https://");
}

/// Takes all descriptors that there are.
fn take_all() -> Vec<std::fs::File> {
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

#[test]
fn a_shortage_of_descriptors_postpones_and_counts_no_failure() {
    let tests = "dispatch::app::tests";
    if is_starved(&format!("{tests}::a_shortage_of_descriptors_postpones_and_counts_no_failure")) {
        starved();
    }
}

#[tokio::main(flavor = "current_thread")]
async fn starved() {
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", app(8))]));
    let by_name = receiver.url(1, "200").replace("127.0.0.1", "localhost");
    let mut taken = take_all();
    // The node's threads open the zone data for a moment as they start.
    for _ in 0..50 {
        service.timer.sleep(Duration::from_millis(5)).await;
        taken.extend(take_all());
    }
    once(&service, "a", "address", &receiver.url(1, "200")).await;
    once(&service, "a", "name", &by_name).await;
    // Each is postponed again and again, more often than it may fail.
    let mut attempts = Vec::new();
    while attempts.len() < 2 || attempts.iter().any(|attempt| *attempt < 5) {
        service.timer.sleep(Duration::from_millis(5)).await;
        let timers = service.reader.timers(TimerQuery::new()).await.unwrap();
        assert_eq!(timers.len(), 2, "none is over");
        let failed = timers.iter().find(|timer| timer.failures > 0 || !timer.detail.is_empty());
        assert!(failed.is_none(), "{failed:?}");
        attempts = timers.iter().map(|timer| timer.attempt).collect();
    }
    drop(taken);
    for _ in 0..2 {
        receiver.next().await;
    }
    let records = records(&service, 2).await;
    let is_done = |record: &Record| record.outcome == Outcome::Succeeded && record.failures == 0;
    assert!(records.iter().all(is_done), "{records:?}");
    service.stop().await;
}

#[tokio::test]
async fn what_a_proxy_fails_at_is_called_once_it_works_and_has_no_failure() {
    let mut receiver = Receiver::start().await;
    let reserved = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = reserved.local_addr().unwrap();
    // Listened on again later, so that it refuses until then.
    drop(reserved);
    let proxied = json!({ "http": format!("http://{address}") });
    let mut app = App { proxy: serde_json::from_value(proxied).unwrap(), ..app(8) };
    app.proxies = crate::config::Proxies::read(&app.proxy, |_| None).unwrap();
    let service = service(&[("a", app)]);
    once(&service, "a", "one", &receiver.url(1, "201")).await;
    // A second attempt, so that the first is over.
    let timers = async || service.reader.timers(TimerQuery::new()).await.unwrap();
    until(async || timers().await.iter().any(|timer| timer.attempt > 1)).await;
    let proxy = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        let (mut near, _) = proxy.accept().await.unwrap();
        let head = head(&mut near).await.unwrap();
        let target = head.split(' ').nth(1).unwrap();
        let mut far = tokio::net::TcpStream::connect(target).await.unwrap();
        let answer = b"HTTP/1.1 200 Connected\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut near, answer).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    });
    let call = receiver.next().await;
    assert_ne!(call.headers["tourbillon-attempt"], "1");
    let records = records(&service, 1).await;
    assert_eq!((records[0].outcome, records[0].failures), (Outcome::Succeeded, 0));
    service.stop().await;
}
