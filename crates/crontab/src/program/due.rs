//! Waits for many jobs in one task.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use futures::Stream;
use tourbillon_cron::{Cron, Tick, Ticks};

use super::files::Entry;

/// Stream of the due occurrences of all jobs. Never ends by itself.
///
/// A wake-up looks at every job. That costs less than to find out the job it was for: there are
/// tens of jobs, and hours between wake-ups.
pub(crate) struct Due {
    jobs: Vec<(Arc<Entry>, Ticks<Cron>)>,
}

impl Due {
    /// `ticks` makes the streams.
    pub(crate) fn new(entries: &[Arc<Entry>], ticks: impl Fn(Cron) -> Ticks<Cron>) -> Self {
        let job = |entry: &Arc<Entry>| {
            let cron = entry.job.when.clone()?;
            Some((Arc::clone(entry), ticks(cron)))
        };
        Self { jobs: entries.iter().filter_map(job).collect() }
    }

    /// The earliest time of a job that has not come yet.
    pub(crate) fn next_scheduled(&self) -> Option<SystemTime> {
        self.jobs.iter().filter_map(|(_, ticks)| ticks.next_scheduled()).min()
    }
}

impl Stream for Due {
    type Item = (Arc<Entry>, Tick);

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        for (entry, ticks) in &mut self.jobs {
            if let Poll::Ready(Some(tick)) = ticks.poll_tick(cx) {
                return Poll::Ready(Some((Arc::clone(entry), tick)));
            }
        }
        Poll::Pending
    }
}
