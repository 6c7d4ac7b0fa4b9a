//! Number of connections to the server, as `docs/POSTGRES.md` gives it.

use std::thread;
use std::time::{Duration, SystemTime};

use tourbillon_durable::Engine;

use crate::cluster::Database;

#[test]
fn a_node_has_three_connections_and_each_client_has_one() {
    let database = Database::new();
    let mut observer = database.client();
    let mut count = || -> i64 {
        let others = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        observer.query_one(others, &[]).unwrap().get(0)
    };
    let engine = Engine::builder().start(Box::new(database.connect())).unwrap();
    let clients = [engine.client().unwrap(), engine.client().unwrap()];
    let mut worker = engine.worker("mail", 1);
    pollster::block_on(async {
        clients[1].once("mail", SystemTime::now()).create().await.unwrap();
        worker.next().await.unwrap().complete().await.unwrap();
    });
    // The listener's comes when it has time.
    while count() < 5 {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(count(), 5);
}
