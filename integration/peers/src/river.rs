//! `riverqueue`, River for Rust: a worker and a client of its own, on the tables of River for Go.

use std::time::{Duration, Instant};

use riverqueue::jiff::Timestamp;
use riverqueue::migrate::PostgresMigrator;
use riverqueue::sqlx::PgPool;
use riverqueue::sqlx::postgres::PgPoolOptions;
use riverqueue::{
    BoxError, Client, InsertOpts, Job, JobArgs, MaintenanceConfig, QueueConfig, WorkContext,
    WorkOutcome, Workers,
};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::peer::{BATCH, Call, FAR, Settings, dues, handle, now_us, print_rate};

#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
#[river(kind = "bench")]
struct Bench {
    due_ms: i64,
}

pub(crate) async fn answer(call: &Call) -> Result<()> {
    match call {
        Call::Prepare { address } => {
            PostgresMigrator::new(PgPool::connect(address).await?).migrate_up().await?;
        }
        Call::Single { address, span, callers } => {
            let client = Client::builder(PgPool::connect(address).await?).build()?;
            let began = Instant::now();
            let callers: Vec<_> =
                (0..*callers).map(|_| tokio::spawn(one_by_one(client.clone(), *span))).collect();
            let mut count = 0;
            for caller in callers {
                count += caller.await??;
            }
            print_rate(count, began);
        }
        Call::Batch { address, count, from_ms, span_ms } => {
            let client = Client::builder(PgPool::connect(address).await?).build()?;
            let began = Instant::now();
            for part in dues(*count, *from_ms, *span_ms).chunks(BATCH) {
                let jobs = part.iter().map(|due_ms| job(*due_ms)).collect::<Result<Vec<_>>>()?;
                client.insert_many(jobs).await?;
            }
            print_rate(*count, began);
        }
        Call::Work { address, settings } => work(address, *settings).await?,
    }
    Ok(())
}

fn job(due_ms: i64) -> Result<(Bench, InsertOpts)> {
    let due = Timestamp::from_millisecond(due_ms)?;
    Ok((Bench { due_ms }, InsertOpts::default().with_scheduled_at(due)))
}

async fn one_by_one(client: Client, span: Duration) -> Result<usize> {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < span {
        let (args, options) = job((now_us() + FAR.as_micros() as i64) / 1_000)?;
        client.insert(args).opts(options).await?;
        count += 1;
    }
    Ok(count)
}

async fn run(_: WorkContext, job: Job<Bench>) -> std::result::Result<WorkOutcome, BoxError> {
    handle(job.args.due_ms).await;
    Ok(WorkOutcome::Complete)
}

async fn work(address: &str, settings: Settings) -> Result<()> {
    let mut workers = Workers::new();
    workers.add_fn(run)?;
    let pool = PgPoolOptions::new().max_connections(if settings == Settings::One { 1 } else { 10 });
    let builder = Client::builder(pool.connect(address).await?).workers(workers);
    let builder = if settings == Settings::Default {
        builder.queue("default", QueueConfig::new(100))
    } else {
        // The figures of River's own bench; and the least that suits jobs due at a time, and a
        // worker that dies. It takes every job that runs for longer to be stuck.
        let queue = QueueConfig::new(2_000)
            .with_fetch_cooldown(Duration::from_millis(2))
            .with_fetch_poll_interval(Duration::from_millis(20));
        let maintenance = MaintenanceConfig::default()
            .with_scheduler_interval(Duration::from_millis(100))
            .with_rescue_after(Duration::from_secs(15))
            .with_rescuer_interval(Duration::from_secs(2))
            .with_elect_interval(Duration::from_secs(2));
        let builder = builder.fetch_cooldown(Duration::from_millis(2));
        let builder = builder.job_timeout(Duration::from_secs(15));
        builder.queue("default", queue).maintenance(maintenance)
    };
    let mut run = builder.build()?.start()?;
    Ok(run.wait().await?)
}
