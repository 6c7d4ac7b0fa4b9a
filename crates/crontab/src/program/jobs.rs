//! Running jobs, and their end.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use smol::channel::{Receiver, Sender, unbounded};
use smol::future::or;

use super::files::Entry;
use super::job::execute;
use super::log::Log;

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

/// A job's share in [`Jobs`]. The job is over when it is dropped.
#[derive(Clone)]
pub(crate) struct Running {
    groups: Arc<Mutex<Groups>>,
    _open: Sender<Infallible>,
}

#[derive(Default)]
struct Groups {
    /// Leaders of the jobs' process groups. None has been waited for yet, so none of the numbers
    /// belongs to another process by now.
    leaders: Vec<Pid>,
    /// Signal that was sent to all, for jobs that come later.
    signal: Option<Signal>,
}

impl Jobs {
    pub(crate) fn new() -> Self {
        let (open, over) = unbounded();
        Self { running: Running { groups: Arc::default(), _open: open }, over }
    }

    pub(crate) fn start(&self, entry: Arc<Entry>, log: Log) {
        smol::spawn(execute(entry, log, self.running.clone())).detach();
    }

    /// Ends all jobs, each with the whole of its process group. They are asked to end and, after
    /// [`GRACE`] or once `hurry` is ready, killed. Processes that have left their job's group are
    /// not ended.
    pub(crate) async fn end(self, log: &Log, hurry: impl Future<Output = ()>) {
        let Self { running, over } = self;
        let groups = Arc::clone(&running.groups);
        drop(running);
        let mut over = pin!(over.recv());
        // Processes live in real time, also if their jobs' clock is another.
        let limit = or(hurry, async { tourbillon::sleep(GRACE).await });
        let asked = lock(&groups).send(Signal::TERM);
        if asked > 0 {
            log.tell(format_args!("{asked} jobs are asked to end"));
        }
        if first(over.as_mut(), limit).await {
            return;
        }
        let killed = lock(&groups).send(Signal::KILL);
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

impl Running {
    /// Adds a job whose process has been started.
    pub(crate) fn enter(&self, leader: Pid) {
        let mut groups = lock(&self.groups);
        groups.leaders.push(leader);
        if let Some(signal) = groups.signal {
            deliver(leader, signal);
        }
    }

    /// Removes a job, whose process may be waited for after that, and not before.
    pub(crate) fn leave(&self, leader: Pid) {
        lock(&self.groups).leaders.retain(|other| *other != leader);
    }
}

impl Groups {
    /// Sends a signal to all, and returns how many they are.
    fn send(&mut self, signal: Signal) -> usize {
        self.signal = Some(signal);
        self.leaders.iter().for_each(|leader| deliver(*leader, signal));
        self.leaders.len()
    }
}

fn deliver(leader: Pid, signal: Signal) {
    // It fails if no process is left to end.
    let _ = kill_process_group(leader, signal);
    // A stopped process takes it only then.
    let _ = kill_process_group(leader, Signal::CONT);
}

fn lock(groups: &Mutex<Groups>) -> MutexGuard<'_, Groups> {
    groups.lock().unwrap_or_else(PoisonError::into_inner)
}
