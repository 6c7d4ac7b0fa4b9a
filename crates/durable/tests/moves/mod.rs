//! Places that are moved: with all that can be on them, and while engines run.

use std::collections::BTreeMap;
use std::slice::from_ref;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use tourbillon_durable::store::conformance::Rig;
use tourbillon_durable::store::{
    End, Finished, How, Memory, NewTimer, RecordQuery, ScheduleQuery, ScheduleRow, Store, Timer,
    TimerQuery,
};
use tourbillon_durable::{
    Created, Engine, Lease, Missed, Mover, NodeId, Outcome, Overlap, Place, Places, Policies,
    Progress, Reason, Retry, Router, Rule, Schedule, ScheduleId, Time, TimerId,
};

/// The year 2100, which no clock of a test shows.
const FAR: Time = Time::from_micros(4_102_444_800_000_000);

const HOUR: Duration = Duration::from_secs(3_600);

/// Longer than until then.
const LONGER: Duration = Duration::from_secs(200 * 366 * 86_400);

/// Pauses of attempts that have failed.
const RETRY: Retry = Retry::new(3, Duration::from_millis(100), Duration::from_millis(100));

const PLACE: Place = Place::new(512).unwrap();

fn timer(number: u128, name: &str, lane: Option<&str>, due: Time) -> NewTimer {
    let mut timer = NewTimer::new(TimerId::from_bits(number << 64 | number).at(PLACE), "mail", due);
    (timer.name, timer.lane) = (Some(name.to_owned()), lane.map(str::to_owned));
    timer.payload = name.as_bytes().to_vec();
    timer
}

/// All that a store has.
fn all(store: &mut dyn Store) -> (Vec<Timer>, Vec<ScheduleRow>) {
    let timers = store.timers(&TimerQuery::new()).unwrap();
    (timers, store.schedules(&ScheduleQuery::new()).unwrap())
}

/// Fills a store with timers that are pending, held, retried, in a lane and in a queue, and with
/// schedules.
fn fill(store: &mut dyn Store) {
    let plain = [timer(1, "plain", None, FAR), timer(2, "held", None, Time::NEVER)];
    store.insert(&plain).unwrap();
    let lane = [
        timer(3, "last", Some("a lane"), FAR + HOUR),
        timer(4, "held there", Some("a lane"), Time::NEVER),
    ];
    store.insert(&lane).unwrap();
    let lease = Lease { node: NodeId::new(), epoch: 1 };
    store.join(lease, HOUR).unwrap().unwrap();
    let now = store.now().unwrap();
    for retried in [timer(5, "retried", None, now), timer(6, "front", Some("a lane"), now)] {
        store.insert(from_ref(&retried)).unwrap();
        store.promote(&["a lane".to_owned()]).unwrap();
        assert_eq!(store.claim(lease, &[retried.id]).unwrap().timers.len(), 1);
        let how = How::Retry(LONGER, "no answer".to_owned());
        let end = End { timer: retried.id, attempt: 1, how };
        assert_eq!(store.finish(lease, &[end]).unwrap(), [Finished::Accepted]);
    }
    let rows = [("enabled", Some(FAR)), ("ended", None), ("off", Some(FAR))];
    for (n, (name, next)) in rows.into_iter().enumerate() {
        let rule = Ok(Rule::new(Schedule::every(HOUR), Policies::default()));
        let id = ScheduleId::from_bits(n as u128 + 7).at(PLACE);
        let mut row = ScheduleRow::new(id, name, "mail", rule, next);
        (row.enabled, row.version, row.payload) = (name != "off", 3, b"daily".to_vec());
        assert!(store.adopt(&row).unwrap());
        let mut queued = NewTimer::occurrence(&row, &Policies::default(), FAR);
        (queued.due, queued.has_queue) = (Time::NEVER, true);
        store.insert(from_ref(&queued)).unwrap();
    }
}

/// Gives schedules the versions that they have after a move.
fn put_off_and_back(rows: &mut [ScheduleRow]) {
    for row in rows.iter_mut().filter(|row| row.next.is_some()) {
        row.version += 2;
    }
}

/// Moves a place from the rig's store to another one and back, twice.
pub(crate) fn a_place_is_moved_away_and_back(rig: &dyn Rig) {
    let mut store = rig.store();
    fill(&mut *store);
    let mut before = all(&mut *store);
    assert_eq!((before.0.len(), before.1.len()), (9, 3));
    let memory = Memory::new(&tourbillon::Timer::global());
    let (here, there) = (|| rig.store(), || -> Box<dyn Store> { Box::new(memory.clone()) });
    for _ in 0..2 {
        assert_eq!(Mover::new(PLACE, here(), there()).step().unwrap(), Progress::Done);
        put_off_and_back(&mut before.1);
        assert_eq!(all(&mut *there()), before);
        assert_eq!(all(&mut *store), (vec![], vec![]));
        let records = store.records(&RecordQuery::new()).unwrap();
        assert_eq!(records.len(), before.0.len());
        assert!(records.iter().all(|record| record.reason == Some(Reason::Moved)));
        assert_eq!(Mover::new(PLACE, there(), here()).step().unwrap(), Progress::Done);
        put_off_and_back(&mut before.1);
        assert_eq!(all(&mut *store), before);
        assert_eq!(store.records(&RecordQuery::new()).unwrap(), []);
    }
    let error = Mover::new(PLACE, here(), here()).step().unwrap_err();
    assert!(error.to_string().ends_with("both stores are the same one"), "{error}");
    assert_eq!(all(&mut *store), before);
}

