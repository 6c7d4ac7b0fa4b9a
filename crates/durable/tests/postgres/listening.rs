//! Listening, and a role's refusals by the server.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tourbillon_durable::store::calls::{Listening, Notification};
use tourbillon_durable::store::{Postgres, Store};
use tourbillon_durable::{Engine, Shards, StoreErrorKind};

use crate::cluster::{Database, PATIENT};
use crate::events;
use crate::faults::{ANSWERS, Proxy, REQUESTS};

/// Long enough for a listener to try again.
const TRIES: Duration = Duration::from_secs(60);

/// Tries until it is something, for as long.
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + TRIES;
    loop {
        match look() {
            Some(found) => return found,
            None => assert!(Instant::now() < end, "nothing came of it"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// A role that may have so many connections. Dropping this removes it and its objects.
struct Role<'a> {
    database: &'a Database,
    name: String,
}

impl<'a> Role<'a> {
    fn new(database: &'a Database, connections: u32) -> Self {
        let name = format!("role_of_{}", database.name());
        let statement =
            format!("CREATE ROLE {name} LOGIN PASSWORD 'role' CONNECTION LIMIT {connections}");
        database.client().batch_execute(&statement).unwrap();
        Self { database, name }
    }

    fn may_create(self) -> Self {
        let (database, role) = (self.database.name(), &self.name);
        let statement = format!("GRANT CREATE ON DATABASE {database} TO {role}");
        self.database.client().batch_execute(&statement).unwrap();
        self
    }

    /// Changes it, for the connections that follow.
    fn alter(&self, change: &str) {
        let statement = format!("ALTER ROLE {} {change}", self.name);
        self.database.client().batch_execute(&statement).unwrap();
    }

    fn address(&self) -> String {
        let (name, server) = (&self.name, self.database.server());
        format!(
            "postgres://{name}:role@{server}/{}?{PATIENT}&sslmode=disable",
            self.database.name()
        )
    }
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        let statement = format!("DROP OWNED BY {0} CASCADE; DROP ROLE {0}", self.name);
        self.database.client().batch_execute(&statement).unwrap();
    }
}

#[test]
fn the_owner_of_a_schema_makes_its_tables_without_a_right_to_make_schemas() {
    let database = Database::new();
    let role = Role::new(&database, 8);
    for schema in ["tourbillon", "east_2"] {
        let address = format!("{}&schema={schema}", role.address());
        let refused = Postgres::connect(&address).map(drop).unwrap_err();
        assert!(refused.to_string().contains("permission denied for database"), "{refused}");
        assert_eq!(refused.kind(), StoreErrorKind::Invalid);
        let statement = format!("CREATE SCHEMA {schema} AUTHORIZATION {}", role.name);
        database.client().batch_execute(&statement).unwrap();
        Postgres::connect(&address).unwrap().now().unwrap();
    }
}

/// Shards of the notices that are sent here.
const SHARDS: u64 = 6;

/// A listener, and the notices that it has, each with the last event of its thread.
pub(crate) struct Ear {
    listening: Listening,
    heard: Receiver<(Notification, String)>,
}

impl Ear {
    pub(crate) fn of(store: &Postgres) -> Self {
        let (send, heard) = mpsc::channel();
        let tell = Arc::new(move |notice| _ = send.send((notice, events::take())));
        Self { listening: store.listen(tell).unwrap().unwrap(), heard }
    }

    fn next(&self) -> Notification {
        self.heard.recv_timeout(TRIES).unwrap().0
    }

    /// Returns the event of a listener that is deaf.
    pub(crate) fn deaf(&self) -> String {
        let (notice, event) = self.heard.recv_timeout(TRIES).unwrap();
        assert_eq!(notice, Notification::Deaf);
        event
    }

    /// Waits until the listener listens again. What came while nobody did is read then.
    pub(crate) fn wait_until_it_listens(&self) {
        while self.next() != Notification::Due(Shards::ALL) {}
    }

    /// Sends a notice by way of `store`; the listener hears it.
    fn check(&self, store: &mut Postgres) {
        let notified = Shards::from_mask(SHARDS);
        assert!(store.notify(notified).unwrap());
        assert_eq!(self.next(), Notification::Due(notified));
    }

    /// Waits until the connection has ended, too.
    fn end(self) {
        let Self { listening, heard } = self;
        drop(listening);
        while heard.recv_timeout(TRIES).is_ok() {}
    }
}

const LISTENERS: &str = "
    SELECT pid, query_start FROM pg_stat_activity
    WHERE datname = current_database()
        AND (query LIKE 'LISTEN %' OR query = 'SHOW transaction_read_only')";

fn end_listeners(database: &Database) {
    let statement = format!("SELECT pg_terminate_backend(pid) FROM ({LISTENERS}) AS listeners");
    assert_eq!(database.client().query(&statement, &[]).unwrap().len(), 1);
}

#[test]
fn a_listener_that_is_refused_is_deaf_until_it_is_let_in() {
    let database = Database::new();
    let role = Role::new(&database, 1).may_create();
    let mut store = Postgres::connect(&role.address()).unwrap();
    // Too many connections: 53300.
    let ear = Ear::of(&store);
    ear.deaf();
    store.disconnect();
    ear.wait_until_it_listens();
    ear.check(&mut database.connect());
    // The role goes once its connection has.
    ear.end();
}

/// Changes of a role, each with the change that takes it back, and the words of the refusal.
const REFUSALS: [(&str, &str, &str); 4] = [
    ("CONNECTION LIMIT 0", "CONNECTION LIMIT 8", "too many connections for role"),
    ("NOLOGIN", "LOGIN", "is not permitted to log in"),
    ("PASSWORD 'other'", "PASSWORD 'role'", "password authentication failed"),
    (
        "SET default_transaction_read_only = on",
        "RESET default_transaction_read_only",
        "database does not allow writes",
    ),
];

#[test]
fn a_listener_whose_role_is_refused_meanwhile_is_deaf_until_it_is_let_in() {
    let database = Database::new();
    let role = Role::new(&database, 8).may_create();
    // The first connection makes the tables, so they are the role's.
    let store = Postgres::connect(&role.address()).unwrap();
    let mut other = database.connect();
    events::record();
    let ear = Ear::of(&store);
    ear.wait_until_it_listens();
    for (change, back, says) in REFUSALS {
        role.alter(change);
        end_listeners(&database);
        // The connection that has ended, and the refused one.
        let [_, event] = [ear.deaf(), ear.deaf()];
        if cfg!(feature = "tracing") {
            assert!(event.contains("not listening") && event.contains(says), "{event}");
        }
        role.alter(back);
        ear.wait_until_it_listens();
        ear.check(&mut other);
    }
    ear.end();
}

#[test]
fn a_node_counts_how_often_it_is_deaf() {
    let database = Database::new();
    let role = Role::new(&database, 8).may_create();
    let store = Postgres::connect(&role.address()).unwrap();
    let engine = Engine::builder().start(Box::new(store)).unwrap();
    wait_for(|| (database.client().query(LISTENERS, &[]).unwrap().len() == 1).then_some(()));
    assert_eq!(engine.stats().deaf, 0);
    role.alter("NOLOGIN");
    end_listeners(&database);
    wait_for(|| (engine.stats().deaf >= 2).then_some(()));
    pollster::block_on(engine.stop());
}

#[test]
fn a_listener_leaves_a_server_that_hangs() {
    let database = Database::new();
    let proxy = Proxy::new(database.server());
    let hosts = format!("{},{}", proxy.address, database.server());
    let address = database.address_of(&hosts, "sslmode=disable");
    let ear = Ear::of(&Postgres::connect(&address).unwrap());
    ear.wait_until_it_listens();
    // The connection stays, and carries nothing.
    proxy.swallow(REQUESTS, true);
    proxy.swallow(ANSWERS, true);
    ear.deaf();
    ear.wait_until_it_listens();
    ear.check(&mut database.connect());
}

#[test]
fn a_listener_that_is_answered_keeps_its_connection() {
    let database = Database::new();
    let mut store = database.connect();
    let ear = Ear::of(&store);
    ear.wait_until_it_listens();
    let mut client = database.client();
    let mut listener = || -> (i32, SystemTime) {
        let row = client.query_one(LISTENERS, &[]).unwrap();
        (row.get(0), row.get(1))
    };
    let (pid, mut asked) = listener();
    for _ in 0..2 {
        asked = wait_for(|| {
            let (now, again) = listener();
            assert_eq!(now, pid);
            (again != asked).then_some(again)
        });
    }
    ear.check(&mut store);
}
