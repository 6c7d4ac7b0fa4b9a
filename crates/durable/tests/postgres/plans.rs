//! Reads of statements on a large table: counts of the server's reads, by the real statements,
//! prepared while the tables were empty.

use std::thread;
use std::time::Duration;

use postgres::Client;
use tourbillon_durable::store::calls::{
    Advance, Advanced, Amendment, Batch, Change, Filled, ManualRun, NewOccurrence, Past, Pulse,
    Pulsed, Reschedule, Scan, Skip, UpcomingQuery, ZonedQuery,
};
use tourbillon_durable::store::{
    End, How, NewTimer, OverviewOf, Postgres, RecordQuery, ScheduleQuery, ScheduleRow, Search,
    State, Store, TallyOf, TimerQuery, TimerUpdate, conformance,
};
use tourbillon_durable::{
    Lease, Outcome, Policies, Reason, Rule, Schedule, ScheduleId, Shards, Time, TimerId,
};

use crate::cluster::Database;
use crate::{LONG, join, timer};

/// Number of timers that are due at the same time; such times are five minutes apart.
const EACH: i64 = 1_000;
/// Number of such times, and how many of them are past.
const TIMES: i64 = 200;
const PAST: i64 = 50;
/// Most entries that rows of the past leave in an index.
const LEFT: i64 = 50;

/// Blocks and rows that the server has read of the table of timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reads {
    /// Rows, one after the other.
    by_none: i64,
    /// Entries of the index on `due`.
    pub(crate) by_due: i64,
    /// Entries of the index on `kind` and `due`.
    pub(crate) by_kind: i64,
    /// Entries of the index on `id`.
    by_id: i64,
    /// Entries of the indexes on lanes.
    by_lane: i64,
    /// Blocks of the table and of its indexes.
    blocks: i64,
}

const READS: &str = "
    SELECT t.seq_tup_read,
           (SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'timer_due'),
           (SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'timer_kind'),
           (SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'timer_pkey'),
           (SELECT sum(idx_tup_read)::int8 FROM pg_stat_user_indexes
            WHERE indexrelname IN ('timer_front', 'timer_lane')),
           b.heap_blks_read + b.heap_blks_hit + b.idx_blks_read + b.idx_blks_hit
    FROM pg_stat_user_tables AS t JOIN pg_statio_user_tables AS b USING (relid)
    WHERE t.relname = 'timer'";

const CONNECTIONS: &str = "
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'tourbillon'";

/// A large table, and stores whose statements were prepared while it was empty.
pub(crate) struct Large {
    client: Client,
    stores: Vec<Postgres>,
    lease: Lease,
    database: Database,
}

impl Large {
    /// Without timers.
    pub(crate) fn empty() -> Self {
        let mut large = Self::prepared("");
        large.settle();
        large
    }

    /// With timers by that statement while the stores set their floors.
    fn prepared(fill: &str) -> Self {
        let database = Database::new();
        let mut stores: Vec<_> = (0..4).map(|_| database.connect()).collect();
        let mut client = database.client();
        client.batch_execute(fill).unwrap();
        // After an analysis statements are planned anew, which reads the ends of an index.
        client
            .batch_execute("ALTER TABLE tourbillon.timer SET (autovacuum_enabled = false)")
            .unwrap();
        let lease = join(&mut stores[0]);
        for (n, store) in stores.iter_mut().enumerate() {
            everything(store, &format!("warm {n}"));
        }
        Self { client, stores, lease, database }
    }

    /// Makes one with so many times past.
    fn new(past: i64) -> Self {
        // With more than a floor may leave behind, it is before all that is past later.
        let old = "
            INSERT INTO tourbillon.timer (id, kind, scheduled_for, due, shard)
            SELECT gen_random_uuid(), 'old', at, at, 0
            FROM (SELECT now() - interval '1 year' + make_interval(secs => n) AS at
                  FROM generate_series(0, 1001) AS n) AS times";
        let mut large = Self::prepared(if past > 0 { old } else { "" });
        large.client.execute("DELETE FROM tourbillon.timer WHERE kind = 'old'", &[]).unwrap();
        large.client.batch_execute("VACUUM tourbillon.timer").unwrap();
        let fill = format!(
            "INSERT INTO tourbillon.timer
                 (id, kind, name, scheduled_for, due, shard)
             SELECT lpad(to_hex(n + 1), 32, '0')::uuid, 'mail', 'name ' || n, at, at, 0
             FROM (SELECT n, now() + make_interval(secs => 300 * (n / {EACH} - {past}) - 1) AS at
                   FROM generate_series(0, {EACH} * {TIMES} - 1) AS n) AS times"
        );
        large.client.batch_execute(&fill).unwrap();
        large.settle();
        large
    }

