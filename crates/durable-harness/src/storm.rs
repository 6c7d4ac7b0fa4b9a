//! A nemesis: starts nodes and clients, does them harm from a seed, and has the run judged.

mod clock;
mod harm;
mod standby;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tourbillon_durable::store::{ScheduleQuery, ScheduleRow};
use tourbillon_durable::{Store, Time};

use crate::Result;
use crate::canary::Bug;
use crate::checker::{self, Report};
use crate::children::{Process, Skew};
use crate::cluster::Cluster;
use crate::database::Address;
use crate::dump::{dump, each_timer};
use crate::faults::{Fault, Place};
use crate::log::{self, Line, Log, Stamp};
use crate::proxy::Proxy;
use crate::workload::{KINDS, Kind};
use clock::Clock;
pub use standby::Mode;
use standby::Standby;

/// Period of the question to the tables whether all is over.
const SETTLE_POLL: Duration = Duration::from_millis(200);

/// Lateness up to which attempts may start on a busy machine, in microseconds, if every node reads
/// every kind.
const LATE_US: i64 = 3_000_000;

/// Further lateness if not: a node reads the shards of others half a second after their timers are
/// a second late.
const OTHERS_US: i64 = 1_500_000;

/// Options of a storm.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address of the database: `sqlite:PATH`, or an address of PostgreSQL; on its server the
    /// run makes a database that stays.
    pub store: String,
    /// An empty directory for the logs.
    pub logs: PathBuf,
    /// Seed of all choices.
    pub seed: u64,
    /// Time for which there are faults.
    pub span: Duration,
    /// Number of nodes.
    pub nodes: u32,
    /// Number of clients.
    pub clients: u32,
    /// Average pause of a client between two calls.
    pub pause: Duration,
    /// The lease of the nodes.
    pub lease: Duration,
    /// Time of the server's absence, or of the lock on SQLite's file; a lease or two by default.
    pub away: Option<Duration>,
    /// The standby that becomes the primary once the faults are over, if there is one.
    pub standby: Option<Mode>,
    /// Program that harms the servers of a manager of failover, if there is one.
    pub manager: Option<PathBuf>,
    /// Program of another build, which every second node runs.
    pub beside: Option<PathBuf>,
    /// Time that due timers may need to end after the last fault.
    pub settle: Duration,
    /// Faults, separated by commas; all that the store can have if not said.
    pub faults: Option<String>,
    /// The bug that the nodes have, if any.
    pub canary: Option<Bug>,
}

/// Runs it, and returns the checker's report.
///
/// # Errors
///
/// If the run could not take place: whatever then is in the logs says nothing.
pub fn run(options: &Options) -> Result<Report> {
    let faults = Fault::list(options.faults.as_deref(), place(options)?)?;
    std::fs::create_dir_all(&options.logs)?;
    let mut storm = Storm::start(options.clone())?;
    let end = Instant::now() + options.span;
    while Instant::now() < end && !faults.is_empty() {
        let pause = options.lease.mul_f64(storm.random.f64() / 2.0);
        thread::sleep(pause.min(end.saturating_duration_since(Instant::now())));
        let fault = faults[storm.random.usize(..faults.len())];
        storm.harm(fault)?;
    }
    thread::sleep(end.saturating_duration_since(Instant::now()));
    storm.fail_over()?;
    storm.finish()?;
    Ok(checker::check(&log::read(&options.logs)?))
}

/// Returns the place of faults at the store.
fn place(options: &Options) -> Result<Place> {
    let is_postgres = Address::new(&options.store)?.is_postgres();
    Ok(match (options.standby, &options.manager) {
        (None, None) if is_postgres => Place::Postgres,
        (None, None) => Place::Anywhere,
        _ if !is_postgres => return Err("SQLite has no standby".into()),
        (_, Some(_)) => Place::Managed,
        (Some(_), None) => Place::Replicated,
    })
}

struct Node {
    process: Option<Process>,
    starts: u32,
    /// The kinds that it has handlers for.
    kinds: String,
    connections: u32,
    address: Address,
    /// One in front of each server, for PostgreSQL.
    proxies: Vec<Proxy>,
    skew: Option<Skew>,
}

