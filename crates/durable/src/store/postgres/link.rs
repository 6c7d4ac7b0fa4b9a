//! [`Link`]: one connection, the runtime that drives it, and the end of a lost one.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Client, Error, Row, Statement};

use super::answer::{Answer, Failure, PATIENCE, Params, unavailable};
use super::floor::Floor;
use super::server::{Backend, Opened, Server};
use super::tables::Tables;
use crate::error::StoreError;
use crate::store::Result;

/// Number of lists that each connection keeps prepared: their texts differ by conditions and limit.
const LISTS: usize = 64;

const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '3s'";

/// Something that runs statements: a connection, or a transaction of the caller's.
///
/// A statement is a text that lives as long as the program, so that it is prepared once. It names
/// the tables of the default schema; the connection [replaces](Tables::fill) this with its own
/// schema.
pub(super) trait Query {
    /// Runs a statement that does not write.
    async fn read(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>>;

    /// Runs a statement that may write.
    async fn write(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>>;

    /// Makes everything read so far as durable as a write, once the current transaction has
    /// committed.
    async fn confirm(&mut self) -> Answer<()> {
        self.write(CONFIRM, &[]).await.map(drop)
    }
}

/// One connection. While no call runs, nothing does.
pub(super) struct Link {
    runtime: Driver,
    session: Session,
    backend: Backend,
    /// The connection, which ends with this.
    _connection: JoinSet<()>,
}

/// A runtime that is shut down in the background: a drop that waits is forbidden on another
/// runtime's threads.
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

/// Does `work`, which blocks. On a thread of a runtime, it uses a separate thread: tokio lets no
/// other runtime block there.
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

/// Ends the process of a lost connection, unless it waits for a standby: if ended, it would commit
/// without the standby. Returns whether it ended in time; nothing for a process that waits; no row
/// if it is gone, or if a pooler has given it to others or to this connection.
const END_BACKEND: &str = "
    SELECT CASE WHEN wait_event = 'SyncRep' THEN NULL ELSE pg_terminate_backend(pid, 1500) END
    FROM pg_stat_activity
    WHERE pid = $1 AND extract(epoch FROM backend_start)::text = $2 AND application_name = $3
        AND pid <> pg_backend_pid()";

/// Pause before a process that waits for a standby is looked at again.
const STANDBY: Duration = Duration::from_millis(50);

/// A write that changes nothing: its commit waits until all earlier commits are on the disk and on
/// the standbys that `synchronous_commit` asks for.
const CONFIRM: &str = "SELECT pg_logical_emit_message(true, 'tourbillon', ''::text)";

/// Part of a connection that a call has.
pub(super) struct Session {
    client: Client,
    tables: Tables,
    /// Place where reads of due timers begin. A new connection may be to a server that has
    /// forgotten the last ends.
    pub(super) floor: Floor,
    /// Statements that are prepared, by their text before it was filled.
    statements: HashMap<&'static str, Statement>,
    /// Prepared lists; the last is the most recently read.
    lists: VecDeque<(String, Statement)>,
    /// True while a transaction is open.
    open: bool,
    /// True once this call has sent something that the server may have committed.
    exposed: bool,
    /// True once the server has said that it gave up waiting for a standby.
    is_unreplicated: Arc<AtomicBool>,
    /// True if the server has Citus.
    pub(super) is_citus: bool,
    /// Calls ended for want of a lock.
    lock_timeouts: u64,
}

impl Link {
    /// Connects, by `deadline`. First, statements sent through `lost` are done, or will never be:
    /// the server may still run one, or receive it late.
    pub(super) fn connect(
        server: &Server,
        deadline: Instant,
        lost: Option<&Backend>,
    ) -> Result<Self> {
        let runtime = Driver::new()?;
        let deadline = deadline.min(Instant::now() + PATIENCE);
        let begun =
            runtime.block_on(async { timeout_at(deadline, begin(server, deadline, lost)).await });
        match begun {
            Ok(Ok(Opened { client, driver, backend, is_unreplicated, is_citus, .. })) => {
                let session = Session {
                    client,
                    tables: server.tables().clone(),
                    floor: Floor::default(),
                    statements: HashMap::new(),
                    lists: VecDeque::new(),
                    open: false,
                    exposed: false,
                    is_unreplicated,
                    is_citus,
                    lock_timeouts: 0,
                };
                Ok(Self { runtime, session, backend, _connection: driver })
            }
            Ok(Err(failure)) => Err(failure.unconnected()),
            Err(late) => Err(unavailable(Box::new(late))),
        }
    }

    /// Converts it to the process that it was to.
    pub(super) fn into_backend(self) -> Backend {
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

    /// Returns how many calls the server has ended since the last call of this function because a
    /// lock was not free in time.
    pub(super) fn lock_timeouts(&mut self) -> u64 {
        std::mem::take(&mut self.session.lock_timeouts)
    }

    /// Does `work`; leaves no transaction open. An error comes with whether the link may be kept.
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
                // An error here shows when the connection is next used.
                let _ = timeout_at(deadline, session.rollback()).await;
            }
            done.and_then(|answer| match session.is_replicated() {
                true => Ok(answer),
                false => Err(Failure::Unreplicated),
            })
        });
        if answer.as_ref().is_err_and(Failure::is_lock_timeout) {
            session.lock_timeouts += 1;
        }
        let is_usable = !session.open && !session.client.is_closed();
        answer.map_err(|failure| {
            let (kind, is_good) = failure.judge(session.exposed);
            (failure.into_error(kind), is_good && is_usable)
        })
    }
}

