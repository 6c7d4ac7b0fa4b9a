//! PgBouncer and Pgpool-II between a store and its server.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use postgres::{Client, Config, NoTls};
use tourbillon_durable::StoreErrorKind;
use tourbillon_durable::store::{Inserted, Postgres, Store};

use crate::cluster::Database;
use crate::faults::{ANSWERS, Proxy};
use crate::replica::{as_server, free_port};
use crate::timer;

/// A pooler in front of the test's cluster. It ends with this.
struct Pooler {
    process: Child,
    file: PathBuf,
    port: u16,
}

impl Pooler {
    /// Starts one; `None` if there is no PgBouncer here, as `ci/durable-postgres.sh`, in the
    /// repository, has said.
    fn start(database: &Database, mode: &str, size: u32) -> Option<Self> {
        let program = std::env::var("TOURBILLON_PGBOUNCER")
            .expect("TOURBILLON_PGBOUNCER is not set; `ci/durable-postgres.sh` sets it");
        if program.is_empty() {
            return None;
        }
        let port = free_port();
        let config: Config = database.address().parse().unwrap();
        let server = database.server();
        let password = String::from_utf8(config.get_password().unwrap().to_vec()).unwrap();
        let user = config.get_user().unwrap();
        let file = std::env::temp_dir().join(format!("tourbillon-pooler-{port}.ini"));
        let text = format!(
            "[databases]\n* = host={} port={} user={user} password={password}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = {mode}\ndefault_pool_size = {size}\n",
            server.ip(),
            server.port(),
        );
        std::fs::write(&file, text).unwrap();
        let mut command = as_server(Command::new(program));
        command.arg("-q").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let mut pooler = Self { process: command.spawn().unwrap(), file, port };
        while pooler.client(database).is_err() {
            assert_eq!(pooler.process.try_wait().unwrap(), None, "the pooler has ended");
            thread::sleep(Duration::from_millis(10));
        }
        Some(pooler)
    }

    fn address(&self, database: &Database) -> String {
        database.address_by(([127, 0, 0, 1], self.port).into())
    }

    fn client(&self, database: &Database) -> Result<Client, postgres::Error> {
        Client::connect(&self.address(database), NoTls)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let (killed, ended) = (self.process.kill(), self.process.wait());
        let _ = (killed, ended, std::fs::remove_file(&self.file));
    }
}

const PID: &str = "SELECT pg_backend_pid()";

