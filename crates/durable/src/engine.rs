//! [`Engine`]: a node.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_channel::Receiver;

use crate::client::Client;
use crate::error::{StoreError, StoreErrorKind};
use crate::id::NodeId;
use crate::node::{MainLoop, Options, Shared, Stats, Stopping, Worker, run_claimer};
use crate::store::{Listening, Store};
use crate::threads::{spawn, unavailable};

/// A node: reads timers that are due soon, claims them when due, and hands them to workers.
///
/// The engine has a thread that keeps it alive and reads, and one or more that claim, each with a
/// connection of its own. Workers and their fires are for any executor.
///
/// Dropping it ends its node: finished attempts are recorded, and others take over the running
/// ones. A store that panics also ends the node, and so does a database that is
/// [gone](StoreErrorKind::Gone): the workers' streams end, and [`ended`](Self::ended) returns the
/// reason.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tourbillon::Timer;
/// use tourbillon_durable::{Engine, store::Memory};
///
/// # pollster::block_on(async {
/// let engine = Engine::builder().start(Box::new(Memory::new(&Timer::global())))?;
/// let mut mails = engine.worker("mail", 16);
/// let client = engine.client()?;
/// client.once("mail", SystemTime::now()).payload("to: all").create().await?;
///
/// let fire = mails.next().await.unwrap();
/// assert_eq!(fire.payload(), b"to: all");
/// fire.complete().await?;
/// engine.stop().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "an engine that is dropped ends its node"]
pub struct Engine {
    shared: Arc<Shared>,
    /// For clients.
    store: std::sync::Mutex<Box<dyn Store>>,
    /// Closed when the main loop has ended.
    ended: Receiver<()>,
    /// Subscription to inserts of other processes, if the store has notices.
    _listening: Option<Listening>,
}

impl Engine {
    /// Options of a node, with their defaults.
    pub fn builder() -> Builder {
        Builder { options: Options::default(), timer: None }
    }

    /// This node's identity.
    pub fn node(&self) -> NodeId {
        self.shared.options.node
    }

    /// The attempts of one kind. At most `prefetch` of them (at least one) are in the stream or
    /// taken from it and unfinished.
    ///
    /// A node reads only the kinds that it has a worker for. The nodes divide the timers among
    /// them whatever kinds they serve, so a timer whose kind only some of them serve may wait for
    /// one scan in ten, which reads everything.
    ///
    /// # Panics
    ///
    /// If there is a worker of this kind, or `kind` is empty or has a NUL.
    #[track_caller]
    pub fn worker(&self, kind: &str, prefetch: usize) -> Worker {
        Worker::new(&self.shared, kind, prefetch)
    }

    /// A client whose timers this node knows at once.
    ///
    /// # Errors
    ///
    /// If the store has no further connection, or its thread cannot be started.
    pub fn client(&self) -> Result<Client, StoreError> {
        self.client_with(1)
    }

    /// A client with so many threads, each with a connection of its own; at least one.
    ///
    /// One thread sends all calls that may write, one after the other; inserts that wait meanwhile
    /// share the next transaction. The other threads read at the same time, and readers and the
    /// writer do not wait for each other. A program that needs parallel writes makes more clients.
    ///
    /// # Errors
    ///
    /// If the store has not so many further connections, or a thread cannot be started.
    pub fn client_with(&self, connections: usize) -> Result<Client, StoreError> {
        let store = self.store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let stores = (0..connections.max(1)).map(|_| store.connect());
        Client::start(stores.collect::<Result<_, _>>()?, Some(Arc::downgrade(&self.shared)))
    }

    /// Returns counts of the node's work so far.
    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot()
    }

    /// Waits until the node has ended, and returns why if it ended by itself: its database is
    /// [gone](StoreErrorKind::Gone). Its workers' streams end then.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it changes nothing.
    pub fn ended(&self) -> impl Future<Output = Option<StoreError>> + Send + use<> {
        let (shared, ended) = (self.shared.clone(), self.ended.clone());
        async move {
            // Closed, and never written to.
            let _ = ended.recv().await;
            shared.lock().failure.as_ref().map(StoreError::copy)
        }
    }

    /// Ends the node in good order: claims no more timers, hands back attempts that no handler has
    /// taken, and waits for the running attempts. If the database does not answer, it waits until
    /// the node's [lease](Builder::lease) may have ended: other nodes then take over what is left.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait: other nodes take over the attempts that still run.
    pub async fn stop(self) {
        self.shared.stop(Stopping::Draining);
        // Closed, and never written to.
        let _ = self.ended.recv().await;
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.stop(Stopping::Now);
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("node", &self.node())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// Options of an [`Engine`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    options: Options,
    timer: Option<tourbillon::Timer>,
}

