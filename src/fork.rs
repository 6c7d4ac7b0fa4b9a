//! Detects engines that were inherited through `fork`.
//!
//! A child has one thread: the driver is gone, and a lock that another thread held at that moment
//! is held for ever. So a child leaves the engines it inherited alone, and makes itself new ones.

use alloc::boxed::Box;

use crate::sync::unmodelled::AtomicU32;
use crate::sync::{OnceLock, Ordering};

/// Forks that lie between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A generation of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    /// This process's, for something that is made now.
    pub(crate) fn at_birth() -> Self {
        static WATCHED: OnceLock<()> = OnceLock::new();
        WATCHED.get_or_init(watch);
        Self::current()
    }

    /// Whether it is an earlier process's.
    #[inline]
    pub(crate) fn is_past(self) -> bool {
        self != Self::current()
    }

    #[inline]
    fn current() -> Self {
        // ORDERING: Relaxed; it is written in a child before that has a second thread.
        Self(FORKS.load(Ordering::Relaxed))
    }
}

/// What each process has one of its own of: a child makes itself another, since a lock in its
/// parent's may be held by a thread that is not there.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    /// The process of `own`.
    generation: Generation,
    own: T,
    /// What stands in for `own` in a child of that process.
    successor: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    /// `own` is this process's.
    pub(crate) fn new(own: T) -> Self {
        Self { generation: Generation::at_birth(), own, successor: OnceLock::new() }
    }

    /// This process's. If there is none yet, `anew` makes it from what was its parent's.
    pub(crate) fn get(&self, anew: impl Fn(&T) -> T + Copy) -> &T {
        if !self.generation.is_past() {
            return &self.own;
        }
        self.successor.get_or_init(|| Box::new(Self::new(anew(&self.own)))).get(anew)
    }
}

/// Counts the forks from now on.
fn watch() {
    #[cfg(unix)]
    {
        extern "C" fn in_child() {
            // ORDERING: Relaxed; the child has one thread.
            FORKS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the handler may run in a child of a process with threads: it does no more than
        // add to an atomic. If it cannot be registered, children have no new engines.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}