/// On the runtime that is to drive it.
async fn begin(server: &Server, deadline: Instant, lost: Option<&Backend>) -> Answer<Opened> {
    let opened = server.open(deadline, None).await?;
    if let Some(lost) = lost {
        end(&opened.client, lost, deadline).await?;
    }
    Ok(opened)
}

/// Returns once the process of a lost connection is gone.
async fn end(client: &Client, lost: &Backend, deadline: Instant) -> Answer<()> {
    let statement = client.prepare(END_BACKEND).await?;
    loop {
        let rows = client.query(&statement, &[&lost.pid, &lost.start, &lost.name]).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let why = match row.try_get(0)? {
            Some(true) => return Ok(()),
            Some(false) => "the process of a connection that was lost does not end",
            None if Instant::now() + STANDBY * 2 < deadline => {
                tokio::time::sleep(STANDBY).await;
                continue;
            }
            None => "a write of a connection that was lost waits for a standby",
        };
        return Err(Failure::Other(unavailable(why.into())));
    }
}

impl Session {
    /// Tables that the statements are about.
    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    async fn statement(&mut self, sql: &'static str) -> Answer<Statement> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&self.tables.fill(sql)).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Runs a reading statement that is not worth keeping prepared.
    pub(super) async fn read_once(&self, sql: &str, params: Params<'_>) -> Answer<Vec<Row>> {
        Ok(self.client.query(&*self.tables.fill(sql), params).await?)
    }

    /// Runs one of the many statements of lists, and keeps it prepared until as many others as
    /// [`LISTS`] have been read.
    pub(super) async fn read_list(&mut self, sql: &str, params: Params<'_>) -> Answer<Vec<Row>> {
        let prepared = self.lists.iter().position(|(list, _)| list == sql);
        let (sql, statement) = match prepared.and_then(|place| self.lists.remove(place)) {
            Some(list) => list,
            None => (sql.to_owned(), self.client.prepare(&self.tables.fill(sql)).await?),
        };
        let rows = self.client.query(&statement, params).await;
        self.lists.push_back((sql, statement));
        if self.lists.len() > LISTS {
            self.lists.pop_front();
        }
        Ok(rows?)
    }

    /// Runs statements without parameters, in a transaction that is open.
    pub(super) async fn batch(&self, sql: &str) -> Answer<()> {
        Ok(self.client.batch_execute(&self.tables.fill(sql)).await?)
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

    /// Runs statements in one transaction, and commits it, in one round trip: each is sent without
    /// waiting for the one before it. If one fails, the server passes over the rest.
    pub(super) async fn transact<const N: usize>(
        &mut self,
        settings: &str,
        statements: [(&'static str, Params<'_>); N],
    ) -> Answer<[Vec<Row>; N]> {
        let mut prepared = Vec::with_capacity(N);
        for (sql, params) in statements {
            prepared.push((self.statement(sql).await?, params));
        }
        let before = self.exposed;
        (self.open, self.exposed) = (true, true);
        let begin = format!("{BEGIN}; {settings}");
        let client = &self.client;
        let mut sent: Vec<Sent<'_>> = Vec::with_capacity(N + 2);
        sent.push(Box::pin(async { client.batch_execute(&begin).await.map(|()| vec![]) }));
        for (statement, params) in &prepared {
            sent.push(Box::pin(client.query(statement, params)));
        }
        sent.push(Box::pin(async { client.batch_execute("COMMIT").await.map(|()| vec![]) }));
        let mut answers = together(sent).await;
        let is_over = answers.pop().expect("the commit is the last");
        if let Some(error) = answers.iter().find_map(|answer| answer.as_ref().err()) {
            if is_undone(error) {
                self.exposed = before;
            }
        }
        if is_over.is_ok() {
            self.open = false;
        }
        let mut rows = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
        is_over?;
        rows.remove(0);
        Ok(rows.try_into().expect("one answer for each statement"))
    }

    /// Runs a statement that may write, and a read, in one round trip. Each is a transaction of its
    /// own, and the server begins the second once it has committed the first: so the read sees the
    /// write and all earlier ones. If the read fails, the write stays.
    pub(super) async fn write_then_read(
        &mut self,
        (write, values): (&'static str, Params<'_>),
        (read, of): (&'static str, Params<'_>),
    ) -> Answer<(Vec<Row>, Vec<Row>)> {
        let (write, read) = (self.statement(write).await?, self.statement(read).await?);
        let before = self.exposed;
        self.exposed = true;
        let client = &self.client;
        let sent: Vec<Sent<'_>> =
            vec![Box::pin(client.query(&write, values)), Box::pin(client.query(&read, of))];
        let mut answers = together(sent).await.into_iter();
        let mut next = || answers.next().expect("one answer for each statement");
        let (written, seen) = (next(), next());
        if written.as_ref().is_err_and(is_undone) {
            self.exposed = before;
        }
        Ok((written?, seen?))
    }

    /// Keeps the writes so far, even if the rest of the call fails.
    pub(super) fn settle(&mut self) {
        self.exposed = false;
    }

    /// Returns whether every commit so far was waited for; each call asks only about later ones.
    fn is_replicated(&self) -> bool {
        // ORDERING: Relaxed; the task that writes it has sent the answer since, by a channel.
        !self.is_unreplicated.swap(false, Ordering::Relaxed)
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

/// A statement that is sent when it is first polled, and its answer.
type Sent<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + 'a>>;

/// Sends all of these in their order, then waits for the answers.
async fn together(mut sent: Vec<Sent<'_>>) -> Vec<Result<Vec<Row>, Error>> {
    let mut answers: Vec<_> = sent.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (statement, answer) in sent.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                if let Poll::Ready(ready) = statement.as_mut().poll(cx) {
                    *answer = Some(ready);
                }
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}

/// Returns whether the server itself said that the statement failed, so that nothing of it was
/// written.
fn is_undone(error: &Error) -> bool {
    // An end of the connection is said after a commit, too.
    error.as_db_error().is_some_and(|error| !error.code().code().starts_with("57P"))
}

#[cfg(test)]
mod tests;
