//! Reads of due timers beside a snapshot that keeps index entries of ended ones.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use postgres::Client;
use tourbillon_durable::store::calls::Scan;
use tourbillon_durable::store::{End, How, Postgres, Store, conformance};
use tourbillon_durable::{Lease, NodeId, StoreErrorKind, TimerId};

use crate::cluster::Database;
use crate::faults::through;
use crate::plans::Large;
use crate::{LONG, join, timer};

/// Kinds of the timers.
const KINDS: [&str; 2] = ["mail", "post"];

/// Most timers of each kind that a scan returns: all.
const ALL: u32 = 100_000;

/// Scans that a walk through everything may need at most: each has a part of it, and there are few.
const TRIES: u32 = 30;

/// A scan of everything, like a node's every few seconds.
fn scan(store: &mut Postgres) -> BTreeSet<TimerId> {
    let kinds = KINDS.map(str::to_owned);
    let scan = Scan { grace: Some(LONG), ..conformance::scan(&kinds, ALL) };
    for _ in 0..TRIES {
        match store.scan(&scan) {
            Ok(window) => return window.timers.iter().map(|waiting| waiting.id).collect(),
            // A busy server has not read everything yet.
            Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}"),
        }
    }
    panic!("not everything is read in {TRIES} scans");
}

/// Scans until the answer is `expected`: a timer written as due long ago is found when a look
/// walks.
fn scan_until(store: &mut Postgres, expected: &BTreeSet<TimerId>) {
    let mut found = BTreeSet::new();
    for _ in 0..60_000 {
        found = scan(store);
        assert!(found.is_subset(expected), "a scan returned what it must not");
        if found == *expected {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{} of {} are found", found.len(), expected.len());
}

/// Writes timers that are due so many seconds ago, or up to a minute longer, in a transaction
/// that is none of the crate's.
fn write(client: &mut Client, ago: i32, count: i32) {
    let insert = "
        INSERT INTO tourbillon.timer (id, kind, scheduled_for, due, shard)
        SELECT gen_random_uuid(), CASE WHEN n % 3 = 0 THEN 'post' ELSE 'mail' END,
               now() - make_interval(secs => $1::int4 + n % 60),
               now() - make_interval(secs => $1::int4 + n % 60), n % 64
        FROM generate_series(1, $2::int4) AS n";
    client.execute(insert, &[&ago, &count]).unwrap();
}

/// Timers that are pending and due.
fn pending(client: &mut Client) -> BTreeSet<TimerId> {
    let query = "SELECT id::text FROM tourbillon.timer WHERE node IS NULL AND due <= now()";
    let rows = client.query(query, &[]).unwrap();
    rows.iter().map(|row| row.get::<_, String>(0).parse().unwrap()).collect()
}

fn end(timer: TimerId, attempt: u32, how: How) -> End {
    End { timer, attempt, how }
}

#[test]
fn reads_do_not_pass_what_a_snapshot_keeps() {
    const ENDED: i64 = 30_000;
    let mut large = Large::empty();
    let mut snapshot = large.client();
    snapshot.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").unwrap();
    snapshot.query("SELECT count(*) FROM tourbillon.node", &[]).unwrap();
    let mut client = large.client();
    // One waits at the beginning, and one at the end.
    write(&mut client, 900, 1);
    for _ in 0..30 {
        write(&mut client, 800, i32::try_from(ENDED / 30).unwrap());
    }
    let first = client.query_one("SELECT min(due)::text FROM tourbillon.timer", &[]).unwrap();
    let first: String = first.get(0);
    let delete = "DELETE FROM tourbillon.timer WHERE due > $1::text::timestamptz";
    assert_eq!(client.execute(delete, &[&first]).unwrap(), ENDED.unsigned_abs());
    write(&mut client, 100, 1);

    let expected = pending(&mut client);
    assert_eq!(expected.len(), 2);
    let (reads, ()) = large.count(|store, _| scan_until(store, &expected));
    // The look has passed the index on `due` once; the scan has not passed that of its kinds.
    assert!(reads.by_due >= ENDED, "the snapshot keeps nothing: {reads:?}");
    assert!(reads.by_kind < 50, "{reads:?}");

    let ids: Vec<TimerId> = expected.iter().copied().collect();
    let (all, ()) = large.count(|store, lease| {
        scan_until(store, &expected);
        assert_eq!(store.claim(lease, &ids).unwrap().timers.len(), 2);
        assert_eq!(store.held(lease, None).unwrap().timers.len(), 2);
        store.maintain().unwrap();
        store.leave(lease).unwrap();
    });
    // The look alone: not the audit, the rescue or the end.
    assert_eq!(pending(&mut client).into_iter().collect::<Vec<_>>(), ids);
    assert!(all.by_due < reads.by_due + 50, "{all:?}, {reads:?}");
}

/// A part is one way there and back: by a slow link a call has time for a few.
#[test]
fn a_slow_link_walks_through_everything_by_several_scans() {
    let database = Database::new();
    let (proxy, mut store) = through(&database);
    write(&mut database.client(), 9_000, 1);
    let expected = pending(&mut database.client());
    proxy.slow(400);
    assert_eq!(scan(&mut store), expected);
}

#[test]
fn what_appears_long_past_due_is_found() {
    let database = Database::new();
    let (mut store, mut client) = (database.connect(), database.client());
    assert_eq!(scan(&mut store), BTreeSet::new());
    for ago in [300, 9_000, 400_000_000, 30] {
        write(&mut client, ago, 40);
        let expected = pending(&mut client);
        scan_until(&mut store, &expected);
    }
    // More than a connection knows by id.
    write(&mut client, 600, 2_000);
    let expected = pending(&mut client);
    scan_until(&mut store, &expected);
    write(&mut client, 90_000, 20);
    let expected = pending(&mut client);
    scan_until(&mut store, &expected);
}

#[test]
fn what_runs_under_a_dead_lease_is_freed_wherever_it_is_due() {
    let database = Database::new();
    let (mut store, mut client) = (database.connect(), database.client());
    let lease = join(&mut store);
    write(&mut client, 5_000, 10);
    let expected = pending(&mut client);
    scan_until(&mut store, &expected);
    let ids: Vec<TimerId> = expected.iter().copied().collect();
    assert_eq!(store.claim(lease, &ids).unwrap().timers.len(), 10);
    assert_eq!(store.held(lease, None).unwrap().timers.len(), 10);
    // Those are behind the floor, and this one after it.
    let now = store.now().unwrap();
    let late = timer(now);
    store.insert(std::slice::from_ref(&late)).unwrap();
    assert_eq!(store.claim(lease, &[late.id]).unwrap().timers.len(), 1);
    scan(&mut store);
    assert_eq!(store.held(lease, None).unwrap().timers.len(), 11);
    client.execute("DELETE FROM tourbillon.node", &[]).unwrap();
    assert_eq!(store.maintain().unwrap().orphans, 11);
    assert_eq!(scan(&mut store).len(), 11);

    let other = store.join(Lease { node: NodeId::new(), epoch: 1 }, LONG).unwrap().unwrap().lease;
    let ids: Vec<TimerId> = scan(&mut store).into_iter().collect();
    assert_eq!(store.claim(other, &ids).unwrap().timers.len(), 11);
    store.leave(other).unwrap();
    assert_eq!(scan(&mut store).len(), 11);
}

/// Compares scans and audits with the table, whatever was written, by this connection or another.
#[test]
fn reads_find_what_the_table_has() {
    let mut random = fastrand::Rng::with_seed(24);
    let database = Database::new();
    let (mut store, mut other) = (database.connect(), database.connect());
    let mut client = database.client();
    let lease = join(&mut store);
    let mut running: Vec<(TimerId, u32)> = Vec::new();
    for _ in 0..150 {
        match random.u8(..12) {
            0 => write(&mut client, random.i32(1..2_000_000), random.i32(1..40)),
            1 => write(&mut client, random.i32(1..60), random.i32(1..700)),
            2 | 3 => {
                let now = other.now().unwrap();
                let timers: Vec<_> = (0..random.usize(1..20)).map(|_| timer(now)).collect();
                other.insert(&timers).unwrap();
            }
            4..=7 => {
                let mut ids: Vec<TimerId> = pending(&mut client).into_iter().collect();
                random.shuffle(&mut ids);
                ids.truncate(random.usize(..200));
                ids.sort();
                let claimed = other.claim(lease, &ids).unwrap().timers;
                running.extend(claimed.iter().map(|timer| (timer.new.id, timer.attempt)));
            }
            8..=10 => {
                random.shuffle(&mut running);
                let ended = running.split_off(running.len().saturating_sub(random.usize(..250)));
                let how = |n: usize| match n % 7 {
                    0 => How::HandBack,
                    1 => How::Retry(Duration::ZERO, String::new()),
                    2 => How::Retry(LONG, String::new()),
                    _ => conformance::done(),
                };
                let ends = ended.into_iter().enumerate();
                let ends: Vec<_> =
                    ends.map(|(n, (id, attempt))| end(id, attempt, how(n))).collect();
                other.finish(lease, &ends).unwrap();
            }
            _ => _ = store.maintain().unwrap(),
        }
        let expected = pending(&mut client);
        scan_until(&mut store, &expected);
        let mut held = store.held(lease, None).unwrap().timers;
        held.sort_unstable();
        running.sort_unstable();
        assert_eq!(held, running);
    }
}
