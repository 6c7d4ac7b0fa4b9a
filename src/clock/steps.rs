//! Wakes tasks when a wall clock is set.

use std::collections::BTreeMap;
use std::io;
use std::task::Waker;
use std::time::Duration;

use crate::clock::both::Both;
use crate::clock::notices::{Notice, Notices, Recheck};
use crate::foreign::{Running, guarded};
use crate::fork::{self, Generation, PerProcess};
use crate::sync::unmodelled::AtomicU64;
use crate::sync::{Mutex, MutexGuard, Ordering, SetOnce, lock, spawn};

/// Period at which the wall clock is compared with the monotonic one, in case there was no notice
/// of a step. Seldom enough to cost nothing that can be measured; and half of cron's minute, so
/// that what a step makes due is still on time when it is found.
pub(crate) const RECHECK: Duration = Duration::from_secs(30);

/// The name of the thread that waits for steps of the system's clock.
const WATCHER: &str = "tourbillon-wall";

/// Tasks to wake when one wall clock is set.
///
/// A waker that is registered before the clock is read is woken after every step that this reading
/// did not show: an announcement takes the wakers out under the lock, after the step. So either the
/// waker was in by then and is woken; or it came later, and so did the reading.
///
/// There may be steps without a notice (a preloaded library that fakes the clock). So the thread
/// that waits for notices also compares the two clocks every [`RECHECK`], while a waker is
/// registered that [needs](Need) it. It announces a step if they show one since the last that it
/// announced, or since it was started, which was before any waker was registered.
#[derive(Debug)]
pub(crate) struct Steps {
    source: Source,
    waiting: PerProcess<Mutex<Waiting>>,
}

/// Source of the announcements of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The thread that sets a virtual clock.
    Setter,
    /// A thread that waits for the system's notices.
    Watcher,
}

#[derive(Debug)]
struct Waiting {
    wakers: BTreeMap<Registration, (Need, Waker)>,
    announcer: Announcer,
}

/// Present source of announcements.
#[derive(Debug)]
enum Announcer {
    Nobody,
    Setter,
    /// `running`: the time to the next recheck is running. It is while a waker is registered
    /// that needs it, and until its end if that was the last.
    Watcher {
        recheck: Recheck,
        running: bool,
    },
}

impl Announcer {
    /// Makes the watcher, if there is one, compare the clocks every [`RECHECK`].
    fn recheck(&mut self) -> io::Result<()> {
        if let Self::Watcher { recheck, running: running @ false } = self {
            recheck.start(RECHECK)?;
            *running = true;
        }
        Ok(())
    }
}

/// Announcements that a registered waker needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The system's notices.
    Notices,
    /// Notices, and steps that a recheck shows without one.
    Rechecks,
}

impl Waiting {
    /// No wakers yet, for steps that come from `source`.
    fn from(source: Source) -> Mutex<Self> {
        let announcer = match source {
            Source::Setter => Announcer::Setter,
            Source::Watcher => Announcer::Nobody,
        };
        Mutex::new(Self { wakers: BTreeMap::new(), announcer })
    }
}

/// Names a registered waker. No two in a process, nor in it and its children, are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Registration(u64);

impl Registration {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // ORDERING: Relaxed; only the numbers' distinctness matters.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Result of [`Steps::watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// A waker was registered under the key already, so there was no step since.
    Kept,
    /// None was: it is the first time, or there was a step.
    New,
    /// Steps are not announced here, and nothing was registered.
    Unannounced,
}

impl Steps {
    /// Makes the steps of a virtual clock.
    pub(crate) fn of_a_virtual_clock() -> Self {
        Self::new(Source::Setter)
    }

