//! Separate databases for tests, in the cluster that `TOURBILLON_POSTGRES` names; and schemas in
//! its own database: these are made sooner, and Citus deals them out to its workers.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{process, thread};

use postgres::{Client, Config, NoTls};
use tokio::runtime::Builder;
use tourbillon_durable::store::Postgres;

/// Parameter of addresses: a host has all the time of a call to take a connection, because the
/// machine may be slow. By default it has two seconds.
pub(crate) const PATIENT: &str = "connect_timeout=60";

/// An empty database. It goes with this.
pub(crate) struct Database {
    name: String,
}

/// The cluster's address.
///
/// # Panics
///
/// If there is none: a test without a cluster tests nothing.
pub(crate) fn cluster() -> String {
    std::env::var("TOURBILLON_POSTGRES").expect(
        "TOURBILLON_POSTGRES is not set to the address of a cluster; `ci/durable-postgres.sh`, \
         in the repository, makes one and runs these tests on it",
    )
}

impl Database {
    pub(crate) fn new() -> Self {
        let name = new_name();
        administer(&format!("CREATE DATABASE {name}"));
        Self { name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its address: that of the cluster, whose path is replaced. Not encrypted.
    pub(crate) fn address(&self) -> String {
        let cluster = cluster();
        let (server, _) = cluster.rsplit_once('/').expect("the cluster's address is a URL");
        format!("{server}/{}?{PATIENT}&sslmode=disable", self.name)
    }

    /// Its address by way of `proxy`. Not encrypted.
    pub(crate) fn address_by(&self, proxy: SocketAddr) -> String {
        self.address_of(&proxy.to_string(), "sslmode=disable")
    }

    /// Its address by `host`, a name and a port, with further parameters.
    pub(crate) fn address_of(&self, host: &str, parameters: &str) -> String {
        let address = self.address();
        let (user, _) = address.rsplit_once('@').expect("the cluster's address has a user");
        format!("{user}@{host}/{}?{PATIENT}&{parameters}", self.name)
    }

    /// Returns the address at which the cluster listens.
    pub(crate) fn server(&self) -> SocketAddr {
        let address = self.address();
        let (_, server) = address.rsplit_once('@').expect("the cluster's address has a user");
        let (server, _) = server.split_once('/').expect("the address ends in a path");
        server.to_socket_addrs().unwrap().next().unwrap()
    }

    /// A store on it.
    pub(crate) fn connect(&self) -> Postgres {
        Postgres::connect(&self.address()).unwrap()
    }

    /// A client that is nobody's store.
    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.address(), NoTls).unwrap()
    }

    /// The same of `tokio_postgres`.
    pub(crate) fn async_client(&self) -> tokio_postgres::Client {
        async_client(&self.address())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        administer(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// A schema of the cluster's own database, made by the first store. It goes with this.
pub(crate) struct Schema {
    name: String,
}

impl Schema {
    pub(crate) fn new() -> Self {
        Self { name: new_name() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A store whose tables are in it.
    pub(crate) fn connect(&self) -> Postgres {
        let parameters = format!("{PATIENT}&sslmode=disable&schema={}", self.name);
        Postgres::connect(&format!("{}?{parameters}", cluster())).unwrap()
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        administer(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name));
    }
}

/// Returns a name that no other test has.
fn new_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("tourbillon_test_{}_{number}", process::id())
}

/// A client of the cluster's own database.
pub(crate) fn client() -> Client {
    let config: Config = cluster().parse().unwrap();
    config.connect(NoTls).unwrap()
}

/// A client of `tokio_postgres`. Its connection has a thread until the client is dropped.
pub(crate) fn async_client(address: &str) -> tokio_postgres::Client {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let connected = runtime.block_on(tokio_postgres::connect(address, NoTls));
    let (client, connection) = connected.unwrap();
    thread::spawn(move || runtime.block_on(connection));
    client
}

fn administer(statement: &str) {
    client().batch_execute(statement).unwrap();
}
