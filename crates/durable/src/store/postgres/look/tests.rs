//! Looks on a cluster, which `ci/durable-postgres.sh`, in the repository, makes.

use super::super::cluster;
use super::super::link::Link;
use super::super::nodes;
use super::super::schema;
use super::super::server::Server;
use super::super::timers;
use super::*;
use crate::error::{StoreError, StoreErrorKind};
use crate::id::Shards;
use crate::store::Scan;

/// A wait for a lock is like a long walk to this server.
const IMPATIENT: &str = "
    SELECT set_config('lock_timeout', '0', false), set_config('statement_timeout', '50ms', false)";

const SECOND: Duration = Duration::from_secs(1);

/// Inserts a timer that is due so many seconds ago, in a transaction that is none of the
/// crate's, and returns its id.
fn insert(database: &cluster::Database, ago: i32) -> Id {
    let insert = "
        INSERT INTO tourbillon.timer (id, kind, scheduled_for, due, shard)
        SELECT gen_random_uuid(), 'mail', t.due, t.due, 0
        FROM (SELECT now() - make_interval(secs => $1::int4) AS due) AS t RETURNING id";
    database.client().query_one(insert, &[&ago]).unwrap().get(0)
}

/// A scan of everything.
async fn look(session: &mut Session) -> Answer<()> {
    let (ahead, shards, grace) = (Duration::ZERO, Shards::ALL, Some(Duration::ZERO));
    let scan = Scan { ahead, back: None, shards, grace, kinds: &[], kind_limit: 1, pulse: None };
    timers::scan(session, &scan).await.map(drop)
}

/// Looks, with a walk to its end or without, after `before`. Returns the timers that the floor
/// knows then.
fn looked(link: &mut Link, walks: bool, before: &'static str) -> Result<Vec<Id>, StoreError> {
    let deadline = Instant::now() + SECOND * 600;
    let work = async |session: &mut Session| {
        session.read(before, &[]).await?;
        loop {
            session.floor.walks_from = Some(deadline).filter(|_| !walks);
            match look(session).await {
                // The walk has not ended.
                Err(Failure::Other(_)) => continue,
                answer => answer?,
            }
            if !walks || session.floor.walk.below.is_none() {
                return Ok(session.floor.behind.clone());
            }
        }
    };
    link.call(deadline, work).map_err(|(error, _)| error)
}

#[test]
fn maintenance_without_a_floor_continues_queues_and_frees_nothing() {
    let database = cluster::Database::new();
    let deadline = Instant::now() + SECOND * 600;
    let server = Server::new(&database.address()).unwrap();
    let mut link = Link::connect(&server, deadline, None).unwrap();
    link.call(deadline, schema::migrate).map_err(|(error, _)| error).unwrap();
    let mut client = database.client();
    let queued = "
        INSERT INTO tourbillon.timer (id, kind, scheduled_for, due, shard, schedule)
        VALUES (gen_random_uuid(), 'mail', now(), 'infinity', 0, gen_random_uuid())";
    client.execute(queued, &[]).unwrap();
    let refused = link.call(deadline, async |session| {
        // No look walks, so there is no floor.
        session.floor.walks_from = Some(deadline);
        nodes::maintain(session, &mut nodes::Search::default()).await
    });
    let (error, is_usable) = refused.unwrap_err();
    assert_eq!((error.kind(), is_usable), (StoreErrorKind::Unavailable, true));
    let due = "SELECT count(*) FROM tourbillon.timer WHERE due <= now()";
    assert_eq!(client.query_one(due, &[]).unwrap().get::<_, i64>(0), 1);
}

#[test]
fn looks_know_what_they_have_found_and_walks_find_the_rest() {
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
    let oldest = insert(&database, 90_000_000);
    // A look that the server ends leaves the known timers.
    let mut lock = database.client();
    lock.batch_execute("BEGIN; LOCK TABLE tourbillon.timer").unwrap();
    assert!(looked(&mut link, true, IMPATIENT).is_err());
    assert!(looked(&mut link, false, IMPATIENT).is_err());
    // A new connection knows nothing that it could keep.
    let mut other = Link::connect(&server, deadline, None).unwrap();
    assert!(looked(&mut other, true, IMPATIENT).is_err());
    lock.batch_execute("COMMIT").unwrap();
    const PATIENT: &str = "SELECT set_config('statement_timeout', '4s', false)";
    assert_eq!(looked(&mut link, false, PATIENT).unwrap(), [hidden, first]);
    for link in [&mut link, &mut other] {
        assert_eq!(looked(link, true, PATIENT).unwrap(), [oldest, hidden, first]);
    }
}
