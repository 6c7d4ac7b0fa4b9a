//! Three nodes as processes, a PostgreSQL, and a receiver, through what happens to them in a year.
//! `ci/durable-postgres.sh` makes the database.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tourbillon::sleep;

/// Pause between two looks at whether something has come to pass.
const LOOK: Duration = Duration::from_millis(50);

/// Returns the value of an environment variable.
///
/// # Panics
///
/// If it does not: a test without a cluster tests nothing.
fn environment(name: &str) -> String {
    let hint = "is not set; `ci/durable-postgres.sh` makes a cluster and runs commands on it";
    std::env::var(name).unwrap_or_else(|_| panic!("{name} {hint}"))
}

/// A program of PostgreSQL. Its server refuses to run as root.
fn postgres(program: &str, as_server: bool) -> Command {
    let program = Path::new(&environment("TOURBILLON_POSTGRES_BIN")).join(program);
    let is_root = std::fs::metadata("/proc/self")
        .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let mut command = Command::new(&program);
    if as_server && is_root {
        command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(&program);
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A database of its own on the cluster; its address.
fn database() -> String {
    let cluster = environment("TOURBILLON_POSTGRES");
    let name = format!("tourbillond_{}", std::process::id());
    let make = format!("CREATE DATABASE {name}");
    assert!(postgres("psql", false).args([&cluster, "-c", &make]).status().unwrap().success());
    let (server, _) = cluster.rsplit_once('/').unwrap();
    format!("{server}/{name}")
}

/// Makes a database take no writes, as a replica does, or take them again.
fn read_only(store: &str, on: bool) {
    let (server, name) = store.rsplit_once('/').unwrap();
    let change = if on { "SET default_transaction_read_only = on" } else { "RESET ALL" };
    let change = format!("ALTER DATABASE {name} {change}");
    // A session keeps its first settings.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname =";
    let end = format!("{end} '{name}'");
    let mut command = postgres("psql", false);
    command.args([&format!("{server}/postgres"), "-c", &change, "-c", &end]);
    assert!(command.status().unwrap().success());
}

/// Stops the cluster's server as a crash does, and starts it again.
fn restart_database() {
    let data = PathBuf::from(environment("TOURBILLON_POSTGRES_DATA"));
    let started = std::fs::read_to_string(data.join("postmaster.opts")).unwrap();
    let (_, options) = started.trim().split_once(' ').unwrap();
    let control = |arguments: &[&str]| {
        let mut command = postgres("pg_ctl", true);
        command.args(arguments).args(["-w", "-D"]).arg(&data).status().unwrap().success()
    };
    assert!(control(&["stop", "-m", "immediate"]));
    while !control(&["start", "-o", options, "-l", "/dev/null"]) {}
}

/// A node, as a process. Dropped, it is killed.
struct Node {
    process: Child,
    address: String,
}

impl Node {
    async fn start(store: &str, config: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tourbillond"))
            .args(["--listen", "127.0.0.1:0", "--log", "error", "--store", store, "--config"])
            .arg(config)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = process.stdout.take().unwrap();
        let line = tokio::task::spawn_blocking(|| BufReader::new(out).lines().next());
        let line = line.await.unwrap().unwrap().unwrap();
        Self { process, address: line.trim_start_matches("http://").to_owned() }
    }

    /// Asks the API; `None` if there is no answer.
    async fn try_ask(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (address, length) = (&self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
    }

    /// Sends a request that the API has to grant.
    async fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.try_ask(method, path, &body).await.unwrap();
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// Makes a schedule or a one-shot.
    async fn make(&self, key: &str, when: Value, url: &str) {
        let path = format!("/v1/apps/shop/schedules/{key}");
        self.ask("PUT", &path, definition(when, url)).await;
    }

    /// The one run of a key, once it is in this state.
    async fn run(&self, key: &str, state: &str) -> Value {
        let path = format!("/v1/apps/shop/runs?key={key}&state={state}");
        loop {
            let runs = self.ask("GET", &path, Value::Null).await;
            match runs["items"].as_array().map(Vec::as_slice) {
                Some([]) => sleep(LOOK).await,
                Some([run]) => return run.clone(),
                _ => panic!("{runs}"),
            }
        }
    }

    /// Waits until `/readyz` is answered with this status.
    async fn ready(&self, status: u16) {
        while self.try_ask("GET", "/readyz", &Value::Null).await.map(|(found, _)| found)
            != Some(status)
        {
            sleep(LOOK).await;
        }
    }

    /// Its identity in the cluster.
    async fn id(&self) -> String {
        let overview = self.ask("GET", "/v1/overview", Value::Null).await;
        let nodes = overview["nodes"].as_array().unwrap();
        let own = nodes.iter().find(|node| node["this"] == json!(true));
        own.map(|own| own["id"].as_str().unwrap().to_owned()).unwrap()
    }

    /// Ends it in good order.
    async fn stop(mut self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        while self.process.try_wait().unwrap().is_none() {
            sleep(LOOK).await;
        }
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn definition(when: Value, url: &str) -> Value {
    json!({
        "when": when,
        "callback": { "url": url, "body": "{{key}}", "timeout": "60s" },
        "retry": { "attempts": 2, "first": "1s", "longest": "1s" },
    })
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
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let calls = Arc::new(Mutex::new(Calls::new()));
        let shared = calls.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let calls = shared.clone();
                let service = service_fn(move |request| answer(request, calls.clone()));
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
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
    async fn wait(&self, path: &str, keys: usize) {
        while self.came(path).len() < keys {
            sleep(LOOK).await;
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    calls: Arc<Mutex<Calls>>,
) -> hyper::Result<Response<Full<Bytes>>> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let key = request.headers()["idempotency-key"].to_str().unwrap().to_owned();
    let count = {
        let mut calls = calls.lock().unwrap();
        let count = calls.entry(path.clone()).or_default().entry(key).or_default();
        *count += 1;
        *count
    };
    let status = match (&*path, count) {
        ("dead", _) => StatusCode::INTERNAL_SERVER_ERROR,
        ("flaky", 1) => StatusCode::SERVICE_UNAVAILABLE,
        ("hang", 1) => std::future::pending().await,
        _ => StatusCode::OK,
    };
    let mut answer = Response::new(Full::from(path));
    *answer.status_mut() = status;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_call_back_through_a_kill_and_a_restart_of_the_database() {
    let store = database();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("apps.toml");
    std::fs::write(&config, "[apps.shop]\nnetworks = ['127.0.0.0/8']\n").unwrap();
    let receiver = Receiver::start().await;
    let (one, two, three) = tokio::join!(
        Node::start(&store, &config),
        Node::start(&store, &config),
        Node::start(&store, &config),
    );

    // What one node is given, all know, and some node calls.
    one.make("ticks", json!({ "every": "1s" }), &receiver.url("ok")).await;
    let known = two.ask("GET", "/v1/apps/shop/schedules/ticks", Value::Null).await;
    assert_eq!(known["state"], "enabled", "{known}");
    receiver.wait("ok", 3).await;

    // What fails is tried again.
    two.make("flaky", json!({ "after": "0s" }), &receiver.url("flaky")).await;
    let run = three.run("flaky", "succeeded").await;
    assert_eq!((&run["attempts"], &run["failures"]), (&json!(2), &json!(1)), "{run}");

    // What fails for good is dead.
    three.make("dead", json!({ "after": "0s" }), &receiver.url("dead")).await;
    let run = one.run("dead", "dead").await;
    assert_eq!(run["failures"], json!(2), "{run}");

    // After a disable has answered, and what ran is over, nothing comes.
    two.ask("POST", "/v1/apps/shop/schedules/ticks/disable", Value::Null).await;
    let running = "/v1/apps/shop/runs?key=ticks&state=running";
    while one.ask("GET", running, Value::Null).await["items"] != json!([]) {
        sleep(LOOK).await;
    }
    let before = receiver.came("ok");
    sleep(Duration::from_secs(3)).await;
    assert_eq!(receiver.came("ok"), before);
    three.ask("POST", "/v1/apps/shop/schedules/ticks/enable", Value::Null).await;
    receiver.wait("ok", before.len() + 1).await;

    // The attempt of a killed node runs on another, under the same key.
    one.make("hang", json!({ "after": "0s" }), &receiver.url("hang")).await;
    receiver.wait("hang", 1).await;
    let holder = two.run("hang", "running").await["node"].as_str().unwrap().to_owned();
    let mut nodes = Vec::new();
    for node in [one, two, three] {
        if node.id().await == holder {
            drop(node);
        } else {
            nodes.push(node);
        }
    }
    assert_eq!(nodes.len(), 2);
    let run = nodes[0].run("hang", "succeeded").await;
    assert_eq!((&run["attempts"], &run["failures"]), (&json!(2), &json!(0)), "{run}");
    assert_eq!(receiver.came("hang").into_values().collect::<Vec<_>>(), [2]);
    receiver.wait("ok", receiver.came("ok").len() + 2).await;

    // While the database takes no writes, no node is ready.
    read_only(&store, true);
    for node in &nodes {
        node.ready(503).await;
    }
    read_only(&store, false);
    for node in &nodes {
        node.ready(200).await;
    }

    // A database that crashes is waited for, and nothing that was acknowledged is lost.
    nodes[0].make("survives", json!({ "after": "2s" }), &receiver.url("later")).await;
    restart_database();
    receiver.wait("later", 1).await;
    nodes[1].run("survives", "succeeded").await;
    receiver.wait("ok", receiver.came("ok").len() + 2).await;

    for node in nodes {
        node.stop().await;
    }
}
