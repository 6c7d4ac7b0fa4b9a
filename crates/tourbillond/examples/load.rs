//! Load that a node carries: callbacks a second to a local receiver, with their lateness and the
//! processor's time they take; requests a second to the API; and how long a page of a list takes,
//! at its beginning and at its end.
//!
//! ```text
//! cargo build --release -p tourbillond --bins --example load
//! ci/durable-postgres.sh target/release/examples/load --store {} --rate 10000
//! ```
//!
//! The service is a process of its own, and so is the database; the receiver is in this one. What
//! is due is inserted by the library, before the service starts.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tourbillon::{Timer, sleep};
use tourbillon_durable::{Client, Time};
use tourbillond::config::StoreAt;
use tourbillond::model::{AtWhen, Callback, Definition, Stored, When, kind, name, rfc3339, time};
use tourbillond::open;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const APP: &str = "load";

/// Time that the service has to start before the first is due.
const AHEAD: Duration = Duration::from_secs(5);

#[derive(Parser)]
struct Options {
    /// A file, or the address of a database.
    #[arg(long)]
    store: StoreAt,
    /// Callbacks a second.
    #[arg(long, default_value_t = 10_000)]
    rate: u64,
    /// For so many seconds.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Connections to the API.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Requests to the API for each of create and get; none if it is zero.
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// One-shots that are there for the lists; no list is read if it is zero.
    #[arg(long, default_value_t = 0)]
    rows: usize,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    runtime.block_on(run(&options))
}

async fn run(options: &Options) -> Result<()> {
    Timer::global().start()?;
    let folder = std::env::temp_dir().join(format!("tourbillond-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let done = measure(options, &folder).await;
    std::fs::remove_dir_all(&folder)?;
    done
}

async fn measure(options: &Options, folder: &Path) -> Result<()> {
    let (receiver, calls) = receive().await?;
    let count = options.rate * options.seconds;
    let first = insert(options, receiver, count).await?;
    let (service, api) = Service::start(options, folder)?;
    let before = [service.processor()?, database_processor()?];
    let mut last = 0;
    while calls.count.load(Relaxed) < count {
        sleep(Duration::from_secs(1)).await;
        let now = calls.count.load(Relaxed);
        println!("{:>7} a second, {now} of {count}", now - last);
        last = now;
    }
    let took = SystemTime::now().duration_since(first)?;
    // The ends of the last attempts are on their way.
    sleep(Duration::from_millis(500)).await;
    let after = [service.processor()?, database_processor()?];
    let us = |of: usize| (after[of] - before[of]).as_secs_f64() * 1e6 / count as f64;
    println!("{count} callbacks, {:.0} a second", count as f64 / took.as_secs_f64());
    let mut late = calls.late_us.lock().expect("no panic").clone();
    late.sort_unstable();
    let early = late.iter().filter(|late| **late < 0).count();
    for (text, part) in
        [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.99", 0.9999), ("max", 1.0)]
    {
        let at = ((late.len() as f64 * part).ceil() as usize).clamp(1, late.len()) - 1;
        println!("  {text}: {:.1} ms late", late[at] as f64 / 1e3);
    }
    println!(
        "  {early} early; processor a callback: service {:.0} us, database {:.0} us",
        us(0),
        us(1)
    );
    if options.requests > 0 {
        let made = flood(options, api, receiver, true).await?;
        println!("API: {made:.0} one-shots made a second");
        let read = flood(options, api, receiver, false).await?;
        println!("API: {read:.0} read a second");
    }
    if options.rows > 0 {
        list(options, api, receiver).await?;
    }
    Ok(())
}

fn definition(receiver: SocketAddr, at: &str) -> Definition {
    let callback = Callback {
        method: "POST".to_owned(),
        url: format!("http://{receiver}/"),
        headers: Default::default(),
        body: r#"{"key":"{{key}}"}"#.to_owned(),
        body_bytes: None,
        timeout: None,
        success: Vec::new(),
        complete_within: None,
    };
    Definition::new(When::At(AtWhen { at: at.to_owned() }), callback)
}

/// Inserts what is due, evenly spread, and says from when on.
async fn insert(options: &Options, receiver: SocketAddr, count: u64) -> Result<SystemTime> {
    let client = Client::new(open(&options.store)?)?;
    // Inserting takes a while, too.
    let first = SystemTime::now() + AHEAD + Duration::from_millis(count / 20);
    let start = Instant::now();
    let mut made = Vec::new();
    for number in 0..count {
        let due = Time::from(first) + Duration::from_micros(number * 1_000_000 / options.rate);
        let at = rfc3339(due);
        let stored = Stored {
            key: format!("due-{number}"),
            definition: definition(receiver, &at),
            created: at,
            at_us: Some(due.as_micros()),
            traceparent: None,
            xtimer: None,
            disabled_by: None,
            is_notice: false,
        };
        let once = client.once(&kind(APP), due).name(name(APP, &format!("due-{number}")));
        let once = once.payload(serde_json::to_vec(&stored)?);
        made.push(tokio::spawn(async move { once.create().await }));
        if made.len() == 20_000 {
            for made in made.drain(..) {
                made.await??;
            }
        }
    }
    for made in made {
        made.await??;
    }
    println!("{count} inserted, {:.0} a second", count as f64 / start.elapsed().as_secs_f64());
    Ok(first)
}

/// The calls that came.
#[derive(Default)]
struct Calls {
    count: AtomicU64,
    /// Lateness of each, by this host's clock.
    late_us: Mutex<Vec<i64>>,
}

/// Starts a receiver that answers everything with 204.
async fn receive() -> Result<(SocketAddr, Arc<Calls>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let calls = Arc::new(Calls::default());
    let shared = calls.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let calls = shared.clone();
            tokio::spawn(async move { answer(stream, &calls).await });
        }
    });
    Ok((address, calls))
}

