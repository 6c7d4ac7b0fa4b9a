//! Notices of a schedule's own, dead-man's switches, and schedules that disable themselves.

use serde_json::{Value, json};
use tourbillon_durable::Time;
use tourbillon_durable::store::ScheduleQuery;

use super::times::put;
use super::*;
use crate::catalog::Judged;
use crate::model::{Schedule, ScheduleState};

/// The next notice, with the path that it came to.
async fn notice(receiver: &mut Receiver) -> (String, Value) {
    loop {
        let call = receiver.next().await;
        if let Ok(body) = serde_json::from_str::<Value>(&call.body) {
            if body["event"].is_string() {
                return (call.path, body);
            }
        }
    }
}

/// Runs `a/k` once, and waits until it and its notices are over.
async fn run_once(service: &Service) {
    service.catalog.run_now("a", "k").await.unwrap();
    let unfinished = TimerQuery::new().kind("http.a");
    let is_over = async || service.reader.timers(unfinished.clone()).await.unwrap().is_empty();
    until(is_over).await;
}

/// The events of the notices that came so far.
fn events(receiver: &mut Receiver) -> Vec<String> {
    let mut events = Vec::new();
    while let Ok(call) = receiver.calls.try_recv() {
        let body = serde_json::from_str::<Value>(&call.body).unwrap_or_default();
        events.extend(body["event"].as_str().map(str::to_owned));
    }
    events.sort();
    events
}

async fn shown(service: &Service) -> Schedule {
    service.catalog.show("a", "k").await.unwrap()
}

/// A schedule that runs when the test asks for it.
fn rare(receiver: &Receiver, path: &str) -> Value {
    json!({
        "when": { "every": "8640000s" },
        "callback": { "url": receiver.url(1, path) },
        "retry": { "attempts": 1 },
    })
}

#[tokio::test]
async fn a_schedule_with_a_receiver_of_its_own_tells_that_one_alone() {
    let mut receiver = Receiver::start().await;
    let service = service(&[("a", told(&receiver))]);
    for (path, event) in [("500", "dead"), ("200", "recovered")] {
        let mut definition = rare(&receiver, path);
        let headers = json!({ "X-Who": "me" });
        definition["notify"] = json!({ "url": receiver.url(9, "own"), "headers": headers });
        put(&service, "k", definition).await;
        service.catalog.run_now("a", "k").await.unwrap();
        assert_eq!(receiver.next().await.path, path);
        let call = receiver.next().await;
        assert_eq!((&*call.path, &*super::event(&call)), ("own", event));
        assert_eq!(call.headers["x-who"], "me");
        assert!(call.headers.contains_key("tourbillon-signature"));
    }
    service.stop().await;
    assert!(receiver.calls.try_recv().is_err());
}

#[tokio::test]
async fn a_receiver_with_a_template_has_the_notice_by_it() {
    let mut receiver = Receiver::start().await;
    let service = service(&[("a", told(&receiver))]);
    let mut definition = rare(&receiver, "410");
    let body = r#"{"content": "{{event}} {{{{ {{text}}"}"#;
    definition["notify"] = json!({ "url": receiver.url(9, "own"), "body": body });
    put(&service, "k", definition).await;
    service.catalog.run_now("a", "k").await.unwrap();
    assert_eq!(receiver.next().await.path, "410");
    let call = receiver.next().await;
    let body = serde_json::from_str::<Value>(&call.body).unwrap();
    let text = body["content"].as_str().unwrap();
    assert!(text.starts_with("dead {{ a/k: the run of "), "{text}");
    assert!(text.ends_with(" is dead: answered 410 Gone"), "{text}");
    assert_eq!(call.headers["content-type"], "application/json");
    service.stop().await;
}

