//! How fast it is, roughly. Run alone, built for release:
//! `ci/durable-postgres.sh cargo test --release --features postgres --test postgres -- --ignored
//! --nocapture smoke` in `durable/`.

use std::thread;
use std::time::{Duration, Instant};

use tourbillon_durable::store::{End, Finished, How, NewTimer, Postgres, Scan, Store};
use tourbillon_durable::{Lease, Outcome, Shards, TimerId};

use crate::cluster::Database;
use crate::{join, timer};

const TIMERS: usize = 200_000;

/// Drains what is due: each claim brings the ends of the one before.
fn drain(store: &mut Postgres, lease: Lease, todo: &[TimerId]) -> usize {
    let mut ends: Vec<End> = Vec::new();
    let mut accepted = 0;
    for part in todo.chunks(1_000) {
        let (finished, claimed) = store.finish_and_claim(lease, &ends, part).unwrap();
        accepted += finished.iter().filter(|end| **end == Finished::Accepted).count();
        let end = |timer: &tourbillon_durable::store::Timer| End {
            timer: timer.new.id,
            attempt: timer.attempt,
            how: How::Done(Outcome::Succeeded, None, String::new()),
        };
        ends = claimed.timers.iter().map(end).collect();
    }
    let finished = store.finish(lease, &ends).unwrap();
    accepted + finished.iter().filter(|end| **end == Finished::Accepted).count()
}

fn smoke(connections: usize) {
    let database = Database::new();
    let mut store = database.connect();
    let lease = join(&mut store);
    let now = store.now().unwrap();
    let timers: Vec<NewTimer> =
        (0..TIMERS).map(|n| timer(now + Duration::from_micros(n as u64))).collect();
    let begun = Instant::now();
    for part in timers.chunks(1_000) {
        store.insert(part, false).unwrap();
    }
    let inserted = begun.elapsed();

    let mut client = database.client();
    let mut lsn =
        || -> String { client.query_one("SELECT pg_current_wal_lsn()::text", &[]).unwrap().get(0) };
    let before = lsn();
    let begun = Instant::now();
    let kinds = ["mail".to_owned()];
    let scan = Scan {
        ahead: Duration::ZERO,
        back: None,
        shards: Shards::ALL,
        kinds: &kinds,
        limit: TIMERS as u32,
    };
    let found = store.scan(&scan).unwrap().timers;
    let scanned = begun.elapsed();
    let mut todo: Vec<Vec<TimerId>> = vec![Vec::new(); connections];
    for (n, part) in found.chunks(1_000).enumerate() {
        let mut part: Vec<TimerId> = part.iter().map(|waiting| waiting.id).collect();
        part.sort();
        todo[n % connections].extend(part);
    }
    let begun = Instant::now();
    let accepted: usize = thread::scope(|scope| {
        let drains: Vec<_> = todo
            .iter()
            .map(|todo| scope.spawn(|| drain(&mut database.connect(), lease, todo)))
            .collect();
        drains.into_iter().map(|drain| drain.join().unwrap()).sum()
    });
    let drained = begun.elapsed();
    assert_eq!(accepted, TIMERS);
    let after = lsn();
    let wal = format!("SELECT pg_wal_lsn_diff('{after}', '{before}')::float8");
    let wal: f64 = client.query_one(&wal, &[]).unwrap().get(0);
    let rate = |span: Duration| TIMERS as f64 / span.as_secs_f64();
    println!(
        "{connections} connections: inserted {:.0}/s, scanned in {scanned:?}, drained {:.0}/s, \
         {:.0} bytes of log a timer",
        rate(inserted),
        rate(drained),
        wal / TIMERS as f64,
    );
}

#[test]
#[ignore = "measures"]
fn smoke_of_one_connection() {
    smoke(1);
}

#[test]
#[ignore = "measures"]
fn smoke_of_two_connections() {
    smoke(2);
}