    /// Makes the server write down what all connections have read: it does that for each once a
    /// second at most.
    fn settle(&mut self) {
        thread::sleep(Duration::from_millis(1_100));
        self.client.batch_execute("").unwrap();
        for store in &mut self.stores {
            store.now().unwrap();
        }
    }

    /// A client of the same database.
    pub(crate) fn client(&self) -> Client {
        self.database.client()
    }

    fn reads(&mut self) -> Reads {
        let row = self.client.query_one(READS, &[]).unwrap();
        let [by_none, by_due, by_kind, by_id, by_lane, blocks] =
            [0, 1, 2, 3, 4, 5].map(|place| row.get(place));
        Reads { by_none, by_due, by_kind, by_id, by_lane, blocks }
    }

    /// Counts what `work` reads.
    pub(crate) fn count<T>(&mut self, work: impl FnOnce(&mut Postgres, Lease) -> T) -> (Reads, T) {
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
            by_kind: after.by_kind - before.by_kind,
            by_id: after.by_id - before.by_id,
            by_lane: after.by_lane - before.by_lane,
            blocks: after.blocks - before.blocks,
        };
        (reads, result)
    }
}

fn scan(
    store: &mut Postgres,
    ahead: Duration,
    back: Option<Duration>,
    kind_limit: u32,
) -> Vec<TimerId> {
    let kinds = ["mail".to_owned()];
    let scan = Scan { ahead, back, ..conformance::scan(&kinds, kind_limit) };
    let found = store.scan(&scan).unwrap();
    found.timers.iter().map(|waiting| waiting.id).collect()
}

/// A scan that finds nothing, and beats.
fn pulse(store: &mut Postgres, lease: Lease) -> Pulsed {
    let (shards, ahead, asks_for_work) = (Shards::ALL, Duration::ZERO, true);
    let pulse = Some(Pulse { lease, span: LONG, shards, ahead, asks_for_work });
    let (back, kinds) = (Some(Duration::from_millis(1)), ["none".to_owned()]);
    let scan = Scan { back, pulse, ..conformance::scan(&kinds, 9) };
    store.scan(&scan).unwrap().pulsed.unwrap()
}

#[test]
fn a_scan_reads_what_it_returns() {
    let mut large = Large::new(PAST);
    let back = Some(Duration::from_secs(400));
    let (reads, found) = large.count(|store, _| scan(store, LONG, back, 50_000));
    // Due five minutes and a second ago, one second ago, and in five and ten minutes less a second.
    assert_eq!(found.len() as i64, EACH * 4);
    assert_eq!((reads.by_none, reads.by_due, reads.by_id), (0, 0, 0));
    assert!((0..=LEFT).contains(&(reads.by_kind - EACH * 4)), "{reads:?}");

    // A thousand are due at the same time.
    let (reads, found) = large.count(|store, _| scan(store, LONG, None, 10));
    assert_eq!(found.len(), 10);
    assert_eq!((reads.by_none, reads.by_due, reads.by_kind, reads.by_id), (0, 0, 10, 0));

    // Nobody asks for the backlog.
    let kinds = ["later".to_owned(), "none".to_owned()];
    let nothing = Scan { ahead: LONG, ..conformance::scan(&kinds, 10) };
    let (reads, found) = large.count(|store, _| store.scan(&nothing).unwrap().timers);
    assert_eq!(found, []);
    assert_eq!((reads.by_none, reads.by_due, reads.by_id), (0, 0, 0));
    assert!(reads.by_kind <= 2, "{reads:?}");

    let (reads, pulsed) = large.count(pulse);
    assert!(pulsed.has_work);
    assert_eq!((reads.by_none, reads.by_id, reads.by_lane), (0, 0, 0));
    assert!(reads.by_due + reads.by_kind <= LEFT, "{reads:?}");
}

#[test]
fn a_scan_of_many_kinds_reads_what_it_returns() {
    const KINDS: i64 = 20;
    let mut large = Large::new(PAST);
    let rename = format!(
        "UPDATE tourbillon.timer SET kind = 'kind ' || substr(name, 6)::int8 % {KINDS};
         VACUUM tourbillon.timer"
    );
    for statement in rename.split(';') {
        large.client.batch_execute(statement).unwrap();
    }
    let kinds: Vec<String> = (0..KINDS).map(|n| format!("kind {n}")).collect();
    let scan = Scan { ahead: LONG, ..conformance::scan(&kinds, 100) };
    let (reads, window) = large.count(|store, _| store.scan(&scan).unwrap());
    assert_eq!(window.timers.len() as i64, KINDS * 100);
    assert!(window.timers.is_sorted());
    assert_eq!((reads.by_none, reads.by_due, reads.by_id), (0, 0, 0));
    assert!((0..=LEFT).contains(&(reads.by_kind - KINDS * 100)), "{reads:?}");
}

