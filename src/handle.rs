//! Handles and sleeps, which keep an engine alive; and the process-wide engine.

#[cfg(not(target_os = "none"))]
use crate::clock::Clock;
use crate::driver;
#[cfg(not(target_os = "none"))]
use crate::engine::{DrivenBy, DriverThread, default_shards};
use crate::engine::{Engine, Remaining};
use crate::sync::{Arc, SetOnce, SpawnError};

static GLOBAL: SetOnce<Arc<Handle>> = SetOnce::new();

/// State that all clones of a [`Timer`](crate::Timer) share; gone with the last.
#[derive(Debug)]
pub(crate) struct Handle {
    engine: Arc<Engine>,
}

impl Handle {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The process-wide timer's. Made by the first call, and never dropped.
    #[cfg(not(target_os = "none"))]
    #[inline]
    pub(crate) fn global() -> &'static Arc<Self> {
        GLOBAL.get().unwrap_or_else(Self::make_global)
    }

    /// Makes the process-wide timer's, unless another thread has done so meanwhile. Apart from
    /// [`global`](Self::global), so that the code is not in each crate that sleeps.
    #[cfg(not(target_os = "none"))]
    #[cold]
    fn make_global() -> &'static Arc<Self> {
        GLOBAL.get_or_init(|| {
            let clock = Clock::monotonic();
            let watch_resumes = driver::watch_resumes(Clock::MONOTONIC_COUNTS_SUSPEND);
            let thread = DriverThread::new(DriverThread::NAME.to_owned(), watch_resumes);
            let engine = Engine::new(clock, default_shards(), DrivenBy::Thread(thread));
            Arc::new(Self::new(Arc::new(engine)))
        })
    }

    /// The program's timer. It has to be set, as there is no clock before.
    #[cfg(target_os = "none")]
    pub(crate) fn global() -> &'static Arc<Self> {
        GLOBAL.get().expect("no timer is set: `tourbillon::Timer::set_global` is to come first")
    }

    /// Makes `handle` the process-wide timer's, or gives it back if there is one.
    pub(crate) fn set_global(handle: Arc<Self>) -> Result<(), Arc<Self>> {
        GLOBAL.set(handle)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // In a child process, also if nothing was armed there yet: what is later has to find it so.
        Engine::current(&self.engine).close();
    }
}

/// Reference of a sleep to its engine: nothing, if that is the process-wide one, so that making and
/// dropping a sleep there touches no count that all threads share.
#[derive(Clone)]
pub(crate) struct EngineRef(Option<Arc<Engine>>);

impl EngineRef {
    #[inline]
    pub(crate) fn global() -> Self {
        Handle::global();
        Self(None)
    }

    pub(crate) fn of(engine: &Arc<Engine>) -> Self {
        match GLOBAL.get() {
            Some(global) if Arc::ptr_eq(&global.engine, engine) => Self(None),
            _ => Self(Some(Arc::clone(engine))),
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> &Arc<Engine> {
        match &self.0 {
            Some(engine) => engine,
            None => &Handle::global().engine,
        }
    }

    /// Does what an insert, or a look for the driver, left to be done.
    ///
    /// # Errors
    ///
    /// When the driver's thread has to be started and cannot be. The next try may succeed.
    #[inline]
    pub(crate) fn follow_up(&self, remaining: Remaining) -> Result<(), SpawnError> {
        match remaining {
            Remaining::Nothing => Ok(()),
            Remaining::StartDriver => driver::start(self.get()),
        }
    }
}
