//! A primary and its standby, two clusters of a test's own, whose link can be cut.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use postgres::{Client, NoTls};

use crate::cluster::PATIENT;

/// Settings of both servers: a test loses processes, and not the machine.
const OPTIONS: &str = "-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off \
                       -c shared_buffers=32MB -c log_min_messages=fatal";

/// Condition of a primary that has a synchronous standby.
const IS_SYNCHRONOUS: &str = "
    SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')";

/// Condition of a primary that has no standby.
const IS_ALONE: &str = "SELECT NOT EXISTS (SELECT FROM pg_stat_replication)";

/// A primary whose commits wait for its standby. Both go with this.
pub(crate) struct Pair {
    folder: PathBuf,
    primary: Server,
    standby: Server,
}

struct Server {
    data: PathBuf,
    port: u16,
}

impl Pair {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tourbillon-replica-{}-{number}", process::id());
        let folder = std::env::temp_dir().join(name);
        run(Command::new("mkdir"), &[path(&folder)]);
        let server = |name: &str| Server { data: folder.join(name), port: free_port() };
        let (primary, standby) = (server("primary"), server("standby"));
        let pair = Self { folder, primary, standby };

        let initdb = ["-A", "trust", "-U", "tourbillon", "-E", "UTF8", "--locale=C", "--no-sync"];
        run(program("initdb"), &[&initdb[..], &["-D", path(&pair.primary.data)]].concat());
        pair.primary.start();
        let copied = ["-R", "-c", "fast", "--no-sync", "-D", path(&pair.standby.data)];
        run(program("pg_basebackup"), &[&copied[..], &["-d", &pair.primary.pairs()]].concat());
        pair.standby.start();
        pair.primary.set("synchronous_standby_names", "*");
        pair.primary.wait_until(IS_SYNCHRONOUS);
        pair
    }

    pub(crate) fn primary(&self) -> String {
        self.primary.address()
    }

    pub(crate) fn standby(&self) -> String {
        self.standby.address()
    }

    /// Ports of the primary and the standby.
    pub(crate) fn ports(&self) -> (u16, u16) {
        (self.primary.port, self.standby.port)
    }

    /// Cuts the standby off: from here on no commit of the primary reaches it.
    pub(crate) fn cut(&self) {
        self.standby.set("primary_conninfo", "");
        self.primary.wait_until(IS_ALONE);
    }

    /// Changes a setting of the running primary.
    pub(crate) fn set(&self, name: &str, value: &str) {
        self.primary.set(name, value);
    }

    /// Connects the standby again, and waits until it has all that was committed.
    pub(crate) fn mend(&self) {
        self.standby.set("primary_conninfo", &self.primary.pairs());
        self.primary.wait_until(IS_SYNCHRONOUS);
    }

    /// Makes the standby the primary.
    pub(crate) fn promote(&self) {
        assert!(
            self.standby.client().query_one("SELECT pg_promote()", &[]).unwrap().get::<_, bool>(0)
        );
    }

    /// Makes the primary encrypt, under a certificate of version 1.
    #[cfg(feature = "tls")]
    pub(crate) fn encrypt(&self) {
        let data = path(&self.primary.data);
        let (key, request, certificate) = (
            format!("{data}/server.key"),
            format!("{data}/server.csr"),
            format!("{data}/server.crt"),
        );
        let new = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=old", "-keyout", &key];
        run(Command::new("openssl"), &[&new[..], &["-out", &request]].concat());
        // Without extensions it is of version 1.
        let sign = ["x509", "-req", "-days", "2", "-in", &request, "-signkey", &key];
        run(Command::new("openssl"), &[&sign[..], &["-out", &certificate]].concat());
        self.primary.set("ssl", "on");
        self.primary.wait_until("SELECT current_setting('ssl') = 'on'");
    }

    /// A client of the primary that is nobody's store.
    pub(crate) fn client(&self) -> Client {
        self.primary.client()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for server in [&self.standby, &self.primary] {
            if server.data.join("postmaster.pid").exists() {
                run(
                    program("pg_ctl"),
                    &["stop", "-m", "immediate", "-s", "-D", path(&server.data)],
                );
            }
        }
        run(Command::new("rm"), &["-r", path(&self.folder)]);
    }
}

impl Server {
    fn start(&self) {
        let options = format!("-p {} {OPTIONS}", self.port);
        let log = self.data.with_extension("log");
        let started = ["start", "-w", "-s", "-o", &options, "-l", path(&log)];
        run(program("pg_ctl"), &[&started[..], &["-D", path(&self.data)]].concat());
    }

    fn pairs(&self) -> String {
        format!("host=127.0.0.1 port={} user=tourbillon dbname=postgres", self.port)
    }

    fn address(&self) -> String {
        let port = self.port;
        format!("postgres://tourbillon@127.0.0.1:{port}/postgres?{PATIENT}&sslmode=disable")
    }

    fn client(&self) -> Client {
        Client::connect(&self.address(), NoTls).unwrap()
    }

    /// Changes a setting of the running server.
    fn set(&self, name: &str, value: &str) {
        let mut client = self.client();
        client.batch_execute(&format!("ALTER SYSTEM SET {name} = '{value}'")).unwrap();
        client.batch_execute("SELECT pg_reload_conf()").unwrap();
    }

    fn wait_until(&self, condition: &str) {
        let mut client = self.client();
        while !client.query_one(condition, &[]).unwrap().get::<_, bool>(0) {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A port that nobody listens on, and that no other test gets. It lies below the ports of outgoing
/// connections, which another test may make meanwhile.
pub(crate) fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        // ORDERING: Relaxed; each caller gets another number, whatever the order.
        let number =
            process::id().wrapping_mul(97).wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + u16::try_from(number % 12_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A program of the server that the tests run on.
fn program(name: &str) -> Command {
    let folder = std::env::var_os("TOURBILLON_POSTGRES_BIN").expect(
        "TOURBILLON_POSTGRES_BIN is not set; `ci/durable-postgres.sh`, in the repository, sets it",
    );
    Command::new(Path::new(&folder).join(name))
}

/// A command as a user that may run a server: for root the user `postgres`.
pub(crate) fn as_server(command: Command) -> Command {
    if Command::new("id").arg("-u").output().unwrap().stdout != b"0\n" {
        return command;
    }
    let mut aside = Command::new("setpriv");
    aside.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]);
    aside.arg(command.get_program()).args(command.get_args());
    aside
}

fn run(command: Command, arguments: &[&str]) {
    let mut command = as_server(command);
    // The server continues with the streams that it is given.
    let (silent, at) = (process::Stdio::null, std::env::temp_dir());
    command.stdin(silent()).stdout(silent()).stderr(silent()).current_dir(at);
    let status = command.args(arguments).status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
