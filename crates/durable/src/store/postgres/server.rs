//! [`Server`]: the hosts of an address, and connections to the host that takes writes.
//!
//! The host that answered last is tried first, then the others in the order of the address. Each
//! has a limited time to connect, to log in and to answer a first query; the limits together leave
//! time for every host within one call.

use std::fmt;
use std::future::poll_fn;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Config, Error, SimpleQueryMessage};

use super::address::{self, Address};
use super::answer::{Answer, Failure, PATIENCE, unavailable};
#[cfg(not(feature = "tls"))]
use super::plain::{Connector, connector};
use super::tables::Tables;
#[cfg(feature = "tls")]
use super::tls::{Connector, connector};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::TimerId;
use crate::store::Result;
use crate::time::Time;

/// Time that a host has to take a connection and answer a query, if the address has no
/// `connect_timeout`.
const HOST: Duration = Duration::from_secs(2);

/// Time that a pooler has to show a second connection. One in session mode may have none.
const SECOND: Duration = Duration::from_millis(500);

/// Number of times that a pooler is asked whether it keeps a connection's session.
const PROBES: u32 = 3;

/// Settings of every connection.
///
/// A plan is made once, when the tables may be empty, and kept while they grow: so only indexes are
/// allowed. A statement waits briefly for a lock, because most statements can do without a locked
/// row; a transaction waits longer. The server gives up before the client does.
const SETTINGS: [(&str, &str); 11] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("lock_timeout", "50ms"),
    ("statement_timeout", "4s"),
    ("idle_in_transaction_session_timeout", "4s"),
    ("default_transaction_isolation", "read committed"),
    ("search_path", ""),
];

/// Identity of the server's process, whether it has the [`SETTINGS`], and whether it is of Citus.
const BACKEND: &str = "
    SELECT pid, extract(epoch FROM backend_start), application_name,
           current_setting('plan_cache_mode') = 'force_generic_plan',
           current_setting('citus.version', true) IS NOT NULL
    FROM pg_stat_activity WHERE pid = pg_backend_pid()";

/// Setting for Citus in place of that of [`SETTINGS`]: it makes no plan before it knows the
/// parameters.
const CITUS: &str = "SET plan_cache_mode = force_custom_plan";

/// Sentence for a pooler that gives each transaction another session.
const TRANSACTION_MODE: &str = "the address leads to a pooler in transaction mode, where a \
    connection has no session of its own: connect to the server itself, or set the pooler to \
    session mode (`pool_mode = session`)";

/// Function that is called with the payload of each notification.
pub(super) type Notified = Arc<dyn Fn(&str) + Send + Sync>;

/// The hosts of an address, and how to connect to them.
#[derive(Clone)]
pub(super) struct Server {
    /// In the order of the address.
    hosts: Arc<[Choice]>,
    connector: Connector,
    tables: Tables,
    known: Arc<Known>,
}

/// One host of an address.
struct Choice {
    /// As the address has it.
    plain: Config,
    /// The same, with [`SETTINGS`] from the start.
    settled: Config,
    limit: Duration,
}

/// Facts that connections found, for later ones.
#[derive(Default)]
struct Known {
    /// Host that answered last.
    good: AtomicUsize,
    /// True if the address leads to a pooler in session mode.
    is_pooled: AtomicBool,
}

/// The server's process behind a connection.
#[derive(Clone, Debug)]
pub(super) struct Backend {
    pub(super) pid: i32,
    /// Start of the process, in seconds since 1970, as the server writes it.
    pub(super) start: String,
    /// The `application_name` of the connection. It is this connection's alone if a pooler may
    /// give its process to others.
    pub(super) name: String,
}

/// A connection, and the task that drives it on the runtime that opened it.
pub(super) struct Opened {
    pub(super) client: Client,
    /// The task. It ends with the connection; when this is dropped, both end, whether or not the
    /// server answers.
    pub(super) driver: JoinSet<()>,
    pub(super) backend: Backend,
    /// True once the server has said that it gave up waiting for a standby.
    pub(super) is_unreplicated: Arc<AtomicBool>,
    /// True if the session has the [`SETTINGS`].
    is_settled: bool,
    /// True if the server has Citus.
    pub(super) is_citus: bool,
}

