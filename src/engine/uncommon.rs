//! Work that a thread with the monotonic clock never has, reached by pointers: a program with the
//! process-wide timer alone has none of its code.

use crate::engine::{DrivenBy, DropByPointer, Engine, Entry, Stakes};
use crate::foreign::guarded;
use crate::tick::Tick;
#[cfg(not(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
)))]
use crate::{engine::SharedEngine, sync::SpawnError};

/// The functions of one engine.
pub(super) struct Uncommon {
    /// Makes the engine that stands in for this one in a child process.
    pub(super) anew: fn(&Engine) -> DropByPointer<Stakes>,
    /// Calls a driver other than a thread.
    pub(super) unpark: fn(&Engine),
    /// Starts such a driver. In an event loop there is none, nor without an operating system.
    #[cfg(not(any(
        target_os = "none",
        all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
    )))]
    pub(super) start: fn(&SharedEngine) -> Result<(), SpawnError>,
    /// Fires an entry, due by this tick, that a virtual clock has passed before it was queued.
    pub(super) catch_up: fn(&Engine, &Entry, Tick),
}

impl Uncommon {
    /// Functions of a timer of the program's own. A target has none for what it cannot have.
    pub(super) const OWN: Self = Self {
        anew: if cfg!(unix) { Engine::copied } else { |_| unreachable!("there is no fork") },
        unpark: Engine::unpark_other,
        #[cfg(not(any(
            target_os = "none",
            all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
        )))]
        start: Engine::start_task,
        catch_up: if cfg!(target_os = "none") { |_, _, _| () } else { Engine::catch_up },
    };

    /// Functions of the process-wide timer: it has the thread, the clock and no options.
    #[cfg(not(target_os = "none"))]
    pub(super) const FOR_GOOD: Self = Self {
        anew: if cfg!(unix) { Engine::copied_for_good } else { Self::OWN.anew },
        unpark: |_| (),
        #[cfg(not(any(
            target_os = "none",
            all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
        )))]
        start: |_| Ok(()),
        catch_up: |_, _, _| (),
    };
}

impl Engine {
    /// Without an operating system all engines have the same functions, and no pointer to them.
    #[inline(always)]
    pub(super) fn uncommon(&self) -> &'static Uncommon {
        #[cfg(not(target_os = "none"))]
        return self.uncommon;
        #[cfg(target_os = "none")]
        &Uncommon::OWN
    }

    #[inline]
    fn unpark_other(&self) {
        match &self.driven_by {
            // Foreign code: a panic here would unwind through an arm or a drop half done.
            DrivenBy::Hand(hook) => self.count_panics(u64::from(guarded(|| hook()).is_none())),
            DrivenBy::Task(task) => {
                self.count_panics(u64::from(guarded(|| task.unpark()).is_none()));
            }
            DrivenBy::Thread(_) | DrivenBy::Clock => {}
        }
    }

    /// Starts a driver other than a thread.
    #[cfg(not(any(
        target_os = "none",
        all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
    )))]
    pub(crate) fn start_other(engine: &SharedEngine) -> Result<(), SpawnError> {
        (engine.uncommon().start)(engine)
    }

    #[cfg(not(any(
        target_os = "none",
        all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
    )))]
    #[inline]
    fn start_task(engine: &SharedEngine) -> Result<(), SpawnError> {
        match &engine.driven_by {
            DrivenBy::Task(task) => task.start(engine),
            DrivenBy::Thread(_) | DrivenBy::Hand(_) | DrivenBy::Clock => Ok(()),
        }
    }

    #[cold]
    #[inline]
    fn catch_up(&self, entry: &Entry, due_by: Tick) {
        if let Some(now) = self.clock.moved_past(due_by) {
            self.fire_late(entry, now);
        }
    }
}