/// Starts an engine whose handler takes 20 ms, and fails at the first attempt if the payload says
/// so. Sends what has completed.
fn engine(store: Box<dyn Store>, done: mpsc::Sender<(TimerId, u32)>) -> Engine {
    let engine = Engine::builder().start(store).unwrap();
    let mut worker = engine.worker("mail", 4);
    thread::spawn(move || {
        pollster::block_on(async {
            while let Some(fire) = worker.next().await {
                tourbillon::sleep(Duration::from_millis(20)).await;
                let (id, attempt) = (fire.id(), fire.attempt());
                if fire.payload() == b"fails" && attempt == 1 {
                    fire.fail("at first").await.unwrap();
                } else {
                    fire.complete().await.unwrap();
                    _ = done.send((id, attempt));
                }
            }
        });
    });
    engine
}

/// Checks that stores have no timers, and one record of each that was not moved: of `made`, and of
/// all others.
fn check_ends(stores: &mut [Box<dyn Store>; 2], made: &BTreeMap<TimerId, Vec<u32>>) {
    let mut ends = BTreeMap::<TimerId, u32>::new();
    for store in stores {
        assert_eq!(store.timers(&TimerQuery::new()).unwrap(), []);
        for record in store.records(&RecordQuery::new().limit(10_000)).unwrap() {
            if record.reason != Some(Reason::Moved) {
                *ends.entry(record.timer).or_default() += 1;
            }
        }
    }
    assert!(made.keys().all(|id| ends.contains_key(id)), "{ends:?}");
    assert!(ends.values().all(|count| *count == 1), "{ends:?}");
}

/// Moves a place between two stores, with an engine on each, while its timers are due.
pub(crate) fn what_is_due_while_its_place_is_moved_runs_once(stores: [Box<dyn Store>; 2]) {
    let (done, ended) = mpsc::channel();
    let [old, new] = stores.each_ref().map(|store| store.connect().unwrap());
    let mut watched = stores.each_ref().map(|store| store.connect().unwrap());
    let engines = stores.map(|store| engine(store, done.clone()));
    let place = Place::of("tenant");
    let router = |places: &Places| {
        let clients = [("east", &engines[0]), ("west", &engines[1])];
        let clients = clients.map(|(name, engine)| (name, engine.client().unwrap()));
        Router::new(places.clone(), clients).unwrap()
    };
    let mut places: Places = "0-1022=east 1023=west".parse().unwrap();
    let (mut made, mut lane) = (BTreeMap::new(), Vec::new());
    let (mut seen, mut order) = (BTreeMap::<_, Vec<u32>>::new(), Vec::new());
    pollster::block_on(async {
        let tenant = router(&places).at("tenant");
        for n in 0..40 {
            let at = SystemTime::now() + Duration::from_millis(50) * n;
            let fails = n % 3 == 0;
            let mut once = tenant.once("mail", at).retry(RETRY);
            once = once.payload(if fails { "fails" } else { "" });
            if n % 4 == 0 {
                once = once.lane("a lane");
            }
            let Created::Created(id) = once.create().await.unwrap() else { panic!("it is new") };
            made.insert(id, vec![if fails { 2 } else { 1 }]);
            if n % 4 == 0 {
                lane.push(id);
            }
        }
        let often = tenant.every("often", Schedule::every(Duration::from_millis(200)));
        let queue = Overlap::Queue { at_most: 1_000 };
        let missed = Missed::CatchUp { max_count: 10_000, max_age: Duration::MAX };
        often.kind("mail").overlap(queue).missed(missed).upsert().await.unwrap();

        places.begin_move(place, "west").unwrap();
        router(&places).at("tenant").once("mail", SystemTime::now()).create().await.unwrap_err();
        let mut mover = Mover::new(place, old, new);
        while let Progress::Waits(_) = mover.step().unwrap() {
            tourbillon::sleep(Duration::from_millis(20)).await;
        }
        places.put(place, "west").unwrap();

        while made.keys().any(|id| !seen.contains_key(id)) {
            let (id, attempt) = ended.recv().unwrap();
            seen.entry(id).or_default().push(attempt);
            order.push(id);
        }
        // Each occurrence of the schedule has run once, on one store or the other.
        let router = router(&places);
        router.at("tenant").disable("often").await.unwrap();
        let east = engines[0].client().unwrap();
        assert_eq!(east.timers(TimerQuery::new()).await.unwrap(), []);
        assert_eq!(east.schedules(ScheduleQuery::new()).await.unwrap(), []);
        let records = router.records(RecordQuery::new().name("often").limit(10_000)).await.unwrap();
        let run = records.iter().filter(|record| record.outcome == Outcome::Succeeded);
        let mut times: Vec<_> = run.map(|record| record.scheduled_for.as_micros()).collect();
        times.sort_unstable();
        let apart: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(apart.iter().all(|micros| *micros == 200_000), "{times:?}");
    });
    engines.into_iter().for_each(|engine| pollster::block_on(engine.stop()));
    // A second run would be one of the last.
    drop(done);
    for (id, attempt) in ended {
        seen.entry(id).or_default().push(attempt);
        order.push(id);
    }
    seen.retain(|id, _| made.contains_key(id));
    assert_eq!(seen, made);
    order.retain(|id| lane.contains(id));
    assert_eq!(order, lane);
    check_ends(&mut watched, &made);
}
