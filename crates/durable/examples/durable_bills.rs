//! Bills and their reminders, in transactions of sqlx.
//!
//! ```text
//! cargo run -p tourbillon-durable --features postgres,sqlx-0_8 --example durable_bills -- \
//!     postgres://... [SEED]
//! ```
//!
//! A bill and its reminder are made in one transaction: there is no bill without a reminder, and no
//! reminder of a bill that was rolled back. A worker counts a reminder and ends it in one
//! transaction: it is counted once, even if the worker dies. Here the worker is a separate process.
//! It is killed with SIGKILL four times, at random, and started again. At the end this program
//! compares bills and reminders, and fails if one is missing or was counted twice.
//!
//! The database has to be empty. The same seed makes the same choices.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{self, Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime};
use std::{env, thread};

use sqlx::PgPool;
// The name that this package has for its version. In a program of yours it is `sqlx`.
use sqlx_0_8 as sqlx;
use tokio::runtime::Runtime;
use tourbillon::sleep;
use tourbillon_durable::store::{Postgres, RecordQuery, TimerQuery};
use tourbillon_durable::{Client, Engine, Fire, Outcome};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Number of bills, and the distance of their reminders.
const BILLS: i32 = 60;
const APART: Duration = Duration::from_millis(30);

/// Number of times that the worker is killed.
const KILLS: u32 = 4;

/// Time that a mail takes.
const MAIL: Duration = Duration::from_millis(20);

/// Argument that makes a process a worker.
const ROLE: &str = "--worker";

/// Makes a bill and its reminder, in one transaction. Each third is rolled back.
async fn make_bill(pool: &PgPool, client: &Client, number: i32, due: SystemTime) -> Result<()> {
    let mut transaction = pool.begin().await?;
    sqlx::query("INSERT INTO bill (number) VALUES ($1)")
        .bind(number)
        .execute(&mut *transaction)
        .await?;
    let reminder = client
        .once("bill.remind", due)
        .name(format!("bill-{number}"))
        .payload(number.to_string())
        .create_in(&mut transaction)
        .await?;
    if is_rolled_back(number) {
        transaction.rollback().await?;
    } else {
        transaction.commit().await?;
        // Notifies nodes, if it is due within a second.
        reminder.committed();
    }
    Ok(())
}

/// Counts a reminder and ends its attempt, in one transaction.
async fn remind(pool: &PgPool, fire: Fire) -> Result<()> {
    let number: i32 = std::str::from_utf8(fire.payload())?.parse()?;
    let mut transaction = pool.begin().await?;
    sqlx::query("UPDATE bill SET reminders = reminders + 1 WHERE number = $1")
        .bind(number)
        .execute(&mut *transaction)
        .await?;
    println!("reminds of bill {number}");
    // Each attempt may send what leaves the database: its receiver knows it again by `fire.key()`.
    sleep(MAIL).await;
    // Fails, and the transaction with it, if the timer was given to another worker meanwhile.
    fire.complete_in(&mut transaction).await?;
    transaction.commit().await?;
    // Makes room for another attempt.
    fire.committed();
    Ok(())
}

/// Reminds of bills, four at a time.
#[tokio::main]
async fn work(address: &str) -> Result<()> {
    thread::spawn(end_with_parent);
    let pool = PgPool::connect(address).await?;
    // Short, so that the example is: a worker that died is found out after a second.
    let engine = Engine::builder()
        .lease(Duration::from_secs(1))
        .heartbeat(Duration::from_millis(200))
        .maintenance_interval(Duration::from_millis(200))
        .start(Box::new(Postgres::connect(address)?))?;
    let mut reminders = engine.worker("bill.remind", 4);
    while let Some(fire) = reminders.next().await {
        let pool = pool.clone();
        tokio::spawn(async move {
            // What failed was rolled back, and there is another attempt.
            if let Err(error) = remind(&pool, fire).await {
                eprintln!("a reminder failed: {error}");
            }
        });
    }
    Ok(())
}

