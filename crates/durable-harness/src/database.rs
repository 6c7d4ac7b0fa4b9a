//! The database of a run.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rusqlite::TransactionBehavior;
use tokio::runtime::Builder;
use tokio_postgres::NoTls;
use tokio_postgres::config::TargetSessionAttrs;
use tourbillon_durable::Store;
use tourbillon_durable::store::postgres::Tables;
use tourbillon_durable::store::{NewTimer, Postgres, Sqlite};

use crate::Result;

/// Time in which a missing database is tried again.
const PATIENCE: Duration = Duration::from_secs(120);

const SIZES: &str = "\
    SELECT pg_total_relation_size(relid), n_dead_tup, n_tup_upd, n_tup_hot_upd, \
           (pg_current_wal_insert_lsn() - '0/0')::bigint \
    FROM pg_stat_user_tables WHERE relid = 'timer'::regclass";

/// Parameter of an address, the only permitted one.
const SCHEMA: &str = "?schema=";

/// Sizes and costs of a database. For SQLite, only its files are known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    /// Bytes: the table of timers with its indexes, or the whole file.
    timers: i64,
    /// Dead rows.
    dead: i64,
    updates: i64,
    /// Updates that changed no index.
    hot: i64,
    /// Bytes of the log.
    wal: i64,
}

impl Sizes {
    /// Describes the change since `before`, made by so many timers.
    pub(crate) fn since(&self, before: &Self, timers: usize) -> String {
        let mib = |bytes: i64| bytes as f64 / (1024.0 * 1024.0);
        let mut text = format!("{:.1} MiB -> {:.1} MiB", mib(before.timers), mib(self.timers));
        if self.wal > 0 {
            let wal = (self.wal - before.wal) as f64 / timers as f64;
            let updates = (self.updates - before.updates).max(1);
            let hot = (self.hot - before.hot) as f64 / updates as f64 * 100.0;
            let dead = self.dead;
            text += &format!(", {dead} dead rows, HOT {hot:.1} %, WAL {wal:.0} B a timer");
        }
        text
    }
}

/// A transaction that reads and does not end before its drop.
pub(crate) struct Snapshot {
    _file: Option<rusqlite::Connection>,
    _server: Option<postgres::Client>,
}

/// `sqlite:PATH`, or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with `?schema=` or without.
#[derive(Clone, Debug)]
pub(crate) struct Address(String);

