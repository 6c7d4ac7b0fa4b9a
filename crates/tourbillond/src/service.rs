//! [`Service`]: the common state of all parts.

mod clock;
mod trials;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, broadcast, watch};
use tourbillon::Timer;
use tourbillon_durable::store::{Postgres, Sqlite};
use tourbillon_durable::{Client, Engine, NodeId, Stats, Store, StoreError, Worker};

use crate::answers::{ANSWERS_MAX, Answers};
use crate::audit::Audit;
use crate::catalog::Catalog;
use crate::config::{Config, StoreAt};
use crate::metrics::Timed;
use crate::model::Run;
use crate::private::{self, NOT_OWNER};
use trials::Trials;
pub(crate) use trials::{Trial, Untried};

/// Capacity of [`Service::runs`]: a reader that is further behind misses runs.
const RUNS: usize = 1_024;

/// Period at which old records are deleted.
const FORGET: Duration = Duration::from_secs(600);

/// Reuse of an answer of [`Service::ready`].
const LOOK: Duration = Duration::from_millis(250);

/// Greatest age of a ready node's last write: some beats of a second each.
const BEAT: Duration = Duration::from_secs(4);

/// Connections by which requests are answered, beside that of lists and counts.
const CONNECTIONS: usize = 4;

/// Most live clients of one node.
pub(crate) const LIVE: usize = 256;

/// Reason why a node is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unready {
    #[error("the database does not answer")]
    Away,
    /// The database answers, and has taken no write for some time.
    #[error("the database takes no writes")]
    ReadOnly,
    /// The node has not joined the cluster, has left it, or could not stay.
    #[error("the node has no lease in the database")]
    Alone,
}

/// State that all parts of the service share.
pub struct Service {
    /// Timer of all waits.
    pub timer: Timer,
    /// For changes.
    pub client: Client,
    /// For lists and counts, so that they keep no change waiting.
    pub reader: Client,
    /// Each attempt that ends. With nobody who listens it costs nothing.
    pub runs: broadcast::Sender<Arc<Run>>,
    /// The memory of answers that are not read yet.
    pub answers: Arc<Answers>,
    /// Schedules and runs.
    pub(crate) catalog: Catalog,
    /// Callbacks that are sent once, for a test.
    pub(crate) trials: Trials,
    /// A permit for each live client.
    pub(crate) live: Arc<Semaphore>,
    config: watch::Sender<Arc<Config>>,
    stopping: watch::Sender<bool>,
    node: NodeId,
    /// Log of changes, if there is one.
    audit: OnceLock<Arc<Audit>>,
    /// Answer of the last look at whether the node is ready, and when that was.
    looked: tokio::sync::Mutex<Option<(Instant, Result<(), Unready>)>>,
    /// `None` once the service is stopped.
    engine: Mutex<Option<Engine>>,
}

impl Service {
    /// Starts an engine on `store`.
    ///
    /// # Errors
    ///
    /// If the store has no further connection, or a thread cannot be started.
    pub fn start(
        store: Box<dyn Store>,
        config: Config,
        timer: &Timer,
    ) -> Result<Arc<Self>, StoreError> {
        let engine = Engine::builder().start(Box::new(Timed::new(store, timer)))?;
        let (client, reader) = (engine.client_with(CONNECTIONS)?, engine.client()?);
        let config = watch::Sender::new(Arc::new(config));
        let clients = (client.clone(), reader.clone());
        let catalog = Catalog::new(clients, timer.clone(), config.subscribe(), engine.node());
        Ok(Arc::new(Self {
            timer: timer.clone(),
            client,
            reader,
            runs: broadcast::channel(RUNS).0,
            answers: Answers::new(ANSWERS_MAX),
            catalog,
            trials: Trials::default(),
            live: Arc::new(Semaphore::new(LIVE)),
            config,
            stopping: watch::Sender::new(false),
            node: engine.node(),
            audit: OnceLock::new(),
            looked: tokio::sync::Mutex::new(None),
            engine: Mutex::new(Some(engine)),
        }))
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<Config> {
        self.config.borrow().clone()
    }

    /// The configuration, and each that replaces it.
    pub fn follow(&self) -> watch::Receiver<Arc<Config>> {
        self.config.subscribe()
    }

    /// Puts another configuration in force.
    pub fn reload(&self, config: Config) {
        self.config.send_replace(Arc::new(config));
    }

    /// Keeps an audit log in a file from now on. If there is one already, it stays.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn keep_audit(&self, path: &Path) -> io::Result<()> {
        let audit = Arc::new(Audit::open(path, &self.timer)?);
        self.audit.get_or_init(|| audit);
        Ok(())
    }