async fn answer(mut stream: TcpStream, calls: &Calls) -> Result<()> {
    let mut read = Vec::with_capacity(4_096);
    while stream.read_buf(&mut read).await? > 0 {
        let Some((end, head)) = head_of(&read) else { continue };
        let length = header(head, "content-length").map_or(Ok(0), str::parse)?;
        if read.len() < end + length {
            continue;
        }
        let now = Time::from(SystemTime::now());
        let due = time(header(head, "tourbillon-scheduled-for").ok_or("no time")?)?;
        calls.late_us.lock().expect("no panic").push(now.as_micros() - due.as_micros());
        calls.count.fetch_add(1, Relaxed);
        read.drain(..end + length);
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
    }
    Ok(())
}

/// The head of a message, if it is whole, and where it ends.
fn head_of(read: &[u8]) -> Option<(usize, &str)> {
    let end = read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    Some((end, std::str::from_utf8(&read[..end]).ok()?))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (own, value) = line.split_once(':')?;
        own.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// The service, as a process. Dropped, it is killed.
struct Service(Child);

impl Service {
    /// Starts it, and says where its API is.
    fn start(options: &Options, folder: &Path) -> Result<(Self, SocketAddr)> {
        let config = folder.join("load.toml");
        std::fs::write(
            &config,
            "[apps.load]\nnetworks = ['127.0.0.0/8']\n\
             limits = { schedules = 10000000, due_per_second = 1000000, concurrent = 1024, \
             per_host = 1024 }\n",
        )?;
        let store = match &options.store {
            StoreAt::File(path) => path.clone().into_os_string(),
            StoreAt::Postgres(address) => address.into(),
        };
        // Beside the folder of examples.
        let program: PathBuf = std::env::current_exe()?;
        let program = program.parent().and_then(Path::parent).ok_or("no folder")?;
        let mut child = Command::new(program.join("tourbillond"))
            .args(["--listen", "127.0.0.1:0", "--log", "warn", "--config"])
            .arg(config)
            .arg("--store")
            .arg(store)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("no output")?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line)?;
        let address = line.trim().strip_prefix("http://").ok_or("it did not start")?.parse()?;
        Ok((Self(child), address))
    }

    /// The processor's time that it has taken.
    fn processor(&self) -> Result<Duration> {
        processor(self.0.id(), false)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processor's time of a process, and of its children that are over if asked for.
fn processor(id: u32, with_children: bool) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    // After the name, which may have spaces: fields 14 to 17 of proc(5).
    let (_, rest) = stat.rsplit_once(") ").ok_or("no such process")?;
    let fields = rest.split(' ').skip(11).take(if with_children { 4 } else { 2 });
    let mut ticks = 0;
    for field in fields {
        ticks += field.parse::<u64>()?;
    }
    // A hundred a second, on every Linux that there is.
    Ok(Duration::from_millis(ticks * 10))
}

/// The processor's time of the server that `ci/durable-postgres.sh` started; none without one.
fn database_processor() -> Result<Duration> {
    let Some(folder) = std::env::var_os("TOURBILLON_POSTGRES_DATA") else {
        return Ok(Duration::ZERO);
    };
    let file = std::fs::read_to_string(Path::new(&folder).join("postmaster.pid"))?;
    let server: u32 = file.lines().next().ok_or("no process")?.parse()?;
    let mut all = processor(server, true)?;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        // A process may end meanwhile.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
        if parent == Some(&server.to_string()) {
            all += processor(id, false).unwrap_or_default();
        }
    }
    Ok(all)
}

