//! A place is moved between databases while engines run on both.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use tourbillon_durable::store::{RecordQuery, ScheduleQuery, Store, TimerQuery};
use tourbillon_durable::{
    Created, Engine, Missed, Mover, Outcome, Overlap, Place, Places, Progress, Retry, Router,
    Schedule, TimerId,
};

use crate::cluster::Database;
use crate::{Elsewhere, moves};

/// Pauses of attempts that have failed.
const RETRY: Retry = Retry::new(3, Duration::from_millis(100), Duration::from_millis(100));

#[test]
fn a_place_is_moved_away_and_back() {
    moves::a_place_is_moved_away_and_back(&Elsewhere(Database::new()));
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

#[test]
fn what_is_due_while_its_place_is_moved_runs_once() {
    let (old, new) = (Database::new(), Database::new());
    let (done, ended) = mpsc::channel();
    let engines = [&old, &new].map(|database| engine(Box::new(database.connect()), done.clone()));
    let place = Place::of("tenant");
    let router = |places: &Places| {
        let clients = [("east", &engines[0]), ("west", &engines[1])];
        let clients = clients.map(|(name, engine)| (name, engine.client().unwrap()));
        Router::new(places.clone(), clients).unwrap()
    };
    let mut places: Places = "0-1022=east 1023=west".parse().unwrap();
    pollster::block_on(async {
        let tenant = router(&places).at("tenant");
        let (mut made, mut lane) = (BTreeMap::new(), Vec::new());
        for n in 0..60 {
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
        let mut mover = Mover::new(place, Box::new(old.connect()), Box::new(new.connect()));
        while let Progress::Waits(_) = mover.step().unwrap() {
            tourbillon::sleep(Duration::from_millis(20)).await;
        }
        places.put(place, "west").unwrap();

        let (mut seen, mut order) = (BTreeMap::<_, Vec<u32>>::new(), Vec::new());
        while made.keys().any(|id| !seen.contains_key(id)) {
            let (id, attempt) = ended.recv().unwrap();
            seen.entry(id).or_default().push(attempt);
            order.push(id);
        }
        seen.retain(|id, _| made.contains_key(id));
        assert_eq!(seen, made);
        order.retain(|id| lane.contains(id));
        assert_eq!(order, lane);

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
        for engine in engines {
            engine.stop().await;
        }
    });
}
