//! [`Link`]: one connection, the runtime that drives it, and what a lost one means.

use std::collections::HashMap;
use std::error::Error as _;
use std::fmt;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, Row, Socket, Statement};

use super::address;
#[cfg(not(feature = "tls"))]
use super::plain::{Connector, connector};
#[cfg(feature = "tls")]
use super::tls::{Connector, connector};
use super::values::Stamp;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::Result;

/// Longest time that a call may take, whatever the network and the server do.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Longest time that it may take to connect.
pub(super) const CONNECT: Duration = Duration::from_secs(3);

/// Settings of every connection.
///
/// A plan is made once, when the tables may be empty, and kept while they grow: so it has no choice
/// but the indexes. A statement waits little for a lock, as most have a better answer to one that
/// is taken; a transaction waits longer, by [`BEGIN`]. The server gives up before the client does.
const SETTINGS: &str = "
    SET plan_cache_mode = force_generic_plan; SET jit = off;
    SET enable_seqscan = off; SET enable_bitmapscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET lock_timeout = '50ms'; SET statement_timeout = '4s';
    SET idle_in_transaction_session_timeout = '4s';
    SET default_transaction_isolation = 'read committed';
    SET search_path = ''";

const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '3s'";

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Something that runs statements: a connection, or a transaction of the caller's.
///
/// A statement is a text that lives as long as the program, so that it is prepared once.
pub(super) trait Query {
    /// Runs what writes nothing.
    async fn read(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>>;

    /// Runs what may write.
    async fn write(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>>;
}

/// Reason for which there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server's, or the connection's.
    Postgres(Error),
    /// The call took too long.
    Late,
    /// Nothing to do with the database.
    Other(StoreError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

pub(super) type Answer<T> = std::result::Result<T, Failure>;

/// Future that drives a connection.
pub(super) type Connection =
    tokio_postgres::Connection<Socket, <Connector as MakeTlsConnect<Socket>>::Stream>;

/// Whom to connect to, and how.
#[derive(Clone)]
pub(super) struct Server {
    config: Config,
    connector: Connector,
}

impl Server {
    /// Makes one from an address, a URL or `key=value` pairs.
    pub(super) fn new(address: &str) -> Result<Self> {
        let (config, encryption) = address::parse(address)?;
        Ok(Self { config: limited(config), connector: connector(&encryption)? })
    }

    /// Connects, and leaves it to the caller to drive the connection.
    pub(super) async fn begin(&self) -> Answer<(Client, Connection)> {
        Ok(self.config.connect(Connector::clone(&self.connector)).await?)
    }

    /// Connects, on the runtime that is to drive the connection.
    async fn connect(&self) -> Answer<Client> {
        let (client, connection) = self.begin().await?;
        // It ends with the runtime, or with the connection, which the client then shows.
        tokio::spawn(connection);
        Ok(client)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It leaves the password out.
        self.config.fmt(f)
    }
}

/// The configuration with limits to how long a dead network goes unnoticed, where it has none.
fn limited(mut config: Config) -> Config {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(2));
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(PATIENCE);
    }
    if config.get_application_name().is_none() {
        config.application_name("tourbillon");
    }
    config.keepalives_idle(Duration::from_secs(10));
    config.keepalives_interval(Duration::from_secs(2));
    config.keepalives_retries(2);
    config
}

/// One connection. While no call runs, nothing does.
pub(super) struct Link {
    runtime: Driver,
    session: Session,
    backend: Backend,
}

/// A runtime that goes without a wait: one that waits may not be dropped on another's threads.
pub(super) struct Driver(Option<Runtime>);

impl Driver {
    pub(super) fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self(Some(runtime.map_err(|error| unavailable(Box::new(error)))?)))
    }

    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.as_ref().expect("a runtime goes when it is dropped").block_on(future)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Does not wait for the resolver of names.
            runtime.shutdown_background();
        }
    }
}

