//! Listening, and what the server refuses a role.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use tourbillon_durable::store::{Notice, Postgres, Store};
use tourbillon_durable::{Shards, StoreErrorKind};

use crate::cluster::{Database, PATIENT};

/// Long enough for a listener to try again.
const TRIES: Duration = Duration::from_secs(60);

/// A role that may have so many connections. It goes with what it owns when this is dropped.
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
        let statement = format!("CREATE SCHEMA {schema} AUTHORIZATION {}", role.name);
        database.client().batch_execute(&statement).unwrap();
        Postgres::connect(&address).unwrap().now().unwrap();
    }
}

#[test]
fn a_listener_that_is_refused_is_deaf_until_it_is_let_in() {
    let database = Database::new();
    let role = Role::new(&database, 1).may_create();
    let mut store = Postgres::connect(&role.address()).unwrap();
    let (send, heard) = mpsc::channel();
    // Too many connections: 53300.
    let listening = store.listen(Arc::new(move |notice| _ = send.send(notice))).unwrap();
    assert_eq!(heard.recv_timeout(TRIES).unwrap(), Notice::Deaf);
    store.disconnect();
    // What came while nobody listened is read.
    while heard.recv_timeout(TRIES).unwrap() != Notice::Due(Shards::ALL) {}
    let told = Shards::from_mask(6);
    let mut other = database.connect();
    assert!(other.notify(told).unwrap());
    assert_eq!(heard.recv_timeout(TRIES).unwrap(), Notice::Due(told));
    drop(listening);
    // The role goes once its connection has.
    while heard.recv_timeout(TRIES).is_ok() {}
}

#[test]
fn a_role_without_permission_is_not_an_error_of_the_schema() {
    let database = Database::new();
    let role = Role::new(&database, 5);
    let error = Postgres::connect(&role.address()).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("permission denied"), "{error}");
}
