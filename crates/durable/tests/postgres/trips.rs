//! Round trips to a server that is a network away, and waits for its disk.

use std::slice::from_ref;
use std::thread;
use std::time::Duration;

use pollster::block_on;
use tourbillon_durable::store::calls::{Advance, Advanced, Pulse, Scan, Skip, UpcomingQuery};
use tourbillon_durable::store::{
    Inserted, NewTimer, Postgres, RecordQuery, ScheduleRow, Store, TimerQuery, conformance,
};
use tourbillon_durable::{
    Client, Created, Outcome, Policies, Reason, Rule, Schedule, ScheduleId, Shards, StoreErrorKind,
    Time, TimerId, Upsert,
};

use crate::cluster::Database;
use crate::faults::through;
use crate::replica::Pair;
use crate::{LONG, join, timer};

/// Schedules that a node advances together.
const TOGETHER: usize = 50;

const SECOND: Duration = Duration::from_secs(1);

/// Makes so many schedules, whose occurrences are due from `at` on.
fn schedules(store: &mut Postgres, count: usize, at: Time) -> Vec<ScheduleRow> {
    let row = |number: usize| {
        let rule = Ok(Rule::new(Schedule::every(SECOND), Policies::default()));
        let name = format!("schedule {number}");
        ScheduleRow::new(ScheduleId::new(at), name, "mail", rule, Some(at))
    };
    let rows: Vec<_> = (0..count).map(row).collect();
    assert!(store.create_schedules(&rows).unwrap().iter().all(|made| *made));
    rows
}

/// Rows that an advance by two seconds writes: an occurrence, and a skipped one.
struct Rows(Vec<(ScheduleRow, [NewTimer; 1], [Skip; 1])>);

impl Rows {
    fn new(of: Vec<ScheduleRow>) -> Self {
        let rows = |row: ScheduleRow| {
            let at = row.next.unwrap();
            let timer = NewTimer::occurrence(&row, &Policies::default(), at);
            let skip = Skip {
                id: TimerId::new(at),
                scheduled_for: at + SECOND,
                outcome: Outcome::Skipped,
                reason: Reason::Missed,
            };
            (row, [timer], [skip])
        };
        Self(of.into_iter().map(rows).collect())
    }

    fn advances(&self) -> Vec<Advance<'_>> {
        let rows = self.0.iter().map(|(row, timers, skipped)| {
            let advance = conformance::advance(row, row.next.unwrap() + SECOND * 2);
            Advance { timers, skipped, ..advance }
        });
        rows.collect()
    }
}

#[test]
fn a_batch_of_advances_takes_one_round_trip() {
    let database = Database::new();
    let (proxy, mut store) = through(&database);
    let at = store.now().unwrap() + LONG;
    let rows = Rows::new(schedules(&mut store, TOGETHER + 1, at));
    let all = rows.advances();
    // The first prepares the statements.
    assert_eq!(store.advance_batch(&all[TOGETHER..]).unwrap(), [Advanced::Done]);
    let before = proxy.commits();
    proxy.hold_answers(true);
    let answers = thread::scope(|scope| {
        let call = scope.spawn(|| store.advance_batch(&all[..TOGETHER]));
        while proxy.commits() == before && !call.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        proxy.hold_answers(false);
        call.join().unwrap()
    });
    assert_eq!(answers.unwrap(), [Advanced::Done; TOGETHER]);
    let timers = store.timers(&TimerQuery::new().limit(1_000)).unwrap();
    let records = store.records(&RecordQuery::new().limit(1_000)).unwrap();
    assert_eq!((timers.len(), records.len()), (TOGETHER + 1, TOGETHER + 1));
}

#[test]
fn the_scans_of_an_idle_node_take_one_round_trip_each_with_its_beat_and_its_looks() {
    let database = Database::new();
    let (proxy, mut store) = through(&database);
    let lease = join(&mut store);
    let kinds = ["mail".to_owned()];
    let (ahead, shards) = (SECOND, Shards::ALL);
    let all = Scan { ahead, grace: Some(SECOND), ..conformance::scan(&kinds, 9) };
    let pulse = Some(Pulse { lease, span: LONG, shards, ahead, asks_for_work: true });
    let recent = Scan { back: Some(SECOND * 3), pulse, ..all };
    // The first walks through everything, in parts.
    while store.scan(&all).is_err() {}
    store.scan(&recent).unwrap();
    let (trips, window) = proxy.trips(|| store.scan(&recent).unwrap());
    let pulsed = window.pulsed.unwrap();
    assert_eq!((trips, pulsed.is_upcoming, pulsed.has_work), (1, false, false));
    assert_eq!(pulsed.beat.unwrap().lease, lease);
    // A busy server may take so long that there is another walk in parts.
    let mut trips = || proxy.trips(|| store.scan(&all).unwrap()).0;
    assert!((0..100).any(|_| trips() == 1));
}

