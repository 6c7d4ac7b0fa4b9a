//! [`Running`]: the process groups of running jobs.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use smol::channel::{Receiver, Sender, unbounded};

/// A job's share in all running jobs. The job is over when it is dropped.
#[derive(Clone)]
pub(crate) struct Running {
    groups: Groups,
    _open: Sender<Infallible>,
}

/// Process groups of all running jobs.
#[derive(Clone, Default)]
pub(crate) struct Groups(Arc<Mutex<Leaders>>);

/// Leaders of the jobs' process groups.
#[derive(Default)]
struct Leaders {
    /// None has been waited for yet, so none of the numbers belongs to another process by now.
    pids: Vec<Pid>,
    /// Signal that was sent to all, for jobs that come later.
    signal: Option<Signal>,
}

impl Running {
    /// Returns a share, and a channel that is closed when all its clones are dropped.
    pub(crate) fn new() -> (Self, Receiver<Infallible>) {
        let (open, over) = unbounded();
        (Self { groups: Groups::default(), _open: open }, over)
    }

    /// Adds a job whose process has been started.
    pub(crate) fn enter(&self, leader: Pid) {
        let mut leaders = self.groups.lock();
        leaders.pids.push(leader);
        if let Some(signal) = leaders.signal {
            deliver(leader, signal);
        }
    }

    /// Removes a job, whose process may be waited for after that, and not before.
    pub(crate) fn leave(&self, leader: Pid) {
        self.groups.lock().pids.retain(|other| *other != leader);
    }

    /// Gives up this share.
    pub(crate) fn into_groups(self) -> Groups {
        self.groups
    }
}

impl Groups {
    /// Sends a signal to all, and returns how many they are.
    pub(crate) fn send(&self, signal: Signal) -> usize {
        let mut leaders = self.lock();
        leaders.signal = Some(signal);
        leaders.pids.iter().for_each(|leader| deliver(*leader, signal));
        leaders.pids.len()
    }

    fn lock(&self) -> MutexGuard<'_, Leaders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn deliver(leader: Pid, signal: Signal) {
    // It fails if no process is left to end.
    let _ = kill_process_group(leader, signal);
    // A stopped process takes it only then.
    let _ = kill_process_group(leader, Signal::CONT);
}