fn is_rolled_back(number: i32) -> bool {
    number % 3 == 0
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [ROLE, address] => work(address),
        [address] => show(address, 7),
        [address, seed] => seed.parse().map_err(Into::into).and_then(|seed| show(address, seed)),
        _ => Err("usage: durable_bills postgres://... [SEED]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("durable_bills: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Makes bills, kills workers, and compares.
fn show(address: &str, seed: u64) -> Result<()> {
    let runtime = Runtime::new()?;
    let client = Client::new(Box::new(Postgres::connect(address)?))?;
    let pool = runtime.block_on(make_bills(address, &client))?;
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..KILLS {
        let mut worker = Worker::start(address)?;
        for _ in 0..random.u8(3..8) {
            worker.wait_for_reminder()?;
        }
        // Before, in, or after a commit.
        thread::sleep(MAIL.mul_f64(random.f64() * 1.5));
        worker.kill()?;
    }
    let worker = Worker::start(address)?;
    runtime.block_on(wait_for_end(&client))?;
    worker.kill()?;
    runtime.block_on(compare(&pool, &client))
}

async fn make_bills(address: &str, client: &Client) -> Result<PgPool> {
    let pool = PgPool::connect(address).await?;
    let table =
        "CREATE TABLE bill (number integer PRIMARY KEY, reminders integer NOT NULL DEFAULT 0)";
    sqlx::query(table).execute(&pool).await?;
    let now = SystemTime::now();
    for number in 1..=BILLS {
        make_bill(&pool, client, number, now + APART * number.unsigned_abs()).await?;
    }
    Ok(pool)
}

/// Returns once no reminder is left.
async fn wait_for_end(client: &Client) -> Result<()> {
    while !client.timers(TimerQuery::new().limit(1)).await?.is_empty() {
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Fails unless each bill that was committed has one reminder, and no other has any.
async fn compare(pool: &PgPool, client: &Client) -> Result<()> {
    let bills: Vec<(i32, i32)> =
        sqlx::query_as("SELECT number, reminders FROM bill ORDER BY number")
            .fetch_all(pool)
            .await?;
    let committed: Vec<i32> = (1..=BILLS).filter(|number| !is_rolled_back(*number)).collect();
    let once: Vec<(i32, i32)> = committed.iter().map(|number| (*number, 1)).collect();
    if bills != once {
        return Err(format!("bills, and how often each was reminded of: {bills:?}").into());
    }

    let records = client.records(RecordQuery::new().outcome(Outcome::Succeeded)).await?;
    let mut reminded: Vec<&str> =
        records.iter().filter_map(|record| record.name.as_deref()).collect();
    let mut names: Vec<String> = committed.iter().map(|number| format!("bill-{number}")).collect();
    reminded.sort_unstable();
    names.sort_unstable();
    if reminded != names {
        return Err(format!("reminders that have ended: {reminded:?}").into());
    }
    println!(
        "{} bills were committed, and each was reminded of once; {} were rolled back, and none was \
         reminded of; {KILLS} workers were killed, and {} reminders took more than one attempt",
        bills.len(),
        BILLS as usize - bills.len(),
        records.iter().filter(|record| record.attempts > 1).count(),
    );
    Ok(())
}

/// A worker process, in the view of its parent.
struct Worker {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start(address: &str) -> Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args([ROLE, address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("the worker has no pipe")?;
        Ok(Self { child, output: BufReader::new(output) })
    }

    /// Waits until it is in the middle of another reminder.
    fn wait_for_reminder(&mut self) -> Result<()> {
        match self.output.read_line(&mut String::new())? {
            0 => Err("the worker has ended".into()),
            _ => Ok(()),
        }
    }

    /// Kills it with SIGKILL, where there is one: nothing of it runs any more.
    fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

/// Ends this process together with its parent, which holds the other end of its input.
fn end_with_parent() {
    // Either way there is nobody left who writes to it.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    process::exit(1);
}