/// Does `work`, which blocks: on a thread of its own if this is one of a runtime, where tokio lets
/// no other runtime block.
pub(super) fn blocking<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    if Handle::try_current().is_err() {
        return work();
    }
    thread::scope(|scope| {
        let aside = thread::Builder::new().name("durable-call".to_owned());
        let aside =
            aside.spawn_scoped(scope, work).map_err(|error| unavailable(Box::new(error)))?;
        aside.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The server's process behind a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backend {
    pid: i32,
    start: Stamp,
}

const BACKEND: &str = "
    SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()";

/// Says whether it ended in time; nothing if it is gone.
const END_BACKEND: &str = "
    SELECT pg_terminate_backend(pid, 1500) FROM pg_stat_activity
    WHERE pid = $1 AND backend_start = $2";

/// Part of a connection that a call has.
pub(super) struct Session {
    client: Client,
    statements: HashMap<&'static str, Statement>,
    /// True while a transaction is open.
    open: bool,
    /// True once this call has sent something that the server may have committed.
    exposed: bool,
}

fn unavailable(source: Box<dyn std::error::Error + Send + Sync>) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, source)
}

impl Link {
    /// Connects, by `deadline` and not for long. What was sent by way of `lost` is done before, or
    /// never is: it may be at work still, or on its way.
    pub(super) fn connect(
        server: &Server,
        deadline: Instant,
        lost: Option<Backend>,
    ) -> Result<Self> {
        let runtime = Driver::new()?;
        let deadline = deadline.min(Instant::now() + CONNECT);
        let begun = runtime.block_on(async { timeout_at(deadline, begin(server, lost)).await });
        match begun {
            Ok(Ok((client, backend))) => {
                let statements = HashMap::new();
                let session = Session { client, statements, open: false, exposed: false };
                Ok(Self { runtime, session, backend })
            }
            Ok(Err(failure)) => Err(failure.unconnected()),
            Err(late) => Err(unavailable(Box::new(late))),
        }
    }

    /// Whom it is to.
    pub(super) fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns whether the connection is there still, as far as is known without asking the server.
    pub(super) fn is_open(&self) -> bool {
        // Lets the connection read that it was closed: the first turn of the runtime asks the
        // operating system, and the connection runs in the next.
        self.runtime.block_on(async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        });
        !self.session.client.is_closed()
    }

    /// Does `work`; leaves no transaction open. With an error comes whether the link may go on.
    pub(super) fn call<T>(
        &mut self,
        deadline: Instant,
        work: impl AsyncFnOnce(&mut Session) -> Answer<T>,
    ) -> std::result::Result<T, (StoreError, bool)> {
        let session = &mut self.session;
        session.exposed = false;
        let answer = self.runtime.block_on(async {
            let done = timeout_at(deadline, work(session)).await;
            let done = done.unwrap_or(Err(Failure::Late));
            if session.open && !matches!(done, Err(Failure::Late)) {
                // What goes wrong here shows when the connection is next used.
                let _ = timeout_at(deadline, session.rollback()).await;
            }
            done
        });
        let is_usable = !session.open && !session.client.is_closed();
        answer.map_err(|failure| {
            let (kind, is_good) = failure.judge(session.exposed);
            (failure.into_error(kind), is_good && is_usable)
        })
    }
}

/// On the runtime that is to drive it.
async fn begin(server: &Server, lost: Option<Backend>) -> Answer<(Client, Backend)> {
    let client = server.connect().await?;
    client.batch_execute(SETTINGS).await?;
    let own = client.query_one(BACKEND, &[]).await?;
    if let Some(Backend { pid, start }) = lost {
        for row in client.query(END_BACKEND, &[&pid, &start]).await? {
            if !row.try_get(0)? {
                let why = "the process of a connection that was lost does not end";
                return Err(Failure::Other(unavailable(why.into())));
            }
        }
    }
    Ok((client, Backend { pid: own.try_get(0)?, start: own.try_get(1)? }))
}

