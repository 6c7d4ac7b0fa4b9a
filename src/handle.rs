//! Handles and sleeps, which keep an engine alive; and the process-wide engine.

#[cfg(not(target_os = "none"))]
pub(crate) mod scope;

use core::ptr;

#[cfg(not(target_os = "none"))]
use crate::clock::Clock;
use crate::driver;
#[cfg(not(target_os = "none"))]
use crate::engine::default_shards;
use crate::engine::{DropByPointer, Engine, Notify, SharedEngine, Stake, Stakes};
use crate::sync::unmodelled::AtomicPtr;
use crate::sync::{Arc, Ordering, SetOnce, SpawnError};

static GLOBAL: SetOnce<SharedHandle> = SetOnce::new();

/// Address of the process-wide engine, noted by the first look for it: a sleep gets there by one
/// load, and not by way of the handle.
static ENGINE: AtomicPtr<Engine> = AtomicPtr::new(ptr::null_mut());

/// Looks for the process-wide engine, and notes its address. Threads that do so at once note the
/// same.
#[cold]
fn global_engine() -> &'static Engine {
    let engine: &'static Engine = Handle::global().engine();
    // ORDERING: Release, the partner of the Acquire in `EngineRef::get`.
    ENGINE.store(ptr::from_ref(engine).cast_mut(), Ordering::Release);
    engine
}

/// A counted reference to a handle.
pub(crate) type SharedHandle = Arc<DropByPointer<Handle>>;

/// State that all clones of a [`Timer`](crate::Timer) share; gone with the last.
#[derive(Debug)]
pub(crate) struct Handle {
    stakes: Stakes,
}

impl Handle {
    pub(crate) fn shared(engine: SharedEngine) -> SharedHandle {
        Arc::new(DropByPointer::new(Self { stakes: Stakes::new(engine) }))
    }

    #[inline]
    pub(crate) fn engine(&self) -> &SharedEngine {
        self.stakes.engine()
    }

    /// The process-wide timer's. Made by the first call, and never dropped.
    #[cfg(not(target_os = "none"))]
    #[inline]
    pub(crate) fn global() -> &'static SharedHandle {
        GLOBAL.get().unwrap_or_else(Self::make_global)
    }

    /// Makes the process-wide timer's, unless another thread has done so meanwhile. Apart from
    /// [`global`](Self::global), so that the code is not in each crate that sleeps. A thread that
    /// comes second leaks its own: there is no code to drop one.
    #[cfg(not(target_os = "none"))]
    #[cold]
    fn make_global() -> &'static SharedHandle {
        GLOBAL.get_or_init(|| {
            let watch_resumes = driver::watch_resumes(Clock::MONOTONIC_COUNTS_SUSPEND);
            let shards = default_shards();
            let engine = Engine::for_good(Clock::monotonic(), shards, watch_resumes);
            Arc::new(DropByPointer::for_good(Self { stakes: Stakes::new(engine) }))
        })
    }

    /// The program's timer. It has to be set: there is no clock before.
    #[cfg(target_os = "none")]
    pub(crate) fn global() -> &'static SharedHandle {
        GLOBAL.get().expect("no timer is set: `tourbillon::Timer::set_global` is to come first")
    }

    /// The handle of the timer in scope on the calling thread, or else of the process-wide timer.
    pub(crate) fn here() -> SharedHandle {
        #[cfg(not(target_os = "none"))]
        if let Some(handle) = scope::handle() {
            return handle;
        }
        Arc::clone(Self::global())
    }

    /// Makes `handle` the process-wide timer's, or gives it back if there is one.
    pub(crate) fn set_global(handle: SharedHandle) -> Result<(), SharedHandle> {
        GLOBAL.set(handle)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // In a child process, even if nothing was armed there yet: later calls have to find it so.
        self.engine().current().close();
    }
}

/// Reference of a sleep to its engine: nothing, if that is the process-wide one, so that making and
/// dropping a sleep there touches no count; else a stake, whose count threads of other shards do
/// not touch.
#[derive(Clone)]
pub(crate) struct EngineRef(Option<Stake>);

impl EngineRef {
    /// A reference to the engine of [`Handle::here`].
    #[inline(always)]
    pub(crate) fn here() -> Self {
        #[cfg(not(target_os = "none"))]
        if !scope::is_global_everywhere() {
            return Self::find_here();
        }
        #[cfg(target_os = "none")]
        Handle::global();
        Self(None)
    }

    /// Looks for the timer in scope. Apart, so that the code is not in each crate that sleeps.
    #[cfg(not(target_os = "none"))]
    #[cold]
    #[inline(never)]
    fn find_here() -> Self {
        scope::engine().unwrap_or_else(|| {
            Handle::global();
            scope::has_global();
            Self(None)
        })
    }

    pub(crate) fn of(handle: &Handle) -> Self {
        match GLOBAL.get() {
            Some(global) if ptr::eq::<Handle>(&***global, handle) => Self(None),
            _ if handle.engine().generation.is_past() => {
                Self(Some(handle.engine().successor().take()))
            }
            _ => Self(Some(handle.stakes.take())),
        }
    }

    /// Returns another such reference, or a reference to the child's own engine if this one is
    /// inherited.
    pub(crate) fn current(&self) -> Self {
        let engine = self.get();
        if engine.generation.is_past() {
            Self(Some(engine.successor().take()))
        } else {
            self.clone()
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> &Engine {
        match &self.0 {
            Some(stake) => stake.engine(),
            None => {
                // ORDERING: Acquire, the partner of the Release in `global_engine`, whose thread
                // has seen the engine made.
                let noted = ENGINE.load(Ordering::Acquire);
                // SAFETY: null, or from a reference for the life of the program.
                unsafe { noted.as_ref() }.unwrap_or_else(global_engine)
            }
        }
    }

    /// The engine, for a driver to hold.
    fn shared(&self) -> &SharedEngine {
        self.0.as_ref().map_or_else(|| Handle::global().engine(), Stake::engine)
    }

    /// Does the rest of an insert, or of a look for the driver. With no lock held: this may call
    /// foreign code.
    ///
    /// # Errors
    ///
    /// When the driver's thread has to be started and cannot be. The next try may succeed.
    #[inline(always)]
    pub(crate) fn notify(&self, insert: Notify) -> Result<(), SpawnError> {
        if insert == Notify::Nothing { Ok(()) } else { self.find_driver(insert) }
    }

    /// The rest of [`notify`](Self::notify).
    #[cold]
    fn find_driver(&self, insert: Notify) -> Result<(), SpawnError> {
        let engine = self.get();
        match engine.notify(insert) {
            Notify::Start => driver::start(self.shared()),
            #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
            Notify::Wait(key) => {
                driver::start(self.shared())?;
                engine.wait_by_host(key);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
