//! Counts of the server.

use std::path::Path;
use std::time::Duration;

use postgres::{Client, NoTls};

use crate::{Result, processor};

const COUNTS: &str = "\
    SELECT (pg_current_wal_insert_lsn() - '0/0')::float8, \
           (SELECT coalesce(sum(calls), 0)::float8 FROM pg_stat_statements \
            WHERE dbid = (SELECT oid FROM pg_database WHERE datname = $1))";

/// The server, by a connection to its first database.
pub(crate) struct Server {
    client: Client,
    address: String,
}

/// Sums up to a moment.
pub(crate) struct Counts {
    /// Bytes of the log.
    wal: f64,
    /// Statements that clients sent to the database.
    pub(crate) calls: f64,
    processor: Duration,
}

/// Costs of each of some jobs.
pub(crate) struct Costs {
    pub(crate) wal_bytes: f64,
    pub(crate) calls: f64,
    pub(crate) processor_us: f64,
}

impl Server {
    pub(crate) fn connect(address: &str) -> Result<Self> {
        let mut client = Client::connect(address, NoTls)?;
        client.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")?;
        Ok(Self { client, address: address.to_owned() })
    }

    /// Makes a database, empty or as another is, and returns its address.
    pub(crate) fn create(&mut self, name: &str, like: Option<&str>) -> Result<String> {
        let like = like.map_or(String::new(), |like| format!("TEMPLATE {like} STRATEGY file_copy"));
        self.client.batch_execute(&format!("CREATE DATABASE {name} {like}"))?;
        let (server, _) = self.address.rsplit_once('/').ok_or("an address without a database")?;
        Ok(format!("{server}/{name}"))
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<()> {
        Ok(self.client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"))?)
    }

    /// Its sums so far, with the calls to the database of that name.
    pub(crate) fn counts(&mut self, name: &str) -> Result<Counts> {
        let row = self.client.query_one(COUNTS, &[&name])?;
        Ok(Counts { wal: row.get(0), calls: row.get(1), processor: server_processor()? })
    }
}

impl Counts {
    /// Returns the costs of each of `count` jobs since `before`.
    pub(crate) fn since(&self, before: &Self, count: usize) -> Costs {
        let each = |sum: f64| sum / count as f64;
        let processor = self.processor.saturating_sub(before.processor);
        Costs {
            wal_bytes: each(self.wal - before.wal),
            calls: each(self.calls - before.calls),
            processor_us: each(processor.as_secs_f64() * 1e6),
        }
    }
}

/// A connection whose statements the server does not count.
pub(crate) fn observer(address: &str) -> Result<Client> {
    let mut client = Client::connect(address, NoTls)?;
    client.batch_execute("SET pg_stat_statements.track = 'none'")?;
    Ok(client)
}

/// Returns the processor time of the server's processes, ended ones included.
fn server_processor() -> Result<Duration> {
    let data = std::env::var_os("TOURBILLON_POSTGRES_DATA");
    let data = data.ok_or("run it by ci/durable-postgres.sh")?;
    let file = std::fs::read_to_string(Path::new(&data).join("postmaster.pid"))?;
    let first = file.lines().next().ok_or("the server has no process")?;
    processor::family(first.parse()?)
}
