//! A standby, and the failover to it.

use std::net::SocketAddr;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use super::Storm;
use crate::Result;
use crate::database::Address;
use crate::log::{Line, Stamp};
use crate::proxy::{self, Proxy};

/// Variable with the address of the standby that `ci/durable-postgres.sh` started.
const STANDBY: &str = "TOURBILLON_POSTGRES_STANDBY";

/// Longest wait for a condition of a server.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause before a condition is read again.
const POLL: Duration = Duration::from_millis(20);

/// Number of times that all processes of the primary are ended while the standby is cut off, and
/// the pause before each. Commits that wait for the standby are then made without it.
const ENDED: u32 = 6;
const PAUSE: Duration = Duration::from_millis(500);

/// Silence of the primary before it is replaced.
const HUNG: Duration = Duration::from_secs(1);

/// Time for which there is load on the new primary before the run ends.
const AFTER: Duration = Duration::from_secs(2);

/// Kinds of replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Commits wait for the standby: a failover loses nothing that was acknowledged.
    Synchronous,
    /// Commits do not wait: a failover loses writes that the standby lacks.
    Asynchronous,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "synchronous" => Ok(Self::Synchronous),
            "asynchronous" => Ok(Self::Asynchronous),
            _ => Err(format!("a standby is synchronous or asynchronous, and not `{text}`")),
        }
    }
}

/// A standby, and its link to the primary's log.
pub(super) struct Standby {
    mode: Mode,
    /// A database that both servers have had from the start.
    address: Address,
    server: SocketAddr,
    link: Proxy,
}

impl Standby {
    /// Leads the link through a proxy, and waits until the standby follows by it.
    pub(super) fn start(primary: &Address, mode: Mode, seed: u64) -> Result<Self> {
        let server = std::env::var(STANDBY)
            .map_err(|_| format!("{STANDBY} is not set: run it by ci/durable-failover.sh"))?
            .parse()?;
        let link = Proxy::start(primary.server()?, seed)?;
        let standby = Self { mode, address: primary.at(&[server]), server, link };
        let (host, port) = (standby.link.address().ip(), standby.link.address().port());
        // The server's own user and password.
        let config: postgres::Config = primary.as_str().parse()?;
        let user = config.get_user().ok_or("the address has no user")?;
        let password = String::from_utf8(config.get_password().unwrap_or_default().to_vec())?;
        let pairs = format!("host={host} port={port} user={user} password={password}");
        let of = &standby.address;
        set(of, "primary_conninfo", &pairs)?;
        let follows = "SELECT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE sender_port = ";
        wait_until(of, &format!("{follows} {port} AND status = 'streaming')"))?;
        if mode == Mode::Synchronous {
            set(primary, "synchronous_standby_names", "*")?;
            let waits = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')";
            wait_until(primary, waits)?;
        }
        Ok(standby)
    }

    pub(super) fn server(&self) -> SocketAddr {
        self.server
    }

    /// Keeps the primary's log from the standby.
    pub(super) fn cut(&self) {
        self.link.set(proxy::Mode::HoldBoth);
    }

    pub(super) fn mend(&self) {
        self.link.set(proxy::Mode::Pass);
    }

    /// Waits until the standby has all that was acknowledged before the stamp that is returned.
    fn catch_up(&self, primary: &Address) -> Result<Stamp> {
        let at = Stamp::now();
        let row = primary.client()?.query_one("SELECT pg_current_wal_flush_lsn()::text", &[])?;
        let position: String = row.get(0);
        let has = format!("SELECT pg_last_wal_receive_lsn() >= '{position}'::pg_lsn");
        wait_until(&self.address, &has)?;
        Ok(at)
    }
}

impl Storm {
    /// Makes the standby the primary, under load: it is cut off, the primary is used on until it
    /// answers nothing and is killed, and the standby is promoted as far as it came.
    pub(super) fn fail_over(&mut self) -> Result<()> {
        let Some(standby) = &self.standby else { return Ok(()) };
        self.faults += 1;
        let (number, name) = (self.faults, "fail-over".to_owned());
        self.say(&format!("{name} to a standby that is {:?}", standby.mode));
        self.log.write(&Line::Fault { number, at: Stamp::now(), name, node: None });
        let from = standby.catch_up(&self.address)?;
        standby.cut();
        for _ in 0..ENDED {
            thread::sleep(PAUSE);
            self.address.terminate()?;
        }
        self.proxies().for_each(|proxy| proxy.set(proxy::Mode::HoldBoth));
        thread::sleep(HUNG);
        self.cluster.as_ref().ok_or("there is no server")?.kill()?;
        let promoted = self.address.at(&[standby.server]);
        let done = promoted.client()?.query_one("SELECT pg_promote()", &[])?;
        if !done.get::<_, bool>(0) {
            return Err("the standby was not promoted in time".into());
        }
        if standby.mode == Mode::Asynchronous {
            self.log.write(&Line::Behind { from, to: Stamp::now() });
        }
        for proxy in self.proxies() {
            proxy.lead(standby.server);
            proxy.set(proxy::Mode::Pass);
        }
        self.log.write(&Line::Over { number, at: Stamp::now() });
        self.say("the standby is the primary");
        self.address = promoted;
        thread::sleep(AFTER);
        Ok(())
    }
}

/// Changes a setting of the running server.
fn set(server: &Address, name: &str, value: &str) -> Result<()> {
    let mut client = server.client()?;
    client.batch_execute(&format!("ALTER SYSTEM SET {name} = '{value}'"))?;
    Ok(client.batch_execute("SELECT pg_reload_conf()")?)
}

fn wait_until(server: &Address, condition: &str) -> Result<()> {
    let mut client = server.client()?;
    let deadline = Instant::now() + PATIENCE;
    while !client.query_one(condition, &[])?.get::<_, bool>(0) {
        if Instant::now() > deadline {
            return Err(format!("not within {PATIENCE:?}: {condition}").into());
        }
        thread::sleep(POLL);
    }
    Ok(())
}
