//! How much statements read, on a large table. What is counted is what the server read, by the
//! statements as they are, prepared while the tables were empty.

use std::thread;
use std::time::Duration;

use postgres::Client;
use tourbillon_durable::store::{
    Advance, Advanced, Change, End, How, NewTimer, Postgres, Scan, ScheduleRow, Skip, Store,
    Withdrawn,
};
use tourbillon_durable::{Lease, Outcome, Reason, ScheduleId, Shards, Time, TimerId};

use crate::cluster::Database;
use crate::{LONG, join, timer};

/// How many timers are due at the same time; such times are five minutes apart.
const EACH: i64 = 1_000;
/// How many such times there are, and how many of them are past.
const TIMES: i64 = 200;
const PAST: i64 = 50;
/// How many entries are left in an index by what was there before.
const LEFT: i64 = 50;

/// What the server has read of the table of timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reads {
    /// Rows, one after the other.
    by_none: i64,
    /// Entries of the index on `due`.
    by_due: i64,
    /// Entries of the index on `id`.
    by_id: i64,
    /// Blocks of the table and of its indexes.
    blocks: i64,
}

const READS: &str = "
    SELECT t.seq_tup_read,
           (SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'timer_due'),
           (SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'timer_pkey'),
           b.heap_blks_read + b.heap_blks_hit + b.idx_blks_read + b.idx_blks_hit
    FROM pg_stat_user_tables AS t JOIN pg_statio_user_tables AS b USING (relid)
    WHERE t.relname = 'timer'";

const CONNECTIONS: &str = "
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'tourbillon'";

/// A large table, and stores whose statements were prepared while it was empty.
struct Large {
    client: Client,
    stores: Vec<Postgres>,
    lease: Lease,
    _database: Database,
}

impl Large {
    /// With so many times past.
    fn new(past: i64) -> Self {
        let database = Database::new();
        let mut stores: Vec<_> = (0..4).map(|_| database.connect()).collect();
        let lease = join(&mut stores[0]);
        for (n, store) in stores.iter_mut().enumerate() {
            everything(store, &format!("warm {n}"));
        }
        let mut client = database.client();
        let fill = format!(
            "INSERT INTO tourbillon.timer
                 (id, kind, name, scheduled_for, due, shard, payload, retry)
             SELECT gen_random_uuid(), 'mail', 'name ' || n, at, at, 0, '', '1,0,0'
             FROM (SELECT n, now() + make_interval(secs => 300 * (n / {EACH} - {past}) - 1) AS at
                   FROM generate_series(0, {EACH} * {TIMES} - 1) AS n) AS times"
        );
        client.batch_execute(&fill).unwrap();
        // The server writes down a connection's counts once a second at most.
        thread::sleep(Duration::from_millis(1_100));
        for store in &mut stores {
            store.now().unwrap();
        }
        Self { client, stores, lease, _database: database }
    }

    fn reads(&mut self) -> Reads {
        let row = self.client.query_one(READS, &[]).unwrap();
        let [by_none, by_due, by_id, blocks] = [0, 1, 2, 3].map(|column| row.get(column));
        Reads { by_none, by_due, by_id, blocks }
    }

    /// What `work` reads.
    fn count<T>(&mut self, work: impl FnOnce(&mut Postgres, Lease) -> T) -> (Reads, T) {
        let mut store = self.stores.pop().unwrap();
        let before = self.reads();
        let result = work(&mut store, self.lease);
        // A connection's counts are there when it has ended.
        drop(store);
        let left = self.stores.len() as i64;
        while self.client.query_one(CONNECTIONS, &[]).unwrap().get::<_, i64>(0) > left {
            thread::sleep(Duration::from_millis(1));
        }
        let after = self.reads();
        let reads = Reads {
            by_none: after.by_none - before.by_none,
            by_due: after.by_due - before.by_due,
            by_id: after.by_id - before.by_id,
            blocks: after.blocks - before.blocks,
        };
        (reads, result)
    }
}

fn scan(store: &mut Postgres, ahead: Duration, back: Option<Duration>, limit: u32) -> Vec<TimerId> {
    let kinds = ["mail".to_owned()];
    let scan = Scan { ahead, back, shards: Shards::ALL, kinds: &kinds, limit };
    let found = store.scan(&scan).unwrap();
    found.timers.iter().map(|waiting| waiting.id).collect()
}

#[test]
fn a_scan_reads_what_it_returns() {
    let mut large = Large::new(PAST);
    let back = Some(Duration::from_secs(400));
    let (reads, found) = large.count(|store, _| scan(store, LONG, back, 50_000));
    // Due five minutes and a second ago, one second ago, and in five and ten minutes less a second.
    assert_eq!(found.len() as i64, EACH * 4);
    assert_eq!((reads.by_none, reads.by_id), (0, 0));
    assert!((0..=LEFT).contains(&(reads.by_due - EACH * 4)), "{reads:?}");

    // A thousand are due at the same time.
    let (reads, found) = large.count(|store, _| scan(store, LONG, None, 10));
    assert_eq!(found.len(), 10);
    assert_eq!((reads.by_none, reads.by_due, reads.by_id), (0, 10, 0));
}