/// Inserts one-shots, disables a thousand of them, and reads pages of their list.
async fn list(options: &Options, api: SocketAddr, receiver: SocketAddr) -> Result<()> {
    let at = "2199-12-31T00:00:00Z";
    let due = time(at)?;
    let client = Client::new(open(&options.store)?)?;
    let mut made = Vec::new();
    for number in 0..options.rows {
        let is_held = number % (options.rows / 1_000).max(1) == 0;
        let key = format!("row-{number:08}");
        let mut definition = definition(receiver, at);
        definition.enabled = !is_held;
        let stored = Stored {
            key: key.clone(),
            definition,
            created: at.to_owned(),
            at_us: Some(due.as_micros()),
            traceparent: None,
            xtimer: None,
            disabled_by: None,
            is_notice: false,
        };
        let once = client.once(&kind(APP), if is_held { Time::NEVER } else { due });
        let once = once.name(name(APP, &key)).payload(serde_json::to_vec(&stored)?);
        made.push(tokio::spawn(async move { once.create().await }));
        if made.len() == 20_000 || number + 1 == options.rows {
            for made in made.drain(..) {
                made.await??;
            }
        }
    }
    let last = format!("&cursor=row-{:08}", options.rows.saturating_sub(101));
    let mut stream = TcpStream::connect(api).await?;
    for (text, query) in [
        ("first", "?prefix=row-".to_owned()),
        ("last", format!("?prefix=row-{last}")),
        ("first of the disabled", "?state=disabled".to_owned()),
        ("last of the disabled", format!("?state=disabled{last}")),
        ("first of the running", "?state=running".to_owned()),
    ] {
        let mut took: Vec<_> = Vec::new();
        for _ in 0..51 {
            let start = Instant::now();
            ask(&mut stream, api, &query).await?;
            took.push(start.elapsed());
        }
        took.sort_unstable();
        println!("  page of {} rows, {text}: {:.2?} at the median", options.rows, took[25]);
    }
    Ok(())
}

/// Asks for a page of the list, and reads all of the answer.
async fn ask(stream: &mut TcpStream, api: SocketAddr, query: &str) -> Result<()> {
    let request = format!("GET /v1/apps/{APP}/schedules{query} HTTP/1.1\r\nHost: {api}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut read = Vec::new();
    loop {
        if stream.read_buf(&mut read).await? == 0 {
            return Err("the service closed the connection".into());
        }
        let Some((end, head)) = head_of(&read) else { continue };
        if !head.starts_with("HTTP/1.1 2") {
            return Err(String::from_utf8_lossy(&read).into_owned().into());
        }
        let length = header(head, "content-length").ok_or("no length")?;
        if read.len() >= end + length.parse::<usize>()? {
            return Ok(());
        }
    }
}

/// Requests a second that the API answers: of makes one-shots, or reads them.
async fn flood(
    options: &Options,
    api: SocketAddr,
    receiver: SocketAddr,
    makes: bool,
) -> Result<f64> {
    let body = serde_json::to_string(&definition(receiver, "2199-12-31T00:00:00Z"))?;
    let each = options.requests / options.connections;
    let start = Instant::now();
    let mut clients = Vec::new();
    for client in 0..options.connections {
        let body = if makes { body.clone() } else { String::new() };
        let method = if makes { "PUT" } else { "GET" };
        clients.push(tokio::spawn(async move {
            let mut stream = TcpStream::connect(api).await?;
            stream.set_nodelay(true)?;
            let mut read = Vec::new();
            for number in 0..each {
                let length = body.len();
                let request = format!(
                    "{method} /v1/apps/{APP}/schedules/api-{client}-{number} HTTP/1.1\r\n\
                     Host: {api}\r\nContent-Type: application/json\r\n\
                     Content-Length: {length}\r\n\r\n{body}"
                );
                stream.write_all(request.as_bytes()).await?;
                loop {
                    if stream.read_buf(&mut read).await? == 0 {
                        return Err("the service closed the connection".into());
                    }
                    let Some((end, head)) = head_of(&read) else { continue };
                    if !head.starts_with("HTTP/1.1 2") {
                        return Err(String::from_utf8_lossy(&read).into_owned().into());
                    }
                    let length = header(head, "content-length").ok_or("no length")?;
                    let whole = end + length.parse::<usize>()?;
                    if read.len() >= whole {
                        read.drain(..whole);
                        break;
                    }
                }
            }
            Result::Ok(())
        }));
    }
    for client in clients {
        client.await??;
    }
    Ok((each * options.connections) as f64 / start.elapsed().as_secs_f64())
}
