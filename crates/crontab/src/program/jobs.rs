//! Running jobs, and their end.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use smol::channel::Receiver;
use smol::future::or;

use super::files::Entry;
use super::job::execute;
use super::log::Log;
use super::running::Running;

/// Time that jobs have to end by themselves.
const GRACE: Duration = Duration::from_secs(10);
/// Time in which killed jobs are gone.
const LAST: Duration = Duration::from_secs(2);

/// Running jobs.
pub(crate) struct Jobs {
    running: Running,
    /// Closed when all are over.
    over: Receiver<Infallible>,
}

impl Jobs {
    pub(crate) fn new() -> Self {
        let (running, over) = Running::new();
        Self { running, over }
    }

    pub(crate) fn start(&self, entry: Arc<Entry>, log: Log) {
        smol::spawn(execute(entry, log, self.running.clone())).detach();
    }

    /// Ends all jobs, each with the whole of its process group. They are asked to end and, after
    /// [`GRACE`] or once `hurry` is ready, killed. Processes that have left their job's group are
    /// not ended.
    pub(crate) async fn end(self, log: &Log, hurry: impl Future<Output = ()>) {
        let Self { running, over } = self;
        let groups = running.into_groups();
        let mut over = pin!(over.recv());
        // Processes live in real time, also if their jobs' clock is another.
        let limit = or(hurry, async { tourbillon::sleep(GRACE).await });
        let asked = groups.send(Signal::TERM);
        if asked > 0 {
            log.tell(format_args!("{asked} jobs are asked to end"));
        }
        if first(over.as_mut(), limit).await {
            return;
        }
        let killed = groups.send(Signal::KILL);
        log.tell(format_args!("{killed} jobs are killed, as they have not ended"));
        if !first(over, tourbillon::sleep(LAST)).await {
            log.tell("processes that have left the groups of their jobs are not ended");
        }
    }
}

/// Returns whether `future` is ready before `limit` is.
async fn first(future: impl Future, limit: impl Future) -> bool {
    let future = async {
        future.await;
        true
    };
    let limit = async {
        limit.await;
        false
    };
    or(future, limit).await
}