#[test]
fn an_audit_reads_what_is_due_in_parts() {
    const PART: i64 = 20_000;
    let mut large = Large::new(PAST);
    let (_, mut ids) = large.count(|store, _| scan(store, Duration::ZERO, None, 100));
    ids.sort();
    let (reads, held) = large.count(|store, lease| {
        assert_eq!(store.claim(lease, &ids).unwrap().timers.len(), 100);
        store.held(lease, None).unwrap()
    });
    let mut found: Vec<TimerId> = held.timers.iter().map(|(id, _)| *id).collect();
    found.sort();
    assert_eq!(found, ids);
    assert!((0..=LEFT).contains(&(reads.by_due - PART)), "{reads:?}");

    let (reads, held) = large.count(|store, lease| store.held(lease, held.rest).unwrap());
    assert_eq!((held.timers, held.rest.is_some()), (vec![], true));
    assert!((0..=LEFT).contains(&(reads.by_due - PART)), "{reads:?}");
    let (_, held) = large.count(|store, lease| store.held(lease, held.rest).unwrap());
    assert_eq!((held.timers, held.rest), (vec![], None));
}

#[test]
fn a_claim_reads_what_it_names_and_maintain_a_part_of_what_is_due() {
    let mut large = Large::new(PAST);
    let (_, mut ids) = large.count(|store, _| scan(store, Duration::ZERO, None, 100));
    ids.sort();
    let (reads, claimed) = large.count(|store, lease| store.claim(lease, &ids).unwrap());
    assert_eq!(claimed.timers.len(), 100);
    assert_eq!((reads.by_none, reads.by_due, reads.by_id), (0, 0, 100));

    let (reads, maintained) = large.count(|store, _| store.maintain().unwrap());
    assert_eq!((reads.by_none, reads.by_id), (0, 0));
    assert!((0..=LEFT).contains(&(reads.by_due - 20_000)), "{reads:?}");
    assert!(!maintained.more, "no node has died");
}

/// Every call that a node or a client makes, except lists.
fn everything(store: &mut Postgres, name: &str) {
    store.named(&[name, "none"]).unwrap();
    let lease = join(store);
    let now = store.now().unwrap();
    let new = |n: u32| {
        let mut timer = timer(now);
        timer.name = Some(format!("{name} {n}"));
        timer
    };
    let timers = [0, 1, 2, 3, 4].map(new);
    store.insert(&timers).unwrap();
    store.insert(&timers).unwrap();
    store.find("nobody").unwrap();
    scan(store, Duration::ZERO, Some(Duration::from_millis(1)), 9);
    scan(store, Duration::ZERO, None, 9);
    let [first, retried, third, fourth, fifth] = timers.map(|timer| timer.id);
    let done = conformance::done;
    let end = |timer, how| [End { timer, attempt: 1, how }];
    store.claim(lease, &[first]).unwrap();
    store
        .finish_and_claim(&Batch { lease, ends: &end(first, done()), timers: &[retried] })
        .unwrap();
    store.finish(lease, &end(first, done())).unwrap();
    store.finish(lease, &end(retried, How::Retry(LONG, "rain".to_owned()))).unwrap();
    store.cancel(third).unwrap();
    store.reschedule(&Reschedule::new(fourth, now)).unwrap();
    let (pause, detail) = (Duration::ZERO, "waits");
    let amendment = Amendment { timer: fourth, attempt: 0, version: 2, pause, detail };
    assert_eq!(store.amend(&amendment).unwrap(), TimerUpdate::Done);
    in_lane(store, name);
    let rule = Ok(Rule::new(Schedule::every(LONG), Policies::default()));
    let row = ScheduleRow::new(ScheduleId::new(now), name, "mail", rule, Some(now));
    let change = Change { name, expect: None, row: Some(&row), withdraw: None, skipped: &[] };
    store.change(&change).unwrap();
    let second = Duration::from_secs(1);
    let occurrence = |n: u32, due| {
        let mut timer = NewTimer::occurrence(&row, &Policies::default(), now + second * n);
        timer.due = due;
        timer
    };
    let timers = [occurrence(0, now + LONG), occurrence(1, Time::NEVER)];
    let skip = |n: u32| Skip {
        id: TimerId::new(now),
        scheduled_for: now + second * n,
        outcome: Outcome::Skipped,
        reason: Reason::Missed,
    };
    let skipped = [skip(2)];
    let advance = conformance::advance(&row, now + LONG);
    let advance = Advance { timers: &timers, skipped: &skipped, only_idle: true, ..advance };
    assert_eq!(store.advance(&advance).unwrap(), Advanced::Done);
    let extra = occurrence(4, now);
    let occurrence = NewOccurrence { timer: &extra, version: 1, queue: Some(2) };
    assert_eq!(store.insert_occurrence(&occurrence).unwrap(), ManualRun::Done { due: Time::NEVER });
    store.cancel(extra.id).unwrap();
    let past = [9, 8].map(|n| NewTimer::occurrence(&row, &Policies::default(), now - second * n));
    let range = Past { schedule: row.id, version: 1, timers: &past, limit: 1 };
    for (made, existed) in [(1, 0), (1, 1), (0, 2)] {
        assert_eq!(store.backfill(&range).unwrap(), Filled::Done { made, existed });
    }
    for timer in &past {
        assert_eq!(store.cancel(timer.id).unwrap(), TimerUpdate::Done);
    }
    store.upcoming(&UpcomingQuery::new(LONG, 9)).unwrap();
    store.zoned(&ZonedQuery { after: None, but: Some("2025b".to_owned()), limit: 9 }).unwrap();
    let mut stale = row.clone();
    stale.version = 7;
    assert_eq!(store.rezone(&stale).unwrap(), Advanced::Stale);
    store.cancel(timers[0].id).unwrap();
    assert_eq!(store.maintain().unwrap().promoted, 1);
    let withdraw = Some(Reason::Disabled);
    store.change(&Change { expect: Some(1), withdraw, skipped: &[skip(3)], ..change }).unwrap();
    store.beat(lease, LONG).unwrap();
    assert!(pulse(store, lease).beat.is_some());
    store.claim(lease, &[fifth]).unwrap();
    assert_eq!(store.held(lease, None).unwrap().timers, [(fifth, 1)]);
    store.leave(lease).unwrap();
    for left in [retried, fourth, fifth] {
        assert_eq!(store.cancel(left).unwrap(), TimerUpdate::Done);
    }
    store.prune(now, 9).unwrap();
}