impl Builder {
    /// Sets the node's life without a heartbeat; 15 s by default. Then others take its attempts
    /// over.
    pub fn lease(mut self, span: Duration) -> Self {
        self.options.lease = span;
        self
    }

    /// Sets the period of the node's heartbeat, which renews its lease; 1 s by default. A node that
    /// misses a heartbeat is suspected: others read its shards too.
    pub fn heartbeat(mut self, period: Duration) -> Self {
        self.options.heartbeat = period;
        self
    }

    /// Sets how far ahead of now the node reads; 1 s by default.
    pub fn look_ahead(mut self, span: Duration) -> Self {
        self.options.look_ahead = span;
        self
    }

    /// Sets the period in which the node reads due timers; 0.5 s by default. If another process
    /// inserts a timer that is due at once, its attempt starts this late at most, and much sooner
    /// if the store has notices.
    pub fn scan(mut self, period: Duration) -> Self {
        self.options.scan = period;
        self
    }

    /// Sets the period in which the node turns the next occurrences of schedules into timers; 1 s
    /// by default.
    pub fn schedule_interval(mut self, period: Duration) -> Self {
        self.options.schedule_interval = period;
        self
    }

    /// Sets the period in which timers of dead nodes are rescued and queues are advanced; 2 s by
    /// default. All nodes but one do it a third as often.
    pub fn maintenance_interval(mut self, period: Duration) -> Self {
        self.options.maintenance_interval = period;
        self
    }

    /// Sets for how long a due timer may wait to share a transaction with others that are due soon;
    /// 2 ms by default. It does not wait if the last claim began longer ago, or if it is already
    /// that late. A longer wait saves transactions; zero claims each timer at once. More than half
    /// a second is an error, because other nodes claim timers that are a second late.
    ///
    /// Each node that shares a load makes its own transactions. Set it to 2 ms times the
    /// number of nodes, and together they make as many as one; timers are then later by as much.
    pub fn claim_linger(mut self, span: Duration) -> Self {
        self.options.claim_linger = span;
        self
    }

    /// Sets the number of threads that claim, each with a connection; one by default.
    pub fn connections(mut self, count: usize) -> Self {
        self.options.connections = count.max(1);
        self
    }

    /// Sets the timer that it waits by. The default is a timer of its own, on a clock that counts
    /// suspend.
    ///
    /// The clock has to count suspend: by it the node knows whether its lease may have ended.
    pub fn timer(mut self, timer: &tourbillon::Timer) -> Self {
        self.timer = Some(timer.clone());
        self
    }

    /// Starts the node's threads.
    ///
    /// The database need not be reachable: the engine tries until it is.
    ///
    /// # Errors
    ///
    /// If an option makes no sense (a span is zero or longer than a day, or the lease is shorter
    /// than three periods of the heartbeat), the store has no further connection, or a thread
    /// cannot be started.
    pub fn start(self, mut store: Box<dyn Store>) -> Result<Engine, StoreError> {
        let invalid = |why| StoreError::new(StoreErrorKind::Invalid, why);
        self.options.check().map_err(invalid)?;
        let timer = match self.timer {
            Some(timer) => timer,
            None => own_timer().map_err(unavailable)?,
        };
        timer.start().map_err(unavailable)?;
        let options = self.options;
        #[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
        let options = Options { schema: store.schema().map(Arc::from), ..options };
        let shared = Shared::new(options, timer);
        let (alive, ended) = async_channel::bounded(1);
        let main_loop = MainLoop::new(&shared);
        let connection = store.connect()?;
        let mut connections = Vec::new();
        for _ in 0..shared.options.connections {
            connections.push(store.connect()?);
        }
        let of = Arc::downgrade(&shared);
        let heard = move |notice| of.upgrade().map_or((), |shared| shared.hear(notice));
        let _listening = store.listen(Arc::new(heard))?;
        // It only makes others from here on.
        store.disconnect();
        // From here on, dropping it ends the threads that were started.
        let store = std::sync::Mutex::new(store);
        let engine = Engine { shared: shared.clone(), store, ended, _listening };
        for (number, connection) in connections.into_iter().enumerate() {
            let of = shared.clone();
            if let Err(error) = spawn("claim", move || run_claimer(&of, number, connection)) {
                shared.lock().claiming = number;
                return Err(error);
            }
        }
        spawn("node", move || {
            main_loop.run(connection);
            drop(alive);
        })?;
        Ok(engine)
    }
}

fn own_timer() -> io::Result<tourbillon::Timer> {
    let builder = |clock| {
        let name = "tourbillon-durable-timer";
        tourbillon::Timer::builder().thread_name(name).shards(1).clock(clock).build()
    };
    builder(tourbillon::timer::ClockKind::Boottime)
        .or_else(|_| builder(tourbillon::timer::ClockKind::Monotonic))
}