#[test]
fn a_claim_reads_what_it_names_and_tend_a_part_of_what_is_due() {
    let mut large = Large::new(PAST);
    let (_, mut ids) = large.count(|store, _| scan(store, Duration::ZERO, None, 100));
    ids.sort();
    let (reads, claimed) = large.count(|store, lease| store.claim(lease, &ids).unwrap());
    assert_eq!(claimed.timers.len(), 100);
    assert_eq!((reads.by_none, reads.by_due, reads.by_id), (0, 0, 100));

    let (reads, tended) = large.count(|store, _| store.tend().unwrap());
    assert_eq!((reads.by_none, reads.by_id), (0, 0));
    assert!((0..=LEFT).contains(&(reads.by_due - 20_000)), "{reads:?}");
    assert!(!tended.more, "no node has died");
}

/// Every call that a node or a client makes; those that list are left out.
fn everything(store: &mut Postgres, name: &str) {
    let lease = join(store);
    let now = store.now().unwrap();
    let new = |n: u32| NewTimer { name: Some(format!("{name} {n}")), ..timer(now) };
    let timers = [0, 1, 2, 3, 4].map(new);
    store.insert(&timers).unwrap();
    store.insert(&timers).unwrap();
    store.find("nobody").unwrap();
    scan(store, Duration::ZERO, Some(Duration::from_millis(1)), 9);
    scan(store, Duration::ZERO, None, 9);
    let [first, retried, third, fourth, fifth] = timers.map(|timer| timer.id);
    let done = || How::Done(Outcome::Succeeded, None, String::new());
    let end = |timer, how| [End { timer, attempt: 1, how }];
    store.claim(lease, &[first]).unwrap();
    store.finish_and_claim(lease, &end(first, done()), &[retried]).unwrap();
    store.finish(lease, &end(first, done())).unwrap();
    store.finish(lease, &end(retried, How::Retry(LONG))).unwrap();
    store.cancel(third).unwrap();
    store.reschedule(fourth, now).unwrap();
    let row = ScheduleRow {
        id: ScheduleId::new(now),
        name: name.to_owned(),
        kind: "mail".to_owned(),
        spec: String::new(),
        policies: String::new(),
        payload: Vec::new(),
        enabled: true,
        version: 1,
        next: Some(now),
    };
    let change =
        Change { name, expect: None, row: Some(&row), as_of: now, withdraw: None, skipped: &[] };
    store.change(&change).unwrap();
    let second = Duration::from_secs(1);
    let occurrence = |n: u32, due| NewTimer {
        schedule: Some(row.id),
        name: Some(name.to_owned()),
        scheduled_for: now + second * n,
        ..timer(due)
    };
    let timers = [occurrence(0, now + LONG), occurrence(1, Time::NEVER)];
    let skip = |n: u32| Skip {
        id: TimerId::new(now),
        scheduled_for: now + second * n,
        outcome: Outcome::Skipped,
        reason: Reason::Missed,
    };
    let advance = Advance {
        schedule: row.id,
        version: 1,
        from: now,
        next: Some(now + LONG),
        timers: &timers,
        skipped: &[skip(2)],
        only_idle: true,
    };
    assert_eq!(store.advance(&advance).unwrap(), Advanced::Done);
    store.upcoming(LONG, Shards::ALL, 9).unwrap();
    store.cancel(timers[0].id).unwrap();
    assert_eq!(store.tend().unwrap().promoted, 1);
    let withdraw = Some(Reason::Disabled);
    store.change(&Change { expect: Some(1), withdraw, skipped: &[skip(3)], ..change }).unwrap();
    store.beat(lease, LONG).unwrap();
    store.claim(lease, &[fifth]).unwrap();
    store.leave(lease).unwrap();
    for left in [retried, fourth, fifth] {
        assert_eq!(store.cancel(left).unwrap(), Withdrawn::Done);
    }
    store.prune(now, 9).unwrap();
}

#[test]
fn no_call_reads_all() {
    // What is past is searched for what nobody runs.
    let mut large = Large::new(-1);
    let (reads, ()) = large.count(|store, _| everything(store, "warmed"));
    assert_eq!(reads.by_none, 0);
    assert!(reads.blocks < 600, "{reads:?}");
}

#[test]
fn a_claim_of_whole_pages_changes_no_index() {
    const TIMERS: i64 = 4_000;
    let database = Database::new();
    let mut store = database.connect();
    let lease = join(&mut store);
    let now = store.now().unwrap();
    let timers: Vec<NewTimer> = (0..TIMERS).map(|_| timer(now)).collect();
    for part in timers.chunks(500) {
        store.insert(part).unwrap();
        let mut ids: Vec<TimerId> = part.iter().map(|timer| timer.id).collect();
        ids.sort();
        assert_eq!(store.claim(lease, &ids).unwrap().timers.len(), 500);
    }
    drop(store);
    let mut client = database.client();
    let (mut updates, mut hot): (i64, i64) = (0, 0);
    while updates < TIMERS {
        thread::sleep(Duration::from_millis(1));
        let row = client.query_one(UPDATES, &[]).unwrap();
        (updates, hot) = (row.get(0), row.get(1));
    }
    assert!(hot * 1_000 >= updates * 999, "{hot} of {updates} updates");
}

const UPDATES: &str = "
    SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'timer'";