/// A lane.
fn in_lane(store: &mut Postgres, name: &str) {
    let now = store.now().unwrap();
    let lanes = [format!("{name} lane")];
    let waiting = [1, 2].map(|_| {
        let mut timer = timer(now);
        timer.lane = Some(lanes[0].clone());
        timer
    });
    store.insert(&waiting).unwrap();
    for promoted in [1, 0, 0] {
        assert_eq!(store.promote(&lanes).unwrap().len(), promoted);
        store.maintain().unwrap();
    }
    for timer in &waiting {
        assert_eq!(store.cancel(timer.id).unwrap(), TimerUpdate::Done);
    }
}

#[test]
fn a_long_lane_and_many_lanes_hold_up_nothing() {
    const PART: i64 = 2_000;
    let mut large = Large::new(PAST);
    // A hundred thousand wait in one lane, and one behind the front of each of five thousand.
    let fill = "
        INSERT INTO tourbillon.timer (id, kind, scheduled_for, due, shard, lane)
        SELECT gen_random_uuid(), 'mail', now() - interval '1 hour', 'infinity', 0, 'long'
        FROM generate_series(1, 100000);
        INSERT INTO tourbillon.timer (id, kind, scheduled_for, due, shard, lane)
        SELECT gen_random_uuid(), 'mail', now() + day * interval '1 day',
               CASE day WHEN 1 THEN now() + interval '1 day' ELSE 'infinity' END, 0, 'lane ' || n
        FROM generate_series(1, 5000) AS n, generate_series(1, 2) AS day";
    large.client.batch_execute(fill).unwrap();
    large.settle();
    let (reads, found) = large.count(|store, _| scan(store, Duration::ZERO, None, 10));
    assert_eq!((found.len(), reads.by_kind, reads.by_lane), (10, 10, 0));
    let long = ["long".to_owned()];
    let (reads, front) = large.count(|store, _| {
        let front = store.promote(&long).unwrap();
        assert_eq!(store.promote(&long).unwrap(), []);
        front
    });
    assert_eq!((front.len(), reads.by_none, reads.by_kind), (1, 0, 0));
    // A plan that is made anew looks at the ends of the index on `due`.
    assert!(reads.by_due <= LEFT && reads.by_lane <= LEFT && reads.blocks <= 300, "{reads:?}");
    let (reads, maintained) = large.count(|store, _| store.maintain().unwrap());
    assert_eq!((maintained.promoted, reads.by_none, reads.by_kind), (0, 0, 0));
    assert!((0..=LEFT).contains(&(reads.by_due - 20_000)), "{reads:?}");
    assert!((PART..=PART * 3 + LEFT).contains(&reads.by_lane), "{reads:?}");
}