impl Session {
    async fn statement(&mut self, sql: &'static str) -> Answer<Statement> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Runs what is not worth to be kept prepared, and writes nothing.
    pub(super) async fn read_once(&self, sql: &str, params: Params<'_>) -> Answer<Vec<Row>> {
        Ok(self.client.query(sql, params).await?)
    }

    /// Runs statements without parameters, in a transaction that is open.
    pub(super) async fn batch(&self, sql: &str) -> Answer<()> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// Opens a transaction, whose statements wait longer for a lock than one without.
    pub(super) async fn begin(&mut self) -> Answer<()> {
        self.open = true;
        self.batch(BEGIN).await
    }

    pub(super) async fn commit(&mut self) -> Answer<()> {
        self.exposed = true;
        self.batch("COMMIT").await?;
        self.open = false;
        Ok(())
    }

    /// Keeps what was written so far, whatever becomes of the rest of the call.
    pub(super) fn settle(&mut self) {
        self.exposed = false;
    }

    pub(super) async fn rollback(&mut self) -> Answer<()> {
        self.batch("ROLLBACK").await?;
        self.open = false;
        Ok(())
    }
}

impl Query for Session {
    async fn read(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>> {
        let statement = self.statement(sql).await?;
        Ok(self.client.query(&statement, params).await?)
    }

    async fn write(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>> {
        let statement = self.statement(sql).await?;
        let before = self.exposed;
        self.exposed |= !self.open;
        let answer = self.client.query(&statement, params).await;
        if answer.as_ref().is_err_and(is_undone) {
            self.exposed = before;
        }
        Ok(answer?)
    }
}

/// Returns whether the server itself said that the statement failed, so that nothing of it was
/// written.
fn is_undone(error: &Error) -> bool {
    // An end of the connection is said after a commit, too.
    error.as_db_error().is_some_and(|error| !error.code().code().starts_with("57P"))
}

impl Failure {
    /// Returns what a caller can do about it, and whether the connection may be used again.
    fn judge(&self, exposed: bool) -> (StoreErrorKind, bool) {
        use StoreErrorKind::{Conflict, Invalid, Schema, Unavailable, Uncertain};
        let error = match self {
            Self::Postgres(error) => error,
            Self::Late if exposed => return (Uncertain, false),
            Self::Late => return (Unavailable, false),
            Self::Other(error) => return (error.kind(), true),
        };
        let Some(code) = error.code() else {
            return (if exposed { Uncertain } else { Unavailable }, false);
        };
        let (kind, is_good) = match &code.code()[..2] {
            _ if *code == SqlState::LOCK_NOT_AVAILABLE => (Conflict, true),
            "40" => (Conflict, true),
            _ if *code == SqlState::QUERY_CANCELED => (Unavailable, true),
            // No such table, column or schema; none that this role may use.
            "3F" | "42" => (Schema, true),
            "22" | "23" | "54" => (Invalid, true),
            // Shutting down, out of something, a standby, a statement forgotten: another connection
            // may do.
            _ => (Unavailable, false),
        };
        (if exposed { Uncertain } else { kind }, is_good)
    }

    /// Converts it to an error in a transaction that is not committed.
    pub(super) fn unwritten(self) -> StoreError {
        let (kind, _) = self.judge(false);
        self.into_error(kind)
    }

    /// Converts it to an error of connecting.
    fn unconnected(self) -> StoreError {
        self.into_error(StoreErrorKind::Unavailable)
    }

    fn into_error(self, kind: StoreErrorKind) -> StoreError {
        match self {
            // By itself it says little more than that there was one.
            Self::Postgres(error) => match (error.as_db_error(), error.source()) {
                (Some(said), _) => StoreError::new(kind, said.to_string()),
                (None, Some(source)) => StoreError::new(kind, format!("{error}: {source}")),
                (None, None) => StoreError::new(kind, error),
            },
            Self::Late => StoreError::new(kind, format!("no answer within {PATIENCE:?}")),
            Self::Other(error) => error,
        }
    }
}