#[test]
fn advances_wait_for_no_disk_and_no_standby() {
    let pair = Pair::new();
    let mut store = Postgres::connect(&pair.primary()).unwrap();
    let at = store.now().unwrap() + LONG;
    let mut rows = schedules(&mut store, 3, at);
    let last = Rows::new(vec![rows.pop().unwrap()]);
    let rows = Rows::new(rows);
    pair.cut();
    // A commit that flushes its log would wait for the standby as well.
    assert_eq!(store.advance_batch(&rows.advances()).unwrap(), [Advanced::Done; 2]);
    assert_eq!(store.advance(&last.advances()[0]).unwrap(), Advanced::Done);
    let error = store.confirm().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Uncertain);
}

#[test]
fn a_batch_that_the_server_refuses_moves_nothing() {
    let database = Database::new();
    let mut store = database.connect();
    let at = store.now().unwrap() + LONG;
    let mut rows = Rows::new(schedules(&mut store, 3, at));
    rows.0[1].1[0].payload = vec![0; 70_000];
    let mut client = database.client();
    client
        .batch_execute("ALTER TABLE tourbillon.timer ADD CHECK (octet_length(payload) < 65536)")
        .unwrap();
    let all = rows.advances();
    let error = store.advance_batch(&all).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
    let upcoming = |store: &mut Postgres| {
        let upcoming = store.upcoming(&UpcomingQuery::new(LONG * 2, 10)).unwrap();
        upcoming.schedules.iter().filter(|(row, _)| row.next == Some(at)).count()
    };
    assert_eq!(upcoming(&mut store), 3);
    assert!(store.timers(&TimerQuery::new()).unwrap().is_empty());
    // The connection stays.
    for (advance, is_good) in all.iter().zip([true, false, true]) {
        assert_eq!(store.advance(advance).is_ok(), is_good);
    }
    assert_eq!(upcoming(&mut store), 1);
}

#[test]
fn a_new_schedule_takes_two_round_trips_and_one_after_a_look() {
    let database = Database::new();
    let (proxy, store) = through(&database);
    let client = Client::new(Box::new(store)).unwrap();
    let every = |name: &str| client.every(name, Schedule::every(LONG)).kind("mail");
    let make = |name: &str| block_on(every(name).upsert()).unwrap();
    let make_after_a_look = |name: &str| {
        let (now, _) = block_on(client.named(name)).unwrap();
        proxy.trips(|| block_on(every(name).expect(None).as_of(now).upsert()).unwrap())
    };
    // These prepare the statements.
    assert_eq!((make("one"), make_after_a_look("two").1), (Upsert::Created, Upsert::Created));
    assert_eq!(proxy.trips(|| make("three")), (2, Upsert::Created));
    assert_eq!(make_after_a_look("four"), (1, Upsert::Created));
    // Its first occurrence is past, so it is planned by another look.
    let early = Time::from_micros(0);
    let made = block_on(every("five").expect(None).as_of(early).upsert()).unwrap();
    assert_eq!(made, Upsert::Created);
    assert!(block_on(client.upcoming("five", 1)).unwrap()[0] > early + LONG);
    assert_eq!(make_after_a_look("five").1, Upsert::Stale);
}

#[test]
fn a_one_shot_takes_two_round_trips_with_the_looks_before_and_after_it() {
    let database = Database::new();
    let (proxy, store) = through(&database);
    let client = Client::new(Box::new(store)).unwrap();
    let make = |name: &str| {
        let (now, named) = block_on(client.named(name)).unwrap();
        assert!(named.schedule.is_none() && named.timer.is_none());
        let once = client.once("mail", now + LONG).name(name);
        let (created, (later, named)) = block_on(once.create_and_look()).unwrap();
        assert!(later >= now && named.schedule.is_none());
        assert_eq!(created, Created::Created(named.timer.unwrap().new.id));
    };
    // This prepares the statements. Before the next call, the client reads the clock for a notice.
    make("one");
    block_on(client.now()).unwrap();
    assert_eq!(proxy.trips(|| make("two")).0, 2);
}

#[test]
fn an_insert_stays_if_the_look_after_it_fails_and_a_repeat_finds_it() {
    let database = Database::new();
    let mut store = database.connect();
    let mut client = database.client();
    let mut one = timer(store.now().unwrap());
    one.name = Some("one".to_owned());
    let mut look = |timer: &NewTimer| store.insert_and_look(from_ref(timer), &["one"]);
    client.batch_execute("ALTER TABLE tourbillon.timer ADD CHECK (length(kind) < 9)").unwrap();
    let mut refused = one.clone();
    refused.kind = "too long a kind".to_owned();
    assert_eq!(look(&refused).unwrap_err().kind(), StoreErrorKind::Invalid);
    let (inserted, _, found) = look(&one).unwrap();
    assert_eq!((inserted, found[0].timer.is_some()), (vec![Inserted::Created], true));

    let other = timer(one.due);
    client.batch_execute("ALTER TABLE tourbillon.schedule RENAME TO away").unwrap();
    let error = look(&other).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Uncertain, "{error}");
    client.batch_execute("ALTER TABLE tourbillon.away RENAME TO schedule").unwrap();
    let (inserted, _, found) = look(&other).unwrap();
    assert_eq!((inserted, found[0].timer.is_some()), (vec![Inserted::Exists(other.id)], true));
}