struct Storm {
    options: Options,
    /// The database, without a proxy.
    address: Address,
    log: Arc<Log>,
    random: fastrand::Rng,
    faults: u32,
    nodes: Vec<Node>,
    clients: Option<Process>,
    clients_proxies: Vec<Proxy>,
    cluster: Option<Cluster>,
    standby: Option<Standby>,
    clock: Clock,
    late: Vec<thread::JoinHandle<()>>,
    began: Instant,
}

impl Storm {
    fn start(options: Options) -> Result<Self> {
        let mut random = fastrand::Rng::with_seed(options.seed);
        let common = Address::new(&options.store)?;
        let address = common.for_a_run()?;
        let standby = options
            .standby
            .map(|mode| Standby::start(&common, mode, random.u64(..)))
            .transpose()?;
        let wherever = match &standby {
            Some(standby) => address.or(standby.server()),
            None => address.clone(),
        };
        let mut store = wherever.patiently(Ok)?;
        each_timer(&mut *store, |line| panic!("the database has timers: {line}"))?;
        let log = Arc::new(Log::open(&options.logs.join("nemesis.log"))?);
        let lease_us = i64::try_from(options.lease.as_micros())?;
        let kinds = kinds(&options, &mut random);
        let is_equal = kinds.iter().all(|kinds| *kinds == kinds_of(KINDS));
        let late_us = LATE_US + if is_equal { 0 } else { OTHERS_US };
        let floor = u64::from(options.clients) * options.span.as_secs();
        log.write(&Line::Run { seed: options.seed, lease_us, late_us, floor });
        let clock = Clock::start(&log, store)?;
        let needs_server = Fault::list(options.faults.as_deref(), place(&options)?)?
            .iter()
            .any(|fault| fault.needs_server());
        let cluster =
            (needs_server || standby.is_some()).then(Cluster::from_environment).transpose()?;
        let servers = if address.is_postgres() { address.servers()? } else { Vec::new() };
        let proxies = |random: &mut fastrand::Rng| -> Result<Vec<Proxy>> {
            servers.iter().map(|server| Ok(Proxy::start(*server, random.u64(..))?)).collect()
        };
        let mut nodes = Vec::new();
        for (number, kinds) in kinds.into_iter().enumerate() {
            let proxies = proxies(&mut random)?;
            let through = through(&address, &proxies);
            let file = options.logs.join(format!("node-{number}.clock"));
            let skew = address.is_postgres().then(|| Skew::new(file)).transpose()?;
            let connections = random.u32(1..=3);
            println!("node {number}: {kinds} by {connections} connections");
            nodes.push(Node {
                process: None,
                starts: 0,
                kinds,
                connections,
                address: through,
                proxies,
                skew,
            });
        }
        let clients_proxies = proxies(&mut random)?;
        let mut storm = Self {
            options,
            address,
            log,
            random,
            faults: 0,
            nodes,
            clients: None,
            clients_proxies,
            cluster,
            standby,
            clock,
            late: Vec::new(),
            began: Instant::now(),
        };
        for node in 0..storm.nodes.len() {
            storm.start_node(node)?;
        }
        storm.start_clients()?;
        Ok(storm)
    }

    fn start_node(&mut self, number: usize) -> Result<()> {
        let node = &mut self.nodes[number];
        node.starts += 1;
        let lease = self.options.lease.as_millis().to_string();
        let label = format!("{number}.{}", node.starts);
        let mut arguments = vec!["node", "--store", node.address.as_str(), "--label", &label];
        arguments.extend(["--lease-ms", &lease, "--logs", path(&self.options.logs)?]);
        let connections = node.connections.to_string();
        arguments.extend(["--kinds", &node.kinds, "--connections", &connections]);
        if let Some(bug) = self.options.canary {
            arguments.extend(["--canary", bug.name()]);
        }
        let arguments: Vec<_> = arguments.into_iter().map(str::to_owned).collect();
        let environment = node.skew.as_ref().map(Skew::environment).unwrap_or_default();
        let other = self.options.beside.as_deref().filter(|_| number % 2 == 1);
        node.process = Some(Process::of_build(other, &arguments, &environment)?);
        Ok(())
    }

