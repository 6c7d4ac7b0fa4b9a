//! moka: an entry leaves at its time, though nobody touches the cache.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use moka::notification::RemovalCause;
use moka::sync::Cache;

/// Inserts, and has the cache look once the entry has expired.
fn insert<K, V>(cache: &Cache<K, V>, key: K, value: V)
where
    K: std::hash::Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    let age = cache.policy().time_to_live().expect("it has one");
    cache.insert(key, value);
    let cache = cache.clone();
    // After the insert: so the entry has expired by then.
    tourbillon::sleep(age).call(move || cache.run_pending_tasks()).detach();
}

#[test]
fn a_listener_is_told_when_an_entry_expires_and_not_at_the_next_access() {
    let (tell, told) = mpsc::channel();
    let age = Duration::from_millis(30);
    let cache = Cache::builder()
        .time_to_live(age)
        .eviction_listener(move |key, _, cause| tell.send((*key, cause)).expect("it is awaited"))
        .build();
    let start = Instant::now();
    insert(&cache, 1, "one");
    assert_eq!(told.recv(), Ok((1, RemovalCause::Expired)));
    assert!(start.elapsed() >= age);
}
