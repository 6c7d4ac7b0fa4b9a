//! Three nodes as processes, a PostgreSQL, and a receiver, through what happens to them in a year.
//! `ci/durable-postgres.sh` makes the database.

#[path = "support/http.rs"]
mod http;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/tourbillond.rs"]
mod tourbillond_process;

use std::collections::HashMap;
use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

use postgres::{database, environment, psql};
use serde_json::{Value, json};
use tourbillond_process::Tourbillond;

/// Pause between two looks at whether something has come to pass.
const LOOK: Duration = Duration::from_millis(50);

/// Makes a database take no writes, as a replica does, or take them again.
fn read_only(store: &str, on: bool) {
    let (server, name) = store.rsplit_once('/').unwrap();
    let change = if on { "SET default_transaction_read_only = on" } else { "RESET ALL" };
    // A session keeps its first settings.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname =";
    let script = format!("ALTER DATABASE {name} {change}; {end} '{name}';");
    psql(&format!("{server}/postgres"), &[], &script).unwrap();
}

/// Stops the cluster's server as a crash does, and starts it again.
fn restart_database() {
    let data = PathBuf::from(environment("TOURBILLON_POSTGRES_DATA"));
    let started = std::fs::read_to_string(data.join("postmaster.opts")).unwrap();
    let (_, options) = started.trim().split_once(' ').unwrap();
    let program = Path::new(&environment("TOURBILLON_POSTGRES_BIN")).join("pg_ctl");
    // A server refuses to run as root.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let control = |arguments: &[&str]| {
        let mut command = Command::new(if is_root { Path::new("runuser") } else { &program });
        if is_root {
            command.args(["-u", "postgres", "--"]).arg(&program);
        }
        command.args(arguments).args(["-w", "-D"]).arg(&data).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap().success()
    };
    assert!(control(&["stop", "-m", "immediate"]));
    while !control(&["start", "-o", options, "-l", "/dev/null"]) {}
}

impl Tourbillond {
    /// Sends a request that the API has to grant.
    fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.call("", method, path, &body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// Makes a schedule or a one-shot.
    fn make(&self, key: &str, when: Value, url: &str) {
        let definition = json!({
            "when": when,
            "callback": { "url": url, "body": "{{key}}", "timeout": "60s" },
            "retry": { "attempts": 2, "first": "1s", "longest": "1s" },
        });
        self.ask("PUT", &format!("/v1/apps/shop/schedules/{key}"), definition);
    }

    /// The one run of a key, once it is in this state.
    fn run_in(&self, key: &str, state: &str) -> Value {
        let path = format!("/v1/apps/shop/runs?key={key}&state={state}");
        loop {
            let runs = self.ask("GET", &path, Value::Null);
            match runs["items"].as_array().map(Vec::as_slice) {
                Some([]) => sleep(LOOK),
                Some([run]) => return run.clone(),
                _ => panic!("{runs}"),
            }
        }
    }

    /// Waits until `/readyz` is answered with this status.
    fn ready(&self, status: u16) {
        while self.call("", "GET", "/readyz", &Value::Null).0 != status {
            sleep(LOOK);
        }
    }

    /// Its identity in the cluster.
    fn node(&self) -> String {
        let overview = self.ask("GET", "/v1/overview", Value::Null);
        let nodes = overview["nodes"].as_array().unwrap();
        let own = nodes.iter().find(|node| node["this"] == json!(true));
        own.map(|own| own["id"].as_str().unwrap().to_owned()).unwrap()
    }
}

/// Number of calls of each path, by idempotency key.
type Calls = HashMap<String, HashMap<String, usize>>;

/// A receiver. `/ok` is answered by 200, `/dead` by 500; `/flaky` by 503 the first time that a key
/// comes; and `/hang` not at all the first time.
struct Receiver {
    address: String,
    calls: Arc<Mutex<Calls>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let calls = Arc::<Mutex<Calls>>::default();
        let shared = Arc::clone(&calls);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let calls = Arc::clone(&shared);
                thread::spawn(move || answer(stream.unwrap(), &calls));
            }
        });
        Self { address, calls }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// The keys that came to a path, and how often each.
    fn came(&self, path: &str) -> HashMap<String, usize> {
        self.calls.lock().unwrap().get(path).cloned().unwrap_or_default()
    }

    /// Waits until so many keys have come to a path.
    fn wait(&self, path: &str, keys: usize) {
        while self.came(path).len() < keys {
            sleep(LOOK);
        }
    }
}

