//! Floors by themselves, and on a cluster: `ci/durable-postgres.sh` makes one.

use super::super::cluster;
use super::super::link::Link;
use super::super::schema;
use super::super::server::Server;
use super::*;
use crate::error::StoreError;

/// A wait for a lock is like a long walk to this server.
const IMPATIENT: &str = "
    SELECT set_config('lock_timeout', '0', false), set_config('statement_timeout', '50ms', false)";

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Time {
    Time::default() + SECOND * u32::try_from(seconds).unwrap()
}

#[test]
fn a_floor_is_behind_now_and_at_what_is_too_much() {
    let mut floor = Floor::default();
    let found = |count: u64| (0..count).map(|n| (at(n / 2), Id(n.into()))).collect::<Vec<_>>();
    floor.set(at(20), found(30).into_iter());
    assert_eq!(floor.from, Some(at(10)));
    // Those that are due from then on are found by the index.
    assert_eq!(floor.behind, (0..20).map(Id).collect::<Vec<_>>());
    floor.set(at(9_000), found(1_000).into_iter());
    assert_eq!((floor.from, floor.behind.len()), (Some(at(8_990)), MOST));
    // Of those that are due with the one too many, none is known.
    floor.set(at(9_000), found(1_002).into_iter());
    assert_eq!((floor.from, floor.behind.len()), (Some(at(500)), MOST));
    floor.set(at(9_000), found(1_000).into_iter().map(|(due, id)| (due.min(at(499)), id)));
    floor.set(at(9_000), (0..1_001).map(|n| (at(7), Id(n))).collect::<Vec<_>>().into_iter());
    assert_eq!((floor.from, floor.behind.len()), (Some(at(7)), 0));
}

#[test]
fn a_look_begins_anew_as_often_as_it_takes_a_hundredth_of_the_time() {
    let mut floor = Floor::default();
    let start = Instant::now();
    assert!(floor.begins_anew(start));
    floor.note_anew(start, SECOND / 20);
    assert!(!floor.begins_anew(start + SECOND * 4));
    assert!(floor.begins_anew(start + SECOND * 5));
    floor.note_anew(start, SECOND * 4);
    assert!(!floor.begins_anew(start + SECOND * 399));
    assert!(floor.begins_anew(start + SECOND * 400));
}

/// Inserts a timer that is due so many seconds ago, in a transaction that is none of the
/// crate's, and returns its id.
fn insert(database: &cluster::Database, ago: i32) -> Id {
    let insert = "
        INSERT INTO tourbillon.timer (id, kind, scheduled_for, due, shard)
        SELECT gen_random_uuid(), 'mail', t.due, t.due, 0
        FROM (SELECT now() - make_interval(secs => $1::int4) AS due) AS t RETURNING id";
    database.client().query_one(insert, &[&ago]).unwrap().get(0)
}

/// Looks, anew or not, after `before`. Returns the timers that the floor knows then.
fn looked(link: &mut Link, is_anew: bool, before: &'static str) -> Result<Vec<Id>, StoreError> {
    let deadline = Instant::now() + SECOND * 600;
    let work = async |session: &mut Session| {
        session.read(before, &[]).await?;
        session.floor.anew_from = Some(deadline).filter(|_| !is_anew);
        look(session).await?;
        assert!(session.floor.anew_from.is_some());
        Ok(session.floor.behind.clone())
    };
    link.call(deadline, work).map_err(|(error, _)| error)
}

#[test]
fn looks_know_what_they_have_found_and_find_the_rest_anew() {
    const NOTHING: &str = "SELECT 1";
    let database = cluster::Database::new();
    let deadline = Instant::now() + SECOND * 600;
    let server = Server::new(&database.address()).unwrap();
    let mut link = Link::connect(&server, deadline, None).unwrap();
    link.call(deadline, schema::migrate).map_err(|(error, _)| error).unwrap();
    let first = insert(&database, 900);
    assert_eq!(looked(&mut link, true, NOTHING).unwrap(), [first]);
    let hidden = insert(&database, 1_000);
    for _ in 0..3 {
        assert_eq!(looked(&mut link, false, NOTHING).unwrap(), [first]);
    }
    assert_eq!(looked(&mut link, true, NOTHING).unwrap(), [hidden, first]);
    // One that the server ends leaves all as it was.
    let mut lock = database.client();
    lock.batch_execute("BEGIN; LOCK TABLE tourbillon.timer").unwrap();
    assert_eq!(looked(&mut link, true, IMPATIENT).unwrap(), [hidden, first]);
    assert!(looked(&mut link, false, IMPATIENT).is_err());
    // A new connection knows nothing that it could keep.
    let mut link = Link::connect(&server, deadline, None).unwrap();
    assert!(looked(&mut link, true, IMPATIENT).is_err());
}
