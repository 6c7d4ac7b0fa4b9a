//! `graphile_worker`, Graphile Worker in Rust.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext,
    WorkerOptions, WorkerRecoveryConfig, WorkerUtils,
};
use riverqueue::sqlx::PgPool;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::peer::{BATCH, Call, FAR, KIND, Settings, dues, handle, now_us, print_rate};

#[derive(Deserialize, Serialize)]
struct Bench {
    due_ms: i64,
}

impl TaskHandler for Bench {
    const IDENTIFIER: &'static str = KIND;

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        handle(self.due_ms).await;
        Ok::<(), String>(())
    }
}

pub(crate) async fn answer(call: &Call) -> Result<()> {
    match call {
        Call::Prepare { address } => utils(address).await?.migrate().await?,
        Call::Single { address, span, callers } => {
            let utils = utils(address).await?;
            let began = Instant::now();
            let callers: Vec<_> =
                (0..*callers).map(|_| tokio::spawn(one_by_one(utils.clone(), *span))).collect();
            let mut count = 0;
            for caller in callers {
                count += caller.await??;
            }
            print_rate(count, began);
        }
        Call::Batch { address, count, from_ms, span_ms } => {
            let utils = utils(address).await?;
            let began = Instant::now();
            for part in dues(*count, *from_ms, *span_ms).chunks(BATCH) {
                let jobs = part.iter().map(|due_ms| job(*due_ms)).collect::<Result<Vec<_>>>()?;
                utils.add_raw_jobs(&jobs).await?;
            }
            print_rate(*count, began);
        }
        Call::Work { address, settings } => work(address, *settings).await?,
    }
    Ok(())
}

async fn utils(address: &str) -> Result<WorkerUtils> {
    Ok(WorkerUtils::new(PgPool::connect(address).await?, "graphile_worker"))
}

fn job(due_ms: i64) -> Result<RawJobSpec> {
    let due: DateTime<Utc> = DateTime::from_timestamp_millis(due_ms).ok_or("no such time")?;
    Ok(RawJobSpec {
        identifier: KIND.into(),
        payload: serde_json::to_value(Bench { due_ms })?,
        spec: JobSpec::builder().run_at(due).build(),
    })
}

async fn one_by_one(utils: WorkerUtils, span: Duration) -> Result<usize> {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < span {
        let job = job((now_us() + FAR.as_micros() as i64) / 1_000)?;
        utils.add_raw_job(&job.identifier, job.payload, job.spec).await?;
        count += 1;
    }
    Ok(count)
}

async fn work(address: &str, settings: Settings) -> Result<()> {
    let options = WorkerOptions::default().database_url(address).define_job::<Bench>();
    let options = if settings == Settings::Default {
        options
    } else {
        // The figures of its own bench; and recovery, off by default.
        let recovery = WorkerRecoveryConfig::default()
            .heartbeat_interval(Duration::from_secs(1))
            .sweep_interval(Duration::from_secs(2))
            .sweep_threshold(Duration::from_secs(15))
            .recovery_delay(Duration::ZERO);
        options
            .concurrency(500)
            .poll_interval(Duration::from_millis(5))
            .complete_job_batch_delay(Duration::from_millis(5))
            .local_queue(LocalQueueConfig::default().with_size(5_000))
            .worker_recovery(recovery)
    };
    // The second is for the notices.
    let options = if settings == Settings::One { options.max_pg_conn(2) } else { options };
    Ok(options.init().await?.run().await?)
}