    /// Returns the steps of the system's clock, in this process.
    pub(crate) fn of_the_system() -> &'static Self {
        static SYSTEM: SetOnce<Steps> = SetOnce::new();
        SYSTEM.get_or_init(|| Self::new(Source::Watcher))
    }

    fn new(source: Source) -> Self {
        Self { source, waiting: PerProcess::new(Waiting::from(source)) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(self.waiting.get(|_| Waiting::from(self.source)))
    }

    /// Registers `waker` for the next step, once, in the place of the one under the same key.
    pub(crate) fn watch(&self, key: Registration, waker: &Waker, need: Need) -> Watch {
        {
            let mut waiting = self.lock();
            if matches!(waiting.announcer, Announcer::Nobody) {
                let Ok(recheck) = start_watcher() else { return Watch::Unannounced };
                waiting.announcer = Announcer::Watcher { recheck, running: false };
            }
            if waiting.wakers.get(&key).is_some_and(|(_, known)| known.will_wake(waker)) {
                return Watch::Kept;
            }
        }
        // Cloned and dropped with the lock released, as both are foreign code.
        let waker = waker.clone();
        let mut waiting = self.lock();
        let announced = match need {
            Need::Rechecks => waiting.announcer.recheck().is_ok(),
            Need::Notices => true,
        };
        if !announced || matches!(waiting.announcer, Announcer::Nobody) {
            let old = waiting.wakers.remove(&key);
            drop(waiting);
            drop(old);
            return Watch::Unannounced;
        }
        let old = waiting.wakers.insert(key, (need, waker));
        drop(waiting);
        if old.is_some() { Watch::Kept } else { Watch::New }
    }

    /// Removes the waker under `key`.
    pub(crate) fn forget(&self, key: Registration) {
        let waker = self.lock().wakers.remove(&key);
        drop(waker);
    }

    /// Wakes all registered wakers: the clock was set. Returns how many panicked.
    pub(crate) fn announce(&self) -> u64 {
        let wakers = std::mem::take(&mut self.lock().wakers);
        let _running = Running::begin();
        wakers.into_values().map(|(_, waker)| u64::from(guarded(|| waker.wake()).is_none())).sum()
    }

    /// Begins the time to the next recheck, if a waker needs it.
    fn recheck_again(&self) -> io::Result<()> {
        let Waiting { wakers, announcer } = &mut *self.lock();
        if let Announcer::Watcher { running, .. } = announcer {
            *running = false;
        }
        let needed = wakers.values().any(|(need, _)| *need == Need::Rechecks);
        if needed { announcer.recheck() } else { Ok(()) }
    }

    /// Notes that steps are no longer announced, and wakes all.
    pub(crate) fn stop_announcing(&self) {
        self.lock().announcer = Announcer::Nobody;
        self.announce();
    }
}

/// Starts the thread that announces the steps of the system's clock.
///
/// The watcher lives as long as the process. Once this returns, each step that the system gives
/// notice of is announced, and so is any other while the time of the recheck is running.
#[cold]
fn start_watcher() -> io::Result<Recheck> {
    let (notices, recheck) = Notices::subscribe()?;
    let clocks = Both::now();
    spawn(WATCHER, move || {
        let steps = Steps::of_the_system();
        // Ends with an error: there will be no more notices.
        let _ = announce_all(steps, notices, clocks);
        steps.stop_announcing();
    })?;
    Ok(recheck)
}

/// Announces the steps of the system's clock. `clocks` show none yet.
fn announce_all(steps: &Steps, mut notices: Notices, mut clocks: Both) -> io::Result<()> {
    let generation = Generation::at_birth();
    loop {
        let notice = notices.wait()?;
        let now = Both::now();
        if notice == Notice::Step || now.shows_step_since(&clocks) {
            // Before the announcement: a step after this reading is the next one.
            clocks = now;
            let panics = steps.announce();
            if generation.is_past() {
                // A waker has forked, and this is the child: its copy of a thread of ours.
                fork::end_child(panics > 0);
            }
        }
        if notice == Notice::Recheck {
            steps.recheck_again()?;
        }
    }
}