impl Address {
    pub(crate) fn new(text: &str) -> Result<Self> {
        let address = Self(text.to_owned());
        if address.file().is_some() || address.is_postgres() {
            return Ok(address);
        }
        Err(format!("`{text}` is neither sqlite:PATH nor postgres://...").into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.0.starts_with("postgres://")
    }

    /// The file of a database of SQLite.
    pub(crate) fn file(&self) -> Option<&str> {
        self.0.strip_prefix("sqlite:")
    }

    pub(crate) fn open(&self) -> Result<Box<dyn Store>> {
        Ok(match self.file() {
            Some(path) => Box::new(Sqlite::open(path)?),
            None => Box::new(Postgres::connect(&self.0)?),
        })
    }

    /// Opens it and does `work` with it, again and again while the database cannot be reached.
    pub(crate) fn patiently<T>(&self, work: impl Fn(Box<dyn Store>) -> Result<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.open().and_then(&work) {
                Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(50)),
                done => return done,
            }
        }
    }

    /// Returns the servers' addresses.
    pub(crate) fn servers(&self) -> Result<Vec<SocketAddr>> {
        let (from, to) = self.host().ok_or("the address has no host and port")?;
        Ok(self.0[from..to].split(',').map(str::parse).collect::<std::result::Result<_, _>>()?)
    }

    /// Returns the only server's address.
    pub(crate) fn server(&self) -> Result<SocketAddr> {
        match self.servers()?[..] {
            [server] => Ok(server),
            _ => Err("the address has several hosts".into()),
        }
    }

    /// Returns the same database at other servers.
    pub(crate) fn at(&self, servers: &[SocketAddr]) -> Self {
        let Some((from, to)) = self.host() else { return self.clone() };
        let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
        Self(format!("{}{}{}", &self.0[..from], servers.join(","), &self.0[to..]))
    }

    /// Returns the same database on its host or on `standby`, whichever takes writes.
    pub(crate) fn or(&self, standby: SocketAddr) -> Self {
        let Some((_, to)) = self.host() else { return self.clone() };
        Self(format!("{},{standby}{}", &self.0[..to], &self.0[to..]))
    }

    /// A database of its own for a run: of PostgreSQL, a new one on the same server. An address
    /// with a schema is returned.
    pub(crate) fn for_a_run(&self) -> Result<Self> {
        if !self.is_postgres() || self.0.contains(SCHEMA) {
            return Ok(self.clone());
        }
        let since = SystemTime::UNIX_EPOCH.elapsed()?.as_micros();
        let name = format!("harness_{}_{since}", std::process::id());
        self.client()?.batch_execute(&format!("CREATE DATABASE {name}"))?;
        let (_, to) = self.host().ok_or("the address has no host and port")?;
        Ok(Self(format!("{}/{name}", &self.0[..to])))
    }

    /// Holds the lock that writers of timers need, for so long.
    pub(crate) fn hold(&self, span: Duration) -> Result<()> {
        if let Some(path) = self.file() {
            let mut file = rusqlite::Connection::open(path)?;
            file.busy_timeout(PATIENCE)?;
            let held = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
            thread::sleep(span);
            return Ok(held.rollback()?);
        }
        let mut client = self.client()?;
        let mut held = client.transaction()?;
        held.batch_execute("LOCK TABLE timer IN EXCLUSIVE MODE")?;
        thread::sleep(span);
        Ok(held.rollback()?)
    }

    /// Begins to read and does not end: rows deleted from now on stay in the tables.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        if let Some(path) = self.file() {
            let file = rusqlite::Connection::open(path)?;
            file.busy_timeout(PATIENCE)?;
            file.execute_batch("BEGIN")?;
            file.query_row("SELECT count(*) FROM tourbillon_node", [], |_| Ok(()))?;
            return Ok(Snapshot { _file: Some(file), _server: None });
        }
        let mut client = self.client()?;
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM node")?;
        Ok(Snapshot { _file: None, _server: Some(client) })
    }

    /// Removes deleted rows from the table of timers, for as long as it takes; SQLite does that by
    /// itself.
    pub(crate) fn vacuum(&self) -> Result<()> {
        if self.file().is_none() {
            self.client()?.batch_execute("VACUUM timer")?;
        }
        Ok(())
    }

    /// Makes the server end all its connections but one.
    pub(crate) fn terminate(&self) -> Result<()> {
        self.client()?.batch_execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
        )?;
        Ok(())
    }

    /// Inserts timers in a transaction that commits only so much later.
    pub(crate) fn insert_late(&self, timers: &[NewTimer], span: Duration) -> Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (server, schema) = self.schema();
            let mut config: tokio_postgres::Config = server.parse()?;
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            let (mut client, connection) = config.connect(NoTls).await?;
            tokio::spawn(connection);
            let transaction = client.transaction().await?;
            Tables::in_schema(schema)?.insert(&transaction, timers).await?;
            tokio::time::sleep(span).await;
            Ok(transaction.commit().await?)
        })
    }

    /// Returns the tables' sizes, and their costs so far.
    pub(crate) fn sizes(&self) -> Result<Sizes> {
        if let Some(path) = self.file() {
            let wal = std::fs::metadata(format!("{path}-wal")).map_or(0, |file| file.len());
            let bytes = std::fs::metadata(path)?.len();
            return Ok(Sizes { timers: i64::try_from(bytes + wal)?, ..Sizes::default() });
        }
        let row = self.client()?.query_one(SIZES, &[])?;
        Ok(Sizes {
            timers: row.get(0),
            dead: row.get(1),
            updates: row.get(2),
            hot: row.get(3),
            wal: row.get(4),
        })
    }

    /// Returns the address without the schema, and the schema.
    fn schema(&self) -> (&str, &str) {
        self.0.split_once(SCHEMA).unwrap_or((&self.0, "tourbillon"))
    }

    /// A client of the server itself, for tables of the schema; of several servers, of
    /// the primary.
    pub(crate) fn client(&self) -> Result<postgres::Client> {
        let (server, schema) = self.schema();
        let mut config: postgres::Config = server.parse()?;
        config.options(&format!("-c search_path={schema}"));
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(config.connect(NoTls)?)
    }

    /// Returns where in the address the host and port are.
    fn host(&self) -> Option<(usize, usize)> {
        let from = self.0.find('@')? + 1;
        let to = self.0[from..].find('/').map_or(self.0.len(), |length| from + length);
        Some((from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_through_a_proxy() {
        let address = Address::new("postgres://me:pw@127.0.0.1:5432/timers").unwrap();
        assert_eq!(address.server().unwrap(), ([127, 0, 0, 1], 5432).into());
        let proxied = address.at(&[([127, 0, 0, 1], 9).into()]);
        assert_eq!(proxied.as_str(), "postgres://me:pw@127.0.0.1:9/timers");
        let both = address.or(([127, 0, 0, 1], 9).into());
        assert_eq!(both.as_str(), "postgres://me:pw@127.0.0.1:5432,127.0.0.1:9/timers");
        let servers = both.servers().unwrap();
        assert_eq!(both.at(&servers).as_str(), both.as_str());
        assert_eq!(servers[1], ([127, 0, 0, 1], 9).into());
        assert!(both.server().is_err());
    }
}
