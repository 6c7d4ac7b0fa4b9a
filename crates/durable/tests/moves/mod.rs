//! A place that is moved from a store to one in memory, and back, with all that can be on it.

use std::slice::from_ref;
use std::time::Duration;

use tourbillon_durable::store::conformance::Rig;
use tourbillon_durable::store::{
    End, Finished, How, Memory, NewTimer, RecordQuery, ScheduleQuery, ScheduleRow, Store, Timer,
    TimerQuery,
};
use tourbillon_durable::{
    Lease, Mover, NodeId, Place, Policies, Progress, Reason, Rule, Schedule, ScheduleId, Time,
    TimerId,
};

/// The year 2100, which no clock of a test shows.
const FAR: Time = Time::from_micros(4_102_444_800_000_000);

const HOUR: Duration = Duration::from_secs(3_600);

/// Longer than until then.
const LONGER: Duration = Duration::from_secs(200 * 366 * 86_400);

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

/// Moves a place from the rig's store to another one and back, twice.
pub(crate) fn a_place_is_moved_away_and_back(rig: &dyn Rig) {
    let mut store = rig.store();
    fill(&mut *store);
    let before = all(&mut *store);
    assert_eq!((before.0.len(), before.1.len()), (9, 3));
    let memory = Memory::new(&tourbillon::Timer::global());
    let (here, there) = (|| rig.store(), || -> Box<dyn Store> { Box::new(memory.clone()) });
    for _ in 0..2 {
        assert_eq!(Mover::new(PLACE, here(), there()).step().unwrap(), Progress::Done);
        assert_eq!(all(&mut *there()), before);
        assert_eq!(all(&mut *store), (vec![], vec![]));
        let records = store.records(&RecordQuery::new()).unwrap();
        assert_eq!(records.len(), before.0.len());
        assert!(records.iter().all(|record| record.reason == Some(Reason::Moved)));
        assert_eq!(Mover::new(PLACE, there(), here()).step().unwrap(), Progress::Done);
        assert_eq!(all(&mut *store), before);
        assert_eq!(store.records(&RecordQuery::new()).unwrap(), []);
    }
    let error = Mover::new(PLACE, here(), here()).step().unwrap_err();
    assert!(error.to_string().ends_with("both stores are the same one"), "{error}");
    assert_eq!(all(&mut *store), before);
}
