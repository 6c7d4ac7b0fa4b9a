//! Load that a node carries: callbacks a second to a local receiver, with their lateness and the
//! processor's time they take, alone or beside requests; requests a second to the API; and how long
//! a page of a list takes, the first and the last of each list.
//!
//! ```text
//! cargo build --release -p tourbillond --bins --example load
//! ci/durable-postgres.sh target/release/examples/load --store {} --rate 10000 --beside 1000
//! ```
//!
//! The service is a separate process, and so is the database; the receiver is in this one. The
//! library inserts due callbacks before the service starts. `ci/durable-load.sh` runs all of it on
//! both stores.

mod connection;
mod lists;
mod receiver;
mod requests;
mod service;

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use tourbillon::{Timer, sleep};
use tourbillon_durable::{Client, Created, Time};
use tourbillond::config::StoreAt;
use tourbillond::model::{AtWhen, Callback, Definition, Stored, When, kind, name, rfc3339};
use tourbillond::open;

use crate::receiver::Calls;
use crate::requests::Requests;
use crate::service::Service;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const APP: &str = "load";

/// Time that the service has to start before the first is due.
const AHEAD: Duration = Duration::from_secs(5);

/// Seconds without a callback after which no more are awaited.
const SILENCE: u32 = 60;

/// Looks at the number of callbacks in a second.
const LOOKS: u32 = 20;

/// Time of what never happens while this runs.
const FAR: &str = "2199-12-31T00:00:00Z";

#[derive(Parser)]
struct Options {
    /// A file, or the address of a database.
    #[arg(long)]
    store: StoreAt,
    /// Program of the service; by default the program built with this one.
    #[arg(long)]
    service: Option<PathBuf>,
    /// Callbacks a second.
    #[arg(long, default_value_t = 10_000)]
    rate: u64,
    /// For so many seconds.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Requests a second to the API while the callbacks are made, creates and gets by turns; none
    /// if it is zero.
    #[arg(long, default_value_t = 0)]
    beside: u32,
    /// Connections to the API.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Creates by the API once all callbacks are made, as fast as it answers; none if it is zero.
    #[arg(long, default_value_t = 20_000)]
    creates: usize,
    /// Gets of the created one-shots, after that; none if it is zero.
    #[arg(long, default_value_t = 20_000)]
    gets: usize,
    /// One-shots, and as many repeated schedules, that are there for the lists; no list is read if
    /// it is zero.
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
    let (receiver, calls) = receiver::start().await?;
    // A store may have the keys of another run.
    let run = Time::from(SystemTime::now()).as_micros();
    let first = insert(options, receiver, run).await?;
    let (service, api) = Service::start(options, folder)?;
    let requests = Requests::new(options, api, definition(receiver, FAR), run)?;
    let beside = (options.beside > 0).then(|| {
        let wait = first.duration_since(SystemTime::now()).unwrap_or_default();
        requests.beside(options.beside, Instant::now() + wait)
    });
    let before = service.processor()?;
    let count = options.rate * options.seconds;
    wait_for(&calls, count).await?;
    let beside = match beside {
        Some(beside) => Some(beside.end().await?),
        None => None,
    };
    // The ends of the last attempts are on their way.
    sleep(Duration::from_millis(500)).await;
    calls.print(first)?;
    match beside {
        Some(beside) => beside.print(),
        None => service.print_since(before, "callbacks", count)?,
    }
    if options.creates > 0 {
        let before = service.processor()?;
        let made = requests.create(options.creates).await?;
        println!("API: {made:.0} creates a second");
        service.print_since(before, "creates", options.creates as u64)?;
    }
    if options.gets > 0 {
        let before = service.processor()?;
        let read = requests.get(options.gets).await?;
        println!("API: {read:.0} gets a second");
        service.print_since(before, "gets", options.gets as u64)?;
    }
    if options.rows > 0 {
        lists::measure(options, api, receiver).await?;
    }
    Ok(())
}

/// Waits until so many calls came, and prints each second how many there are.
async fn wait_for(calls: &Calls, count: u64) -> Result<()> {
    let (mut looks, mut last, mut silence) = (0, 0, 0);
    loop {
        sleep(Duration::from_secs(1) / LOOKS).await;
        looks += 1;
        let now = calls.count.load(Relaxed);
        if now >= count {
            return Ok(());
        }
        if looks % LOOKS == 0 {
            println!("{:>7} a second, {now} of {count}", now - last);
            silence = if now == last { silence + 1 } else { 0 };
            if silence == SILENCE {
                return Err("no callback comes any more".into());
            }
            last = now;
        }
    }
}

fn definition(receiver: SocketAddr, at: &str) -> Definition {
    let callback = Callback {
        body: r#"{"key":"{{key}}"}"#.to_owned(),
        ..Callback::new(format!("http://{receiver}/"))
    };
    Definition::new(When::At(AtWhen { at: at.to_owned() }), callback)
}

/// Returns the stored form of a definition.
fn stored(key: &str, definition: Definition, at: Option<Time>) -> Stored {
    Stored {
        key: key.to_owned(),
        definition,
        created: FAR.to_owned(),
        at_us: at.map(Time::as_micros),
        traceparent: None,
        xtimer: None,
        disabled_by: None,
        is_notice: false,
    }
}

/// Inserts due callbacks, evenly spread, and returns the time of the first.
async fn insert(options: &Options, receiver: SocketAddr, run: i64) -> Result<SystemTime> {
    let client = Client::new(open(&options.store)?)?;
    let count = options.rate * options.seconds;
    // Inserting takes a while, too.
    let first = SystemTime::now() + AHEAD + Duration::from_millis(count / 20);
    let start = Instant::now();
    let mut made = Vec::new();
    for number in 0..count {
        let due = Time::from(first) + Duration::from_micros(number * 1_000_000 / options.rate);
        let key = format!("due-{run}-{number}");
        let stored = stored(&key, definition(receiver, &rfc3339(due)), Some(due));
        let once = client.once(&kind(APP), due).name(name(APP, &key));
        let once = once.payload(serde_json::to_vec(&stored)?);
        made.push(tokio::spawn(async move { once.create().await }));
        if made.len() == 20_000 || number + 1 == count {
            for made in made.drain(..) {
                if let Created::Exists(_) = made.await?? {
                    return Err(format!("{key} is there already").into());
                }
            }
        }
    }
    println!("{count} inserted, {:.0} a second", count as f64 / start.elapsed().as_secs_f64());
    Ok(first)
}