impl Server {
    /// Makes one from an address, a URL or `key=value` pairs.
    pub(super) fn new(address: &str) -> Result<Self> {
        let Address { config, encryption, tables } = address::parse(address)?;
        let count = config.get_hosts().len().max(config.get_hostaddrs().len()).max(1);
        let hosts = (0..count).map(|at| Choice::new(&config, at)).collect();
        Ok(Self { hosts, connector: connector(&encryption)?, tables, known: Arc::default() })
    }

    /// Tables that the address is of.
    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Connects to the first host that takes writes, by `deadline`.
    pub(super) async fn open(
        &self,
        deadline: Instant,
        notified: Option<&Notified>,
    ) -> Answer<Opened> {
        // ORDERING: Relaxed; a hint, and nothing is published with it.
        let good = self.known.good.load(Ordering::Relaxed);
        let others = (0..self.hosts.len()).filter(|at| *at != good);
        let mut failures = Vec::new();
        for at in iter::once(good).chain(others) {
            let left = deadline.saturating_duration_since(Instant::now());
            let untried = self.hosts.len() - failures.len();
            let host = &self.hosts[at];
            let limit = host.limit.min(left / untried as u32);
            let error = match timeout(limit, self.open_host(host, notified)).await {
                Ok(Ok(opened)) => {
                    // ORDERING: Relaxed; as above.
                    self.known.good.store(at, Ordering::Relaxed);
                    return Ok(opened);
                }
                Ok(Err(failure)) => failure.unwritten(),
                Err(_) => unavailable(format!("no answer within {limit:?}").into()),
            };
            if error.kind() == StoreErrorKind::Invalid {
                return Err(Failure::Other(error));
            }
            failures.push(format!("{}: {error}", host.name()));
        }
        Err(Failure::Other(unavailable(failures.join("; ").into())))
    }

    async fn open_host(&self, host: &Choice, notified: Option<&Notified>) -> Answer<Opened> {
        let opened = self.open_session(host, notified).await?;
        if opened.is_citus {
            opened.client.batch_execute(CITUS).await?;
        }
        Ok(opened)
    }

    async fn open_session(&self, host: &Choice, notified: Option<&Notified>) -> Answer<Opened> {
        // ORDERING: Relaxed; a fact that each connection would find by itself.
        if !self.known.is_pooled.load(Ordering::Relaxed) {
            // A pooler refuses options, or passes over them.
            match self.dial(&host.settled, notified).await {
                Ok(opened) if opened.is_settled => return Ok(opened),
                Ok(_) => {}
                Err(Failure::Postgres(error)) if is_of_options(&error) => {}
                Err(failure) => return Err(failure),
            }
        }
        self.open_pooled(host, notified).await
    }

    /// Connects to a pooler in session mode. Nothing is set before that mode is certain: in
    /// another, the settings would reach other clients.
    async fn open_pooled(&self, host: &Choice, notified: Option<&Notified>) -> Answer<Opened> {
        let mut opened = self.dial(&host.plain, notified).await?;
        // ORDERING: Relaxed; as above.
        if !self.known.is_pooled.load(Ordering::Relaxed) {
            self.check_pooler(host, &opened).await?;
            // ORDERING: Relaxed; as above.
            self.known.is_pooled.store(true, Ordering::Relaxed);
        }
        let backend = &mut opened.backend;
        // The server has room for 63 bytes.
        let number = TimerId::new(Time::from_micros(0)).bits() as u64;
        backend.name = format!("tourbillon {number:016x}");
        let mut settings = format!("SET application_name = '{}'", backend.name);
        for (name, value) in SETTINGS {
            settings += &format!("; SET {name} = '{value}'");
        }
        opened.client.batch_execute(&settings).await?;
        Ok(opened)
    }

    /// Fails if two connections have one process of the server, or one has several.
    async fn check_pooler(&self, host: &Choice, opened: &Opened) -> Answer<()> {
        for _ in 0..PROBES {
            let second = timeout(SECOND, self.dial(&host.plain, None)).await;
            let Ok(Ok(second)) = second else { return Ok(()) };
            let (again, ..) = backend(&opened.client).await?;
            let pid = opened.backend.pid;
            if second.backend.pid == pid || again.pid != pid {
                let error = StoreError::new(StoreErrorKind::Invalid, TRANSACTION_MODE);
                return Err(Failure::Other(error));
            }
        }
        Ok(())
    }

