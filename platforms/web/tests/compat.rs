//! Code under tokio's names, where tokio's timers do not run.

use std::future::pending;
use std::pin::pin;

use futures_util::{StreamExt as _, stream};
use tourbillon_compat_tokio::stream::StreamExt as _;
use tourbillon_compat_tokio::time::{Duration, Instant, interval, sleep, sleep_until, timeout};
use tourbillon_compat_tokio::util::time::DelayQueue;
use wasm_bindgen_test::wasm_bindgen_test;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[wasm_bindgen_test]
async fn tokios_names_wait_on_the_event_loop() {
    let start = Instant::now();
    sleep(ms(3)).await;
    assert!(start.elapsed() >= ms(3));
    let mut sleep = pin!(sleep_until(start));
    sleep.as_mut().reset(start + ms(6));
    sleep.await;
    assert!(start.elapsed() >= ms(6));
    assert!(timeout(ms(2), pending::<()>()).await.is_err());
    let mut ticks = interval(ms(2));
    let first = ticks.tick().await;
    assert_eq!(ticks.tick().await, first + ms(2));
    assert!(Instant::now() >= first + ms(2));
}

#[wasm_bindgen_test]
async fn queues_and_streams_under_these_names_do_too() {
    let start = Instant::now();
    let mut queue = DelayQueue::new();
    let late = queue.insert_at("late", start + Duration::from_secs(3_600));
    queue.insert_at("soon", start + ms(5));
    assert_eq!(queue.next().await.unwrap().into_inner(), "soon");
    assert!(start.elapsed() >= ms(5));
    assert_eq!(queue.remove(&late).into_inner(), "late");
    let chunks = stream::iter(1..=3).throttle(ms(1)).chunks_timeout(2, Duration::from_secs(60));
    assert_eq!(chunks.collect::<Vec<_>>().await, [vec![1, 2], vec![3]]);
}