#[tokio::test]
async fn a_late_start_makes_one_notice_an_hour_and_none_for_a_retry() {
    let mut receiver = Receiver::start().await;
    // Moved by the test alone.
    let (clock, of_database) = crate::watched::clocked();
    clock.set_wall(model::time("2026-03-01T00:30:00Z").unwrap().into());
    let store = Box::new(Memory::new(&of_database));
    let config = config(&[("a", told(&receiver))]);
    let service = Service::start(store, config, &Timer::global()).unwrap();
    start(&service);
    let definition = |within: &str, path: &str| {
        let mut definition = rare(&receiver, path);
        definition["on_time_within"] = json!(within);
        definition["retry"] = json!({ "attempts": 2, "first": "1s", "longest": "1s" });
        definition
    };
    let (late, later) = (definition("0s", "recovers"), definition("0s", "200"));
    // A run may be later by `jitter`.
    let mut in_time = definition("0s", "200");
    in_time["jitter"] = json!("1m");
    put(&service, "k", late).await;
    service.catalog.run_now("a", "k").await.unwrap();
    let (_, body) = notice(&mut receiver).await;
    assert_eq!((&body["event"], &body["key"]), (&json!("late"), &json!("k")));
    let [at, started] = ["scheduled_for", "started"].map(|name| body[name].as_str().unwrap());
    assert_eq!(at, "2026-03-01T00:30:00Z");
    assert!(model::time(started).unwrap() > model::time(at).unwrap(), "{body}");
    let text = format!("a/k: the run of {at} started late, at {started}");
    assert_eq!((&body["text"], body["run"].is_string()), (&json!(text), true));
    // The retry is in another hour, and notices are over before the next run.
    receiver.go.send_replace(true);
    clock.advance(Duration::from_secs(3_600));
    let unfinished = TimerQuery::new().kind("http.a");
    while !service.reader.timers(unfinished.clone()).await.unwrap().is_empty() {
        clock.advance(Duration::from_millis(10));
        service.timer.sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(events(&mut receiver), [""; 0]);
    for (definition, told) in [(&in_time, &[][..]), (&later, &["late"]), (&later, &[])] {
        put(&service, "k", definition.clone()).await;
        run_once(&service).await;
        assert_eq!(events(&mut receiver), told);
    }
    service.stop().await;
}

#[tokio::test]
async fn a_schedule_is_disabled_after_so_many_dead_runs_in_a_row_and_tells_it_once() {
    let mut receiver = Receiver::start().await;
    let service = service(&[("a", told(&receiver))]);
    let bad = || {
        let mut bad = rare(&receiver, "500");
        bad["disable_after"] = json!(2);
        bad
    };
    let (bad, mut good) = (bad(), rare(&receiver, "200"));
    good["disable_after"] = json!(2);
    // A success begins the count anew.
    for (definition, event) in [(&bad, "dead"), (&good, "recovered"), (&bad, "dead")] {
        put(&service, "k", definition.clone()).await;
        run_once(&service).await;
        assert_eq!(events(&mut receiver), [event]);
        assert_eq!(shown(&service).await.state, ScheduleState::Enabled);
    }
    run_once(&service).await;
    assert_eq!(events(&mut receiver), ["dead", "disabled"]);
    let disabled = shown(&service).await;
    assert_eq!((disabled.state, disabled.enabled), (ScheduleState::Disabled, false));
    let why = disabled.disabled_by.unwrap();
    let newest = RecordQuery::new().name("a/k").newest_first().limit(1);
    let last = service.reader.records(newest).await.unwrap().remove(0);
    assert_eq!((last.outcome, why.dead_runs), (Outcome::Dead, 2));
    assert_eq!(why.run, last.timer.to_string());
    assert!(service.catalog.run_now("a", "k").await.is_err());
    // Once it is enabled, the count begins anew, too.
    service.catalog.switch("a", "k", true).await.unwrap();
    let enabled = shown(&service).await;
    assert_eq!((enabled.state, enabled.disabled_by), (ScheduleState::Enabled, None));
    run_once(&service).await;
    assert_eq!(events(&mut receiver), ["dead"]);
    assert!(shown(&service).await.enabled);
    // A schedule that a client disables has no such reason.
    service.catalog.switch("a", "k", false).await.unwrap();
    assert_eq!(shown(&service).await.disabled_by, None);
    service.stop().await;
}

/// A definition of a schedule with a watch that is not due before the test is over.
fn hourly() -> Value {
    json!({
        "when": { "every": "1h" }, "callback": { "url": "http://127.0.0.1/" },
        "success_within": "2h", "disable_after": 9,
    })
}

#[tokio::test]
async fn a_run_that_is_noted_twice_counts_once_and_a_success_ends_the_count() {
    let service = service(&[("a", app(8))]);
    let definition = serde_json::from_value(hourly()).unwrap();
    let (catalog, of) = (&service.catalog, ("a", "k"));
    let now = service.client.now().await.unwrap();
    let ids = [1, 2].map(tourbillon_durable::TimerId::from_bits);
    for (run, count) in [(ids[0], 1), (ids[0], 1), (ids[1], 2), (ids[0], 2)] {
        let noted = catalog.note_death(of, &definition, run, 9, now).await;
        assert_eq!(noted.unwrap(), count);
    }
    let watch = async || catalog.watch("a", "k").await.unwrap().unwrap();
    let (old, later) = (watch().await, now + Duration::from_secs(60));
    catalog.note_success(of, &definition, Some(&old), later).await.unwrap();
    let noted = watch().await;
    assert_eq!(noted.due(), later + Duration::from_secs(7_200));
    // Of two at once, the second looks again; and an earlier one moves nothing back.
    let conflict = catalog.note_success(of, &definition, Some(&old), now).await.unwrap_err();
    assert_eq!(conflict.kind(), StoreErrorKind::Conflict);
    catalog.note_success(of, &definition, Some(&noted), now).await.unwrap();
    assert_eq!(watch().await.due(), noted.due());
    assert_eq!(catalog.note_death(of, &definition, ids[0], 9, now).await.unwrap(), 1);
    service.stop().await;
}

#[tokio::test]
async fn dead_runs_of_another_callback_or_schedule_disable_nothing() {
    let service = service(&[("a", told(&Receiver::start().await))]);
    put(&service, "k", hourly()).await;
    let definition = serde_json::from_value::<Definition>(hourly()).unwrap();
    let row = service.reader.schedules(ScheduleQuery::new()).await.unwrap().remove(0);
    let look = async |id, callback: &Callback| {
        let found = service.catalog.disabled_by_dead(("a", "k"), id, callback).await;
        found.unwrap().map(|(_, most)| most)
    };
    assert_eq!(look(Some(row.id), &definition.callback).await, Some(9));
    let other = Callback { body: "other".to_owned(), ..definition.callback.clone() };
    assert_eq!(look(Some(row.id), &other).await, None);
    assert_eq!(look(None, &definition.callback).await, None);
    service.catalog.switch("a", "k", false).await.unwrap();
    assert_eq!(look(Some(row.id), &definition.callback).await, None);
    service.stop().await;
}

#[tokio::test]
async fn a_success_is_awaited_anew_from_other_times_and_from_the_end_of_a_pause() {
    let service = service(&[("a", told(&Receiver::start().await))]);
    let due = async || service.catalog.watch("a", "k").await.unwrap().map(|watch| watch.due());
    let mut definition = hourly();
    put(&service, "k", definition.clone()).await;
    let first = due().await.unwrap();
    definition["callback"]["body"] = json!("more");
    put(&service, "k", definition.clone()).await;
    assert_eq!(due().await.unwrap(), first, "another body delays nothing");
    definition["when"]["every"] = json!("30m");
    put(&service, "k", definition.clone()).await;
    let moved = due().await.unwrap();
    assert!(moved > first);
    definition["success_within"] = json!("1h");
    put(&service, "k", definition.clone()).await;
    let sooner = due().await.unwrap();
    assert!(sooner < moved);
    let until = service.client.now().await.unwrap() + Duration::from_secs(1_000);
    service.catalog.pause("a", "k", until).await.unwrap();
    service.catalog.switch("a", "k", true).await.unwrap();
    let resumed = due().await.unwrap();
    assert!(resumed > sooner);
    // A pause that has ended by itself is over: there is nothing to enable.
    let until = service.client.now().await.unwrap() + Duration::from_millis(50);
    service.catalog.pause("a", "k", until).await.unwrap();
    let paused = due().await.unwrap();
    super::until(async || service.client.now().await.unwrap() > until).await;
    service.catalog.switch("a", "k", true).await.unwrap();
    assert_eq!(due().await.unwrap(), paused);
    // The watch of an unwatched schedule ends, and begins anew if it is watched again.
    let (within, count) = (definition["success_within"].take(), definition["disable_after"].take());
    put(&service, "k", definition.clone()).await;
    let soon = service.client.now().await.unwrap() + Duration::from_secs(60);
    assert!(due().await.unwrap() <= soon);
    definition["disable_after"] = count;
    put(&service, "k", definition.clone()).await;
    assert_eq!(due().await, Some(Time::NEVER));
    definition["success_within"] = within;
    let before = service.client.now().await.unwrap();
    put(&service, "k", definition).await;
    assert!(due().await.unwrap() >= before + Duration::from_secs(3_600));
    service.stop().await;
}

#[tokio::test]
async fn a_schedule_that_does_not_succeed_in_time_tells_it_once_and_its_recovery() {
    let mut receiver = Receiver::start().await;
    let service = service(&[("a", told(&receiver))]);
    let definition = |path: &str| {
        json!({
            "when": { "every": "1s" },
            "callback": { "url": receiver.url(1, path) },
            "retry": { "attempts": 1 },
            // Long enough for no second silence to come on a slow machine.
            "success_within": "5s",
        })
    };
    let (bad, good) = (definition("500"), definition("200"));
    let before = service.client.now().await.unwrap();
    put(&service, "k", bad).await;
    // Runs die meanwhile, and each has its notice.
    let (mut silent, mut dead_since) = (Vec::new(), 0);
    while dead_since < 4 {
        let (path, body) = notice(&mut receiver).await;
        assert_eq!(path, "notice");
        match body["event"].as_str().unwrap() {
            "dead" => dead_since += u32::from(!silent.is_empty()),
            _ => silent.push(body),
        }
    }
    assert_eq!(silent.len(), 1, "{silent:?}");
    let silent = silent.remove(0);
    assert_eq!((&silent["event"], &silent["key"]), (&json!("no_success"), &json!("k")));
    let since = model::time(silent["since"].as_str().unwrap()).unwrap();
    assert!(since >= before && silent.get("run").is_none(), "{silent}");
    assert!(service.client.now().await.unwrap().since(since) >= Duration::from_secs(5));
    put(&service, "k", good).await;
    let recovered = loop {
        let (_, body) = notice(&mut receiver).await;
        if body["event"] != "dead" {
            break body;
        }
    };
    assert_eq!((&recovered["event"], &recovered["key"]), (&json!("recovered"), &json!("k")));
    assert_eq!(recovered["status"], 200);
    // From then on it is awaited anew, once that is noted.
    let now = async || service.client.now().await.unwrap();
    let watch = async || service.catalog.watch("a", "k").await.unwrap().unwrap();
    until(async || !watch().await.is_notified(now().await)).await;
    service.stop().await;
}

#[tokio::test]
async fn a_success_of_a_run_with_an_older_definition_is_noted_by_the_present_one() {
    let mut receiver = Receiver::start().await;
    let service = service(&[("a", told(&receiver))]);
    let definition = |within: &str| {
        json!({
            "when": { "every": "8640000s" }, "success_within": within,
            "callback": { "url": receiver.url(1, "recovers") },
            "retry": { "attempts": 100, "first": "1s", "longest": "1s" },
        })
    };
    let (old, new) = (definition("25h"), definition("1h"));
    put(&service, "k", old).await;
    service.catalog.run_now("a", "k").await.unwrap();
    receiver.next().await;
    put(&service, "k", new).await;
    receiver.go.send_replace(true);
    records(&service, 1).await;
    let watch = service.catalog.watch("a", "k").await.unwrap().unwrap();
    let now = service.client.now().await.unwrap();
    assert!(watch.due() <= now + Duration::from_secs(3_600), "{watch:?}");
    service.stop().await;
}

#[tokio::test]
async fn a_schedule_that_was_silent_before_a_pause_is_awaited_anew_from_its_end() {
    let mut receiver = Receiver::start().await;
    let service = service(&[("a", told(&receiver))]);
    let definition = json!({
        "when": { "every": "1s" }, "overlap": "skip",
        "callback": { "url": receiver.url(1, "hang"), "timeout": "300s" },
        "success_within": "1s",
    });
    put(&service, "k", definition).await;
    let mut event = async || {
        let (_, body) = notice(&mut receiver).await;
        let since = body["since"].as_str().map(|since| model::time(since).unwrap());
        (body["event"].as_str().unwrap().to_owned(), since)
    };
    let watch = async || service.catalog.watch("a", "k").await.unwrap().unwrap();
    let now = async || service.client.now().await.unwrap();
    let second = Duration::from_secs(1);
    let is_postponed = async || watch().await.due() >= now().await + 100_000 * second;
    let (silent, first) = event().await;
    super::until(&is_postponed).await;
    let until = now().await + 1_000 * second;
    // A repeat changes nothing.
    for _ in 0..2 {
        service.catalog.pause("a", "k", until).await.unwrap();
        assert_eq!(watch().await.due(), until + second);
    }
    let until = now().await + 3 * second;
    service.catalog.pause("a", "k", until).await.unwrap();
    let (again, since) = event().await;
    assert_eq!((&*silent, &*again), ("no_success", "no_success"));
    assert!(first < since && since == Some(until), "{first:?} {since:?} {until:?}");
    super::until(&is_postponed).await;
    // A run that succeeds during a pause is a recovery; what follows is awaited from the end.
    let until = now().await + 1_000 * second;
    service.catalog.pause("a", "k", until).await.unwrap();
    receiver.go.send_replace(true);
    let recovered = notice(&mut receiver).await.1;
    assert_eq!(recovered["event"], "recovered");
    super::until(async || !watch().await.is_notified(until)).await;
    assert_eq!(watch().await.due(), until + second);
    service.stop().await;
}

#[tokio::test]
async fn a_watch_without_a_schedule_ends_by_itself() {
    let service = service(&[("a", told(&Receiver::start().await))]);
    let definition = json!({
        "when": { "every": "1h" }, "callback": { "url": "http://127.0.0.1/" },
        "success_within": "2h",
    });
    let watches = async || service.reader.timers(TimerQuery::new().kind("watch")).await.unwrap();
    put(&service, "k", definition.clone()).await;
    let first = watches().await;
    assert_eq!(first.len(), 1);
    // The same again and a disable change nothing; to enable it begins anew.
    put(&service, "k", definition).await;
    service.catalog.switch("a", "k", false).await.unwrap();
    assert_eq!(watches().await, first);
    service.catalog.switch("a", "k", true).await.unwrap();
    assert!(watches().await[0].new.due > first[0].new.due);
    service.catalog.remove("a", "k").await.unwrap();
    let rows = service.reader.schedules(ScheduleQuery::new()).await.unwrap();
    assert_eq!(rows, []);
    // It waits for a schedule that may follow it.
    let minute = Duration::from_secs(60);
    assert!(watches().await[0].new.due <= service.client.now().await.unwrap() + minute);
    // The watch of a paused schedule waits for none, because the schedule came before the pause.
    let judged = async |since: Time| {
        let state = json!({ "app": "a", "key": "gone", "since_us": since.as_micros() });
        let state = serde_json::from_value(state).unwrap();
        service.catalog.judge(&state).await.unwrap().0
    };
    let now = service.client.now().await.unwrap();
    assert_eq!(judged(now).await, Judged::Later(minute));
    assert_eq!(judged(now + 60_000 * minute).await, Judged::Over);
    // Once it is due, a node looks for its schedule.
    let payload = json!({ "app": "a", "key": "gone", "since_us": 0 }).to_string();
    let now = service.client.now().await.unwrap();
    let alone = service.client.once("watch", now).name("watch:a/gone");
    alone.payload(payload).create().await.unwrap();
    until(async || service.catalog.watch("a", "gone").await.unwrap().is_none()).await;
    service.stop().await;
}

/// An app whose notices go to the receiver, with alerts for schedules that have none of their own.
fn alerted(receiver: &Receiver, success_within: &str, disable_after: u32) -> App {
    let success_within = Some(success_within.to_owned());
    App { success_within, disable_after: Some(disable_after), ..told(receiver) }
}

#[tokio::test]
async fn the_alerts_of_an_app_hold_for_schedules_that_have_none_of_their_own() {
    let mut receiver = Receiver::start().await;
    let service = service(&[("a", alerted(&receiver, "2h", 2))]);
    let mut bad = rare(&receiver, "500");
    // A schedule with zero has none, and a schedule with its own value has that.
    for (own, ends) in [(Some(0), 3), (Some(3), 3), (None, 2)] {
        bad["disable_after"] = json!(own);
        put(&service, "k", bad.clone()).await;
        for end in 1..=ends {
            run_once(&service).await;
            let is_last = end == ends && own != Some(0);
            let expected = if is_last { &["dead", "disabled"][..] } else { &["dead"] };
            assert_eq!(events(&mut receiver), expected, "{own:?} {end}");
        }
        assert_eq!(shown(&service).await.enabled, own == Some(0), "{own:?}");
        service.catalog.remove("a", "k").await.unwrap();
    }
    let watch = async |key| service.catalog.watch("a", key).await.unwrap();
    for (key, own, hours) in [("app", None, Some(2)), ("own", Some("1h"), Some(1))] {
        let mut definition = rare(&receiver, "200");
        definition["success_within"] = json!(own);
        let before = service.client.now().await.unwrap();
        put(&service, key, definition).await;
        let due = watch(key).await.map(|watch| watch.due().since(before).as_secs() / 3_600);
        assert_eq!(due, hours, "{key}");
    }
    let mut none = rare(&receiver, "200");
    (none["success_within"], none["disable_after"]) = (json!("0s"), json!(0));
    put(&service, "none", none).await;
    assert!(watch("none").await.is_none());
    service.stop().await;
}

#[tokio::test]
async fn schedules_that_were_there_before_are_watched_once_their_app_says_so() {
    let receiver = Receiver::start().await;
    let service = service(&[("a", told(&receiver))]);
    let now = async || service.client.now().await.unwrap();
    let (hour, before) = (Duration::from_secs(3_600), now().await);
    let minute = (before.as_micros() / 60_000_000 + 30) % 60;
    let mut counted = rare(&receiver, "200");
    // Hourly, and not before the test is over.
    counted["when"] = json!({ "cron": format!("{minute} * * * *"), "zone": "UTC" });
    put(&service, "k", counted.clone()).await;
    put(&service, "off", counted.clone()).await;
    service.catalog.switch("a", "off", false).await.unwrap();
    counted["disable_after"] = json!(9);
    put(&service, "counted", counted.clone()).await;
    let run = tourbillon_durable::TimerId::from_bits(1);
    let definition = serde_json::from_value(counted).unwrap();
    let long_ago = before - 1_000 * hour;
    let noted = service.catalog.note_death(("a", "counted"), &definition, run, 9, long_ago).await;
    assert_eq!(noted.unwrap(), 1);
    let watch = async |key| service.catalog.watch("a", key).await.unwrap();
    assert!(watch("k").await.is_none());
    for (within, hours) in [("5h", 5), ("2h", 2)] {
        let app = App { success_within: Some(within.to_owned()), ..told(&receiver) };
        service.reload(config(&[("a", app)]));
        for key in ["k", "counted"] {
            // From when the app has said so first.
            let due = async || watch(key).await.map_or(Time::NEVER, |watch| watch.due());
            until(async || due().await <= now().await + hours * hour).await;
            assert!(due().await >= before + hours * hour, "{key}: {:?}", due().await);
        }
    }
    assert!(watch("off").await.is_none());
    // Its dead runs are counted on.
    let other = tourbillon_durable::TimerId::from_bits(2);
    let noted = service.catalog.note_death(("a", "counted"), &definition, other, 9, now().await);
    assert_eq!(noted.await.unwrap(), 2);
    // Without the time, the watch of a schedule ends once it is due.
    let judged = async || {
        let state = json!({ "app": "a", "key": "k", "since_us": long_ago.as_micros() });
        service.catalog.judge(&serde_json::from_value(state).unwrap()).await.unwrap().0
    };
    assert_eq!(judged().await, Judged::Silent);
    service.reload(config(&[("a", told(&receiver))]));
    assert_eq!(judged().await, Judged::Over);
    // No success was noted meanwhile, so one is awaited from now on.
    let again = now().await;
    while watch("k").await.unwrap().due() < again + 2 * hour {
        for within in [None, Some("2h".to_owned())] {
            let app = App { success_within: within, ..told(&receiver) };
            service.reload(config(&[("a", app)]));
            service.timer.sleep(Duration::from_millis(5)).await;
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn a_silent_schedule_is_awaited_anew_once_its_app_has_a_time_again() {
    let mut receiver = Receiver::start().await;
    let service = service(&[("a", alerted(&receiver, "1s", 0))]);
    let definition = json!({
        "when": { "every": "1s" }, "overlap": "skip",
        "callback": { "url": receiver.url(1, "hang"), "timeout": "300s" },
    });
    put(&service, "k", definition).await;
    assert_eq!(notice(&mut receiver).await.1["event"], "no_success");
    let hour = Duration::from_secs(3_600);
    // Whether there is a notice without that of the recovery, and a success is awaited.
    let seen = async || {
        let watch = service.catalog.watch("a", "k").await.unwrap().unwrap();
        let now = service.client.now().await.unwrap();
        (watch.is_notified(now), watch.due() <= now + 2 * hour)
    };
    // The notice is sent before the attempt that made it has ended.
    until(async || seen().await.0).await;
    for turn in 0.. {
        for within in [None, Some("2h".to_owned())] {
            let app = App { success_within: within, ..told(&receiver) };
            service.reload(config(&[("a", app)]));
            service.timer.sleep(Duration::from_millis(5)).await;
        }
        let (is_notified, is_awaited) = seen().await;
        assert!(is_notified);
        if is_awaited {
            break;
        }
        assert!(turn < 1_000, "it is never due again");
    }
    receiver.go.send_replace(true);
    assert_eq!(notice(&mut receiver).await.1["event"], "recovered");
    service.stop().await;
}