/// Answers the one request of a connection.
fn answer(stream: TcpStream, calls: &Mutex<Calls>) {
    let mut stream = BufReader::new(stream);
    let (head, _) = http::read(&mut stream);
    let path = head.split([' ', '/']).nth(2).unwrap().to_owned();
    let key = head.lines().find_map(|line| line.strip_prefix("idempotency-key: ")).unwrap();
    let count = {
        let mut calls = calls.lock().unwrap();
        let count = calls.entry(path.clone()).or_default().entry(key.to_owned()).or_default();
        *count += 1;
        *count
    };
    let status = match (&*path, count) {
        ("dead", _) => 500,
        ("flaky", 1) => 503,
        ("hang", 1) => loop {
            thread::park();
        },
        _ => 200,
    };
    let end = "connection: close\r\ncontent-length: 0\r\n\r\n";
    // A node that was killed does not read it.
    let _ = write!(stream.get_mut(), "HTTP/1.1 {status} so\r\n{end}");
}

#[test]
fn three_nodes_call_back_through_a_kill_and_a_restart_of_the_database() {
    let store = database("cluster");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("apps.toml"), "[apps.shop]\nnetworks = ['127.0.0.0/8']\n")
        .unwrap();
    let receiver = Receiver::start();
    let flags = ["--config", "apps.toml", "--store", &store, "--log", "error"];
    // At once: one of them makes the tables.
    let [one, two, three] = thread::scope(|scope| {
        let nodes = [(); 3].map(|()| scope.spawn(|| Tourbillond::start(folder.path(), &flags)));
        nodes.map(|node| node.join().unwrap())
    });

    // What one node is given, all know, and some node calls.
    one.make("ticks", json!({ "every": "1s" }), &receiver.url("ok"));
    let known = two.ask("GET", "/v1/apps/shop/schedules/ticks", Value::Null);
    assert_eq!(known["state"], "enabled", "{known}");
    receiver.wait("ok", 3);

    // What fails is tried again.
    two.make("flaky", json!({ "after": "0s" }), &receiver.url("flaky"));
    let run = three.run_in("flaky", "succeeded");
    assert_eq!((&run["attempts"], &run["failures"]), (&json!(2), &json!(1)), "{run}");

    // What fails for good is dead.
    three.make("dead", json!({ "after": "0s" }), &receiver.url("dead"));
    let run = one.run_in("dead", "dead");
    assert_eq!(run["failures"], json!(2), "{run}");

    // After a disable has answered, and what ran is over, nothing comes.
    two.ask("POST", "/v1/apps/shop/schedules/ticks/disable", Value::Null);
    let running = "/v1/apps/shop/runs?key=ticks&state=running";
    while one.ask("GET", running, Value::Null)["items"] != json!([]) {
        sleep(LOOK);
    }
    let before = receiver.came("ok");
    sleep(Duration::from_secs(3));
    assert_eq!(receiver.came("ok"), before);
    three.ask("POST", "/v1/apps/shop/schedules/ticks/enable", Value::Null);
    receiver.wait("ok", before.len() + 1);

    // The attempt of a killed node runs on another, under the same key.
    one.make("hang", json!({ "after": "0s" }), &receiver.url("hang"));
    receiver.wait("hang", 1);
    let holder = two.run_in("hang", "running")["node"].as_str().unwrap().to_owned();
    let mut nodes = Vec::new();
    for node in [one, two, three] {
        if node.node() == holder {
            drop(node);
        } else {
            nodes.push(node);
        }
    }
    assert_eq!(nodes.len(), 2);
    let run = nodes[0].run_in("hang", "succeeded");
    assert_eq!((&run["attempts"], &run["failures"]), (&json!(2), &json!(0)), "{run}");
    assert_eq!(receiver.came("hang").into_values().collect::<Vec<_>>(), [2]);
    receiver.wait("ok", receiver.came("ok").len() + 2);

    // While the database takes no writes, no node is ready.
    read_only(&store, true);
    for node in &nodes {
        node.ready(503);
    }
    read_only(&store, false);
    for node in &nodes {
        node.ready(200);
    }

    // A database that crashes is waited for, and nothing that was acknowledged is lost.
    nodes[0].make("survives", json!({ "after": "2s" }), &receiver.url("later"));
    restart_database();
    receiver.wait("later", 1);
    nodes[1].run_in("survives", "succeeded");
    receiver.wait("ok", receiver.came("ok").len() + 2);

    for node in nodes {
        assert!(node.stop());
    }
}
