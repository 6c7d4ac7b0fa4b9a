//! [`Service`]: what all parts share.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, broadcast, watch};
use tourbillon::Timer;
use tourbillon_durable::store::{Postgres, Sqlite};
use tourbillon_durable::{Client, Engine, NodeId, Stats, Store, StoreError, Worker};

use crate::api::{LIVE, Overviews};
use crate::config::{Config, StoreAt};
use crate::model::Run;
use crate::quota::Quota;

/// How many runs a slow reader of [`Service::runs`] may be behind before it misses some.
const RUNS: usize = 1_024;

/// How often old records are deleted.
const FORGET: Duration = Duration::from_secs(600);

/// What all parts of the service share.
pub struct Service {
    /// What waits, waits by this.
    pub timer: Timer,
    /// For what changes something.
    pub client: Client,
    /// For lists and counts, so that they keep no change waiting.
    pub reader: Client,
    /// Each attempt that ends. With nobody who listens it costs nothing.
    pub runs: broadcast::Sender<Arc<Run>>,
    pub(crate) quota: Quota,
    pub(crate) overviews: Overviews,
    /// A permit for each client that follows what happens.
    pub(crate) live: Arc<Semaphore>,
    config: watch::Sender<Arc<Config>>,
    stopping: watch::Sender<bool>,
    node: NodeId,
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
        let engine = Engine::builder().start(store)?;
        Ok(Arc::new(Self {
            timer: timer.clone(),
            client: engine.client()?,
            reader: engine.client()?,
            runs: broadcast::channel(RUNS).0,
            quota: Quota::default(),
            overviews: Overviews::default(),
            live: Arc::new(Semaphore::new(LIVE)),
            config: watch::Sender::new(Arc::new(config)),
            stopping: watch::Sender::new(false),
            node: engine.node(),
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

    /// What the node has done so far; `None` once the service is stopped.
    pub fn stats(&self) -> Option<Stats> {
        self.engine().as_ref().map(Engine::stats)
    }

    /// Forgets what became of runs longer ago than `keep`, again and again.
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

    /// Says that the service is about to stop, so that what never ends by itself does.
    pub fn begin_stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Waits until the service is about to stop.
    pub(crate) async fn stopping(&self) {
        let _ = self.stopping.subscribe().wait_for(|is| *is).await;
    }

    /// Stops the engine: it claims nothing more, hands back what no handler has taken, and waits
    /// for what handlers have.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it waits no longer: what handlers have is another node's.
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

/// Opens the store that the configuration names.
///
/// # Errors
///
/// If it is not there, or its tables are of another version.
pub fn open(at: &StoreAt) -> Result<Box<dyn Store>, StoreError> {
    Ok(match at {
        StoreAt::File(path) => Box::new(Sqlite::open(path)?),
        StoreAt::Postgres(address) => Box::new(Postgres::connect(address)?),
    })
}