#[test]
fn a_pooler_in_transaction_mode_is_refused_and_left_as_it_was() {
    let database = Database::new();
    drop(database.connect());
    let Some(pooler) = Pooler::start(&database, "transaction", 4) else { return };
    let error = Postgres::connect(&pooler.address(&database)).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("pooler in transaction mode"), "{error}");
    let mut clients = [(); 4].map(|()| pooler.client(&database).unwrap());
    // Each has a process to itself until its transaction ends.
    for client in &mut clients {
        client.batch_execute("BEGIN").unwrap();
    }
    for client in &mut clients {
        for (setting, value) in [("enable_seqscan", "on"), ("statement_timeout", "0")] {
            let rows = client.simple_query(&format!("SHOW {setting}")).unwrap();
            let row = rows.iter().find_map(|message| match message {
                postgres::SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            assert_eq!(row, Some(value), "{setting}");
        }
    }
}

#[test]
fn a_reconnect_that_gets_the_same_process_does_not_end_it() {
    let database = Database::new();
    let Some(pooler) = Pooler::start(&database, "session", 1) else { return };
    let proxy = Proxy::new(([127, 0, 0, 1], pooler.port).into());
    let mut store = Postgres::connect(&database.address_by(proxy.address)).unwrap();
    let timer = timer(store.now().unwrap());
    let pids = "SELECT pid, backend_start::text FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let processes = |database: &Database| -> Vec<(i32, String)> {
        let rows = database.client().query(pids, &[]).unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let before = processes(&database);
    proxy.swallow(ANSWERS, true);
    assert_eq!(store.now().unwrap_err().kind(), StoreErrorKind::Unavailable);
    proxy.swallow(ANSWERS, false);
    assert_eq!(store.insert(&[timer]).unwrap(), [Inserted::Created]);
    assert_eq!(processes(&database), before);
}

#[test]
fn a_process_that_a_pooler_has_given_to_others_is_not_ended() {
    let database = Database::new();
    let Some(pooler) = Pooler::start(&database, "session", 2) else { return };
    let proxy = Proxy::new(([127, 0, 0, 1], pooler.port).into());
    let mut store = Postgres::connect(&database.address_by(proxy.address)).unwrap();
    let own = "SELECT pid FROM pg_stat_activity
               WHERE datname = current_database() AND application_name LIKE 'tourbillon %'";
    let pid: i32 = database.client().query_one(own, &[]).unwrap().get(0);
    proxy.swallow(ANSWERS, true);
    assert_eq!(store.now().unwrap_err().kind(), StoreErrorKind::Unavailable);
    proxy.swallow(ANSWERS, false);
    let mut others = [(); 2].map(|()| pooler.client(&database).unwrap());
    let pids = others.each_mut().map(|other| other.query_one(PID, &[]).unwrap().get::<_, i32>(0));
    let at = pids.iter().position(|other| *other == pid).unwrap();
    drop(std::mem::replace(&mut others[1 - at], database.client()));
    store.now().unwrap();
    assert_eq!(others[at].query_one(PID, &[]).unwrap().get::<_, i32>(0), pid);
}

/// Pgpool-II in front of the test's cluster, in a folder of its own. It ends with this.
struct Pgpool {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Pgpool {
    /// Starts one; `None` if there is none here, as `ci/durable-postgres.sh` has said.
    fn start(database: &Database, mode: &str) -> Option<Self> {
        let program = std::env::var("TOURBILLON_PGPOOL")
            .expect("TOURBILLON_PGPOOL is not set; `ci/durable-postgres.sh` sets it");
        if program.is_empty() {
            return None;
        }
        let (port, server) = (free_port(), database.server());
        let folder = std::env::temp_dir().join(format!("tourbillon-pgpool-{port}"));
        let mut make = as_server(Command::new("mkdir"));
        assert!(make.arg(&folder).status().unwrap().success());
        let place = folder.display();
        let text = format!(
            "backend_clustering_mode = '{mode}'\nlisten_addresses = '127.0.0.1'\nport = {port}\n\
             pcp_port = {}\nsocket_dir = '{place}'\npcp_socket_dir = '{place}'\n\
             pid_file_name = '{place}/pid'\nlogdir = '{place}'\npool_passwd = ''\n\
             allow_clear_text_frontend_auth = on\nnum_init_children = 16\nmax_pool = 1\n\
             backend_hostname0 = '{}'\nbackend_port0 = {}\nbackend_weight0 = 1\n\
             sr_check_period = 0\n",
            free_port(),
            server.ip(),
            server.port(),
        );
        let file = std::env::temp_dir().join(format!("tourbillon-pgpool-{port}.conf"));
        std::fs::write(&file, text).unwrap();
        let mut command = as_server(Command::new(program));
        command.arg("-n").arg("-f").arg(&file).args(["-F", "/dev/null", "-a", "/dev/null"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut pooler = Self { process: command.spawn().unwrap(), folder, port };
        while Client::connect(&pooler.address(database), NoTls).is_err() {
            assert_eq!(pooler.process.try_wait().unwrap(), None, "the pooler has ended");
            thread::sleep(Duration::from_millis(10));
        }
        Some(pooler)
    }

    fn address(&self, database: &Database) -> String {
        database.address_by(([127, 0, 0, 1], self.port).into())
    }
}

impl Drop for Pgpool {
    fn drop(&mut self) {
        // It ends its own processes then.
        let pid = self.process.id().to_string();
        let ended = Command::new("kill").args(["-INT", &pid]).status();
        let (waited, file) = (self.process.wait(), self.folder.with_extension("conf"));
        let removed = (std::fs::remove_dir_all(&self.folder), std::fs::remove_file(file));
        let _ = (ended, waited, removed);
    }
}

#[test]
fn a_pooler_that_does_not_commit_is_refused_by_its_name_and_another_mode_works() {
    let database = Database::new();
    drop(database.connect());
    let Some(pooler) = Pgpool::start(&database, "raw") else { return };
    let error = Postgres::connect(&pooler.address(&database)).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("Pgpool-II in raw mode"), "{error}");
    drop(pooler);
    let Some(pooler) = Pgpool::start(&database, "streaming_replication") else { return };
    let mut store = Postgres::connect(&pooler.address(&database)).unwrap();
    let timer = timer(store.now().unwrap());
    let (id, timers) = (timer.id, [timer]);
    assert_eq!(store.insert(&timers).unwrap(), [Inserted::Created]);
    // It is committed, so that others see it.
    assert_eq!(database.connect().insert(&timers).unwrap(), [Inserted::Exists(id)]);
}
