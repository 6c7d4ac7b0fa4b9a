//! Reminders and schedules that outlive the process that works on them.
//!
//! ```text
//! cargo run -p tourbillon-durable --example durable_reminders
//! cargo run -p tourbillon-durable --features postgres --example durable_reminders -- \
//!     --store postgres://...
//! ```
//!
//! This process makes reminders and three schedules. Another works on them, is killed with SIGKILL
//! in the middle of it, stays away for a while, and is started again. Then this one reads what
//! became of each, says so, and ends with an error if that is not as it has to be.
//!
//! Without `--store` it makes a file of its own, and removes it. `--store FILE` keeps a file; the
//! database has to be empty.

mod checks;
mod worker;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs};

use tourbillon::sleep;
use tourbillon_durable::store::{RecordQuery, ScheduleQuery, Store, TimerQuery};
use tourbillon_durable::{
    Client, Created, Missed, Record, Schedule, ScheduleUpdate, Time, TimerId,
};
use worker::Worker;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Number of reminders, and their distance.
const REMINDERS: u32 = 60;
const APART: Duration = Duration::from_millis(150);

/// This one takes a minute when it is delivered first: the crash finds it half done.
const SLOW: &str = "reminder-10";

/// Each schedule's period.
const PERIOD: Duration = Duration::from_millis(500);

/// Lateness above which an occurrence counts as missed, even if it is the last.
const ON_TIME: Duration = Duration::from_millis(100);

/// Span without a worker.
const AWAY: Duration = Duration::from_secs(4);

/// The schedules: the name, the kind and the policy for missed occurrences.
const SCHEDULES: [(&str, Missed); 3] = [
    ("news", Missed::Skip),
    ("backup", Missed::Coalesce),
    ("invoice", Missed::CatchUp { max_count: 3, max_age: Duration::from_secs(60) }),
];

/// Events, as far as this process has seen them.
struct Story {
    reminders: BTreeMap<TimerId, String>,
    /// First occurrence of each schedule.
    first: Vec<Time>,
    killed: Time,
    started_again: Time,
    disabled: Time,
    records: Vec<Record>,
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        [worker::ROLE, store] => worker::run(store),
        ["--store", store] => show(store),
        [] => {
            let folder = Folder::new();
            folder.and_then(|folder| show(&folder.0.join("timers.db").to_string_lossy()))
        }
        _ => Err("usage: durable_reminders [--store FILE | --store postgres://...]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("durable_reminders: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A temporary folder. Dropping it removes the folder.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let name = format!("durable-reminders-{}", std::process::id());
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is the system's to clean up.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Opens a database, by its file or its address.
fn open(store: &str) -> Result<Box<dyn Store>> {
    if store.starts_with("postgres://") || store.starts_with("postgresql://") {
        #[cfg(feature = "postgres")]
        return Ok(Box::new(tourbillon_durable::store::Postgres::connect(store)?));
        #[cfg(not(feature = "postgres"))]
        return Err("built without the feature `postgres`".into());
    }
    Ok(Box::new(tourbillon_durable::store::Sqlite::open(store)?))
}

fn show(store: &str) -> Result<()> {
    let story = smol::block_on(tell(store))?;
    checks::report(&story)
}

/// Makes, kills, starts again, and reads.
async fn tell(store: &str) -> Result<Story> {
    let client = Client::new(open(store)?)?;
    let is_empty = client.timers(TimerQuery::new()).await?.is_empty()
        && client.schedules(ScheduleQuery::new()).await?.is_empty()
        && client.records(RecordQuery::new()).await?.is_empty();
    if !is_empty {
        return Err(format!("{store} is not empty").into());
    }
    let reminders = make_reminders(&client).await?;
    let first = make_schedules(&client).await?;
    println!("made {REMINDERS} reminders, {APART:?} apart, and 3 schedules of every {PERIOD:?}");

    let mut worker = Worker::start(store)?;
    println!("started a worker, process {}", worker.id());
    // With the slow one in its hands, and a few delivered.
    worker.wait_for(&format!("start {SLOW}"))?;
    sleep(Duration::from_millis(700)).await;
    worker.kill()?;
    let killed = client.now().await?;
    println!("killed it; nobody is there for {AWAY:?}");
    sleep(AWAY).await;

    let started_again = client.now().await?;
    let worker = Worker::start(store)?;
    println!("started another, process {}", worker.id());
    wait_for_reminders(&client).await?;
    // Some more of the schedules' usual runs, without a crash.
    sleep(PERIOD * 4).await;
    let disabled = client.now().await?;
    for (name, _) in SCHEDULES {
        match client.disable(name).await? {
            ScheduleUpdate::Done { .. } => {}
            other => return Err(format!("{name} cannot be disabled: {other:?}").into()),
        }
    }
    worker.stop()?;
    let records = all_records(&client).await?;
    Ok(Story { reminders, first, killed, started_again, disabled, records })
}

async fn make_reminders(client: &Client) -> Result<BTreeMap<TimerId, String>> {
    let mut reminders = BTreeMap::new();
    let start = SystemTime::now();
    for n in 0..REMINDERS {
        let name = format!("reminder-{n:02}");
        let at = start + APART * n;
        match client.once("reminder", at).name(&name).payload("call home").create().await? {
            Created::Created(id) => reminders.insert(id, name),
            Created::Exists(_) => return Err(format!("{name} is there already").into()),
        };
    }
    Ok(reminders)
}

/// Makes the schedules, and returns where each begins.
async fn make_schedules(client: &Client) -> Result<Vec<Time>> {
    let mut first = Vec::new();
    for (name, missed) in SCHEDULES {
        client
            .every(name, Schedule::every(PERIOD))
            .missed(missed)
            .on_time_within(ON_TIME)
            .upsert()
            .await?;
        first.extend(client.upcoming(name, 1).await?);
    }
    Ok(first)
}

/// Waits until no reminder is left, or for so long that a check fails.
async fn wait_for_reminders(client: &Client) -> Result<()> {
    let query = TimerQuery::new().kind("reminder").limit(1);
    let give_up = Instant::now() + Duration::from_secs(60);
    while Instant::now() < give_up && !client.timers(query.clone()).await?.is_empty() {
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn all_records(client: &Client) -> Result<Vec<Record>> {
    let mut all: Vec<Record> = Vec::new();
    loop {
        let mut query = RecordQuery::new();
        query.after = all.last().map(|record| (record.recorded, record.timer));
        let page = client.records(query).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}
