//! Rough measure of speed. Run alone, built for release:
//! `ci/durable-postgres.sh cargo test -p tourbillon-durable --release --features
//! tokio-postgres-0_7 --test postgres -- --ignored --nocapture smoke`, with the script in the
//! repository.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use tourbillon_durable::store::calls::{Batch, Scan};
use tourbillon_durable::store::{End, Finished, How, NewTimer, Postgres, Store};
use tourbillon_durable::{Lease, Outcome, Shards, TimerId};

use crate::cluster::Database;
use crate::{join, timer};

const TIMERS: usize = 200_000;

/// The processor time that the server has used, and that this process has.
fn processor() -> (f64, f64) {
    let data = std::env::var("TOURBILLON_POSTGRES_DATA").unwrap();
    let pid = fs::read_to_string(format!("{data}/postmaster.pid")).unwrap();
    let postmaster = pid.lines().next().unwrap();
    // The fields from the state on: its parent; hundredths of a second of its own, and of its ended
    // children.
    let times = |pid: &str| -> Option<(String, f64, f64)> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let sum = |at: usize| -> f64 {
            fields[at..at + 2].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
        };
        Some((fields[1].to_owned(), sum(11), sum(13)))
    };
    let mut server = times(postmaster).map_or(0.0, |(_, own, ended)| own + ended);
    for process in fs::read_dir("/proc").unwrap() {
        let name = process.unwrap().file_name();
        match times(&name.to_string_lossy()) {
            Some((parent, own, _)) if parent == postmaster => server += own,
            _ => {}
        }
    }
    (server, times("self").map_or(0.0, |(_, own, _)| own))
}

/// Drains due timers: each claim brings the ends of the one before.
fn drain(store: &mut Postgres, lease: Lease, todo: &[TimerId]) -> usize {
    let mut ends: Vec<End> = Vec::new();
    let mut accepted = 0;
    for part in todo.chunks(1_000) {
        let (finished, claimed) =
            store.finish_and_claim(&Batch { lease, ends: &ends, timers: part }).unwrap();
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
    let (begun, start) = (Instant::now(), processor());
    for part in timers.chunks(1_000) {
        store.insert(part).unwrap();
    }
    let (inserted, loaded) = (begun.elapsed(), processor());

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
        grace: None,
        kinds: &kinds,
        kind_limit: TIMERS as u32,
        pulse: None,
    };
    let found = store.scan(&scan).unwrap().timers;
    let scanned = begun.elapsed();
    let mut todo: Vec<Vec<TimerId>> = vec![Vec::new(); connections];
    for (n, part) in found.chunks(1_000).enumerate() {
        let mut part: Vec<TimerId> = part.iter().map(|waiting| waiting.id).collect();
        part.sort();
        todo[n % connections].extend(part);
    }
    let (begun, ready) = (Instant::now(), processor());
    let accepted: usize = thread::scope(|scope| {
        let drains: Vec<_> = todo
            .iter()
            .map(|todo| scope.spawn(|| drain(&mut database.connect(), lease, todo)))
            .collect();
        drains.into_iter().map(|drain| drain.join().unwrap()).sum()
    });
    let (drained, over) = (begun.elapsed(), processor());
    assert_eq!(accepted, TIMERS);
    let after = lsn();
    let wal = format!("SELECT pg_wal_lsn_diff('{after}', '{before}')::float8");
    let wal: f64 = client.query_one(&wal, &[]).unwrap().get(0);
    let rate = |span: Duration| TIMERS as f64 / span.as_secs_f64();
    let each = |from: (f64, f64), to: (f64, f64)| {
        let [server, own] = [to.0 - from.0, to.1 - from.1].map(|time| time * 1e6 / TIMERS as f64);
        format!("{server:.1} us of the server and {own:.1} us here")
    };
    println!(
        "{connections} connections, a timer: inserted {:.0}/s, {}; all scanned in {scanned:?}; \
         drained {:.0}/s, {}, {:.0} bytes of log",
        rate(inserted),
        each(start, loaded),
        rate(drained),
        each(ready, over),
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