    /// Closes the audit log, if there is one, and waits some seconds at most until its lines are on
    /// the disk. Requests that are dropped before leave theirs.
    pub fn close_audit(&self) {
        if let Some(audit) = self.audit() {
            audit.close();
        }
    }

    /// The audit log, if there is one.
    pub(crate) fn audit(&self) -> Option<&Arc<Audit>> {
        self.audit.get()
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The attempts of one kind, `prefetch` of them at a time; `None` once the service is stopped.
    ///
    /// # Panics
    ///
    /// If there is a worker of this kind.
    pub fn worker(&self, kind: &str, prefetch: usize) -> Option<Worker> {
        self.engine().as_ref().map(|engine| engine.worker(kind, prefetch))
    }

    /// Returns counts of the node's work so far; `None` once the service is stopped.
    pub fn stats(&self) -> Option<Stats> {
        self.engine().as_ref().map(Engine::stats)
    }

    /// Waits until the node has ended, and returns why if it ended by itself.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it changes nothing.
    pub fn ended(&self) -> impl Future<Output = Option<StoreError>> + Send + use<> {
        let ended = self.engine().as_ref().map(Engine::ended);
        async move { ended?.await }
    }

    /// Fails unless the database answers and takes writes.
    ///
    /// The write is the node's beat, which every second moves the end of its lease; so asking costs
    /// one read, however often it is asked.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it changes nothing.
    pub(crate) async fn ready(&self) -> Result<(), Unready> {
        let mut looked = self.looked.lock().await;
        let now = self.timer.now();
        match *looked {
            Some((at, answer)) if now.duration_since(at) < LOOK => answer,
            _ => {
                let answer = self.look().await;
                *looked = Some((self.timer.now(), answer));
                answer
            }
        }
    }

    async fn look(&self) -> Result<(), Unready> {
        let away = |error: StoreError| {
            tracing::warn!(%error, "not ready");
            Unready::Away
        };
        let nodes = self.reader.nodes().await.map_err(away)?;
        let now = self.reader.now().await.map_err(away)?;
        match nodes.iter().find(|node| node.id == self.node) {
            Some(own) if now.since(own.beat) <= BEAT => Ok(()),
            Some(_) => Err(Unready::ReadOnly),
            None => Err(Unready::Alone),
        }
    }

    /// Deletes the records of runs older than `keep`, again and again.
    pub async fn forget(&self, keep: Duration) {
        loop {
            let forgotten = match self.reader.now().await {
                Ok(now) => self.reader.prune(now - keep).await,
                Err(error) => Err(error),
            };
            match forgotten {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "old records were deleted"),
                Err(error) => tracing::warn!(%error, "old records were not deleted"),
            }
            self.timer.sleep(FORGET).await;
        }
    }

    /// Announces the stop of the service, so that endless answers end.
    pub fn begin_stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Waits until the service is about to stop.
    pub(crate) async fn stopping(&self) {
        let _ = self.stopping.subscribe().wait_for(|is| *is).await;
    }

    /// Stops the engine: it claims no more timers, hands back attempts that no handler has taken,
    /// and waits for the running ones.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait: other nodes take over the running attempts.
    pub async fn stop(&self) {
        let engine = self.engine().take();
        if let Some(engine) = engine {
            engine.stop().await;
        }
    }

    fn engine(&self) -> std::sync::MutexGuard<'_, Option<Engine>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Opens the configured store. A new file is readable by its owner alone; if others can read an
/// existing one, this is logged.
///
/// # Errors
///
/// If it is not there, or its tables are of another version.
pub fn open(at: &StoreAt) -> Result<Box<dyn Store>, StoreError> {
    Ok(match at {
        StoreAt::File(path) => {
            private::make(path);
            let store = Sqlite::open(path)?;
            // Those beside it have the mode that it had when they were made.
            let paths = ["", "-wal", "-shm"].map(|ending| {
                let mut path = path.clone().into_os_string();
                path.push(ending);
                PathBuf::from(path)
            });
            for warning in paths.iter().filter_map(|path| private::exposed(path, NOT_OWNER)) {
                tracing::warn!("{warning}");
            }
            Box::new(store)
        }
        StoreAt::Postgres(address) => Box::new(Postgres::connect(address)?),
    })
}