    fn start_clients(&mut self) -> Result<()> {
        let through = through(&self.address, &self.clients_proxies);
        let seed = self.random.u64(..).to_string();
        let clients = self.options.clients.to_string();
        let pause = self.options.pause.as_micros().to_string();
        let arguments = ["clients", "--store", through.as_str(), "--seed", &seed];
        let further = ["--clients", &clients, "--pause-us", &pause, "--logs"];
        let logs = [path(&self.options.logs)?];
        let all = arguments.iter().chain(&further).chain(&logs);
        let mut all: Vec<_> = all.map(|text| (*text).to_owned()).collect();
        if let Some(bug) = self.options.canary {
            all.extend(["--canary".to_owned(), bug.name().to_owned()]);
        }
        self.clients = Some(Process::start(&all, &[])?);
        Ok(())
    }

    /// Waits for due timers to end, ends the processes, and writes the final tables down.
    fn finish(mut self) -> Result<()> {
        self.clients.take().map_or(Ok(()), Process::end)?;
        self.late.drain(..).for_each(|late| late.join().expect("a late client panicked"));
        let end = self.address.patiently(|mut store| Ok(store.now()?))?;
        self.log.write(&Line::End { at: Stamp::now() });
        self.say("the faults are over: due timers are to end");
        self.settle(end)?;
        for node in &mut self.nodes {
            node.process.take().map_or(Ok(()), Process::end)?;
        }
        dump(&mut *self.address.patiently(Ok)?, &self.log)?;
        self.clock.stop();
        Ok(())
    }

    fn settle(&self, end: Time) -> Result<()> {
        let deadline = Instant::now() + self.options.settle;
        loop {
            let left = self.address.patiently(|mut store| left(&mut *store, end))?;
            if left == 0 || Instant::now() >= deadline {
                self.say(&format!("{left} are left"));
                return Ok(());
            }
            thread::sleep(SETTLE_POLL);
        }
    }

    fn say(&self, what: &str) {
        println!("{:8.3} {what}", self.began.elapsed().as_secs_f64());
    }
}

/// The kinds that each node has handlers for: in every other storm all of them, else some, but each
/// kind somewhere. With a bug all of them, so that it shows wherever there is a node.
fn kinds(options: &Options, random: &mut fastrand::Rng) -> Vec<String> {
    let mut nodes: Vec<Vec<&Kind>> = (0..options.nodes).map(|_| Vec::new()).collect();
    let is_equal = random.bool() || options.canary.is_some();
    for kind in KINDS {
        let one = random.usize(..nodes.len());
        for (number, kinds) in nodes.iter_mut().enumerate() {
            if is_equal || number == one || random.bool() {
                kinds.push(kind);
            }
        }
    }
    let some = |kinds: Vec<_>| if kinds.is_empty() { vec![&KINDS[0]] } else { kinds };
    nodes.into_iter().map(some).map(kinds_of).collect()
}

/// Counts the timers and schedules that are due by `end`.
fn left(store: &mut dyn Store, end: Time) -> Result<usize> {
    let mut left = 0;
    each_timer(store, |line| {
        if let Line::Timer { scheduled_for, .. } = line {
            left += usize::from(scheduled_for <= end);
        }
    })?;
    let is_left = |row: &&ScheduleRow| row.enabled && row.next.is_some_and(|next| next <= end);
    Ok(left + store.schedules(&ScheduleQuery::new())?.iter().filter(is_left).count())
}

/// Returns the address of the same database behind proxies, if there are any.
fn through(address: &Address, proxies: &[Proxy]) -> Address {
    if proxies.is_empty() {
        return address.clone();
    }
    address.at(&proxies.iter().map(Proxy::address).collect::<Vec<_>>())
}

fn kinds_of<'a>(kinds: impl IntoIterator<Item = &'a Kind>) -> String {
    kinds.into_iter().map(|kind| kind.name).collect::<Vec<_>>().join(",")
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| format!("{} is no UTF-8", path.display()).into())
}
