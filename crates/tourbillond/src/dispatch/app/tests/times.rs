//! Lanes, pauses and backfills, in a receiver's view.

use serde_json::json;

use super::*;
use crate::config::Secret;

/// Puts a definition under a key.
pub(super) async fn put(service: &Service, key: &str, definition: serde_json::Value) {
    service.catalog.put("a", key, definition, None).await.unwrap();
}

#[tokio::test]
async fn what_is_in_one_lane_is_called_one_at_a_time_in_the_order_of_its_times() {
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", app(8))]));
    let receives = receiver.url(1, "");
    let once = |second: u32, path: &str, lane: Option<&str>| {
        let at = format!("2020-01-01T00:00:{second:02}Z");
        let url = format!("{receives}{path}");
        json!({ "when": { "at": at }, "callback": { "url": url }, "lane": lane })
    };
    put(&service, "first", once(1, "hang", Some("l"))).await;
    assert_eq!(receiver.next().await.path, "hang");
    put(&service, "third", once(3, "third", Some("l"))).await;
    put(&service, "second", once(2, "second", Some("l"))).await;
    put(&service, "free", once(4, "free", None)).await;
    put(&service, "other", once(5, "other", Some("m"))).await;
    let mut paths = [receiver.next().await.path, receiver.next().await.path];
    paths.sort();
    assert_eq!(paths, ["free", "other"]);
    receiver.go.send_replace(true);
    assert_eq!(receiver.next().await.path, "second");
    assert_eq!(receiver.next().await.path, "third");
    service.stop().await;
}

#[tokio::test]
async fn a_token_is_fetched_anew_after_401_unless_the_callback_lists_it_as_success() {
    let mut receiver = Receiver::start().await;
    let erp = json!({
        "oauth": { "token_url": receiver.url(1, "token"), "client_id": "a", "client_secret": "b" },
        "hosts": ["127.0.0.1"], "plain_http": true,
    });
    let more = json!({ "networks": ["127.0.0.0/8"], "header_secrets": { "erp": erp } });
    let service = service(&[("a", serde_json::from_value(more).unwrap())]);
    let mut tokens = Vec::new();
    for (success, paths) in
        [(json!([401]), &["token", "401"][..]), (json!([200]), &["401", "token", "401"])]
    {
        let once = json!({
            "when": { "at": "2020-01-01T00:00:00Z" }, "retry": { "attempts": 1 },
            "callback": {
                "url": receiver.url(1, "401"), "success": success,
                "headers": { "Authorization": { "secret": "erp" } },
            },
        });
        put(&service, &format!("k{}", paths.len()), once).await;
        for path in paths {
            let call = receiver.next().await;
            assert_eq!(call.path, *path);
            tokens.extend(call.headers.get("authorization").cloned().filter(|_| *path == "401"));
        }
    }
    assert!(tokens[0] == tokens[1] && tokens[1] != tokens[2], "{tokens:?}");
    let mut ends = records(&service, 2).await;
    ends.sort_by_key(|end| end.name.clone());
    let outcomes = ends.iter().map(|end| end.outcome).collect::<Vec<_>>();
    assert_eq!(outcomes, [Outcome::Succeeded, Outcome::Dead]);
    service.stop().await;
    assert!(receiver.calls.try_recv().is_err());
}

#[tokio::test]
async fn a_backfill_calls_for_the_past_in_order_and_once() {
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", app(8))]));
    let definition = json!({
        "when": { "cron": "0 * * * *", "zone": "UTC", "end": "2020-02-01T00:00:00Z" },
        "callback": { "url": receiver.url(1, "200"), "body": "{{scheduled_for}}" },
        "overlap": "skip",
    });
    put(&service, "k", definition).await;
    let time = |text: &str| model::time(text).unwrap();
    let range = time("2020-01-01T00:00:00Z")..time("2020-01-01T05:00:00Z");
    let first = service.catalog.backfill("a", "k", range.clone(), 3).await.unwrap();
    assert_eq!((first.made, first.rest.as_deref()), (3, Some("2020-01-01T03:00:00Z")));
    for hour in 0..3 {
        assert_eq!(receiver.next().await.body, format!("2020-01-01T{hour:02}:00:00Z"));
    }
    records(&service, 3).await;
    let all = service.catalog.backfill("a", "k", range, 100).await.unwrap();
    assert_eq!((all.made, all.existed, all.rest), (2, 3, None));
    for hour in 3..5 {
        assert_eq!(receiver.next().await.body, format!("2020-01-01T{hour:02}:00:00Z"));
    }
    service.stop().await;
}

#[tokio::test]
async fn a_paused_schedule_calls_again_from_the_end_of_its_pause() {
    let (mut receiver, service) = (Receiver::start().await, service(&[("a", app(8))]));
    let definition = json!({
        "when": { "every": "1s" },
        "callback": { "url": receiver.url(1, "200"), "body": "{{scheduled_for}}" },
    });
    put(&service, "k", definition).await;
    receiver.next().await;
    let until = service.client.now().await.unwrap() + Duration::from_secs(3);
    service.catalog.pause("a", "k", until).await.unwrap();
    let paused = service.client.now().await.unwrap();
    loop {
        let at = model::time(&receiver.next().await.body).unwrap();
        assert!(at <= paused || at >= until, "{at:?} is within {paused:?} to {until:?}");
        if at >= until {
            break;
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn signatures_dates_and_starts_go_by_the_clock_of_the_database() {
    let mut receiver = Receiver::start().await;
    // A day on which no machine runs this any more.
    let midnight = 1_772_323_200; // 2026-03-01
    let (clock, of_database) = crate::watched::clocked();
    clock.set_wall(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(midnight));
    let app = App { secrets: vec![Secret("secret".to_owned())], ..app(8) };
    let store = Box::new(Memory::new(&of_database));
    let service = Service::start(store, config(&[("a", app)]), &Timer::global()).unwrap();
    start(&service);
    let once = json!({
        "when": { "at": "2020-01-01T00:00:00Z" }, "callback": { "url": receiver.url(1, "later") },
    });
    put(&service, "k", once).await;
    let call = receiver.next().await;
    let signed = call.headers["webhook-timestamp"].to_str().unwrap().parse::<u64>().unwrap();
    assert!((midnight..midnight + 600).contains(&signed), "{signed}");
    let timers = async || service.reader.timers(TimerQuery::new()).await.unwrap();
    until(async || {
        let timer = &timers().await[0];
        timer.running.is_none() && timer.attempt == 1
    })
    .await;
    let pending = timers().await.remove(0);
    let half_past = model::time("2026-03-01T00:30:00Z").unwrap();
    let early = half_past - Duration::from_secs(600);
    assert!(
        (early..half_past + Duration::from_secs(600)).contains(&pending.new.due),
        "{pending:?}"
    );
    let attempts = read_attempts(&pending.detail);
    assert!(attempts[0].started.starts_with("2026-03-01T00:"), "{attempts:?}");
    service.stop().await;
}