#[test]
fn a_lookup_of_names_reads_what_it_returns() {
    let mut large = Large::new(PAST);
    let names: Vec<_> = (0..64).map(|n| format!("name {}", n * 1_000)).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let (reads, found) = large.count(|store, _| store.named(&names).unwrap().1);
    assert!(found.iter().all(|named| named.timer.is_some()));
    // An index of three levels and the row, for each name.
    assert!(reads.by_none == 0 && reads.blocks <= 64 * 6, "{reads:?}");
}

#[test]
fn no_call_reads_all() {
    // The past is searched for timers that nobody runs.
    let mut large = Large::new(-1);
    let (reads, ()) = large.count(|store, _| everything(store, "warmed"));
    assert_eq!(reads.by_none, 0);
    assert!(reads.blocks < 900, "{reads:?}");

    // A vacuum that found no row alive leaves these statistics, and plans are made anew.
    large.client.batch_execute("ANALYZE tourbillon.timer").unwrap();
    let mislead = "UPDATE pg_class SET reltuples = 0 WHERE relname LIKE 'timer%'";
    large.client.batch_execute(mislead).unwrap();
    // The analysis's own reads do not count.
    large.settle();
    let (reads, ()) = large.count(|store, _| everything(store, "misled"));
    assert_eq!(reads.by_none, 0);
    assert!(reads.blocks < 900, "{reads:?}");
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

/// Number of rows of each kind, and of kinds.
const ROWS: i64 = 20_000;
const KINDS: i64 = 10;

/// Large tables; each list needs few of their rows.
fn filled(database: &Database) -> Client {
    let mut client = database.client();
    let all = ROWS * KINDS;
    // What vacuum reads is counted too, and it starts by itself.
    let fill = format!(
        "ALTER TABLE tourbillon.timer SET (autovacuum_enabled = false);
         ALTER TABLE tourbillon.schedule SET (autovacuum_enabled = false);
         ALTER TABLE tourbillon.history SET (autovacuum_enabled = false);
         INSERT INTO tourbillon.timer (id, kind, name, scheduled_for, due, shard)
         SELECT gen_random_uuid(), 'kind ' || n % {KINDS}, n % {KINDS} || '/' || n,
                now(),
                CASE WHEN n / 10 % 2 = 0 THEN 'infinity'
                     ELSE now() + make_interval(secs => n + n % {KINDS} * {all}) END,
                0
         FROM generate_series(1, {all}) AS n;
         INSERT INTO tourbillon.schedule
             (id, name, kind, spec, policies, payload, shard, enabled, version, next)
         SELECT gen_random_uuid(), n % {KINDS} || '/' || n, 'kind ' || n % {KINDS}, '', '', '', 0,
                n % 1000 >= {KINDS}, 1, NULL
         FROM generate_series(1, {all}) AS n;
         INSERT INTO tourbillon.history
             (timer, name, kind, scheduled_for, attempts, failures, outcome, detail, recorded)
         SELECT gen_random_uuid(), n % {KINDS} || '/' || n / 100, 'kind ' || n % {KINDS}, now(),
                1, 0, CASE WHEN n % 1000 < {KINDS} THEN 2 ELSE 1 END, '',
                now() - make_interval(secs => n)
         FROM generate_series(1, {all}) AS n"
    );
    client.batch_execute(&fill).unwrap();
    client
}

/// Query for the server's reads of all tables.
const ALL_READS: &str = "
    SELECT sum(coalesce(seq_tup_read, 0))::int8,
           (SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::int8
            FROM pg_statio_user_tables)
    FROM pg_stat_user_tables WHERE schemaname = 'tourbillon' AND relname <> 'version'";

/// Makes the server write down the connection's reads so far. It does so at most once a second.
fn settle(client: &mut Client) {
    thread::sleep(Duration::from_millis(1_100));
    client.query_one("SELECT 1", &[]).unwrap();
}

/// Counts the blocks that `work` reads by a new connection; it reads no table from end to end. What
/// `client` has read before is [settled](settle).
fn blocks<T>(
    database: &Database,
    client: &mut Client,
    work: impl FnOnce(&mut Postgres) -> T,
) -> i64 {
    let mut reads = || {
        while client.query_one(CONNECTIONS, &[]).unwrap().get::<_, i64>(0) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let row = client.query_one(ALL_READS, &[]).unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    let before = reads();
    let mut store = database.connect();
    work(&mut store);
    drop(store);
    let after = reads();
    assert_eq!(after.0, before.0, "a table was read from end to end");
    after.1 - before.1
}

#[test]
fn a_page_of_a_list_reads_what_it_returns() {
    let database = Database::new();
    drop(database.connect());
    let mut client = filled(&database);
    // The last due timer, and the last by name.
    let timers = || TimerQuery::new().kind("kind 9").limit(50);
    let schedules = || ScheduleQuery::new().kind("kind 9").limit(50);
    let newest = || RecordQuery::new().newest_first().limit(50);
    let of_kind = || newest().kind("kind 9");
    let analyze = "ANALYZE tourbillon.timer, tourbillon.schedule, tourbillon.history";
    for is_analyzed in [false, true] {
        if is_analyzed {
            client.batch_execute(analyze).unwrap();
        }
        settle(&mut client);
        let connecting = blocks(&database, &mut client, |_| {});
        // None runs, so this reads no row, whatever is due later.
        let running = timers().by_name("9/", None).state(State::Running);
        let read = blocks(&database, &mut client, |store| {
            assert_eq!(store.timers(&running).unwrap(), []);
        });
        assert!(read - connecting < 60, "running, {is_analyzed}: {read} blocks");
        let mut page = |what: &str,
                        expected: usize,
                        list: &mut dyn FnMut(&mut Postgres) -> usize| {
            let read = blocks(&database, &mut client, |store| assert_eq!(list(store), expected));
            assert!(read - connecting < 600, "{what}, {is_analyzed}: {read} blocks");
        };
        for query in [timers(), timers().by_name("9/7", None)] {
            let what = format!("{query:?}");
            page(&what, 50, &mut |store| store.timers(&query).unwrap().len());
        }
        let (enabled, disabled) = (schedules().enabled(true), schedules().enabled(false));
        // The first and the last page of a few among many, as the service asks for them.
        let first = disabled.clone().prefix("9/");
        let last = first.clone().after("9/55");
        for query in [schedules(), schedules().prefix("9/7"), enabled, disabled, first, last] {
            let what = format!("{query:?}");
            page(&what, 50, &mut |store| store.schedules(&query).unwrap().len());
        }
        let (dead, named) = (of_kind().outcome(Outcome::Dead), newest().name("9/77"));
        for (query, expected) in [(of_kind(), 50), (dead, 50), (named, 10), (newest(), 50)] {
            let what = format!("{query:?}");
            page(&what, expected, &mut |store| store.records(&query).unwrap().len());
        }
        let of = OverviewOf::new(vec!["kind 9".to_owned()], 50);
        page("overview", 50, &mut |store| store.overview(&of).unwrap().enabled.count as usize);
        let names: Vec<String> = (0..50).map(|n| format!("9/{}", n * 7)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        page("latest records", 250, &mut |store| {
            let latest = store.latest_records(&names, 5).unwrap();
            latest.iter().map(Vec::len).sum()
        });
        for search in [Search::new("9/"), Search::new("9/").after("9/7")] {
            let search = search.contains(2, "none").most(100);
            page("search", 0, &mut |store| store.search(&search).unwrap().names.len());
        }
        let all = TallyOf::new("kind 9", Time::from_micros(0), Time::NEVER).most(50);
        for of in [all.clone(), all.name("9/77")] {
            page("tally", 1, &mut |store| store.tally(&of).unwrap().parts.len());
        }
        // Held timers are passed over.
        page("maintain", 0, &mut |store| store.maintain().unwrap().promoted as usize);
        let past = Time::from_micros(0);
        page("prune", 0, &mut |store| store.prune(past, 50).unwrap() as usize);
    }
}

/// A plan that expects more of them walks through all names, in whose order the timers lie.
#[test]
fn a_page_of_what_is_held_reads_what_is_held() {
    const HELD: i64 = 20;
    let database = Database::new();
    drop(database.connect());
    let mut client = database.client();
    // What vacuum reads is counted too, and it starts by itself.
    let fill = format!(
        "ALTER TABLE tourbillon.timer SET (autovacuum_enabled = false);
         INSERT INTO tourbillon.timer (id, kind, name, scheduled_for, due, shard)
         SELECT gen_random_uuid(), 'mail', lpad(n::text, 8, '0'), now(),
                CASE WHEN n % ({ROWS} / {HELD}) = 0 THEN 'infinity'
                     ELSE now() + make_interval(secs => n * 7919 % {ROWS}) END,
                0
         FROM generate_series(1, {ROWS}) AS n;
         ANALYZE tourbillon.timer"
    );
    client.batch_execute(&fill).unwrap();
    settle(&mut client);
    let connecting = blocks(&database, &mut client, |_| {});
    let held = TimerQuery::new().kind("mail").by_name("", None).since(Time::NEVER).limit(50);
    let read = blocks(&database, &mut client, |store| {
        assert_eq!(store.timers(&held).unwrap().len() as i64, HELD);
    });
    assert!(read - connecting < 60, "{read} blocks, {connecting} without the page");
}

/// A claim's change of a timer, and how much log it writes.
const CLAIM: &str = "
    EXPLAIN (ANALYZE, WAL)
    UPDATE tourbillon.timer SET attempt = attempt + 1, node = gen_random_uuid(), epoch = 1";

/// Bytes of log of a claim of timers whose first attempts left details of that length; none if
/// a checkpoint came before it, so that images of pages are among them.
fn log_of_claim(timers: usize, length: usize) -> Option<usize> {
    let database = Database::new();
    let mut store = database.connect();
    let lease = join(&mut store);
    let now = store.now().unwrap();
    let new: Vec<NewTimer> = (0..timers).map(|_| timer(now)).collect();
    store.insert(&new).unwrap();
    let mut ids: Vec<TimerId> = new.iter().map(|timer| timer.id).collect();
    ids.sort();
    assert_eq!(store.claim(lease, &ids).unwrap().timers.len(), timers);
    let detail = |id: &TimerId| {
        // Nothing that can be compressed.
        let mut bits = id.bits() as u64 | 1;
        let mut char = || {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b' ' + (bits >> 58) as u8)
        };
        (0..length).map(|_| char()).collect::<String>()
    };
    let retry =
        |id: &TimerId| End { timer: *id, attempt: 1, how: How::Retry(Duration::ZERO, detail(id)) };
    let ends: Vec<End> = ids.iter().map(retry).collect();
    store.finish(lease, &ends).unwrap();
    let plan = database.client().query(CLAIM, &[]).unwrap();
    let mut lines = plan.iter().map(|row| row.get::<_, &str>(0));
    let log = lines.rfind(|line| line.contains("WAL: ")).unwrap();
    let (_, bytes) = log.split_once("bytes=").unwrap();
    (!log.contains("fpi=")).then(|| bytes.trim().parse().unwrap())
}

/// A short one lies in the row, and a long one beside it.
///
/// One of several claims shows it: where a snapshot, such as that of an analyze, keeps old rows, a
/// page has no room for the new ones, and their indexes are written too.
#[test]
fn a_claim_does_not_log_again_what_a_failure_left() {
    const TIMERS: usize = 200;
    for length in [0, 1_500, 8_000] {
        let mut logs = (0..20).filter_map(|_| log_of_claim(TIMERS, length));
        assert!(logs.any(|log| log < TIMERS * 500), "{length}");
    }
}

/// Number of schedules of each shard.
const SCHEDULES: u32 = 500;

const SCHEDULE_READS: &str = "
    SELECT t.seq_tup_read, i.idx_tup_read
    FROM pg_stat_user_tables AS t JOIN pg_stat_user_indexes AS i USING (relid)
    WHERE t.relname = 'schedule' AND i.indexrelname = 'schedule_next'";

#[test]
fn a_look_at_schedules_reads_no_other_shard() {
    for shards in [Shards::ALL, Shards::from_mask(1 << 5), Shards::from_mask(1 << 63 | 0b1010)] {
        let database = Database::new();
        let mut store = database.connect();
        assert!(store.upcoming(&UpcomingQuery::new(LONG, SCHEDULES)).unwrap().schedules.is_empty());
        let mut client = database.client();
        let fill = format!(
            "INSERT INTO tourbillon.schedule
                 (id, name, kind, spec, policies, payload, shard, enabled, version, next)
             SELECT gen_random_uuid(), n::text, 'mail', '', '', '', n % 64, true, 1,
                    now() + make_interval(secs => n / 1000.0)
             FROM generate_series(0, {SCHEDULES} * 64 - 1) AS n"
        );
        client.batch_execute(&fill).unwrap();
        let upcoming = store
            .upcoming(&UpcomingQuery { shards, ..UpcomingQuery::new(LONG, SCHEDULES) })
            .unwrap();
        let names: Vec<u64> =
            upcoming.schedules.iter().map(|(row, _)| row.name.parse().unwrap()).collect();
        let expected = (0..).filter(|n| shards.contains((n % 64) as u8));
        assert_eq!(names, Vec::from_iter(expected.take(SCHEDULES as usize)));
        // A connection's counts are there when it has ended.
        drop(store);
        while client.query_one(CONNECTIONS, &[]).unwrap().get::<_, i64>(0) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let row = client.query_one(SCHEDULE_READS, &[]).unwrap();
        let (by_none, by_next): (i64, i64) = (row.get(0), row.get(1));
        // The first of each shard is read to find the first of all.
        assert_eq!(by_none, 0);
        assert!(by_next <= i64::from(SCHEDULES) + 64, "{by_next} rows of {shards:?}");
    }
}

/// Rows that the indexes of each table have returned.
const INDEX_READS: &str = "
    SELECT (SELECT sum(seq_tup_read)::int8 FROM pg_stat_user_tables
            WHERE relname IN ('schedule', 'timer', 'history')),
           (sum(idx_tup_read) FILTER (WHERE relname = 'schedule'))::int8,
           (sum(idx_tup_read) FILTER (WHERE relname = 'timer'))::int8,
           (sum(idx_tup_read) FILTER (WHERE relname = 'history'))::int8
    FROM pg_stat_user_indexes";

/// Statements that make so many schedules, which are next at `at`, and as many timers and records
/// of others.
fn many(count: u32, at: Time) -> String {
    format!(
        "INSERT INTO tourbillon.schedule
             (id, name, kind, spec, policies, payload, shard, enabled, version, next)
         SELECT (lpad(to_hex(n), 16, '0') || repeat('0', 16))::uuid, n::text, 'mail', '', '', '',
                0, true, 1, timestamptz 'epoch' + {} * interval '1 microsecond'
         FROM generate_series(0, {count} - 1) AS n;
         INSERT INTO tourbillon.timer (id, schedule, kind, scheduled_for, due, shard)
         SELECT gen_random_uuid(), gen_random_uuid(), 'mail', now(), now(), 0
         FROM generate_series(1, {count});
         INSERT INTO tourbillon.history
             (timer, schedule, kind, scheduled_for, attempts, failures, outcome, detail, recorded)
         SELECT gen_random_uuid(), gen_random_uuid(), 'mail', now(), 0, 0, 3, '', now()
         FROM generate_series(1, {count})",
        at.as_micros(),
    )
}

#[test]
fn a_batch_of_advances_reads_what_it_names() {
    const MANY: u32 = 1_000;
    const SOME: usize = 50;
    let database = Database::new();
    let mut store = database.connect();
    let mut client = database.client();
    let at = store.now().unwrap() + LONG;
    let rows: Vec<ScheduleRow> = (0..MANY)
        .map(|n| {
            let rule = Ok(Rule::new(Schedule::every(LONG), Policies::default()));
            let id = ScheduleId::from_bits(u128::from(n) << 64);
            ScheduleRow::new(id, n.to_string(), "mail", rule, Some(at))
        })
        .collect();
    let timers: Vec<[NewTimer; 1]> =
        rows.iter().map(|row| [NewTimer::occurrence(row, &Policies::default(), at)]).collect();
    let all: Vec<Advance<'_>> = rows
        .iter()
        .zip(&timers)
        .map(|(row, timers)| Advance {
            timers,
            only_idle: true,
            ..conformance::advance(row, at + LONG)
        })
        .collect();
    assert_eq!(store.advance_batch(&all[..1]).unwrap(), [Advanced::Stale]);
    client.batch_execute(&many(MANY, at)).unwrap();
    client.batch_execute("ANALYZE tourbillon.schedule").unwrap();
    // Plans are made anew after that, which reads the ends of indexes.
    assert_eq!(store.advance_batch(&all[..1]).unwrap(), [Advanced::Done]);
    thread::sleep(Duration::from_millis(1_100));
    store.now().unwrap();
    let reads = |client: &mut Client| -> [i64; 4] {
        let row = client.query_one(INDEX_READS, &[]).unwrap();
        [0, 1, 2, 3].map(|place| row.get::<_, Option<i64>>(place).unwrap_or(0))
    };
    let before = reads(&mut client);
    assert_eq!(store.advance_batch(&all[100..100 + SOME]).unwrap(), [Advanced::Done; SOME]);
    drop(store);
    while client.query_one(CONNECTIONS, &[]).unwrap().get::<_, i64>(0) > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let after = reads(&mut client);
    let [by_none, schedules, timers, records] = [0, 1, 2, 3].map(|of| after[of] - before[of]);
    assert_eq!((by_none, timers, records), (0, 0, 0));
    // Each is locked, then moved.
    assert_eq!(schedules, 2 * SOME as i64);
}