    async fn dial(&self, config: &Config, notified: Option<&Notified>) -> Answer<Opened> {
        let (client, mut connection) = config.connect(Connector::clone(&self.connector)).await?;
        let is_unreplicated = Arc::new(AtomicBool::new(false));
        let (flag, notified) = (is_unreplicated.clone(), notified.cloned());
        // The client shows if it has ended.
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                match message {
                    // The server warns of nothing else that a statement of ours could cause.
                    AsyncMessage::Notice(notice) if *notice.code() == SqlState::WARNING => {
                        // ORDERING: Relaxed; the answer that follows comes by a channel.
                        flag.store(true, Ordering::Relaxed);
                    }
                    AsyncMessage::Notification(notice) => {
                        notified.iter().for_each(|notified| notified(notice.payload()));
                    }
                    _ => {}
                }
            }
        });
        let (backend, is_settled, is_citus) = backend(&client).await?;
        Ok(Opened { client, driver, backend, is_unreplicated, is_settled, is_citus })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It leaves the password out.
        f.debug_list().entries(self.hosts.iter().map(|host| &host.plain)).finish()
    }
}

impl Choice {
    fn new(address: &Config, at: usize) -> Self {
        let plain = host_of(address, at);
        let mut settled = plain.clone();
        let mut options = plain.get_options().unwrap_or_default().to_owned();
        for (name, value) in SETTINGS {
            options += &format!(" -c {name}={}", value.replace(' ', "\\ "));
        }
        settled.options(options.trim_start());
        let limit = plain.get_connect_timeout().copied().unwrap_or(HOST);
        Self { plain, settled, limit }
    }

    fn name(&self) -> String {
        let port = self.plain.get_ports().first().copied().unwrap_or(5432);
        match (self.plain.get_hosts().first(), self.plain.get_hostaddrs().first()) {
            (Some(Host::Tcp(name)), _) => format!("{name}:{port}"),
            #[cfg(unix)]
            (Some(Host::Unix(folder)), _) => format!("{}:{port}", folder.display()),
            (_, Some(address)) => format!("{address}:{port}"),
            (None, None) => "no host".to_owned(),
        }
    }
}

/// Returns host number `at` of an address that may have several, with limits to how long a dead
/// network goes unnoticed. A store writes, so a host that does not take writes is passed over.
fn host_of(address: &Config, at: usize) -> Config {
    let mut config = Config::new();
    address.get_user().map(|user| config.user(user));
    address.get_password().map(|password| config.password(password));
    address.get_dbname().map(|name| config.dbname(name));
    address.get_options().map(|options| config.options(options));
    config.application_name(address.get_application_name().unwrap_or("tourbillon"));
    match address.get_hosts().get(at) {
        Some(Host::Tcp(name)) => config.host(name),
        #[cfg(unix)]
        Some(Host::Unix(folder)) => config.host_path(folder),
        None => &mut config,
    };
    address.get_hostaddrs().get(at).map(|address| config.hostaddr(*address));
    let ports = address.get_ports();
    ports.get(at).or(ports.first()).map(|port| config.port(*port));
    config.ssl_mode(address.get_ssl_mode()).ssl_negotiation(address.get_ssl_negotiation());
    config.channel_binding(address.get_channel_binding());
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    address.get_connect_timeout().map(|limit| config.connect_timeout(*limit));
    config.tcp_user_timeout(address.get_tcp_user_timeout().copied().unwrap_or(PATIENCE));
    config.keepalives(address.get_keepalives());
    config.keepalives_idle(Duration::from_secs(10));
    config.keepalives_interval(Duration::from_secs(2));
    config.keepalives_retries(2);
    config
}

/// Asks which process the connection has, by a query that works behind any pooler.
async fn backend(client: &Client) -> Answer<(Backend, bool, bool)> {
    let messages = client.simple_query(BACKEND).await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let text = |at| row.and_then(|row| row.get(at)).unwrap_or_default().to_owned();
    let Ok(pid) = text(0).parse() else {
        let why = "the server does not say which process a connection has";
        return Err(Failure::Other(unavailable(why.into())));
    };
    let backend = Backend { pid, start: text(1), name: text(2) };
    Ok((backend, text(3) == "t", text(4) == "t"))
}

/// Returns whether a pooler refused the options of a connection.
fn is_of_options(error: &Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        *error.code() == SqlState::PROTOCOL_VIOLATION && error.message().contains("options")
    })
}
